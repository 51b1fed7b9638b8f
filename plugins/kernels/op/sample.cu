// sample: draws one token a row as the catalog's oracle says. A row is split in parts of a few thousand values: each block
// keeps the candidates of its part, and the last block of a row to finish draws from those of all.
//
// Candidates are 64-bit keys of value and index, no two alike: the smallest kept is found by a radix select, which settles
// ties by index. Sums are taken in order and in f64, so that a draw differs from the oracle's only where exp does.
#include "../common/choice.h"
#include "../common/launch.h"

constexpr int THREADS = 512;
// Values of a part, and the most candidates of a row.
constexpr uint32_t PART = 4096;
constexpr uint32_t MOST = 256;

// SampleParams of the step state.
struct Params {
    float temperature, top_p, min_p;
    uint32_t top_k, seed_lo, seed_hi, counter, reserved;
};

// The first word of Philox 4x32-10.
__device__ inline uint32_t philox(uint32_t counter, uint32_t key0, uint32_t key1) {
    uint32_t c0 = counter, c1 = 0, c2 = 0, c3 = 0;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        const uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ key0, c1 = low1, c2 = high0 ^ c3 ^ key1, c3 = low0;
        key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
    return c0;
}

struct Shared {
    uint32_t bins[256];
    uint64_t kept[MOST];
    double plain[MOST], tempered[MOST];
    double sum;
    uint64_t prefix;
    uint32_t wanted, exact, count;
};

// One digit of the select: bins from the largest down, until `wanted` are in. The first wave.
__device__ inline void pick_bin(int shift, Shared& shared) {
    const uint32_t lane = threadIdx.x, wanted = shared.wanted;
    uint32_t mine = 0;
    for (uint32_t i = 0; i < 8; i++) mine += shared.bins[255 - 8 * lane - i];
    uint32_t upto = mine;
    for (int by = 1; by < WAVE; by *= 2) {
        const uint32_t other = wave_shuffle_up(upto, by);
        if (int(lane) >= by) upto += other;
    }
    const uint32_t before = upto - mine;
    wave_sync();
    if (before < wanted && wanted <= upto) {
        uint32_t left = wanted - before, bin = 255 - 8 * lane;
        while (shared.bins[bin] < left) left -= shared.bins[bin--];
        shared.exact = shared.bins[bin] == left ? 1 : 0;
        shared.wanted = left;
        shared.prefix |= uint64_t(bin) << shift;
    } else if (lane == WAVE - 1 && upto < wanted) {
        // Fewer than wanted: all of them.
        shared.exact = 1;
        shared.prefix = 1;
    }
}

// Keeps the `wanted` largest of the keys that `each` visits, or all when they are fewer; zeros are none. `kept` holds them
// in any order, `count` how many.
template <class Each> __device__ inline void keep_largest(const Each& each, uint32_t wanted, Shared& shared) {
    if (threadIdx.x == 0) shared.prefix = 0, shared.wanted = wanted, shared.exact = 0, shared.count = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        if (threadIdx.x < 256) shared.bins[threadIdx.x] = 0;
        __syncthreads();
        const uint64_t prefix = shared.prefix;
        each([&](uint64_t key) {
            const bool inside = shift == 56 || key >> (shift + 8) == prefix >> (shift + 8);
            if (key != 0 && inside) atomicAdd(&shared.bins[key >> shift & 255u], 1u);
        });
        __syncthreads();
        if (threadIdx.x < WAVE) pick_bin(shift, shared);
        __syncthreads();
        if (shared.exact != 0) break;
    }
    if (threadIdx.x < MOST) shared.kept[threadIdx.x] = 0;
    __syncthreads();
    const uint64_t last = shared.prefix;
    each([&](uint64_t key) {
        if (key == 0 || key < last) return;
        const uint32_t at = atomicAdd(&shared.count, 1u);
        if (at < MOST) shared.kept[at] = key;
    });
    __syncthreads();
}

// Sorts the kept candidates, the earliest first: the smallest power of two that holds them.
__device__ inline void sort(Shared& shared) {
    for (uint32_t size = 2; size / 2 < shared.count; size *= 2)
        for (uint32_t stride = size / 2; stride > 0; stride /= 2) {
            const uint32_t i = threadIdx.x, j = i ^ stride;
            if (i < MOST && j > i) {
                const uint64_t a = shared.kept[i], b = shared.kept[j];
                if ((i & size) == 0 ? a < b : a > b) shared.kept[i] = b, shared.kept[j] = a;
            }
            __syncthreads();
        }
}

// The first `count` values added up in order, known to the whole block.
__device__ inline double in_order(const double* values, uint32_t count, Shared& shared) {
    if (threadIdx.x == 0) {
        double sum = 0.0;
        for (uint32_t i = 0; i < count; i++) sum += values[i];
        shared.sum = sum;
    }
    __syncthreads();
    return shared.sum;
}

// How many of the sorted candidates the params keep; one thread, in the oracle's order. `shares` are their parts of the
// whole.
__device__ inline uint32_t kept_by(const Params& params, uint32_t count, const double* plain, const double* shares) {
    uint32_t kept = count;
    if (params.top_p < 1.0f) {
        double running = 0.0;
        for (uint32_t i = 0; i < count; i++) {
            running += shares[i];
            if (running >= double(params.top_p)) {
                kept = i + 1;
                break;
            }
        }
    }
    if (params.min_p > 0.0f) {
        uint32_t likely = 0;
        while (likely < kept && plain[likely] >= double(params.min_p)) likely++;
        kept = likely > 1 ? likely : 1;
    }
    return kept;
}

// The draw from what is kept. The answer is the first thread's.
__device__ inline uint32_t draw(const Params& params, Shared& shared) {
    sort(shared);
    const uint32_t count = shared.count, i = threadIdx.x;
    const float top = value_of(rank_in(shared.kept[0]));
    double tempered = 0.0;
    if (i < count) {
        const float logit = value_of(rank_in(shared.kept[i]));
        const double below = double(logit) - double(top);
        shared.plain[i] = logit == top ? 1.0 : exp(below);
        tempered = logit == top ? 1.0 : exp(below / double(params.temperature));
    }
    __syncthreads();
    const double whole = in_order(shared.plain, count, shared);
    if (i < count) shared.tempered[i] = shared.plain[i] / whole;
    __syncthreads();
    if (i == 0) shared.wanted = kept_by(params, count, shared.plain, shared.tempered);
    __syncthreads();
    const uint32_t kept = shared.wanted;
    if (i < count) shared.tempered[i] = tempered;
    __syncthreads();
    const double weight = in_order(shared.tempered, kept, shared);
    if (i < kept) shared.plain[i] = shared.tempered[i] / weight;
    __syncthreads();
    if (i != 0) return 0;
    const uint32_t random = philox(params.counter, params.seed_lo, params.seed_hi);
    const double target = double(float(random >> 8) / 16777216.0f);
    double running = 0.0;
    for (uint32_t at = 0; at < kept; at++) {
        running += shared.plain[at];
        if (running > target) return index_in(shared.kept[at]);
    }
    return index_in(shared.kept[kept - 1]);
}

KERNEL(THREADS) sampleRow(BY_VALUE Launch launch) {
    __shared__ Shared shared;
    release_consumers();
    wait_for_producer();
    const uint32_t row = blockIdx.x, parts = gridDim.y, part = blockIdx.y;
    const float* logits = input<float>(launch, 0) + size_t(row) * launch.n;
    const uint32_t* words = input<uint32_t>(launch, 1) + size_t(row) * 8;
    const Params params = {__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]), words[3],
                           words[4], words[5], words[6], 0};
    // Also for a temperature that is NaN.
    const bool greedy = !(params.temperature > 0.0f);
    const uint32_t wanted = greedy ? 1 : params.top_k == 0 ? MOST : min(params.top_k, MOST);
    uint64_t mine[PART / THREADS];
#pragma unroll
    for (uint32_t j = 0; j < PART / THREADS; j++) {
        const uint32_t at = part * PART + j * THREADS + threadIdx.x;
        const uint32_t rank = at < launch.n ? rank_of(logits[at]) : 0;
        mine[j] = rank == 0 ? 0 : candidate(rank, at);
    }
    keep_largest(
        [&](auto visit) {
#pragma unroll
            for (uint32_t j = 0; j < PART / THREADS; j++) visit(mine[j]);
        },
        wanted, shared);
    if (parts > 1) {
        // A block leaves its candidates; the last of the row takes everybody's.
        uint64_t* left = reinterpret_cast<uint64_t*>(launch.scratch) + size_t(row) * parts * MOST;
        if (threadIdx.x < wanted) left[part * MOST + threadIdx.x] = shared.kept[threadIdx.x];
        __threadfence();
        __syncthreads();
        uint32_t* arrived = reinterpret_cast<uint32_t*>(launch.semaphores) + row;
        if (threadIdx.x == 0) shared.exact = atomicAdd(arrived, 1u) == parts - 1 ? 1 : 0;
        __syncthreads();
        if (shared.exact == 0) return;
        __threadfence();
        if (threadIdx.x == 0) *arrived = 0;
        __syncthreads();
        keep_largest(
            [&](auto visit) {
                for (uint32_t i = threadIdx.x; i < parts * wanted; i += THREADS) visit(left[i / wanted * MOST + i % wanted]);
            },
            wanted, shared);
    }
    uint32_t token = 0xffffffffu;
    if (shared.count > 0) token = greedy ? index_in(shared.kept[0]) : draw(params, shared);
    if (threadIdx.x == 0) output<uint32_t>(launch, 2)[row] = token;
}
