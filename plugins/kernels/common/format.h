// The GGML block formats as kernels read them: straight from the file's bytes.
//
// Each format offers two views of a weight row. `eight(row, k, w)` decodes the 8 consecutive values from k, a multiple
// of 8. `unit(row, u, w, a, b)` decodes the 8 values that share the bytes a lane loads at once: w[0..4] are values a..a+4,
// w[4..8] values b..b+4, and the K/8 units of a row cover it exactly. Alignment is what the block size guarantees when
// the tensor starts on 16 bytes.
#pragma once

#include "shim.h"

__device__ inline uint32_t word_at_2(const uint8_t* at) {
    const uint16_t* halves = reinterpret_cast<const uint16_t*>(at);
    return uint32_t(read_only(halves)) | uint32_t(read_only(halves + 1)) << 16;
}
__device__ inline uint32_t word_at_4(const uint8_t* at) { return read_only(reinterpret_cast<const uint32_t*>(at)); }
__device__ inline float half_at(const uint8_t* at) { return half_bits_to_float(read_only(reinterpret_cast<const uint16_t*>(at))); }

struct FormatF32 {
    static constexpr bool PLAIN = true;
    static __device__ inline size_t row_bytes(uint32_t k) { return size_t(k) * 4; }
    static __device__ inline float one(const uint8_t* row, uint32_t k) { return read_only(reinterpret_cast<const float*>(row) + k); }
    static __device__ inline void eight(const uint8_t* row, uint32_t k, float* w) {
        const float4* at = reinterpret_cast<const float4*>(row + size_t(k) * 4);
        const float4 a = read_only(at), b = read_only(at + 1);
        w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w, w[4] = b.x, w[5] = b.y, w[6] = b.z, w[7] = b.w;
    }
};

struct FormatF16 {
    static constexpr bool PLAIN = true;
    static __device__ inline size_t row_bytes(uint32_t k) { return size_t(k) * 2; }
    static __device__ inline float one(const uint8_t* row, uint32_t k) { return half_at(row + size_t(k) * 2); }
    static __device__ inline void eight(const uint8_t* row, uint32_t k, float* w) {
        const uint4 bits = read_only(reinterpret_cast<const uint4*>(row + size_t(k) * 2));
        const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            w[2 * i] = half_bits_to_float(uint16_t(words[i]));
            w[2 * i + 1] = half_bits_to_float(uint16_t(words[i] >> 16));
        }
    }
};

struct FormatBF16 {
    static constexpr bool PLAIN = true;
    static __device__ inline size_t row_bytes(uint32_t k) { return size_t(k) * 2; }
    static __device__ inline float one(const uint8_t* row, uint32_t k) {
        return __uint_as_float(uint32_t(read_only(reinterpret_cast<const uint16_t*>(row) + k)) << 16);
    }
    static __device__ inline void eight(const uint8_t* row, uint32_t k, float* w) {
        const uint4 bits = read_only(reinterpret_cast<const uint4*>(row + size_t(k) * 2));
        const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            w[2 * i] = __uint_as_float(words[i] << 16);
            w[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
        }
    }
};

// The plain formats' unit is eight consecutive values.
template <class F> __device__ inline void plain_unit(const uint8_t* row, uint32_t u, float* w, uint32_t& a, uint32_t& b) {
    a = u * 8;
    b = a + 4;
    F::eight(row, a, w);
}

// 34 bytes for 32 values: d, then signed bytes.
struct FormatQ8_0 {
    static constexpr bool PLAIN = false;
    static __device__ inline size_t row_bytes(uint32_t k) { return size_t(k / 32) * 34; }
    static __device__ inline void eight(const uint8_t* row, uint32_t k, float* w) {
        const uint8_t* block = row + size_t(k / 32) * 34;
        const float d = half_at(block);
        const uint32_t words[2] = {word_at_2(block + 2 + k % 32), word_at_2(block + 6 + k % 32)};
#pragma unroll
        for (int i = 0; i < 8; i++) w[i] = d * float(int8_t(words[i / 4] >> (8 * (i % 4))));
    }
    static __device__ inline void unit(const uint8_t* row, uint32_t u, float* w, uint32_t& a, uint32_t& b) {
        a = u * 8;
        b = a + 4;
        eight(row, a, w);
    }
};

// 20 bytes for 32 values: d, m, then 16 bytes; byte j holds value j low and value j + 16 high.
struct FormatQ4_1 {
    static constexpr bool PLAIN = false;
    static __device__ inline size_t row_bytes(uint32_t k) { return size_t(k / 32) * 20; }
    static __device__ inline void scales(const uint8_t* block, float& d, float& m) {
        const uint32_t pair = word_at_4(block);
        d = half_bits_to_float(uint16_t(pair));
        m = half_bits_to_float(uint16_t(pair >> 16));
    }
    static __device__ inline void eight(const uint8_t* row, uint32_t k, float* w) {
        const uint8_t* block = row + size_t(k / 32) * 20;
        float d, m;
        scales(block, d, m);
        const uint32_t shift = k % 32 < 16 ? 0 : 4;
        const uint32_t words[2] = {word_at_4(block + 4 + k % 16) >> shift, word_at_4(block + 8 + k % 16) >> shift};
#pragma unroll
        for (int i = 0; i < 8; i++) w[i] = float(words[i / 4] >> (8 * (i % 4)) & 15u) * d + m;
    }
    static __device__ inline void unit(const uint8_t* row, uint32_t u, float* w, uint32_t& a, uint32_t& b) {
        const uint8_t* block = row + size_t(u / 4) * 20;
        a = u / 4 * 32 + u % 4 * 4;
        b = a + 16;
        float d, m;
        scales(block, d, m);
        const uint32_t word = word_at_4(block + 4 + u % 4 * 4);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            w[i] = float(word >> (8 * i) & 15u) * d + m;
            w[4 + i] = float(word >> (8 * i + 4) & 15u) * d + m;
        }
    }
};

// 144 bytes for 256 values: d, dmin, 12 bytes of eight 6-bit scales and minima, then four runs of 32 bytes whose low
// halves are one sub-block of 32 and whose high halves the next.
struct FormatQ4_K {
    static constexpr bool PLAIN = false;
    static __device__ inline size_t row_bytes(uint32_t k) { return size_t(k / 256) * 144; }
    // Scale and minimum of sub-block s from the three packed words.
    static __device__ inline void pair(uint32_t s0, uint32_t s1, uint32_t s2, int s, uint32_t& scale, uint32_t& least) {
        const int at = s % 4 * 8;
        const uint32_t low0 = s0 >> at & 255u, low1 = s1 >> at & 255u, high = s2 >> at & 255u;
        scale = s < 4 ? low0 & 63u : (high & 15u) | low0 >> 6 << 4;
        least = s < 4 ? low1 & 63u : high >> 4 | low1 >> 6 << 4;
    }
    static __device__ inline void eight(const uint8_t* row, uint32_t k, float* w) {
        const uint8_t* block = row + size_t(k / 256) * 144;
        const uint4 head = read_only(reinterpret_cast<const uint4*>(block));
        const int s = k % 256 / 32;
        uint32_t scale, least;
        pair(head.y, head.z, head.w, s, scale, least);
        const float d = half_bits_to_float(uint16_t(head.x)) * float(scale);
        const float m = half_bits_to_float(uint16_t(head.x >> 16)) * float(least);
        const uint2 bytes = read_only(reinterpret_cast<const uint2*>(block + 16 + s / 2 * 32 + k % 32));
        const uint32_t words[2] = {bytes.x >> (s % 2 * 4), bytes.y >> (s % 2 * 4)};
#pragma unroll
        for (int i = 0; i < 8; i++) w[i] = d * float(words[i / 4] >> (8 * (i % 4)) & 15u) - m;
    }
    static __device__ inline void unit(const uint8_t* row, uint32_t u, float* w, uint32_t& a, uint32_t& b) {
        const uint8_t* block = row + size_t(u / 32) * 144;
        const int run = u % 32 / 8;
        a = u / 32 * 256 + run * 64 + u % 8 * 4;
        b = a + 32;
        const uint4 head = read_only(reinterpret_cast<const uint4*>(block));
        const uint32_t word = word_at_4(block + 16 + u % 32 * 4);
        const float d = half_bits_to_float(uint16_t(head.x)), dmin = half_bits_to_float(uint16_t(head.x >> 16));
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t scale, least;
            pair(head.y, head.z, head.w, 2 * run + half, scale, least);
            const float step = d * float(scale), m = dmin * float(least);
#pragma unroll
            for (int i = 0; i < 4; i++) w[4 * half + i] = step * float(word >> (8 * i + 4 * half) & 15u) - m;
        }
    }
};

// 210 bytes for 256 values: 128 bytes of low bits, 64 of high bits, 16 signed scales, d. Half h of 128 values takes 64
// low and 32 high bytes: value l + 32 r has its low bits in byte l + 32 (r % 2), half r / 2, its high bits at bit 2 r of
// high byte l.
struct FormatQ6_K {
    static constexpr bool PLAIN = false;
    static __device__ inline size_t row_bytes(uint32_t k) { return size_t(k / 256) * 210; }
    static __device__ inline float scale(const uint8_t* block, int index) {
        return half_at(block + 208) * float(int8_t(read_only(block + 192 + index)));
    }
    static __device__ inline void eight(const uint8_t* row, uint32_t k, float* w) {
        const uint8_t* block = row + size_t(k / 256) * 210;
        const int half = k % 256 / 128, run = k % 128 / 32, l = k % 32;
        const float d = scale(block, 8 * half + 2 * run + l / 16);
        const uint8_t* low = block + 64 * half + 32 * (run % 2) + l;
        const uint8_t* high = block + 128 + 32 * half + l;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t nibbles = word_at_2(low + 4 * i) >> (run / 2 * 4), bits = word_at_2(high + 4 * i) >> (2 * run);
#pragma unroll
            for (int j = 0; j < 4; j++)
                w[4 * i + j] = d * float(int(nibbles >> (8 * j) & 15u | (bits >> (8 * j) & 3u) << 4) - 32);
        }
    }
    static __device__ inline void unit(const uint8_t* row, uint32_t u, float* w, uint32_t& a, uint32_t& b) {
        const uint8_t* block = row + size_t(u / 32) * 210;
        const int half = u % 32 / 16, side = u % 16 / 8, l = u % 8 * 4;
        a = u / 32 * 256 + half * 128 + side * 32 + l;
        b = a + 64;
        const uint32_t low = word_at_2(block + 64 * half + 32 * side + l), high = word_at_2(block + 128 + 32 * half + l);
        const float d = half_at(block + 208);
#pragma unroll
        for (int part = 0; part < 2; part++) {
            const int run = side + 2 * part;
            const float step = d * float(int8_t(read_only(block + 192 + 8 * half + 2 * run + l / 16)));
#pragma unroll
            for (int i = 0; i < 4; i++)
                w[4 * part + i] = step * float(int(low >> (8 * i + 4 * part) & 15u | (high >> (8 * i + 2 * run) & 3u) << 4) - 32);
        }
    }
};
