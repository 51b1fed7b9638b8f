// Puts activations into shared memory as the products over relaid weights read them: numbers of 16 bits with a scale for
// each 256 inputs, split in a high and a low byte. A wave stages what it will itself use, so the block need not meet.
//
// For each 64 inputs 64 high bytes, then 64 low ones; of each, 16 a lane part t: inputs 4t..4t+3, then 16 further, 32
// further, 48 further.
#pragma once

#include "reduce.h"
#include "tile16.h"

// Largest number: its high byte rounds to 127.
constexpr float ACTIVATION_LARGEST = 32639.0f;

// A row of activations in shared memory: UNIT_ACTIVATIONS bytes, UNIT_SUMS sums and a step for each 256 inputs.
struct Column {
    uint8_t* x;
    int* sums;
    float* steps;

    __device__ inline Column(uint8_t* shared, uint32_t units) : x(shared) {
        sums = reinterpret_cast<int*>(x + units * UNIT_ACTIVATIONS);
        steps = reinterpret_cast<float*>(sums + units * UNIT_SUMS);
    }
    __device__ inline UnitInputs unit(uint32_t index) const { return UnitInputs{x + index * UNIT_ACTIVATIONS, sums + index * UNIT_SUMS, steps[index]}; }
};

__device__ inline uint32_t magnitude(float4 v) {
    const uint32_t a = max(__float_as_uint(v.x) & 0x7fffffffu, __float_as_uint(v.y) & 0x7fffffffu);
    const uint32_t b = max(__float_as_uint(v.z) & 0x7fffffffu, __float_as_uint(v.w) & 0x7fffffffu);
    return max(a, b);
}

// Four numbers at inputs k .. k + 3 of a unit, k a multiple of 4: stores their bytes and takes part in the sums. The wave
// takes part with consecutive quads.
__device__ inline void put_quad(uint8_t* x, int* sums, uint32_t k, float4 v, float scale) {
    const int q[4] = {__float2int_rn(v.x * scale), __float2int_rn(v.y * scale), __float2int_rn(v.z * scale), __float2int_rn(v.w * scale)};
    uint32_t high = 0, low = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        // The low byte is signed, so the high one is rounded.
        high |= uint32_t(uint8_t((q[i] + 128) >> 8)) << (8 * i);
        low |= uint32_t(uint8_t(q[i])) << (8 * i);
    }
    uint8_t* to = x + k / 64 * 128 + k % 16 / 4 * 16 + k % 64 / 16 * 4;
    *reinterpret_cast<uint32_t*>(to) = high;
    *reinterpret_cast<uint32_t*>(to + 64) = low;
    int sum = (q[0] + q[1]) + (q[2] + q[3]);
    sum += int(wave_shuffle_xor(uint32_t(sum), 1));
    sum += int(wave_shuffle_xor(uint32_t(sum), 2));
    if (threadIdx.x % 4 == 0) sums[k / 16] = sum;
}

// Stages the units member, member + WAVES, ... of a row; with NORM of x * (weight + offset). Returns this lane's part of
// the sum of squares of x.
template <int WAVES, bool NORM>
__device__ inline float stage_units(const float* x, const float* weight, float offset, uint32_t units, uint32_t member, const Column& to) {
    const uint32_t lane = threadIdx.x % WAVE, count = units > member ? (units - member + WAVES - 1) / WAVES : 0;
    // The row is the same for all blocks: each begins elsewhere, or all would ask for the same lines at once.
    uint32_t at = count == 0 ? 0 : blockIdx.x % count;
    float squares = 0.0f;
#pragma unroll 4
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t unit = member + at * WAVES;
        if (++at == count) at = 0;
        float4 v[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t q = unit * (UNIT / 4) + half * WAVE + lane;
            v[half] = reinterpret_cast<const float4*>(x)[q];
            if (NORM) {
                const float4 w = read_only(reinterpret_cast<const float4*>(weight) + q);
                squares += v[half].x * v[half].x + v[half].y * v[half].y + v[half].z * v[half].z + v[half].w * v[half].w;
                v[half] = make_float4(v[half].x * (w.x + offset), v[half].y * (w.y + offset), v[half].z * (w.z + offset), v[half].w * (w.w + offset));
            }
        }
        const uint32_t largest = wave_largest(max(magnitude(v[0]), magnitude(v[1])));
        const float most = __uint_as_float(largest);
        // Beyond the finite numbers, and below those whose inverse is finite, the unit is what it is: NaN, or nothing.
        const bool finite = largest < 0x7f800000u, some = most > 1e-30f;
        const float scale = finite && some ? ACTIVATION_LARGEST / most : 0.0f;
#pragma unroll
        for (int half = 0; half < 2; half++) put_quad(to.x + unit * UNIT_ACTIVATIONS, to.sums + unit * UNIT_SUMS, half * 128 + lane * 4, v[half], scale);
        if (lane == 0) to.steps[unit] = !finite ? not_a_number() : some ? most / ACTIVATION_LARGEST : 0.0f;
    }
    wave_sync();
    return squares;
}
