// Weights relaid for the matrix units: tiles of 16 output features.
//
// A unit is 16 features by DEPTH inputs, one contiguous piece of BYTES that a wave copies to shared memory whole. Its
// values lie as the lanes hold them for m16n8k16: lane l = 4 g + t has features g and g + 8, and of each 32 inputs the
// eight {4t..4t+3, 16+4t..16+4t+3}, so the first product of a 32 takes its inputs 0..15 and the second 16..31. A tile of
// features is K / DEPTH units one after another, and tiles follow each other.
//
// Low bits: a word a (feature, 32 inputs) holds its eight values in pairs; pair j has nibble (j + 1) % 4 of each half.
// So a shift by a multiple of 4 and one mask put a pair's bits where 1 + q / 64 has its mantissa: exact f16 values
// whose offset of 1 (with -32 for Q6_K, 1.5) enters as the negative sum of the inputs in the accumulator.
#pragma once

#include "format.h"

constexpr uint32_t TILE_FEATURES = 16;

// Values of a pair of weights as 1 + q / 64: pair j of a word of low bits.
template <int J> __device__ inline uint32_t low_pair(uint32_t word) {
    const uint32_t shifted = J == 3 ? word << 4 : word >> (4 * J);
    return (shifted & 0x00f000f0u) | 0x3c003c00u;
}

// Sums of one wave over its units: rows g and g + 8, each value of `dot` in every lane of a feature, `least` a part a lane.
struct TileSums {
    float dot[2], least[2];
    __device__ inline void clear() { dot[0] = dot[1] = least[0] = least[1] = 0.0f; }
    // The sums of features g and g + 8, in every lane of them.
    __device__ inline void total(float (&sum)[2]) const {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float part = least[i];
            part += wave_shuffle_xor(part, 1);
            part += wave_shuffle_xor(part, 2);
            sum[i] = dot[i] + part;
        }
    }
};

// 2048 bytes of low bits in four runs of 64 inputs, 16 bytes a lane; then a feature's eight scales and eight minima in
// 16 bytes; then its two steps, f16.
struct TileQ4_K {
    static constexpr uint32_t DEPTH = 256, BYTES = 2368, SCALES = 2048, STEPS = 2304;
    // Inputs of one sum.
    static constexpr uint32_t GROUP = 32;
    static constexpr float OFFSET = 1.0f;

    // Adds a unit's products with one column: `x` are the unit's inputs as f16 in lane order, `sums` the sums of each
    // 32, negated.
    static __device__ inline void column(const uint8_t* unit, const uint16_t* x, const float* sums, TileSums& acc) {
        const uint32_t lane = threadIdx.x % WAVE, g = lane / 4, t = lane % 4;
        const uint8_t* scales = unit + SCALES + g * 16;
        // Minima: a lane takes two of the eight groups.
        const float2 own = *reinterpret_cast<const float2*>(sums + 2 * t);
        float step[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t steps = *reinterpret_cast<const uint32_t*>(unit + STEPS + g * 4 + 32 * i);
            const uint32_t least = *reinterpret_cast<const uint16_t*>(scales + 128 * i + 8 + 2 * t);
            step[i] = 64.0f * half_bits_to_float(uint16_t(steps));
            acc.least[i] += half_bits_to_float(uint16_t(steps >> 16)) *
                            ((biased_byte(least, 0) - BYTE_BIAS) * own.x + (biased_byte(least, 1) - BYTE_BIAS) * own.y);
        }
        // Not unrolled: the registers would not do for two blocks a multiprocessor.
#pragma unroll 1
        for (int run = 0; run < 4; run++) {
            const uint4 bits = *reinterpret_cast<const uint4*>(unit + run * 512 + lane * 16);
            const uint32_t of[2] = {*reinterpret_cast<const uint16_t*>(scales + 2 * run), *reinterpret_cast<const uint16_t*>(scales + 128 + 2 * run)};
            const float2 sum2 = *reinterpret_cast<const float2*>(sums + 2 * run);
#pragma unroll
            for (int group = 0; group < 2; group++) {
                const uint32_t w0 = group ? bits.z : bits.x, w1 = group ? bits.w : bits.y;
                const uint4 in = *reinterpret_cast<const uint4*>(x + run * 64 + group * 32 + t * 8);
                const float sum = group ? sum2.y : sum2.x;
                float part[4];
                multiply_tile(part, low_pair<0>(w0), low_pair<0>(w1), low_pair<1>(w0), low_pair<1>(w1), in.x, in.y, sum, sum, sum, sum);
                multiply_tile(part, low_pair<2>(w0), low_pair<2>(w1), low_pair<3>(w0), low_pair<3>(w1), in.z, in.w, part[0], part[1], part[2], part[3]);
                // (2^23 + scale) * step - 2^23 * step is rounded once, so it is scale * step.
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float biased = biased_byte(of[i], group);
                    acc.dot[i] += fmaf(biased, step[i], -BYTE_BIAS * step[i]) * part[2 * i];
                }
            }
        }
    }
};

// 1024 bytes of low bits in two runs of 64 inputs; 512 of high bits, 16 bytes a lane: for each run the words of features
// g and g + 8, pair p of the run's eight at bits 2p of each half; then a feature's eight scales plus 128; then its step.
struct TileQ6_K {
    static constexpr uint32_t DEPTH = 128, BYTES = 1696, HIGH = 1024, SCALES = 1536, STEPS = 1664;
    static constexpr uint32_t GROUP = 16;
    static constexpr float OFFSET = 1.5f;

    template <int P> static __device__ inline uint32_t pair(uint32_t low, uint32_t high) {
        const uint32_t shifted = P < 4 ? high << (8 - 2 * P) : high >> (2 * P - 8);
        return low_pair<P % 4>(low) | (shifted & 0x03000300u);
    }

    template <int HALF>
    static __device__ inline void group32(uint32_t l0, uint32_t l1, uint32_t h0, uint32_t h1, const uint4& in, float2 sum, uint32_t s0, uint32_t s1,
                                          int byte, float (&dot)[2]) {
        constexpr int P = 4 * HALF;
        float part[4];
        multiply_tile(part, pair<P>(l0, h0), pair<P>(l1, h1), pair<P + 1>(l0, h0), pair<P + 1>(l1, h1), in.x, in.y, sum.x, sum.x, sum.x, sum.x);
        dot[0] += (biased_byte(s0, byte) - (BYTE_BIAS + 128.0f)) * part[0];
        dot[1] += (biased_byte(s1, byte) - (BYTE_BIAS + 128.0f)) * part[2];
        multiply_tile(part, pair<P + 2>(l0, h0), pair<P + 2>(l1, h1), pair<P + 3>(l0, h0), pair<P + 3>(l1, h1), in.z, in.w, sum.y, sum.y, sum.y, sum.y);
        dot[0] += (biased_byte(s0, byte + 1) - (BYTE_BIAS + 128.0f)) * part[0];
        dot[1] += (biased_byte(s1, byte + 1) - (BYTE_BIAS + 128.0f)) * part[2];
    }

    // As for Q4_K; `sums` are the sums of each 16, times -1.5.
    static __device__ inline void column(const uint8_t* unit, const uint16_t* x, const float* sums, TileSums& acc) {
        const uint32_t lane = threadIdx.x % WAVE, g = lane / 4, t = lane % 4;
        const uint2 s0 = *reinterpret_cast<const uint2*>(unit + SCALES + g * 8), s1 = *reinterpret_cast<const uint2*>(unit + SCALES + g * 8 + 64);
        const uint4 high = *reinterpret_cast<const uint4*>(unit + HIGH + lane * 16);
        float dot[2] = {};
#pragma unroll
        for (int run = 0; run < 2; run++) {
            const uint4 low = *reinterpret_cast<const uint4*>(unit + run * 512 + lane * 16);
            const uint32_t h0 = run ? high.z : high.x, h1 = run ? high.w : high.y, a = run ? s0.y : s0.x, b = run ? s1.y : s1.x;
            const uint4* in = reinterpret_cast<const uint4*>(x + run * 64 + t * 8);
            const float2* sum = reinterpret_cast<const float2*>(sums + run * 4);
            group32<0>(low.x, low.y, h0, h1, in[0], sum[0], a, b, 0, dot);
            group32<1>(low.z, low.w, h0, h1, in[4], sum[1], a, b, 2, dot);
        }
        const uint16_t* steps = reinterpret_cast<const uint16_t*>(unit + STEPS);
        acc.dot[0] += 64.0f * half_bits_to_float(steps[g]) * dot[0];
        acc.dot[1] += 64.0f * half_bits_to_float(steps[g + 8]) * dot[1];
    }
};
