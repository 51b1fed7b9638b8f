// Orders logits: a key that sorts by value downwards and then by index upwards, in which NaN never wins.
#pragma once

#include "shim.h"

// Rises with the value; both zeros are one; NaN is 0, below every number.
__device__ inline uint32_t rank_of(float value) {
    if (value != value) return 0;
    const uint32_t bits = __float_as_uint(value == 0.0f ? 0.0f : value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ inline float value_of(uint32_t rank) {
    return __uint_as_float(rank & 0x80000000u ? rank & 0x7fffffffu : ~rank);
}

// The larger is the earlier candidate.
__device__ inline uint64_t candidate(uint32_t rank, uint32_t index) { return uint64_t(rank) << 32 | uint32_t(~index); }
__device__ inline uint32_t rank_in(uint64_t candidate) { return uint32_t(candidate >> 32); }
__device__ inline uint32_t index_in(uint64_t candidate) { return ~uint32_t(candidate); }

// The best candidate of values `from` to `to`, known to every thread of the block; rank 0 when all are NaN, 0 for none.
template <int THREADS> __device__ inline uint64_t best_of(const float* values, uint32_t from, uint32_t to) {
    __shared__ uint64_t parts[THREADS / WAVE];
    uint64_t best = 0;
    for (uint32_t i = from + threadIdx.x; i < to; i += THREADS) {
        const uint64_t here = candidate(rank_of(values[i]), i);
        best = here > best ? here : best;
    }
#pragma unroll
    for (int mask = WAVE / 2; mask > 0; mask /= 2) {
        const uint64_t other = uint64_t(wave_shuffle_xor(uint32_t(best >> 32), mask)) << 32 | wave_shuffle_xor(uint32_t(best), mask);
        best = other > best ? other : best;
    }
    if (threadIdx.x % WAVE == 0) parts[threadIdx.x / WAVE] = best;
    __syncthreads();
    for (int i = 0; i < THREADS / WAVE; i++) best = parts[i] > best ? parts[i] : best;
    return best;
}

// The token of a best candidate: u32::MAX when there is nothing but NaN.
__device__ inline uint32_t token_of(uint64_t best) { return rank_in(best) == 0 ? 0xffffffffu : index_in(best); }
