// attention on the matrix units, for heads of 64, 128 or 256 elements: variable-length queries over the paged f16 planes.
//
// A block serves a few consecutive query rows of a sequence and one K/V head: the query heads of the group are packed as
// the 16 rows of a tile, so that keys and values are read once for all of them. Each wave of the blocks takes some of the
// pages and keeps a softmax of its own; the waves meet at the end. Over long contexts the pages are split between blocks;
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
    CopyBarrier barriers[WAVES * STAGES_MOST];
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

// Turns a page's scores, in powers of two, into weights, in fragments; `keep` is what earlier sums are multiplied with.
__device__ inline void weigh(float (&scores)[2][4], Row (&rows)[2], float (&keep)[2], uint32_t (&high)[4], uint32_t (&low)[4]) {
#pragma unroll
    for (int side = 0; side < 2; side++) {
        float best = fmaxf(fmaxf(scores[0][2 * side], scores[0][2 * side + 1]), fmaxf(scores[1][2 * side], scores[1][2 * side + 1]));
        best = fmaxf(best, wave_shuffle_xor(best, 1));
        best = fmaxf(fmaxf(best, wave_shuffle_xor(best, 2)), rows[side].largest);
        const float base = base_of(best);
        keep[side] = power_of_two(rows[side].largest - base);
        rows[side].largest = best;
        rows[side].total *= keep[side];
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const float a = power_of_two(scores[n][2 * side] - base), b = power_of_two(scores[n][2 * side + 1] - base);
            rows[side].total += a + b;
            Query<64>::split(a, b, high[2 * n + side], low[2 * n + side]);
        }
    }
}

// Puts a wave's sums where the block adds them up.
template <int DIM> __device__ inline void put_sums(const float (&sums)[DIM / 8][4], uint32_t pairs, float* to) {
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
                reinterpret_cast<float4*>(row + 8 * value_chunk<DIM>(2 * t, i))[q] = make_float4(sums[n][c], sums[n + 1][c], sums[n + 2][c], sums[n + 3][c]);
            }
    }
}

// Four elements of a pair's answer under way: their sums, the largest score, and the total of the weights.
struct Partial {
    float4 sum;
    float largest, total;

    __device__ inline void add(const float4& v, float of_largest, float of_total) {
        const float above = fmaxf(largest, of_largest), base = base_of(above);
        const float keep = power_of_two(largest - base), share = power_of_two(of_largest - base);
        sum = make_float4(sum.x * keep + v.x * share, sum.y * keep + v.y * share, sum.z * keep + v.z * share, sum.w * keep + v.w * share);
        total = total * keep + of_total * share;
        largest = above;
    }
};

// Where blocks leave their parts for each other: for each pair its sums; then its largest and its total.
template <int DIM> struct Parts {
    static constexpr uint32_t FLOATS = PAIRS * DIM + 2 * PAIRS;
    float* at;

    __device__ inline float4* sum(uint32_t part, uint32_t pair) const { return reinterpret_cast<float4*>(at + size_t(part) * FLOATS + pair * DIM); }
    __device__ inline float2* weight(uint32_t part, uint32_t pair) const {
        return reinterpret_cast<float2*>(at + size_t(part) * FLOATS + PAIRS * DIM) + pair;
    }
};

// Adds up the sums of the `used` waves that have any, and writes the answer; or the block's part of it, and the last of
// `active` blocks joins the parts.
template <int DIM>
__device__ inline void join(const Launch& launch, const Heads& heads, const Part& part, uint32_t used, uint32_t active, const float* joined,
                            Meeting& meeting) {
    const uint32_t group = heads.n_head / heads.n_head_kv, head_kv = blockIdx.y, place = blockIdx.x * heads.n_head_kv + head_kv;
    const uint32_t elements = part.count * group * (DIM / 4);
    const Parts<DIM> parts = {reinterpret_cast<float*>(launch.scratch) + size_t(place) * launch.split * Parts<DIM>::FLOATS};
    const auto answer = [&](uint32_t pair, uint32_t at, Partial partial) {
        const uint32_t head = head_kv * group + pair % group;
        const float* sinks = input<float>(launch, 6);
        if (sinks != nullptr) partial.add(make_float4(0, 0, 0, 0), sinks[head] * LOG2_E, 1.0f);
        const float share = partial.total == 0.0f ? 0.0f : 1.0f / partial.total;
        float* out = output<float>(launch, 7) + size_t(part.first + pair / group) * launch.n + head * DIM;
        const float4 v = partial.sum;
        reinterpret_cast<float4*>(out)[at] = make_float4(v.x * share, v.y * share, v.z * share, v.w * share);
    };
    for (uint32_t e = threadIdx.x; e < elements; e += THREADS) {
        const uint32_t pair = e / (DIM / 4), at = e % (DIM / 4);
        Partial partial = {make_float4(0, 0, 0, 0), -INFINITY, 0.0f};
        for (uint32_t w = 0; w < used; w++)
            partial.add(reinterpret_cast<const float4*>(joined + (w * PAIRS + pair) * Shape<DIM>::STRIDE)[at], meeting.largest[w][pair], meeting.total[w][pair]);
        if (active == 1) {
            answer(pair, at, partial);
        } else {
            parts.sum(blockIdx.z, pair)[at] = partial.sum;
            if (at == 0) *parts.weight(blockIdx.z, pair) = make_float2(partial.largest, partial.total);
        }
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
    for (uint32_t e = threadIdx.x; e < elements; e += THREADS) {
        constexpr int TOGETHER = 8;
        const uint32_t pair = e / (DIM / 4), at = e % (DIM / 4);
        Partial partial = {make_float4(0, 0, 0, 0), -INFINITY, 0.0f};
        for (uint32_t z = 0; z < active; z += TOGETHER) {
            float4 sums[TOGETHER];
            float2 weights[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                sums[i] = make_float4(0, 0, 0, 0), weights[i] = make_float2(-INFINITY, 0.0f);
                if (z + i < active) sums[i] = parts.sum(z + i, pair)[at], weights[i] = *parts.weight(z + i, pair);
            }
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) partial.add(sums[i], weights[i].x, weights[i].y);
        }
        answer(pair, at, partial);
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
    // Most often a sequence has one row and a tile of its own, and its pages are seen from the first on.
    pages.guess(launch, heads, blockIdx.x, blockIdx.z * WAVES + wave);
    if (wave == 0) find_part(launch, PAIRS / group, &meeting.part);
    __syncthreads();
    const Part part = meeting.part;
    if (part.count == 0) return;

    // The pages of this block, and how many blocks have any.
    const uint32_t last = part.position + part.count - 1, pairs = part.count * group;
    const uint32_t to = min(seen_to(heads, last, part.kv_len), part.kv_len);
    const uint32_t from = seen_from(heads, part.position), first = from / BLOCK_POSITIONS;
    const uint32_t all = to > from ? (to + BLOCK_POSITIONS - 1) / BLOCK_POSITIONS - first : 0;
    const uint32_t active = min(launch.split, max((all + WAVES - 1) / WAVES, 1u)), step = active * WAVES;
    if (blockIdx.z >= active) return;
    const uint32_t begin = blockIdx.z * WAVES, count = all > begin + wave ? (all - begin - wave + step - 1) / step : 0;

    const float* queries[2];
    Row rows[2];
#pragma unroll
    for (int side = 0; side < 2; side++) {
        const uint32_t pair = g + 8 * side, row = pair / group, position = part.position + row;
        const bool is = pair < pairs;
        queries[side] = is ? input<float>(launch, 0) + size_t(part.first + row) * launch.n + (head_kv * group + pair % group) * DIM : nullptr;
        rows[side] = Row{seen_from(heads, position), is ? min(to, seen_to(heads, position, part.kv_len)) : 0, -INFINITY, 0.0f};
    }
    float4 asked[2][DIM / 16];
    Query<DIM>::fetch(queries, asked);
    pages.start(launch, heads, part.seq, head_kv, first + begin + wave, step, count, part.seq == blockIdx.x && first == 0);
    Query<DIM> query;
    query.hold(asked, heads.scale * (heads.softcap == 0.0f ? LOG2_E : 1.0f), reinterpret_cast<uint4*>(shared + S::RING));
    if (!S::HELD) __syncthreads();

    // Positions that all rows see.
    const uint32_t clear_from = seen_from(heads, last), clear_to = min(to, seen_to(heads, part.position, part.kv_len));
    float sums[DIM / 8][4] = {};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t start = (first + begin + wave + i * step) * BLOCK_POSITIONS;
        const bool exists = pages.exists();
        float scores[2][4], keep[2];
        uint32_t high[4], low[4];
        if (exists) {
            score<DIM>(query, pages.next(), scores);
        } else {
            // A page that does not exist is not a number to those who see it.
#pragma unroll
            for (int c = 0; c < 8; c++) scores[c / 4][c % 4] = not_a_number();
        }
        pages.done();
#pragma unroll
        for (int c = 0; c < 8; c++) scores[c / 4][c % 4] *= query.inverse[c % 4 / 2];
        if (heads.softcap != 0.0f) {
#pragma unroll
            for (int c = 0; c < 8; c++) scores[c / 4][c % 4] = softcapped(scores[c / 4][c % 4], heads.softcap) * LOG2_E;
        }
        if (start < clear_from || start + BLOCK_POSITIONS > clear_to) {
#pragma unroll
            for (int c = 0; c < 8; c++) {
                const uint32_t here = start + c / 4 * 8 + 2 * t + c % 2;
                const Row& row = rows[c % 4 / 2];
                if (here < row.from || here >= row.to) scores[c / 4][c % 4] = -INFINITY;
            }
        }
        weigh(scores, rows, keep, high, low);
        if (wave_any(keep[0] != 1.0f || keep[1] != 1.0f)) {
#pragma unroll
            for (int n = 0; n < DIM / 8; n++)
#pragma unroll
                for (int c = 0; c < 4; c++) sums[n][c] *= keep[c / 2];
        }
        if (exists && start >= from && start + BLOCK_POSITIONS <= to) {
            add_values<DIM, true>(pages.next(), 0, high, low, sums);
        } else if (exists) {
            uint32_t seen = 0;
#pragma unroll
            for (int p = 0; p < 4; p++) {
                const uint32_t here = start + p / 2 * 8 + 2 * t + p % 2;
                seen |= here >= from && here < to ? 1u << p : 0;
            }
            add_values<DIM, false>(pages.next(), seen, high, low, sums);
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
    if (count > 0) put_sums<DIM>(sums, pairs, joined + wave * PAIRS * S::STRIDE);
    __syncthreads();
    join<DIM>(launch, heads, part, all > begin ? min(all - begin, uint32_t(WAVES)) : 0, active, joined, meeting);
}

KERNEL_RESIDENT(THREADS, 1) attnPacked64(BY_VALUE Launch launch) { attend<64>(launch); }
KERNEL_RESIDENT(THREADS, 1) attnPacked128(BY_VALUE Launch launch) { attend<128>(launch); }
KERNEL_RESIDENT(THREADS, 1) attnPacked256(BY_VALUE Launch launch) { attend<256>(launch); }
