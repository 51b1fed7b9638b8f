// Sums and maxima over a wave and over a block. Every thread of the wave or block takes part and gets the answer.
#pragma once

#include "shim.h"

__device__ inline float wave_sum(float value) {
#pragma unroll
    for (int mask = WAVE / 2; mask > 0; mask /= 2) value += wave_shuffle_xor(value, mask);
    return value;
}

__device__ inline float wave_max(float value) {
#pragma unroll
    for (int mask = WAVE / 2; mask > 0; mask /= 2) value = fmaxf(value, wave_shuffle_xor(value, mask));
    return value;
}

// Sum over a block of THREADS. Ends with the block in step, so the caller may use shared memory at once.
template <int THREADS> __device__ inline float block_sum(float value) {
    __shared__ float parts[THREADS / WAVE];
    value = wave_sum(value);
    if (threadIdx.x % WAVE == 0) parts[threadIdx.x / WAVE] = value;
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < THREADS / WAVE; i++) sum += parts[i];
    __syncthreads();
    return sum;
}
