// Puts one activation row into shared memory as the matrix units read it: f16 in lane order (tile16.h), scaled by a power
// of two so that its largest value is between 2^12 and 2^13, with the sums its weights' offsets need.
#pragma once

#include "reduce.h"

// Sum and maximum over a block of THREADS at once. Ends with the block in step.
template <int THREADS> __device__ inline void block_sum_and_max(float& sum, float& largest) {
    __shared__ float2 parts[THREADS / WAVE];
    sum = wave_sum(sum);
    largest = wave_max(largest);
    if (threadIdx.x % WAVE == 0) parts[threadIdx.x / WAVE] = make_float2(sum, largest);
    __syncthreads();
    sum = 0.0f;
#pragma unroll
    for (int i = 0; i < THREADS / WAVE; i++) sum += parts[i].x, largest = fmaxf(largest, parts[i].y);
    __syncthreads();
}

// The power of two that brings `largest` to 2^12, and its inverse. A largest of 0 or not a number keeps everything finite.
__device__ inline void half_scale(float largest, float& scale, float& inverse) {
    const uint32_t exponent = min(max(__float_as_uint(largest) >> 23 & 255u, 13u), 254u);
    scale = __uint_as_float((266u - exponent) << 23);
    inverse = __uint_as_float((exponent - 12u) << 23);
}

// Where the column goes: `width` halves; the sums of each 32, negated, where BY32; of each 16, times -1.5, where BY16.
struct Column {
    uint16_t* x;
    float *by32, *by16;
};

// Four values at 4 q: stores them in lane order, and their part of the sums. The whole wave takes part.
template <bool BY32, bool BY16> __device__ inline void put_four(const Column& to, uint32_t q, float4 v) {
    const uint32_t low = pack_halves(v.x, v.y), high = pack_halves(v.z, v.w);
    *reinterpret_cast<uint2*>(to.x + q / 8 * 32 + q % 4 * 8 + q % 8 / 4 * 4) = make_uint2(low, high);
    float sum = half_bits_to_float(uint16_t(low)) + half_bits_to_float(uint16_t(low >> 16)) + half_bits_to_float(uint16_t(high)) +
                half_bits_to_float(uint16_t(high >> 16));
    sum += wave_shuffle_xor(sum, 1);
    sum += wave_shuffle_xor(sum, 2);
    if (BY16 && q % 4 == 0) to.by16[q / 4] = -1.5f * sum;
    if (BY32) {
        sum += wave_shuffle_xor(sum, 4);
        if (q % 8 == 0) to.by32[q / 8] = -sum;
    }
}

// Stages `width` values of `x`, a multiple of 256; with NORM first x / sqrt(mean(x^2) + eps) * (weight + offset). Returns
// what products are multiplied with. The block meets before it returns.
template <int THREADS, bool NORM, bool BY32, bool BY16>
__device__ inline float stage_column(const float* x, const float* weight, uint32_t width, float eps, float offset, const Column& to) {
    float squares = 0.0f, largest = 0.0f;
    for (uint32_t q = threadIdx.x; q < width / 4; q += THREADS) {
        float4 v = reinterpret_cast<const float4*>(x)[q];
        if (NORM) {
            const float4 w = read_only(reinterpret_cast<const float4*>(weight) + q);
            squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
            v = make_float4(v.x * (w.x + offset), v.y * (w.y + offset), v.z * (w.z + offset), v.w * (w.w + offset));
        }
        largest = fmaxf(fmaxf(fmaxf(largest, fabsf(v.x)), fmaxf(fabsf(v.y), fabsf(v.z))), fabsf(v.w));
    }
    block_sum_and_max<THREADS>(squares, largest);
    const float norm = NORM ? rsqrtf(squares / float(width) + eps) : 1.0f;
    float scale, inverse;
    half_scale(largest * norm, scale, inverse);
    for (uint32_t q = threadIdx.x; q < width / 4; q += THREADS) {
        float4 v = reinterpret_cast<const float4*>(x)[q];
        if (NORM) {
            const float4 w = read_only(reinterpret_cast<const float4*>(weight) + q);
            v = make_float4(v.x * norm * (w.x + offset), v.y * norm * (w.y + offset), v.z * norm * (w.z + offset), v.w * norm * (w.w + offset));
        }
        put_four<BY32, BY16>(to, q, make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale));
    }
    __syncthreads();
    return inverse;
}
