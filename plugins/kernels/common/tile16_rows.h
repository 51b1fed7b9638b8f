// The products of one unit of relaid weights with several packed rows. Four rows are eight columns of a product: lane
// l = 4 g + t gets features g and g + 8 of row t of each four.
#pragma once

#include "rows.h"

// Integer products of a unit with four rows; a lane's own row.
struct RowSums {
    int high[2], low[2];
    __device__ inline void clear() { high[0] = high[1] = low[0] = low[1] = 0; }
    __device__ inline void add(const int (&part)[4], int scale0, int scale1) {
        high[0] += scale0 * part[0], low[0] += scale0 * part[1];
        high[1] += scale1 * part[2], low[1] += scale1 * part[3];
    }
};

// The sixteen sums of a row's unit.
__device__ inline void row_sums(const RowsUnit& in, uint32_t row, int4 (&sums)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) sums[i] = reinterpret_cast<const int4*>(in.sums + row * UNIT_SUMS)[i];
}

// A lane's inputs of a run for rows 4 j .. 4 j + 3.
__device__ inline uint4 row_inputs(const RowsUnit& in, int j, int run, uint32_t g, uint32_t t) {
    return lane_inputs(in.x + (4 * j + g / 2) * UNIT_ACTIVATIONS, run, g, t);
}

template <int FOURS> __device__ inline void unit_rows(TileQ4_K, const uint8_t* unit, const RowsUnit& in, float (&acc)[FOURS][2]) {
    using Tile = TileQ4_K;
    const uint32_t lane = threadIdx.x % WAVE, g = lane / 4, t = lane % 4;
    const uint4 of[2] = {*reinterpret_cast<const uint4*>(unit + Tile::SCALES + g * 16), *reinterpret_cast<const uint4*>(unit + Tile::SCALES + g * 16 + 128)};
    RowSums sums[FOURS];
#pragma unroll
    for (int j = 0; j < FOURS; j++) sums[j].clear();
#pragma unroll
    for (int run = 0; run < 4; run++) {
        const uint4 bits = *reinterpret_cast<const uint4*>(unit + run * 512 + lane * 16);
        const uint32_t a[8] = {bits.x & 0x0f0f0f0fu, bits.y & 0x0f0f0f0fu, bits.x >> 4 & 0x0f0f0f0fu, bits.y >> 4 & 0x0f0f0f0fu,
                               bits.z & 0x0f0f0f0fu, bits.w & 0x0f0f0f0fu, bits.z >> 4 & 0x0f0f0f0fu, bits.w >> 4 & 0x0f0f0f0fu};
        const uint32_t word0 = run < 2 ? of[0].x : of[0].y, word1 = run < 2 ? of[1].x : of[1].y;
#pragma unroll
        for (int j = 0; j < FOURS; j++) {
            const uint4 x = row_inputs(in, j, run, g, t);
            int part[4];
            multiply_bytes32(part, a[0], a[1], a[2], a[3], x.x, x.y);
            sums[j].add(part, byte_of(word0, run % 2 * 2), byte_of(word1, run % 2 * 2));
            multiply_bytes32(part, a[4], a[5], a[6], a[7], x.z, x.w);
            sums[j].add(part, byte_of(word0, run % 2 * 2 + 1), byte_of(word1, run % 2 * 2 + 1));
        }
    }
    const uint32_t steps[2] = {*reinterpret_cast<const uint32_t*>(unit + Tile::STEPS + g * 4), *reinterpret_cast<const uint32_t*>(unit + Tile::STEPS + g * 4 + 32)};
#pragma unroll
    for (int j = 0; j < FOURS; j++) {
        int4 own[4];
        row_sums(in, 4 * j + t, own);
        const float step = in.steps[4 * j + t];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int least = 0;
#pragma unroll
            for (int group = 0; group < 4; group++) {
                const int4 s = own[group];
                const uint32_t word = group < 2 ? of[i].z : of[i].w;
                least += byte_of(word, group % 2 * 2) * (s.x + s.y) + byte_of(word, group % 2 * 2 + 1) * (s.z + s.w);
            }
            const float dot = fmaf(float(sums[j].high[i]), 256.0f, float(sums[j].low[i]));
            acc[j][i] += step * (half_bits_to_float(uint16_t(steps[i])) * dot - half_bits_to_float(uint16_t(steps[i] >> 16)) * float(least));
        }
    }
}

template <int I, int FOURS>
__device__ inline void group_rows(const uint4& low, const uint2& high, uint32_t s0, uint32_t s1, const uint32_t (&x)[FOURS], RowSums (&sums)[FOURS]) {
    const uint32_t a0 = TileQ6_K::values<I>(I < 2 ? low.x : low.z, high.x), a1 = TileQ6_K::values<I>(I < 2 ? low.y : low.w, high.y);
    const int scale0 = signed_byte_of(s0, I), scale1 = signed_byte_of(s1, I);
#pragma unroll
    for (int j = 0; j < FOURS; j++) {
        int part[4];
        multiply_bytes16(part, a0, a1, x[j]);
        sums[j].add(part, scale0, scale1);
    }
}

template <int FOURS> __device__ inline void unit_rows(TileQ6_K, const uint8_t* unit, const RowsUnit& in, float (&acc)[FOURS][2]) {
    using Tile = TileQ6_K;
    const uint32_t lane = threadIdx.x % WAVE, g = lane / 4, t = lane % 4;
    RowSums sums[FOURS];
#pragma unroll
    for (int j = 0; j < FOURS; j++) sums[j].clear();
#pragma unroll
    for (int run = 0; run < 4; run++) {
        const uint4 low = *reinterpret_cast<const uint4*>(unit + run * 512 + lane * 16);
        const uint2 high = *reinterpret_cast<const uint2*>(unit + Tile::HIGH + run / 2 * 512 + lane * 16 + run % 2 * 8);
        const uint32_t s0 = *reinterpret_cast<const uint32_t*>(unit + Tile::SCALES + g * 16 + 4 * run);
        const uint32_t s1 = *reinterpret_cast<const uint32_t*>(unit + Tile::SCALES + g * 16 + 128 + 4 * run);
        uint32_t x[4][FOURS];
#pragma unroll
        for (int j = 0; j < FOURS; j++) {
            const uint4 four = row_inputs(in, j, run, g, t);
            x[0][j] = four.x, x[1][j] = four.y, x[2][j] = four.z, x[3][j] = four.w;
        }
        group_rows<0>(low, high, s0, s1, x[0], sums);
        group_rows<1>(low, high, s0, s1, x[1], sums);
        group_rows<2>(low, high, s0, s1, x[2], sums);
        group_rows<3>(low, high, s0, s1, x[3], sums);
    }
    const uint4 of[2] = {*reinterpret_cast<const uint4*>(unit + Tile::SCALES + g * 16), *reinterpret_cast<const uint4*>(unit + Tile::SCALES + g * 16 + 128)};
#pragma unroll
    for (int j = 0; j < FOURS; j++) {
        int4 own[4];
        row_sums(in, 4 * j + t, own);
        const float step = in.steps[4 * j + t];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int over = 0;
#pragma unroll
            for (int group = 0; group < 4; group++) {
                const int4 s = own[group];
                const uint32_t word = group == 0 ? of[i].x : group == 1 ? of[i].y : group == 2 ? of[i].z : of[i].w;
                over += signed_byte_of(word, 0) * s.x + signed_byte_of(word, 1) * s.y + signed_byte_of(word, 2) * s.z + signed_byte_of(word, 3) * s.w;
            }
            const float dot = fmaf(float(sums[j].high[i]), 256.0f, float(sums[j].low[i]));
            acc[j][i] += step * half_bits_to_float(*reinterpret_cast<const uint16_t*>(unit + Tile::STEPS + g * 2 + 16 * i)) * (dot - 32.0f * float(over));
        }
    }
}
