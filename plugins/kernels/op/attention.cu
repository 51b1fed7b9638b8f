// attention in f32 arithmetic, for heads the matrix units' form does not hold: variable-length queries over the paged f16
// planes.
//
// A block serves a few consecutive query rows and one K/V head: the query heads of the group are packed, so that keys
// and values are read once for all of them. Positions are taken a wave's width at a time into shared memory; a lane
// scores one position, then owns some elements of the answer. Over long contexts the positions are split between
// blocks, and attnReduce joins the parts.
#include "../common/paged.h"
#include "../common/reduce.h"

constexpr int THREADS = 128;
constexpr int WAVES = THREADS / WAVE;
// Most (row, head) pairs of a block, and of a wave.
constexpr int PAIRS = 16;
constexpr int PER_WAVE = PAIRS / WAVES;
constexpr int PAD = 8;

// The part that starts at `row`, cut at `end` rows; false when the row belongs to no sequence.
__device__ inline bool part_at(const Launch& launch, uint32_t row, uint32_t end, Part& part) {
    const uint32_t* seq_start = input<uint32_t>(launch, 3);
    for (uint32_t seq = 0; seq < launch.batch; seq++) {
        const uint32_t first = seq_start[seq], past = min(seq_start[seq + 1], launch.m);
        if (row < first || row >= past) continue;
        part = part_of(seq, first, past, row, min(past, end) - row, input<uint32_t>(launch, 4)[seq]);
        return true;
    }
    return false;
}

// Copies a tile of one plane to shared memory. Positions at or past `to` are zero; those of a block that does not
// exist are NaN, so that a wrong table shows in the answer and reads nothing of others.
__device__ inline void load_tile(const Launch& launch, const Heads& heads, int plane, uint32_t seq, uint32_t head, uint32_t from,
                                 uint32_t to, uint16_t* tile, uint32_t stride) {
    const uint32_t chunks = heads.dim / 8;
    const uint32_t* table = input<uint32_t>(launch, 5) + size_t(seq) * heads.max_blocks;
    const size_t block_elements = size_t(heads.n_head_kv) * BLOCK_POSITIONS * heads.dim;
    const uint64_t blocks = launch.bytes[plane] / (block_elements * 2);
    for (uint32_t i = threadIdx.x; i < WAVE * chunks; i += THREADS) {
        const uint32_t position = from + i / chunks, page = position / BLOCK_POSITIONS;
        uint4 bits = make_uint4(0, 0, 0, 0);
        if (position < to) {
            const uint32_t block = page < heads.max_blocks ? table[page] : 0xffffffffu;
            if (block < blocks) {
                const size_t at = block * block_elements + (size_t(head) * BLOCK_POSITIONS + position % BLOCK_POSITIONS) * heads.dim;
                bits = *reinterpret_cast<const uint4*>(input<uint16_t>(launch, plane) + at + i % chunks * 8);
            } else {
                bits = make_uint4(0x7e007e00u, 0x7e007e00u, 0x7e007e00u, 0x7e007e00u);
            }
        }
        *reinterpret_cast<uint4*>(tile + i / chunks * stride + i % chunks * 8) = bits;
    }
}

// Running softmax of one (row, head) pair; `sum` holds this lane's elements.
template <int LANE_DIMS> struct Running {
    float largest, total, sum[LANE_DIMS];
};

// Joins a sink: one more score without a value.
template <int LANE_DIMS> __device__ inline void add_sink(Running<LANE_DIMS>& running, float sink) {
    const float largest = fmaxf(running.largest, sink), keep = expf(running.largest - largest);
    running.total = running.total * keep + expf(sink - largest);
#pragma unroll
    for (int d = 0; d < LANE_DIMS; d++) running.sum[d] *= keep;
    running.largest = largest;
}

template <int DIM_MAX> __device__ inline void attend_part(const Launch& launch, const Heads& heads, const Part& part, float* shared) {
    constexpr int LANE_DIMS = DIM_MAX / WAVE;
    const uint32_t dim = heads.dim, stride = dim + PAD, group = heads.n_head / heads.n_head_kv, head_kv = blockIdx.y;
    const uint32_t pairs = part.count * group, lane = threadIdx.x % WAVE, wave = threadIdx.x / WAVE;
    float* q = shared;
    uint16_t* keys = reinterpret_cast<uint16_t*>(q + PAIRS * dim);
    uint16_t* values = keys + WAVE * stride;
    for (uint32_t i = threadIdx.x; i < pairs * dim; i += THREADS) {
        const uint32_t pair = i / dim, row = part.first + pair / group, head = head_kv * group + pair % group;
        q[i] = input<float>(launch, 0)[size_t(row) * launch.n + head * dim + i % dim] * heads.scale;
    }
    const uint32_t last = part.position + part.count - 1;
    const uint32_t to = min(seen_to(heads, last, part.kv_len), part.kv_len);
    const uint32_t from = seen_from(heads, part.position) / BLOCK_POSITIONS * BLOCK_POSITIONS;
    const uint32_t tiles = to > from ? (to - from + WAVE - 1) / WAVE : 0;
    const uint32_t each = (tiles + launch.split - 1) / launch.split;
    const uint32_t tile_end = min((blockIdx.z + 1) * each, tiles);
    Running<LANE_DIMS> running[PER_WAVE];
#pragma unroll
    for (int j = 0; j < PER_WAVE; j++) {
        running[j].largest = -INFINITY, running[j].total = 0.0f;
#pragma unroll
        for (int d = 0; d < LANE_DIMS; d++) running[j].sum[d] = 0.0f;
    }
    for (uint32_t tile = blockIdx.z * each; tile < tile_end; tile++) {
        const uint32_t start = from + tile * WAVE;
        __syncthreads();
        load_tile(launch, heads, 1, part.seq, head_kv, start, to, keys, stride);
        load_tile(launch, heads, 2, part.seq, head_kv, start, to, values, stride);
        __syncthreads();
        float scores[PER_WAVE] = {};
        // Pairs this wave has; the same for all its lanes.
        const int mine = pairs > wave ? int((pairs - wave + WAVES - 1) / WAVES) : 0;
        for (uint32_t d = 0; d < dim; d += 8) {
            const uint4 bits = *reinterpret_cast<const uint4*>(keys + lane * stride + d);
            const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
            float key[8];
#pragma unroll
            for (int i = 0; i < 8; i++) key[i] = half_bits_to_float(uint16_t(words[i / 2] >> (i % 2 * 16)));
#pragma unroll
            for (int j = 0; j < PER_WAVE; j++) {
                if (j >= mine) break;
                const float* query = q + (wave + j * WAVES) * dim + d;
                const float4 a = *reinterpret_cast<const float4*>(query), b = *reinterpret_cast<const float4*>(query + 4);
                scores[j] += a.x * key[0] + a.y * key[1] + a.z * key[2] + a.w * key[3];
                scores[j] += b.x * key[4] + b.y * key[5] + b.z * key[6] + b.w * key[7];
            }
        }
        const uint32_t here = start + lane;
#pragma unroll
        for (int j = 0; j < PER_WAVE; j++) {
            const uint32_t pair = wave + j * WAVES, position = part.position + pair / group;
            const bool seen = pair < pairs && here < to && here >= seen_from(heads, position) &&
                              here < seen_to(heads, position, part.kv_len);
            const float score = seen ? softcapped(scores[j], heads.softcap) : -INFINITY;
            const float largest = fmaxf(running[j].largest, wave_max(score));
            // NaN scores must reach the answer: fmaxf drops them, the weights below do not.
            const float weight = seen ? expf(score - largest) : 0.0f;
            const float keep = running[j].largest == -INFINITY ? 0.0f : expf(running[j].largest - largest);
            running[j].total = running[j].total * keep + wave_sum(weight);
            running[j].largest = largest;
#pragma unroll
            for (int d = 0; d < LANE_DIMS; d++) running[j].sum[d] *= keep;
            scores[j] = weight;
        }
        const uint32_t count = min(uint32_t(WAVE), to - start);
        for (uint32_t t = 0; t < count; t++) {
            float value[LANE_DIMS];
#pragma unroll
            for (int d = 0; d < LANE_DIMS; d++) {
                const uint32_t element = lane * LANE_DIMS + d;
                value[d] = element < dim ? half_bits_to_float(values[t * stride + element]) : 0.0f;
            }
#pragma unroll
            for (int j = 0; j < PER_WAVE; j++) {
                if (j >= mine) break;
                const float weight = wave_shuffle(scores[j], t);
                // A weight of nothing keeps what nobody sees out, whatever it holds.
                if (weight != 0.0f) {
#pragma unroll
                    for (int d = 0; d < LANE_DIMS; d++) running[j].sum[d] += weight * value[d];
                }
            }
        }
    }
    __syncthreads();
    const float* sinks = input<float>(launch, 6);
#pragma unroll
    for (int j = 0; j < PER_WAVE; j++) {
        const uint32_t pair = wave + j * WAVES;
        if (pair >= pairs) continue;
        const uint32_t row = part.first + pair / group, head = head_kv * group + pair % group;
        float* out = output<float>(launch, 7) + size_t(row) * launch.n + head * dim;
        float share = 1.0f;
        if (launch.split == 1) {
            if (sinks != nullptr) add_sink(running[j], sinks[head]);
            share = running[j].total == 0.0f ? 0.0f : 1.0f / running[j].total;
        } else {
            float* parts = reinterpret_cast<float*>(launch.scratch);
            const size_t slice = size_t(blockIdx.z) * launch.m + row;
            out = parts + slice * launch.n + head * dim;
            float* weights = parts + size_t(launch.split) * launch.m * launch.n + (slice * heads.n_head + head) * 2;
            if (lane == 0) weights[0] = running[j].largest, weights[1] = running[j].total;
        }
#pragma unroll
        for (int d = 0; d < LANE_DIMS; d++) {
            const uint32_t element = lane * LANE_DIMS + d;
            if (element < dim) out[element] = running[j].sum[d] * share;
        }
    }
}

template <int DIM_MAX> __device__ inline void attend(const Launch& launch) {
    extern __shared__ float4 dynamic_shared[];
    release_consumers();
    wait_for_producer();
    const Heads heads = heads_of(launch);
    const uint32_t tile_rows = PAIRS / (heads.n_head / heads.n_head_kv);
    const uint32_t end = min((blockIdx.x + 1) * tile_rows, launch.m);
    for (uint32_t row = blockIdx.x * tile_rows; row < end;) {
        Part part;
        if (!part_at(launch, row, end, part)) {
            row++;
            continue;
        }
        attend_part<DIM_MAX>(launch, heads, part, reinterpret_cast<float*>(dynamic_shared));
        row += part.count;
        __syncthreads();
    }
}

KERNEL_RESIDENT(THREADS, 4) attnFlashGqa64(BY_VALUE Launch launch) { attend<64>(launch); }
KERNEL_RESIDENT(THREADS, 4) attnFlashGqa128(BY_VALUE Launch launch) { attend<128>(launch); }
KERNEL_RESIDENT(THREADS, 4) attnFlashGqa256(BY_VALUE Launch launch) { attend<256>(launch); }

// Joins the parts of split attention: a block a (row, query head).
KERNEL(THREADS) attnReduce(BY_VALUE Launch launch) {
    release_consumers();
    wait_for_producer();
    const Heads heads = heads_of(launch);
    const uint32_t row = blockIdx.x, head = blockIdx.y;
    // Rows past the last sequence are not written.
    if (row >= input<uint32_t>(launch, 3)[launch.batch]) return;
    const float* parts = reinterpret_cast<const float*>(launch.scratch);
    const float* weights = parts + size_t(launch.split) * launch.m * launch.n;
    float largest = -INFINITY;
    for (uint32_t split = 0; split < launch.split; split++)
        largest = fmaxf(largest, weights[((size_t(split) * launch.m + row) * heads.n_head + head) * 2]);
    const float* sinks = input<float>(launch, 6);
    if (sinks != nullptr) largest = fmaxf(largest, sinks[head]);
    for (uint32_t d = threadIdx.x; d < heads.dim; d += THREADS) {
        float total = sinks == nullptr ? 0.0f : expf(sinks[head] - largest), sum = 0.0f;
        for (uint32_t split = 0; split < launch.split; split++) {
            const size_t slice = size_t(split) * launch.m + row;
            const float* pair = weights + (slice * heads.n_head + head) * 2;
            if (pair[1] == 0.0f) continue;
            const float keep = expf(pair[0] - largest);
            total += pair[1] * keep;
            sum += parts[slice * launch.n + head * heads.dim + d] * keep;
        }
        output<float>(launch, 7)[size_t(row) * launch.n + head * heads.dim + d] = total == 0.0f ? 0.0f : sum / total;
    }
}
