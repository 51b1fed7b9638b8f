// argmax: the index of each row's largest value. One block a row.
#include "../common/choice.h"
#include "../common/launch.h"

constexpr int THREADS = 1024;

KERNEL(THREADS) argmaxRow(BY_VALUE Launch launch) {
    const uint64_t best = best_of<THREADS>(input<float>(launch, 0) + size_t(blockIdx.x) * launch.n, launch.n);
    if (threadIdx.x == 0) output<uint32_t>(launch, 1)[blockIdx.x] = token_of(best);
}
