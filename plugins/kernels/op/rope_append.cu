// rope_append: rotates each row's queries in place and its keys, and writes keys and values to the row's position in
// the planes, rounded to f16. A row's heads are dealt to gridDim.y blocks.
#include "../common/rope.h"

constexpr int THREADS = 128;
constexpr int TURNS = 128;
constexpr uint32_t BLOCK_POSITIONS = 16;

// Elements (a, b) that turn together: number i of a head.
template <bool PAIRS> __device__ inline void places(const Rope& rope, uint32_t i, uint32_t& a, uint32_t& b) {
    a = PAIRS ? 2 * i : i;
    b = PAIRS ? 2 * i + 1 : i + rope.rope_dim / 2;
}

// Where a row's keys and values go; false for a row whose sequence, page or block does not exist: its block table is
// wrong, and writing elsewhere would corrupt another sequence.
__device__ inline bool place_of(const Launch& launch, const Rope& rope, uint32_t position, uint32_t seq, size_t& at) {
    const uint32_t page = position / BLOCK_POSITIONS, slot = position % BLOCK_POSITIONS;
    if (seq >= launch.batch || page >= rope.max_blocks) return false;
    const uint32_t block = input<uint32_t>(launch, 5)[size_t(seq) * rope.max_blocks + page];
    const size_t block_elements = size_t(rope.n_head_kv) * BLOCK_POSITIONS * rope.head_dim;
    const uint64_t plane_bytes = min(launch.bytes[7], launch.bytes[8]);
    at = block * block_elements + slot * rope.head_dim;
    return block < plane_bytes / (block_elements * 2);
}

template <bool PAIRS> __device__ inline void rope_append(const Launch& launch) {
    __shared__ float2 turns[TURNS];
    const Rope rope = rope_of(launch, 0);
    const uint32_t row = blockIdx.x, half = rope.rope_dim / 2, dim = rope.head_dim;
    release_consumers();
    // Frequencies are of the weights alone.
    const double frequency = threadIdx.x < half ? rope_frequency(rope, input<float>(launch, 6), threadIdx.x) : 0.0;
    wait_for_producer();
    const uint32_t position = input<uint32_t>(launch, 3)[row], seq = input<uint32_t>(launch, 4)[row];
    if (threadIdx.x < half) turns[threadIdx.x] = rope_turn(rope, frequency, position);
    size_t at;
    const bool appends = place_of(launch, rope, position, seq, at);
    __syncthreads();

    // The block takes every gridDim.y-th head.
    const uint32_t y = blockIdx.y, step = gridDim.y;
    const uint32_t heads = rope.n_head > y ? (rope.n_head - y + step - 1) / step : 0;
    const uint32_t heads_kv = rope.n_head_kv > y ? (rope.n_head_kv - y + step - 1) / step : 0;
    float* q = output<float>(launch, 0) + size_t(row) * launch.n;
    for (uint32_t i = threadIdx.x; i < heads * half; i += THREADS) {
        uint32_t a, b;
        places<PAIRS>(rope, i % half, a, b);
        float* to = q + (y + i / half * step) * dim;
        const float2 turn = turns[i % half];
        const float x = to[a], z = to[b];
        to[a] = x * turn.x - z * turn.y;
        to[b] = x * turn.y + z * turn.x;
    }
    if (!appends) return;
    const float* k = input<float>(launch, 1) + size_t(row) * launch.k;
    const float* v = input<float>(launch, 2) + size_t(row) * launch.k;
    uint16_t* k_plane = output<uint16_t>(launch, 7) + at;
    uint16_t* v_plane = output<uint16_t>(launch, 8) + at;
    for (uint32_t i = threadIdx.x; i < heads_kv * half; i += THREADS) {
        uint32_t a, b;
        places<PAIRS>(rope, i % half, a, b);
        const uint32_t head = y + i / half * step;
        const float2 turn = turns[i % half];
        const float x = k[head * dim + a], z = k[head * dim + b];
        uint16_t* to = k_plane + size_t(head) * BLOCK_POSITIONS * dim;
        to[a] = float_to_half_bits(x * turn.x - z * turn.y);
        to[b] = float_to_half_bits(x * turn.y + z * turn.x);
    }
    for (uint32_t i = threadIdx.x; i < heads_kv * dim; i += THREADS) {
        const uint32_t head = y + i / dim * step, element = i % dim;
        const size_t to = size_t(head) * BLOCK_POSITIONS * dim + element;
        v_plane[to] = float_to_half_bits(v[head * dim + element]);
        // What lies past the rotated part of a key is kept as it is.
        if (element >= rope.rope_dim) k_plane[to] = float_to_half_bits(k[head * dim + element]);
    }
}

KERNEL(THREADS) ropeAppendHalves(BY_VALUE Launch launch) { rope_append<false>(launch); }
KERNEL(THREADS) ropeAppendPairs(BY_VALUE Launch launch) { rope_append<true>(launch); }
