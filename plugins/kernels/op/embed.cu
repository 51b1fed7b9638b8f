// embed: row m of the answer is row tokens[m] of the table, times scale. One block a row.
#include "../common/each_format.h"
#include "../common/launch.h"

constexpr int THREADS = 128;

template <class F> __device__ inline void embed(const Launch& launch) {
    release_consumers();
    wait_for_producer();
    const uint32_t row = blockIdx.x, width = launch.k;
    const uint32_t token = input<uint32_t>(launch, 0)[row];
    float* out = output<float>(launch, 2) + size_t(row) * width;
    if (token >= launch.n) {
        for (uint32_t k = threadIdx.x; k < width; k += THREADS) out[k] = not_a_number();
        return;
    }
    const float scale = scalar(launch, 0);
    const uint8_t* source = input<uint8_t>(launch, 1) + token * F::row_bytes(width);
    if constexpr (F::PLAIN) {
        for (uint32_t k = threadIdx.x; k < width; k += THREADS) out[k] = F::one(source, k) * scale;
    } else {
        for (uint32_t k = threadIdx.x * 8; k < width; k += THREADS * 8) {
            float w[8];
            F::eight(source, k, w);
#pragma unroll
            for (int i = 0; i < 8; i++) out[k + i] = w[i] * scale;
        }
    }
}

#define ENTRY(prefix, Format) \
    KERNEL(THREADS) prefix##Embed(BY_VALUE Launch launch) { embed<Format>(launch); }
EACH_FORMAT(ENTRY)
