// Weights relaid for the matrix units: tiles of 16 output features, and the exact integer products over them.
//
// A unit is 16 features by 256 inputs, one contiguous piece of BYTES that a wave copies to shared memory whole; a tile of
// features is K / 256 units one after another, and tiles follow each other. Values lie as the lanes hold them for
// m16n8k32: lane l = 4 g + t has features g and g + 8, and of each 32 inputs {4t..4t+3} and {16+4t..16+4t+3}: a word of
// low bits has the former in the low halves of its bytes and the latter in the high ones.
//
// Activations are numbers of 16 bits with a scale for each 256 (column.h), split in a high and a low byte that take two
// columns of the product. So the products are exact, a block's integer scales are applied to integers, and its floating
// point step once a unit.
#pragma once

#include "format.h"

constexpr uint32_t TILE_FEATURES = 16;
// Inputs of a unit, and bytes of activations that go with them.
constexpr uint32_t UNIT = 256;
constexpr uint32_t UNIT_ACTIVATIONS = 2 * UNIT;
// Sums of activations of a unit: of each 16.
constexpr uint32_t UNIT_SUMS = UNIT / 16;

// Activations of one unit in shared memory: bytes in lane order, sums of each 16, what one step of them is worth.
struct UnitInputs {
    const uint8_t* x;
    const int* sums;
    float step;
};

// The 16 bytes of a lane for inputs 64 run .. 64 run + 63: high bytes for even columns, low for odd.
__device__ inline uint4 lane_inputs(const uint8_t* x, int run, uint32_t g, uint32_t t) {
    return *reinterpret_cast<const uint4*>(x + run * 128 + g % 2 * 64 + t * 16);
}

// Products of one unit of features g and g + 8: high and low bytes apart, and offsets a part a lane.
struct UnitSums {
    int high[2], low[2], offset[2];
    __device__ inline void clear() { high[0] = high[1] = low[0] = low[1] = offset[0] = offset[1] = 0; }
    // Adds a product of a group with its scales.
    __device__ inline void add(const int (&part)[4], int scale0, int scale1) {
        high[0] += scale0 * part[0], low[0] += scale0 * part[1];
        high[1] += scale1 * part[2], low[1] += scale1 * part[3];
    }
    __device__ inline float dot(int i) const { return fmaf(float(high[i]), 256.0f, float(low[i])); }
};

// Sums of one wave over its units: `dot` whole in every lane of a feature, `offset` a part a lane.
struct TileSums {
    float dot[2], offset[2];
    __device__ inline void clear() { dot[0] = dot[1] = offset[0] = offset[1] = 0.0f; }
    // The sums of features g and g + 8.
    __device__ inline void total(float (&sum)[2]) const {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float part = offset[i];
            part += wave_shuffle_xor(part, 1);
            part += wave_shuffle_xor(part, 2);
            sum[i] = dot[i] + part;
        }
    }
};

// 2048 bytes of low bits in four runs of 64 inputs, 16 bytes a lane (32 inputs of g, of g + 8, the next of g, of g + 8);
// then a feature's eight scales and eight minima in 16 bytes; then its two steps, f16.
struct TileQ4_K {
    static constexpr uint32_t BYTES = 2368, SCALES = 2048, STEPS = 2304;

    // Adds a unit's products with one row of activations.
    static __device__ inline void column(const uint8_t* unit, const UnitInputs& in, TileSums& acc) {
        const uint32_t lane = threadIdx.x % WAVE, g = lane / 4, t = lane % 4;
        const uint4 of[2] = {*reinterpret_cast<const uint4*>(unit + SCALES + g * 16), *reinterpret_cast<const uint4*>(unit + SCALES + g * 16 + 128)};
        UnitSums sums;
        sums.clear();
        // Minima: a lane takes two of the eight groups.
        const int4 own = *reinterpret_cast<const int4*>(in.sums + 4 * t);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t word = (t < 2 ? of[i].z : of[i].w) >> (t % 2 * 16);
            sums.offset[i] = byte_of(word, 0) * (own.x + own.y) + byte_of(word, 1) * (own.z + own.w);
        }
#pragma unroll
        for (int run = 0; run < 4; run++) {
            const uint4 bits = *reinterpret_cast<const uint4*>(unit + run * 512 + lane * 16);
            const uint4 x = lane_inputs(in.x, run, g, t);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int group = 2 * run + half;
                const uint32_t w0 = half ? bits.z : bits.x, w1 = half ? bits.w : bits.y;
                int part[4];
                multiply_bytes32(part, w0 & 0x0f0f0f0fu, w1 & 0x0f0f0f0fu, w0 >> 4 & 0x0f0f0f0fu, w1 >> 4 & 0x0f0f0f0fu, half ? x.z : x.x, half ? x.w : x.y);
                sums.add(part, byte_of(group < 4 ? of[0].x : of[0].y, group % 4), byte_of(group < 4 ? of[1].x : of[1].y, group % 4));
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t steps = *reinterpret_cast<const uint32_t*>(unit + STEPS + g * 4 + 32 * i);
            acc.dot[i] += in.step * half_bits_to_float(uint16_t(steps)) * sums.dot(i);
            acc.offset[i] -= in.step * half_bits_to_float(uint16_t(steps >> 16)) * float(sums.offset[i]);
        }
    }
};

// 2048 bytes of low bits as for Q4_K; 1024 of high bits, 16 bytes a lane for each 128 inputs: for each 64 the words of
// features g and g + 8, whose byte e has the high bits of inputs 16 i + 4 t + e at bits 2 i; then a feature's sixteen
// scales in 16 bytes; then its step, f16.
struct TileQ6_K {
    static constexpr uint32_t BYTES = 3360, HIGH = 2048, SCALES = 3072, STEPS = 3328;

    // Values of 16 inputs, plus 32: the I-th of a run.
    template <int I> static __device__ inline uint32_t values(uint32_t low, uint32_t high) {
        const uint32_t shifted = I < 2 ? high << (4 - 2 * I) : high >> (2 * I - 4);
        return masked_or(shifted, 0x30303030u, (I % 2 ? low >> 4 : low) & 0x0f0f0f0fu);
    }
    template <int I> static __device__ inline void group(const uint4& low, uint32_t h0, uint32_t h1, uint32_t x, uint32_t s0, uint32_t s1, UnitSums& sums) {
        int part[4];
        multiply_bytes16(part, values<I>(I < 2 ? low.x : low.z, h0), values<I>(I < 2 ? low.y : low.w, h1), x);
        sums.add(part, signed_byte_of(s0, I), signed_byte_of(s1, I));
    }

    // As for Q4_K.
    static __device__ inline void column(const uint8_t* unit, const UnitInputs& in, TileSums& acc) {
        const uint32_t lane = threadIdx.x % WAVE, g = lane / 4, t = lane % 4;
        UnitSums sums;
        sums.clear();
        // The 32 that every value has too much: a lane takes four of the sixteen groups.
        const int4 own = *reinterpret_cast<const int4*>(in.sums + 4 * t);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t word = *reinterpret_cast<const uint32_t*>(unit + SCALES + g * 16 + 128 * i + 4 * t);
            sums.offset[i] = signed_byte_of(word, 0) * own.x + signed_byte_of(word, 1) * own.y + signed_byte_of(word, 2) * own.z + signed_byte_of(word, 3) * own.w;
        }
#pragma unroll
        for (int run = 0; run < 4; run++) {
            const uint4 low = *reinterpret_cast<const uint4*>(unit + run * 512 + lane * 16);
            const uint2 high = *reinterpret_cast<const uint2*>(unit + HIGH + run / 2 * 512 + lane * 16 + run % 2 * 8);
            const uint4 x = lane_inputs(in.x, run, g, t);
            const uint32_t s0 = *reinterpret_cast<const uint32_t*>(unit + SCALES + g * 16 + 4 * run);
            const uint32_t s1 = *reinterpret_cast<const uint32_t*>(unit + SCALES + g * 16 + 128 + 4 * run);
            group<0>(low, high.x, high.y, x.x, s0, s1, sums);
            group<1>(low, high.x, high.y, x.y, s0, s1, sums);
            group<2>(low, high.x, high.y, x.z, s0, s1, sums);
            group<3>(low, high.x, high.y, x.w, s0, s1, sums);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float step = in.step * half_bits_to_float(*reinterpret_cast<const uint16_t*>(unit + STEPS + g * 2 + 16 * i));
            acc.dot[i] += step * sums.dot(i);
            acc.offset[i] -= step * 32.0f * float(sums.offset[i]);
        }
    }
};
