// matmul of few activation rows: one wave an output feature, its weight row read once for up to COLUMNS rows of x.
#include "../common/each_format.h"
#include "../common/launch.h"
#include "../common/reduce.h"

constexpr int THREADS = 128;
constexpr int WAVES = THREADS / WAVE;

template <class F, int COLUMNS> __device__ inline void products(const Launch& launch, const uint8_t* row, uint32_t first, float* sums) {
    const uint32_t width = launch.k, lane = threadIdx.x % WAVE;
    const float* x = input<float>(launch, 0) + size_t(first) * width;
    // Rows past the last are computed again from the last and not written.
    const float* column[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) column[c] = x + size_t(min(first + c, launch.m - 1) - first) * width;
    if constexpr (F::PLAIN) {
        // Rows of a width that is not whole 16-byte words start anywhere.
        if (width % 8 != 0) {
            for (uint32_t k = lane; k < width; k += WAVE) {
                const float w = F::one(row, k);
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) sums[c] += w * column[c][k];
            }
            return;
        }
    }
#pragma unroll(COLUMNS < 8 ? 4 : 2)
    for (uint32_t u = lane; u < width / 8; u += WAVE) {
        float w[8];
        uint32_t a, b;
        if constexpr (F::PLAIN)
            plain_unit<F>(row, u, w, a, b);
        else
            F::unit(row, u, w, a, b);
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            const float4 xa = *reinterpret_cast<const float4*>(column[c] + a), xb = *reinterpret_cast<const float4*>(column[c] + b);
            sums[c] += w[0] * xa.x + w[1] * xa.y + w[2] * xa.z + w[3] * xa.w;
            sums[c] += w[4] * xb.x + w[5] * xb.y + w[6] * xb.z + w[7] * xb.w;
        }
    }
}

template <class F, int COLUMNS> __device__ inline void matvec(const Launch& launch) {
    release_consumers();
    wait_for_producer();
    const uint32_t feature = blockIdx.x * WAVES + threadIdx.x / WAVE, first = blockIdx.y * COLUMNS;
    if (feature >= launch.n) return;
    float sums[COLUMNS] = {};
    products<F, COLUMNS>(launch, input<uint8_t>(launch, 1) + feature * F::row_bytes(launch.k), first, sums);
    const float* bias = input<float>(launch, 2);
    const float offset = bias == nullptr ? 0.0f : bias[feature], cap = scalar(launch, 0);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const float sum = wave_sum(sums[c]);
        if (threadIdx.x % WAVE == 0 && first + c < launch.m)
            output<float>(launch, 3)[size_t(first + c) * launch.n + feature] = softcapped(sum + offset, cap);
    }
}

#define ENTRY(prefix, Format)                                                                        \
    KERNEL(THREADS) prefix##WaveMatVec(BY_VALUE Launch launch) { matvec<Format, 1>(launch); }        \
    KERNEL(THREADS) prefix##WaveMatVecCols2(BY_VALUE Launch launch) { matvec<Format, 2>(launch); }   \
    KERNEL(THREADS) prefix##WaveMatVecCols4(BY_VALUE Launch launch) { matvec<Format, 4>(launch); }   \
    KERNEL(THREADS) prefix##WaveMatVecCols8(BY_VALUE Launch launch) { matvec<Format, 8>(launch); }
EACH_FORMAT(ENTRY)
