// norm: x / sqrt(mean(x^2) + eps) * (weight + offset), one block a row. `x` and `out` may be the same memory.
#include "../common/launch.h"
#include "../common/reduce.h"

constexpr int THREADS = 256;
// Quads of a row a thread holds.
constexpr int QUADS = 8;

// Rows of whole quads that the block holds at once: read once, all on their way together.
__device__ inline void norm_held(const Launch& launch, const float* x, float* out) {
    const uint32_t quads = launch.k / 4;
    const float4* weight = input<float4>(launch, 1);
    const float eps = scalar(launch, 0), offset = scalar(launch, 1);
    float4 v[QUADS], w[QUADS];
#pragma unroll
    for (int i = 0; i < QUADS; i++) {
        const uint32_t at = i * THREADS + threadIdx.x;
        w[i] = at < quads ? weight[at] : make_float4(0, 0, 0, 0);
    }
    wait_for_producer();
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < QUADS; i++) {
        const uint32_t at = i * THREADS + threadIdx.x;
        v[i] = at < quads ? reinterpret_cast<const float4*>(x)[at] : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < QUADS; i++) squares += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
    const float scale = rsqrtf(block_sum<THREADS>(squares) / float(launch.k) + eps);
#pragma unroll
    for (int i = 0; i < QUADS; i++) {
        const uint32_t at = i * THREADS + threadIdx.x;
        const float4 a = v[i], b = w[i];
        if (at < quads)
            reinterpret_cast<float4*>(out)[at] = make_float4(a.x * scale * (b.x + offset), a.y * scale * (b.y + offset),
                                                             a.z * scale * (b.z + offset), a.w * scale * (b.w + offset));
    }
}

KERNEL(THREADS) rmsNorm(BY_VALUE Launch launch) {
    const uint32_t width = launch.k;
    const float* x = input<float>(launch, 0) + size_t(blockIdx.x) * width;
    float* out = output<float>(launch, 2) + size_t(blockIdx.x) * width;
    release_consumers();
    if (width % 4 == 0 && width <= 4 * QUADS * THREADS) {
        norm_held(launch, x, out);
        return;
    }
    wait_for_producer();
    const float* weight = input<float>(launch, 1);
    const float eps = scalar(launch, 0), offset = scalar(launch, 1);
    float squares = 0.0f;
    for (uint32_t k = threadIdx.x; k < width; k += THREADS) squares += x[k] * x[k];
    const float scale = rsqrtf(block_sum<THREADS>(squares) / float(width) + eps);
    for (uint32_t k = threadIdx.x; k < width; k += THREADS) out[k] = x[k] * scale * (weight[k] + offset);
}
