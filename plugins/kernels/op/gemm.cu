// matmul of many activation rows in f32: tiles of 64 rows by 64 features, weights decoded into shared memory.
//
// The plain form for every format. The matrix-core forms are rows of their own.
#include "../common/each_format.h"
#include "../common/launch.h"

constexpr int THREADS = 256;
constexpr int TILE = 64;
constexpr int DEPTH = 32;
// Values of K summed before they join the total.
constexpr uint32_t STRETCH = 256;
// Values of a tile row are one word apart from a multiple of the banks.
constexpr int STRIDE = TILE + 4;

template <class F> __device__ inline void eight_of(const uint8_t* row, uint32_t k, uint32_t width, float* w) {
    if constexpr (F::PLAIN) {
        if (width % 8 != 0 || k + 8 > width) {
#pragma unroll
            for (int i = 0; i < 8; i++) w[i] = k + i < width ? F::one(row, k + i) : 0.0f;
            return;
        }
    } else if (k >= width) {
#pragma unroll
        for (int i = 0; i < 8; i++) w[i] = 0.0f;
        return;
    }
    F::eight(row, k, w);
}

template <class F> __device__ inline void gemm(const Launch& launch) {
    // Both tiles lie K-major, so that a thread reads its four values of a step in one load.
    __shared__ float xs[DEPTH][STRIDE], ws[DEPTH][STRIDE];
    release_consumers();
    wait_for_producer();
    const uint32_t feature0 = blockIdx.x * TILE, row0 = blockIdx.y * TILE, width = launch.k;
    const uint32_t loader = threadIdx.x / 4, part = threadIdx.x % 4 * 8;
    const uint32_t row = min(row0 + loader, launch.m - 1), feature = min(feature0 + loader, launch.n - 1);
    const uint8_t* x = launch.arg[0] + size_t(row) * width * 4;
    const uint8_t* weight = input<uint8_t>(launch, 1) + feature * F::row_bytes(width);
    const uint32_t tx = threadIdx.x % 16 * 4, ty = threadIdx.x / 16 * 4;
    // Sums of a stretch, folded into the totals at its end: one running sum over a long K loses digits.
    float sums[4][4] = {}, totals[4][4] = {};
    for (uint32_t k0 = 0; k0 < width; k0 += DEPTH) {
        float a[8], b[8];
        eight_of<FormatF32>(x, k0 + part, width, a);
        eight_of<F>(weight, k0 + part, width, b);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) xs[part + i][loader] = a[i], ws[part + i][loader] = b[i];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            const float4 xv = *reinterpret_cast<const float4*>(&xs[k][ty]), wv = *reinterpret_cast<const float4*>(&ws[k][tx]);
            const float xr[4] = {xv.x, xv.y, xv.z, xv.w}, wr[4] = {wv.x, wv.y, wv.z, wv.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) sums[i][j] += xr[i] * wr[j];
        }
        if (k0 % STRETCH == STRETCH - DEPTH || k0 + DEPTH >= width) {
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) totals[i][j] += sums[i][j], sums[i][j] = 0.0f;
        }
    }
    const float* bias = input<float>(launch, 2);
    const float cap = scalar(launch, 0);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const uint32_t m = row0 + ty + i, n = feature0 + tx + j;
            if (m < launch.m && n < launch.n)
                output<float>(launch, 3)[size_t(m) * launch.n + n] = softcapped(totals[i][j] + (bias == nullptr ? 0.0f : bias[n]), cap);
        }
}

#define ENTRY(prefix, Format) \
    KERNEL_RESIDENT(THREADS, 2) prefix##TileGemm(BY_VALUE Launch launch) { gemm<Format>(launch); }
EACH_FORMAT(ENTRY)
