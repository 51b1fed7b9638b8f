// sample: draws one token a row as the catalog's oracle says. One block a row.
//
// The candidates are found by a radix select over ranks, ties at the last place settled by index, then sorted. Sums are
// taken in order and in f64, so that a draw differs from the oracle's only where exp does.
#include "../common/choice.h"
#include "../common/launch.h"

constexpr int THREADS = 512;
constexpr int MOST = 256;

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
    uint32_t waves[THREADS / WAVE];
    uint32_t prefix, wanted, count, valid;
};

// Finds the rank of the `wanted`-th largest value; leaves how many of exactly that rank are wanted in `shared.wanted`.
__device__ inline uint32_t last_rank(const float* logits, uint32_t n, Shared& shared) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = threadIdx.x; i < 256; i += THREADS) shared.bins[i] = 0;
        __syncthreads();
        const uint32_t prefix = shared.prefix;
        for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
            const uint32_t rank = rank_of(logits[i]);
            const bool inside = shift == 24 || rank >> (shift + 8) == prefix >> (shift + 8);
            if (rank != 0 && inside) atomicAdd(&shared.bins[rank >> shift & 255u], 1u);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            uint32_t wanted = shared.wanted;
            int bin = 255;
            while (bin > 0 && shared.bins[bin] < wanted) wanted -= shared.bins[bin--];
            shared.wanted = wanted;
            shared.prefix = prefix | uint32_t(bin) << shift;
        }
        __syncthreads();
    }
    return shared.prefix;
}

// Collects what ranks above `last`, and the first `shared.wanted` values of exactly that rank, in index order.
__device__ inline void collect(const float* logits, uint32_t n, uint32_t last, Shared& shared) {
    const uint32_t ties = shared.wanted;
    uint32_t taken = 0;
    for (uint32_t base = 0; base < n; base += THREADS) {
        const uint32_t i = base + threadIdx.x;
        const uint32_t rank = i < n ? rank_of(logits[i]) : 0;
        if (rank > last) {
            const uint32_t at = atomicAdd(&shared.count, 1u);
            if (at < MOST) shared.kept[at] = candidate(rank, i);
        }
        if (taken >= ties) continue;
        const uint32_t tie = i < n && rank == last ? 1 : 0;
        uint32_t before = tie;
        for (int by = 1; by < WAVE; by *= 2) {
            const uint32_t other = wave_shuffle_up(before, by);
            if (int(threadIdx.x % WAVE) >= by) before += other;
        }
        if (threadIdx.x % WAVE == WAVE - 1) shared.waves[threadIdx.x / WAVE] = before;
        __syncthreads();
        uint32_t all = 0, earlier = 0;
        for (int wave = 0; wave < THREADS / WAVE; wave++) {
            if (wave < int(threadIdx.x / WAVE)) earlier += shared.waves[wave];
            all += shared.waves[wave];
        }
        if (tie != 0 && taken + earlier + before <= ties) {
            const uint32_t at = atomicAdd(&shared.count, 1u);
            if (at < MOST) shared.kept[at] = candidate(rank, i);
        }
        taken += all;
        __syncthreads();
    }
    __syncthreads();
}

// Sorts the kept candidates, the earliest first.
__device__ inline void sort(Shared& shared) {
    for (int size = 2; size <= MOST; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            const int i = threadIdx.x, j = i ^ stride;
            if (i < MOST && j > i) {
                const uint64_t a = shared.kept[i], b = shared.kept[j];
                if ((i & size) == 0 ? a < b : a > b) shared.kept[i] = b, shared.kept[j] = a;
            }
            __syncthreads();
        }
}

// The draw from sorted, weighted candidates; one thread, in the oracle's order.
__device__ inline uint32_t draw(const Params& params, uint32_t count, const Shared& shared) {
    double total = 0.0;
    for (uint32_t i = 0; i < count; i++) total += shared.plain[i];
    uint32_t kept = count;
    if (params.top_p < 1.0f) {
        double running = 0.0;
        for (uint32_t i = 0; i < count; i++) {
            running += shared.plain[i] / total;
            if (running >= double(params.top_p)) {
                kept = i + 1;
                break;
            }
        }
    }
    if (params.min_p > 0.0f) {
        uint32_t likely = 0;
        while (likely < kept && shared.plain[likely] >= double(params.min_p)) likely++;
        kept = likely > 1 ? likely : 1;
    }
    double weight = 0.0;
    for (uint32_t i = 0; i < kept; i++) weight += shared.tempered[i];
    const uint32_t word = philox(params.counter, params.seed_lo, params.seed_hi);
    const double target = double(float(word >> 8) / 16777216.0f);
    double running = 0.0;
    for (uint32_t i = 0; i < kept; i++) {
        running += shared.tempered[i] / weight;
        if (running > target) return index_in(shared.kept[i]);
    }
    return index_in(shared.kept[kept - 1]);
}

KERNEL(THREADS) sampleRow(BY_VALUE Launch launch) {
    __shared__ Shared shared;
    const float* logits = input<float>(launch, 0) + size_t(blockIdx.x) * launch.n;
    const uint32_t* words = input<uint32_t>(launch, 1) + size_t(blockIdx.x) * 8;
    const Params params = {__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]), words[3],
                           words[4], words[5], words[6], 0};
    uint32_t* out = output<uint32_t>(launch, 2) + blockIdx.x;
    const uint64_t best = best_of<THREADS>(logits, launch.n);
    // Also true for a temperature that is NaN.
    if (!(params.temperature > 0.0f) || rank_in(best) == 0) {
        if (threadIdx.x == 0) *out = token_of(best);
        return;
    }
    if (threadIdx.x == 0) shared.valid = 0, shared.count = 0, shared.prefix = 0;
    if (threadIdx.x < MOST) shared.kept[threadIdx.x] = 0;
    __syncthreads();
    uint32_t valid = 0;
    for (uint32_t i = threadIdx.x; i < launch.n; i += THREADS) valid += rank_of(logits[i]) != 0 ? 1 : 0;
    atomicAdd(&shared.valid, valid);
    __syncthreads();
    const uint32_t most = params.top_k == 0 ? uint32_t(MOST) : min(params.top_k, uint32_t(MOST));
    const uint32_t count = min(most, shared.valid);
    if (threadIdx.x == 0) shared.wanted = count;
    __syncthreads();
    collect(logits, launch.n, last_rank(logits, launch.n, shared), shared);
    sort(shared);
    if (threadIdx.x < count) {
        const float top = value_of(rank_in(best)), logit = value_of(rank_in(shared.kept[threadIdx.x]));
        const double below = double(logit) - double(top);
        shared.plain[threadIdx.x] = logit == top ? 1.0 : exp(below);
        shared.tempered[threadIdx.x] = logit == top ? 1.0 : exp(below / double(params.temperature));
    }
    __syncthreads();
    if (threadIdx.x == 0) *out = draw(params, count, shared);
}
