// norm: x / sqrt(mean(x^2) + eps) * (weight + offset), one block a row. `x` and `out` may be the same memory.
#include "../common/launch.h"
#include "../common/reduce.h"

constexpr int THREADS = 256;

KERNEL(THREADS) rmsNorm(BY_VALUE Launch launch) {
    release_consumers();
    wait_for_producer();
    const uint32_t width = launch.k;
    const float* x = input<float>(launch, 0) + size_t(blockIdx.x) * width;
    const float* weight = input<float>(launch, 1);
    float* out = output<float>(launch, 2) + size_t(blockIdx.x) * width;
    const float eps = scalar(launch, 0), offset = scalar(launch, 1);
    float squares = 0.0f;
    for (uint32_t k = threadIdx.x; k < width; k += THREADS) squares += x[k] * x[k];
    const float scale = rsqrtf(block_sum<THREADS>(squares) / float(width) + eps);
    for (uint32_t k = threadIdx.x; k < width; k += THREADS) out[k] = x[k] * scale * (weight[k] + offset);
}
