// norm, the three projections of attention, rotation and append of one activation row. The rotation is of pairs
// (2i, 2i + 1), which lie in one tile; the value projection may have a format of its own.
#include "../common/launch.h"
#include "../common/rope.h"
#include "../common/stream.h"

constexpr int TURNS = 128;
constexpr uint32_t BLOCK_POSITIONS = 16;
// Scalar words before those of rope_append: the norm's two, two of each product.
constexpr int ROPE_AT = 8;

// Arguments: x, norm weight, wq, wk, wv, q, positions, row_seq, block_tables, factors, k_plane, v_plane.
template <class F, class V> struct Projections {
    using First = F;
    using Rest = V;
    static constexpr int PARTS = 1;
    const Launch& launch;
    const Rope rope;
    float2* turns;
    double frequency;
    // Tiles of queries, and of queries and keys.
    uint32_t queries, rest, jobs, width;
    // Offset of the row's slot in a plane's heads, in halves; ~0 where its block does not exist.
    size_t slot;

    __device__ inline Projections(const Launch& launch, float2* turns) : launch(launch), rope(rope_of(launch, ROPE_AT)), turns(turns), width(launch.k) {
        const uint32_t keys = rope.n_head_kv * rope.head_dim / TILE_FEATURES;
        queries = rope.n_head * rope.head_dim / TILE_FEATURES;
        rest = queries + keys;
        jobs = rest + keys;
    }
    __device__ inline Piece piece(uint32_t job, uint32_t) const {
        const uint32_t units = width / UNIT;
        if (job >= rest) return Piece{launch.arg[4] + size_t(job - rest) * units * V::BYTES, units, V::BYTES};
        return Piece{job < queries ? launch.arg[2] + size_t(job) * units * F::BYTES : launch.arg[3] + size_t(job - queries) * units * F::BYTES, units, F::BYTES};
    }
    // Frequencies depend on the model alone.
    __device__ inline void before() {
        if (threadIdx.x < rope.rope_dim / 2) frequency = rope_frequency(rope, input<float>(launch, 9), threadIdx.x);
    }
    __device__ inline void prepare() {
        const uint32_t position = *input<uint32_t>(launch, 6), seq = *input<uint32_t>(launch, 7);
        if (threadIdx.x < rope.rope_dim / 2) turns[threadIdx.x] = rope_turn(rope, frequency, position);
        // A row whose sequence, page or block does not exist is not appended: its block table is wrong, and writing
        // elsewhere would corrupt another sequence.
        const uint32_t page = position / BLOCK_POSITIONS;
        const size_t block_elements = size_t(rope.n_head_kv) * BLOCK_POSITIONS * rope.head_dim;
        slot = ~size_t(0);
        if (seq < launch.batch && page < rope.max_blocks) {
            const uint32_t block = input<uint32_t>(launch, 8)[size_t(seq) * rope.max_blocks + page];
            if (block < min(launch.bytes[10], launch.bytes[11]) / (block_elements * 2))
                slot = block * block_elements + position % BLOCK_POSITIONS * rope.head_dim;
        }
    }
    __device__ inline void finish(uint32_t job, const float (&sums)[1]) {
        float value = sums[0];
        // Two lanes a feature: the other of a pair is two lanes away.
        const float other = wave_shuffle_xor(value, 2);
        const uint32_t feature = threadIdx.x % WAVE / 2;
        const uint32_t local = (job < queries ? job : job < rest ? job - queries : job - rest) * TILE_FEATURES + feature;
        const uint32_t head = local / rope.head_dim, element = local % rope.head_dim;
        if (threadIdx.x % 2 != 0) return;
        if (job < rest && element < rope.rope_dim) {
            const float2 turn = turns[element / 2];
            value = element % 2 == 0 ? value * turn.x - other * turn.y : other * turn.y + value * turn.x;
        }
        if (job < queries) {
            output<float>(launch, 5)[local] = value;
        } else if (slot != ~size_t(0)) {
            uint16_t* plane = output<uint16_t>(launch, job < rest ? 10 : 11);
            plane[slot + size_t(head) * BLOCK_POSITIONS * rope.head_dim + element] = float_to_half_bits(value);
        }
    }
};

template <class F, class V> __device__ inline void projections(const Launch& launch) {
    __shared__ float2 turns[TURNS];
    Projections<F, V> work(launch, turns);
    const StreamInput in{input<float>(launch, 0), input<float>(launch, 1), launch.k, scalar(launch, 0), scalar(launch, 1)};
    stream<true>(work, in);
}

STREAM_KERNEL q4kq4kStreamNormQkvPairs(BY_VALUE Launch launch) { projections<TileQ4_K, TileQ4_K>(launch); }
STREAM_KERNEL q4kq6kStreamNormQkvPairs(BY_VALUE Launch launch) { projections<TileQ4_K, TileQ6_K>(launch); }
STREAM_KERNEL q6kq6kStreamNormQkvPairs(BY_VALUE Launch launch) { projections<TileQ6_K, TileQ6_K>(launch); }
