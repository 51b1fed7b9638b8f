// rope_append: rotates each row's queries in place and its keys, and writes keys and values to the row's position in
// the planes, rounded to f16. One block a row. Angles are formed in f64: at position 100000 an f32 angle is off by more
// than f16 rounds.
#include "../common/launch.h"

constexpr int THREADS = 128;
constexpr int TURNS = 128;
constexpr uint32_t BLOCK_POSITIONS = 16;

// The scalar block of rope_append.
struct Rope {
    uint32_t n_head, n_head_kv, head_dim, rope_dim, max_blocks, original_context;
    float base, freq_scale, attn_factor, ext_factor, beta_fast, beta_slow;
};

__device__ inline Rope rope_of(const Launch& launch) {
    return Rope{launch.scalars[0], launch.scalars[1], launch.scalars[2], launch.scalars[3], launch.scalars[4], launch.scalars[5],
                scalar(launch, 6), scalar(launch, 7), scalar(launch, 8), scalar(launch, 9), scalar(launch, 10), scalar(launch, 11)};
}

// How far YaRN moves frequency i from the interpolated to the extrapolated angle; 0 without YaRN.
__device__ inline double yarn_share(const Rope& rope, int i) {
    if (rope.ext_factor == 0.0f) return 0.0;
    const double dim = rope.rope_dim, per_turn = 2.0 * log(double(rope.base));
    const double tau = 6.283185307179586;
    const double fast = dim * log(double(rope.original_context) / (tau * double(rope.beta_fast))) / per_turn;
    const double slow = dim * log(double(rope.original_context) / (tau * double(rope.beta_slow))) / per_turn;
    const double low = fmax(floor(fast), 0.0), high = fmin(ceil(slow), dim - 1.0);
    const double along = fmin(fmax((double(i) - low) / fmax(high - low, 0.001), 0.0), 1.0);
    return (1.0 - along) * double(rope.ext_factor);
}

// Cosine and sine of each frequency at a position, magnitude included, into shared memory.
__device__ inline void turns_at(const Rope& rope, const float* factors, uint32_t position, float2* turns) {
    for (int i = threadIdx.x; i < int(rope.rope_dim / 2); i += THREADS) {
        const double factor = factors == nullptr ? 1.0 : double(factors[i]);
        const double extrapolated = pow(double(rope.base), -2.0 * double(i) / double(rope.rope_dim)) / factor;
        const double share = yarn_share(rope, i);
        const double angle = double(position) * extrapolated * (double(rope.freq_scale) * (1.0 - share) + share);
        double sine, cosine;
        sincos(angle, &sine, &cosine);
        turns[i] = make_float2(float(cosine) * rope.attn_factor, float(sine) * rope.attn_factor);
    }
    __syncthreads();
}

// Elements (a, b) that turn together: number i of a head.
template <bool PAIRS> __device__ inline void places(const Rope& rope, uint32_t i, uint32_t& a, uint32_t& b) {
    a = PAIRS ? 2 * i : i;
    b = PAIRS ? 2 * i + 1 : i + rope.rope_dim / 2;
}

template <bool PAIRS> __device__ inline void rope_append(const Launch& launch) {
    __shared__ float2 turns[TURNS];
    const Rope rope = rope_of(launch);
    const uint32_t row = blockIdx.x, half = rope.rope_dim / 2, dim = rope.head_dim;
    const uint32_t position = input<uint32_t>(launch, 3)[row], seq = input<uint32_t>(launch, 4)[row];
    turns_at(rope, input<float>(launch, 6), position, turns);

    float* q = output<float>(launch, 0) + size_t(row) * launch.n;
    for (uint32_t i = threadIdx.x; i < rope.n_head * half; i += THREADS) {
        uint32_t a, b;
        places<PAIRS>(rope, i % half, a, b);
        float* head = q + i / half * dim;
        const float2 turn = turns[i % half];
        const float x = head[a], y = head[b];
        head[a] = x * turn.x - y * turn.y;
        head[b] = x * turn.y + y * turn.x;
    }

    // A row whose sequence, page or block does not exist is not appended: its block table is wrong, and writing
    // elsewhere would corrupt another sequence.
    const uint32_t page = position / BLOCK_POSITIONS, slot = position % BLOCK_POSITIONS;
    if (seq >= launch.batch || page >= rope.max_blocks) return;
    const uint32_t block = input<uint32_t>(launch, 5)[size_t(seq) * rope.max_blocks + page];
    const size_t block_elements = size_t(rope.n_head_kv) * BLOCK_POSITIONS * dim;
    const uint64_t plane_bytes = min(launch.bytes[7], launch.bytes[8]);
    if (block >= plane_bytes / (block_elements * 2)) return;
    const float* k = input<float>(launch, 1) + size_t(row) * launch.k;
    const float* v = input<float>(launch, 2) + size_t(row) * launch.k;
    uint16_t* k_plane = output<uint16_t>(launch, 7) + block * block_elements + slot * dim;
    uint16_t* v_plane = output<uint16_t>(launch, 8) + block * block_elements + slot * dim;
    for (uint32_t i = threadIdx.x; i < rope.n_head_kv * half; i += THREADS) {
        uint32_t a, b;
        places<PAIRS>(rope, i % half, a, b);
        const float* head = k + i / half * dim;
        uint16_t* to = k_plane + size_t(i / half) * BLOCK_POSITIONS * dim;
        const float2 turn = turns[i % half];
        to[a] = float_to_half_bits(head[a] * turn.x - head[b] * turn.y);
        to[b] = float_to_half_bits(head[a] * turn.y + head[b] * turn.x);
    }
    for (uint32_t i = threadIdx.x; i < rope.n_head_kv * dim; i += THREADS) {
        const size_t to = size_t(i / dim) * BLOCK_POSITIONS * dim + i % dim;
        v_plane[to] = float_to_half_bits(v[i]);
        // What lies past the rotated part of a key is kept as it is.
        if (i % dim >= rope.rope_dim) k_plane[to] = float_to_half_bits(k[i]);
    }
}

KERNEL(THREADS) ropeAppendHalves(BY_VALUE Launch launch) { rope_append<false>(launch); }
KERNEL(THREADS) ropeAppendPairs(BY_VALUE Launch launch) { rope_append<true>(launch); }
