// attention on the matrix units, for heads of 64, 128 or 256 elements: variable-length queries over the paged f16 planes.
//
// A block serves a few consecutive query rows of a sequence and one K/V head: the query heads of the group are packed as
// the 16 rows of a tile, so that keys and values are read once for all of them. Each wave of the block takes every fourth
// page and keeps a softmax of its own; the waves meet at the end. Over long contexts the pages are split between blocks;
// the last of them joins the parts.
#include "../common/fragments.h"

constexpr int THREADS = PACKED_THREADS;
constexpr int WAVES = PACKED_WAVES;
// (row, head) pairs of a block.
constexpr int PAIRS = 16;
constexpr float LOG2_E = 1.4426950408889634f;

struct Meeting {
    Part part;
    uint32_t last;
    float largest[WAVES][PAIRS], total[WAVES][PAIRS];
    CopyBarrier barriers[WAVES * 6 * 2];
};

// Finds the part that is number blockIdx.x, counted over the sequences in tiles of `tile_rows`; one wave. Leaves `count`
// 0 where there are fewer.
__device__ inline void find_part(const Launch& launch, uint32_t tile_rows, Part* found) {
    const uint32_t* seq_start = input<uint32_t>(launch, 3);
    const uint32_t lane = threadIdx.x % WAVE;
    if (lane == 0) found->count = 0;
    wave_sync();
    uint32_t before = 0;
    for (uint32_t base = 0; base < launch.batch; base += WAVE) {
        const uint32_t seq = base + lane;
        uint32_t first = 0, past = 0, kv_len = 0;
        if (seq < launch.batch) first = seq_start[seq], past = min(seq_start[seq + 1], launch.m), kv_len = input<uint32_t>(launch, 4)[seq];
        const uint32_t rows = past > first ? past - first : 0, mine = (rows + tile_rows - 1) / tile_rows;
        uint32_t upto = mine;
        for (int by = 1; by < WAVE; by *= 2) {
            const uint32_t other = wave_shuffle_up(upto, by);
            if (int(lane) >= by) upto += other;
        }
        const uint32_t here = blockIdx.x - before;
        if (blockIdx.x >= before && here < upto && here >= upto - mine) {
            const uint32_t row = first + (here - (upto - mine)) * tile_rows;
            *found = part_of(seq, first, past, row, min(tile_rows, past - row), kv_len);
        }
        before += wave_shuffle(upto, WAVE - 1);
    }
    wave_sync();
}

// What a row of the tile may see, and its running softmax, in powers of two.
struct Row {
    uint32_t from, to;
    float largest, total;
};

__device__ inline float base_of(float largest) { return largest == -INFINITY ? 0.0f : largest; }

// Turns a page's scores into weights, in fragments; `keep` is what earlier sums are multiplied with.
__device__ inline void weigh(const Heads& heads, const float (&inverse)[2], bool exists, uint32_t start, float (&scores)[2][4],
                             Row (&rows)[2], float (&keep)[2], uint32_t (&high)[4], uint32_t (&low)[4]) {
    const uint32_t t = threadIdx.x % 4;
    float best[2] = {rows[0].largest, rows[1].largest};
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const uint32_t here = start + n * 8 + 2 * t + c % 2;
            const Row& row = rows[c / 2];
            // A page that does not exist is not a number to those who see it.
            const float value = exists ? softcapped(scores[n][c] * inverse[c / 2], heads.softcap) * LOG2_E : not_a_number();
            scores[n][c] = here >= row.from && here < row.to ? value : -INFINITY;
            best[c / 2] = fmaxf(best[c / 2], scores[n][c]);
        }
#pragma unroll
    for (int side = 0; side < 2; side++) {
        best[side] = fmaxf(best[side], wave_shuffle_xor(best[side], 1));
        best[side] = fmaxf(best[side], wave_shuffle_xor(best[side], 2));
        keep[side] = exp2f(rows[side].largest - base_of(best[side]));
        rows[side].largest = best[side];
        rows[side].total *= keep[side];
    }
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int side = 0; side < 2; side++) {
            const float a = exp2f(scores[n][2 * side] - base_of(best[side])), b = exp2f(scores[n][2 * side + 1] - base_of(best[side]));
            rows[side].total += a + b;
            Query<64>::split(a, b, high[2 * n + side], low[2 * n + side]);
        }
}

// Puts a wave's sums, multiplied, where the block adds them up.
template <int DIM> __device__ inline void put_sums(const float (&sums)[DIM / 8][4], const float (&factor)[2], uint32_t pairs, float* to) {
    const uint32_t lane = threadIdx.x % WAVE, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int side = 0; side < 2; side++) {
        if (g + 8 * side >= pairs) continue;
        float* row = to + (g + 8 * side) * Shape<DIM>::STRIDE;
#pragma unroll
        for (int i = 0; i < DIM / 64; i++)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const int n = i * 8 + q % 2 * 4, c = 2 * side + q / 2;
                const float4 v = make_float4(sums[n][c], sums[n + 1][c], sums[n + 2][c], sums[n + 3][c]);
                reinterpret_cast<float4*>(row + 8 * value_chunk<DIM>(2 * t, i))[q] =
                    make_float4(v.x * factor[side], v.y * factor[side], v.z * factor[side], v.w * factor[side]);
            }
    }
}

__device__ inline void accumulate(float4& sum, const float4& v, float factor) {
    sum.x += v.x * factor, sum.y += v.y * factor, sum.z += v.z * factor, sum.w += v.w * factor;
}

// Adds the waves' sums up, and writes the answer; or the block's part of it, which the last of `active` blocks joins.
template <int DIM>
__device__ inline void join(const Launch& launch, const Heads& heads, const Part& part, uint32_t pairs, uint32_t active, float* joined,
                            Meeting& meeting) {
    using S = Shape<DIM>;
    constexpr uint32_t FLOATS = PAIRS * DIM + 2 * PAIRS;
    const uint32_t group = heads.n_head / heads.n_head_kv, head_kv = blockIdx.y, place = blockIdx.x * heads.n_head_kv + head_kv;
    float* parts = reinterpret_cast<float*>(launch.scratch) + size_t(place) * launch.split * FLOATS;
    const float* sinks = input<float>(launch, 6);
    // Eight threads a pair.
    const uint32_t mine = threadIdx.x / 8, turn = threadIdx.x % 8;
    float largest = -INFINITY, total = 0.0f;
#pragma unroll
    for (int w = 0; w < WAVES; w++) largest = fmaxf(largest, meeting.largest[w][mine]);
#pragma unroll
    for (int w = 0; w < WAVES; w++) total += meeting.total[w][mine] * exp2f(meeting.largest[w][mine] - base_of(largest));
    const bool sinking = sinks != nullptr && mine < pairs;
    const float sink = sinking ? sinks[head_kv * group + mine % group] * LOG2_E : -INFINITY;
    float* shares = joined + WAVES * PAIRS * S::STRIDE;
    if (active == 1) {
        const float above = base_of(fmaxf(largest, sink)), keep = exp2f(largest - above);
        const float whole = total * keep + (sinking ? exp2f(sink - above) : 0.0f);
        if (turn == 0) shares[mine] = whole == 0.0f ? 0.0f : keep / whole;
    } else if (turn == 0) {
        float* weights = parts + size_t(blockIdx.z) * FLOATS + PAIRS * DIM;
        weights[mine] = largest, weights[PAIRS + mine] = total;
    }
    __syncthreads();
    for (uint32_t e = threadIdx.x; e < pairs * (DIM / 4); e += THREADS) {
        const uint32_t pair = e / (DIM / 4), at = e % (DIM / 4);
        float4 sum = make_float4(0, 0, 0, 0);
        const float share = active == 1 ? shares[pair] : 1.0f;
#pragma unroll
        for (int w = 0; w < WAVES; w++) accumulate(sum, reinterpret_cast<const float4*>(joined + (w * PAIRS + pair) * S::STRIDE)[at], share);
        float* out = output<float>(launch, 7) + size_t(part.first + pair / group) * launch.n + (head_kv * group + pair % group) * DIM;
        reinterpret_cast<float4*>(active == 1 ? out : parts + size_t(blockIdx.z) * FLOATS + pair * DIM)[at] = sum;
    }
    if (active == 1) return;

    // What this block wrote is seen before its arrival is counted.
    __threadfence();
    __syncthreads();
    uint32_t* arrived = reinterpret_cast<uint32_t*>(launch.semaphores) + place;
    if (threadIdx.x == 0) meeting.last = atomicAdd(arrived, 1u) == active - 1 ? 1 : 0;
    __syncthreads();
    if (meeting.last == 0) return;
    __threadfence();
    if (threadIdx.x == 0) *arrived = 0;
    const float* weights = parts + PAIRS * DIM;
    float above = sink;
    for (uint32_t z = turn; z < active; z += 8) above = fmaxf(above, weights[z * FLOATS + mine]);
    for (int mask = 1; mask < 8; mask *= 2) above = fmaxf(above, wave_shuffle_xor(above, mask));
    above = base_of(above);
    float whole = 0.0f;
    for (uint32_t z = turn; z < active; z += 8) {
        const float keep = exp2f(weights[z * FLOATS + mine] - above);
        shares[z * PAIRS + mine] = keep;
        whole += weights[z * FLOATS + PAIRS + mine] * keep;
    }
    for (int mask = 1; mask < 8; mask *= 2) whole += wave_shuffle_xor(whole, mask);
    if (sinking) whole += exp2f(sink - above);
    for (uint32_t z = turn; z < active; z += 8) shares[z * PAIRS + mine] *= whole == 0.0f ? 0.0f : 1.0f / whole;
    __syncthreads();
    for (uint32_t e = threadIdx.x; e < pairs * (DIM / 4); e += THREADS) {
        const uint32_t pair = e / (DIM / 4), at = e % (DIM / 4);
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
        for (uint32_t z = 0; z < active; z++)
            accumulate(sum, reinterpret_cast<const float4*>(parts + z * FLOATS + pair * DIM)[at], shares[z * PAIRS + pair]);
        float* out = output<float>(launch, 7) + size_t(part.first + pair / group) * launch.n + (head_kv * group + pair % group) * DIM;
        reinterpret_cast<float4*>(out)[at] = sum;
    }
}

template <int DIM> __device__ inline void attend(const Launch& launch) {
    using S = Shape<DIM>;
    extern __shared__ uint4 dynamic_shared[];
    __shared__ Meeting meeting;
    uint8_t* shared = reinterpret_cast<uint8_t*>(dynamic_shared);
    const uint32_t lane = threadIdx.x % WAVE, wave = threadIdx.x / WAVE, g = lane / 4, t = lane % 4;
    release_consumers();
    Pages<DIM> pages(shared, meeting.barriers);
    wait_for_producer();
    const Heads heads = heads_of(launch);
    const uint32_t group = heads.n_head / heads.n_head_kv, head_kv = blockIdx.y;
    if (wave == 0) find_part(launch, PAIRS / group, &meeting.part);
    __syncthreads();
    const Part part = meeting.part;
    if (part.count == 0) return;

    // The pages of this block, and how many blocks have any.
    const uint32_t to = min(seen_to(heads, part.position + part.count - 1, part.kv_len), part.kv_len);
    const uint32_t from = seen_from(heads, part.position), first = from / BLOCK_POSITIONS;
    const uint32_t all = to > from ? (to + BLOCK_POSITIONS - 1) / BLOCK_POSITIONS - first : 0;
    const uint32_t each = max((all + launch.split - 1) / launch.split, uint32_t(WAVES));
    const uint32_t active = max((all + each - 1) / each, 1u), begin = blockIdx.z * each;
    if (blockIdx.z >= active) return;
    const uint32_t own = min(each, all - begin), count = own > wave ? (own - wave + WAVES - 1) / WAVES : 0;
    pages.start(launch, heads, part.seq, head_kv, first + begin + wave, count);

    const uint32_t pairs = part.count * group;
    const float* queries[2];
    Row rows[2];
#pragma unroll
    for (int side = 0; side < 2; side++) {
        const uint32_t pair = g + 8 * side, row = pair / group, position = part.position + row;
        const bool is = pair < pairs;
        queries[side] = is ? input<float>(launch, 0) + size_t(part.first + row) * launch.n + (head_kv * group + pair % group) * DIM : nullptr;
        rows[side] = Row{seen_from(heads, position), is ? min(to, seen_to(heads, position, part.kv_len)) : 0, -INFINITY, 0.0f};
    }
    Query<DIM> query;
    query.load(queries, heads.scale, reinterpret_cast<uint4*>(shared + S::RING));
    if (!S::HELD) __syncthreads();

    float sums[DIM / 8][4] = {};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t start = (first + begin + wave + i * WAVES) * BLOCK_POSITIONS;
        const bool exists = pages.exists();
        float scores[2][4] = {}, keep[2];
        uint32_t high[4], low[4];
        if (exists) score<DIM>(query, pages.key_slab(), scores);
        weigh(heads, query.inverse, exists, start, scores, rows, keep, high, low);
#pragma unroll
        for (int n = 0; n < DIM / 8; n++)
#pragma unroll
            for (int c = 0; c < 4; c++) sums[n][c] *= keep[c / 2];
        if (exists) {
            // What nobody sees is not used, whatever it holds.
            uint32_t seen = 0;
#pragma unroll
            for (int p = 0; p < 4; p++) {
                const uint32_t here = start + p / 2 * 8 + 2 * t + p % 2;
                seen |= here >= from && here < to ? 1u << p : 0;
            }
            add_values<DIM>(pages.value_slab(), start >= from && start + BLOCK_POSITIONS <= to, seen, high, low, sums);
        }
        pages.done();
    }

    // The waves meet.
#pragma unroll
    for (int side = 0; side < 2; side++) {
        rows[side].total += wave_shuffle_xor(rows[side].total, 1);
        rows[side].total += wave_shuffle_xor(rows[side].total, 2);
        if (t == 0) meeting.largest[wave][g + 8 * side] = rows[side].largest, meeting.total[wave][g + 8 * side] = rows[side].total;
    }
    __syncthreads();
    float* joined = reinterpret_cast<float*>(shared);
    float factor[2];
#pragma unroll
    for (int side = 0; side < 2; side++) {
        float largest = -INFINITY;
#pragma unroll
        for (int w = 0; w < WAVES; w++) largest = fmaxf(largest, meeting.largest[w][g + 8 * side]);
        factor[side] = exp2f(rows[side].largest - base_of(largest));
    }
    put_sums<DIM>(sums, factor, pairs, joined + wave * PAIRS * S::STRIDE);
    __syncthreads();
    join<DIM>(launch, heads, part, pairs, active, joined, meeting);
}

KERNEL_RESIDENT(THREADS, 2) attnPacked64(BY_VALUE Launch launch) { attend<64>(launch); }
KERNEL_RESIDENT(THREADS, 2) attnPacked128(BY_VALUE Launch launch) { attend<128>(launch); }
KERNEL_RESIDENT(THREADS, 1) attnPacked256(BY_VALUE Launch launch) { attend<256>(launch); }
