// argmax: the index of each row's largest value. A row is split in parts; the last block of a row to finish answers.
#include "../common/choice.h"
#include "../common/launch.h"

constexpr int THREADS = 512;

// What the blocks of a row leave for each other, zero before and after.
struct Meeting {
    unsigned long long best;
    uint32_t arrived, reserved;
};

KERNEL(THREADS) argmaxRow(BY_VALUE Launch launch) {
    release_consumers();
    wait_for_producer();
    const uint32_t row = blockIdx.x, each = (launch.n + gridDim.y - 1) / gridDim.y, from = blockIdx.y * each;
    const float* values = input<float>(launch, 0) + size_t(row) * launch.n;
    const uint64_t best = best_of<THREADS>(values, min(from, launch.n), min(from + each, launch.n));
    if (threadIdx.x != 0) return;
    uint32_t* out = output<uint32_t>(launch, 1) + row;
    if (gridDim.y == 1) {
        *out = token_of(best);
        return;
    }
    Meeting* meeting = reinterpret_cast<Meeting*>(launch.semaphores) + row;
    atomicMax(&meeting->best, static_cast<unsigned long long>(best));
    __threadfence();
    if (atomicAdd(&meeting->arrived, 1u) != gridDim.y - 1) return;
    __threadfence();
    *out = token_of(atomicExch(&meeting->best, 0ull));
    meeting->arrived = 0;
}
