// add, glu and copy: one value a thread.
#include "../common/launch.h"

constexpr int THREADS = 256;

// This thread's element, once there is something to read.
__device__ inline size_t element() {
    release_consumers();
    wait_for_producer();
    return size_t(blockIdx.x) * THREADS + threadIdx.x;
}

// `out` may be `a`.
KERNEL(THREADS) add(BY_VALUE Launch launch) {
    const size_t i = element();
    if (i < size_t(launch.m) * launch.k) output<float>(launch, 2)[i] = input<float>(launch, 0)[i] + input<float>(launch, 1)[i];
}

// `out` may be `gate`.
KERNEL(THREADS) gluSilu(BY_VALUE Launch launch) {
    const size_t i = element();
    if (i >= size_t(launch.m) * launch.k) return;
    const float gate = input<float>(launch, 0)[i];
    output<float>(launch, 2)[i] = gate / (1.0f + expf(-gate)) * input<float>(launch, 1)[i];
}

KERNEL(THREADS) gluGelu(BY_VALUE Launch launch) {
    const size_t i = element();
    if (i >= size_t(launch.m) * launch.k) return;
    const float gate = input<float>(launch, 0)[i];
    const float inner = 0.79788456080286536f * (gate + 0.044715f * gate * gate * gate);
    output<float>(launch, 2)[i] = 0.5f * gate * (1.0f + tanhf(inner)) * input<float>(launch, 1)[i];
}

// Rows in order, or chosen by index; an index past the source writes NaN. Bits are kept.
KERNEL(THREADS) copyRows(BY_VALUE Launch launch) {
    const size_t i = element();
    if (i >= size_t(launch.m) * launch.k) return;
    const uint32_t row = uint32_t(i / launch.k), column = uint32_t(i % launch.k);
    const uint32_t* index = input<uint32_t>(launch, 1);
    const uint32_t source = index == nullptr ? row : index[row];
    const uint32_t* x = input<uint32_t>(launch, 0);
    output<uint32_t>(launch, 2)[i] = source < launch.n ? x[size_t(source) * launch.k + column] : 0x7fc00000u;
}
