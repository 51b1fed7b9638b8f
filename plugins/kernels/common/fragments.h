// Queries, keys and values of attention as the matrix units read them.
//
// Queries and weights are split into a high and a low f16, so that products are exact to f32: keys and values are f16.
// Which element of a head is which of a fragment is free as long as both sides agree, so fragments are read 16 bytes a lane.
#pragma once

#include "pages.h"

// A 16-byte word of four.
__device__ inline uint32_t word(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
__device__ inline void swap_if(bool swap, uint4& a, uint4& b) {
    const uint4 x = swap ? b : a, y = swap ? a : b;
    a = x, b = y;
}

// The power of two that brings `largest` to 2^12, and its inverse. A largest of 0 or not a number keeps everything finite.
__device__ inline void to_half_range(float largest, float& scale, float& inverse) {
    const uint32_t exponent = min(max(__float_as_uint(largest) >> 23 & 255u, 13u), 254u);
    scale = __uint_as_float((266u - exponent) << 23);
    inverse = __uint_as_float((exponent - 12u) << 23);
}

// Queries of two rows of the tile, in fragments.
template <int DIM> struct Query {
    using S = Shape<DIM>;
    uint32_t high[S::HELD ? S::STEPS : 1][4], low[S::HELD ? S::STEPS : 1][4];
    // What each row's scores are multiplied with.
    float inverse[2];
    const uint4* stored;

    static __device__ inline void split(float a, float b, uint32_t& high, uint32_t& low) {
        high = pack_halves(a, b);
        low = pack_halves(a - half_bits_to_float(uint16_t(high)), b - half_bits_to_float(uint16_t(high >> 16)));
    }
    // Eight elements of chunk j of a row: half of two steps.
    __device__ inline void put(int j, int side, const float4& a, const float4& b, float scale, uint4* shared) {
        const float x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t h, l;
            split(x[2 * i] * scale, x[2 * i + 1] * scale, h, l);
            const int step = 2 * j + i / 2, at = side + i % 2 * 2;
            if (S::HELD) {
                high[S::HELD ? step : 0][at] = h, low[S::HELD ? step : 0][at] = l;
            } else if (threadIdx.x < WAVE) {
                uint32_t* to = reinterpret_cast<uint32_t*>(shared + step * 2 * WAVE + threadIdx.x) + at;
                to[0] = h, to[4 * WAVE] = l;
            }
        }
    }
    // Asks for the rows; null where there is no pair.
    static __device__ inline void fetch(const float* const (&rows)[2], float4 (&x)[2][DIM / 16]) {
#pragma unroll
        for (int side = 0; side < 2; side++)
#pragma unroll
            for (int j = 0; j < DIM / 16; j++)
                x[side][j] = rows[side] == nullptr ? make_float4(0, 0, 0, 0) : reinterpret_cast<const float4*>(rows[side])[j / 2 * 8 + threadIdx.x % 4 * 2 + j % 2];
    }
    // Queries that are stored are visible once the block has met.
    __device__ inline void hold(const float4 (&x)[2][DIM / 16], float scale, uint4* shared) {
        stored = shared;
#pragma unroll
        for (int side = 0; side < 2; side++) {
            float largest = 0.0f;
#pragma unroll
            for (int j = 0; j < DIM / 16; j++) {
                const float4 v = x[side][j];
                largest = fmaxf(largest, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
            }
            largest = fmaxf(largest, wave_shuffle_xor(largest, 1));
            largest = fmaxf(largest, wave_shuffle_xor(largest, 2));
            float up, down;
            to_half_range(largest, up, down);
            inverse[side] = down * scale;
#pragma unroll
            for (int j = 0; j < DIM / 32; j++) put(j, side, x[side][2 * j], x[side][2 * j + 1], up, shared);
        }
    }
    __device__ inline void fragment(int step, uint32_t (&h)[4], uint32_t (&l)[4]) const {
        if (S::HELD) {
#pragma unroll
            for (int i = 0; i < 4; i++) h[i] = high[S::HELD ? step : 0][i], l[i] = low[S::HELD ? step : 0][i];
        } else {
            const uint4 a = stored[step * 2 * WAVE + threadIdx.x % WAVE], b = stored[(step * 2 + 1) * WAVE + threadIdx.x % WAVE];
            h[0] = a.x, h[1] = a.y, h[2] = a.z, h[3] = a.w, l[0] = b.x, l[1] = b.y, l[2] = b.z, l[3] = b.w;
        }
    }
};

__device__ inline void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    multiply_tile(d, a[0], a[1], a[2], a[3], b0, b1, d[0], d[1], d[2], d[3]);
}

// Scores of a page's 16 positions: [n][0..2] are this lane's two positions of eight for row g, [n][2..4] for row g + 8.
template <int DIM> __device__ inline void score(const Query<DIM>& query, const uint8_t* slab, float (&scores)[2][4]) {
    const uint32_t lane = threadIdx.x % WAVE, g = lane / 4, t = lane % 4;
    float sums[2][4][4] = {};
#pragma unroll
    for (int j = 0; j < DIM / 32; j += 2) {
        uint4 x[2][2];
#pragma unroll
        for (int n = 0; n < 2; n++) {
            // Rows are a whole number of bank rounds apart: odd ones take the halves of 128 bytes in the other order.
            const uint4* row = reinterpret_cast<const uint4*>(slab + (n * 8 + g) * DIM * 2) + t;
            x[n][0] = row[4 * (j ^ int(g & 1))];
            x[n][1] = row[4 * ((j + 1) ^ int(g & 1))];
            swap_if(g & 1, x[n][0], x[n][1]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t h[4], l[4];
            query.fragment(2 * j + i, h, l);
#pragma unroll
            for (int n = 0; n < 2; n++) {
                const uint32_t b0 = word(x[n][i / 2], i % 2 * 2), b1 = word(x[n][i / 2], i % 2 * 2 + 1);
                multiply_add(sums[n][i % 2], h, b0, b1);
                multiply_add(sums[n][2 + i % 2], l, b0, b1);
            }
        }
    }
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int c = 0; c < 4; c++) scores[n][c] = (sums[n][0][c] + sums[n][1][c]) + (sums[n][2][c] + sums[n][3][c]);
}

// Which 16 bytes of a value row lane group g takes i-th; those behind are its odd neighbour's.
template <int DIM> __device__ inline int value_chunk(int g, int i) { return DIM == 64 ? g : g % 4 + g / 4 * 8 + i % 2 * 4 + i / 2 * 16; }

// Adds weights times values. Of a page that is not WHOLE, `seen` has a bit for each of this lane's four positions; what is
// behind the others is not used, whatever it holds.
template <int DIM, bool WHOLE>
__device__ inline void add_values(const uint8_t* slab, uint32_t seen, const uint32_t (&high)[4], const uint32_t (&low)[4], float (&sums)[DIM / 8][4]) {
    const uint32_t lane = threadIdx.x % WAVE, g = lane / 4, t = lane % 4;
    constexpr int TOGETHER = DIM == 64 ? 1 : 2;
#pragma unroll
    for (int i = 0; i < DIM / 64; i += TOGETHER) {
        uint4 x[4][TOGETHER];
#pragma unroll
        for (int p = 0; p < 4; p++) {
            const uint4* row = reinterpret_cast<const uint4*>(slab + (2 * t + p % 2 + p / 2 * 8) * DIM * 2);
            if (TOGETHER == 1) {
                x[p][0] = row[value_chunk<DIM>(g, i)];
            } else {
                x[p][0] = row[value_chunk<DIM>(g, i ^ int(t & 1))];
                x[p][TOGETHER - 1] = row[value_chunk<DIM>(g, (i + 1) ^ int(t & 1))];
                swap_if(t & 1, x[p][0], x[p][TOGETHER - 1]);
            }
            if (!WHOLE && (seen >> p & 1) == 0)
#pragma unroll
                for (int u = 0; u < TOGETHER; u++) x[p][u] = make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int u = 0; u < TOGETHER; u++)
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const uint32_t order = j % 2 == 0 ? 0x5410 : 0x7632;
                const uint32_t b0 = __byte_perm(word(x[0][u], j / 2), word(x[1][u], j / 2), order);
                const uint32_t b1 = __byte_perm(word(x[2][u], j / 2), word(x[3][u], j / 2), order);
                multiply_add(sums[(i + u) * 8 + j], high, b0, b1);
                multiply_add(sums[(i + u) * 8 + j], low, b0, b1);
            }
    }
}
