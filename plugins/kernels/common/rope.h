// Rotary angles. In f64: at position 100000 an f32 angle is off by more than f16 rounds.
#pragma once

#include "launch.h"

// The scalar block of rope_append.
struct Rope {
    uint32_t n_head, n_head_kv, head_dim, rope_dim, max_blocks, original_context;
    float base, freq_scale, attn_factor, ext_factor, beta_fast, beta_slow;
};

// Reads the block from scalar word `at` on.
__device__ inline Rope rope_of(const Launch& launch, int at) {
    const uint32_t* words = launch.scalars + at;
    return Rope{words[0], words[1], words[2], words[3], words[4], words[5], scalar(launch, at + 6), scalar(launch, at + 7),
                scalar(launch, at + 8), scalar(launch, at + 9), scalar(launch, at + 10), scalar(launch, at + 11)};
}

// How far YaRN moves frequency i from the interpolated to the extrapolated angle; 0 without YaRN.
__device__ inline double yarn_share(const Rope& rope, int i) {
    if (rope.ext_factor == 0.0f) return 0.0;
    const double dim = rope.rope_dim, per_turn = 2.0 * log(double(rope.base));
    const double tau = 6.283185307179586;
    const double fast = dim * log(double(rope.original_context) / (tau * double(rope.beta_fast))) / per_turn;
    const double slow = dim * log(double(rope.original_context) / (tau * double(rope.beta_slow))) / per_turn;
    const double low = fmax(floor(fast), 0.0), high = fmin(ceil(slow), dim - 1.0);
    const double along = fmin(fmax((double(i) - low) / fmax(high - low, 0.001), 0.0), 1.0);
    return (1.0 - along) * double(rope.ext_factor);
}

// Angle of frequency i at position 1.
__device__ inline double rope_frequency(const Rope& rope, const float* factors, int i) {
    const double factor = factors == nullptr ? 1.0 : double(factors[i]);
    const double extrapolated = pow(double(rope.base), -2.0 * double(i) / double(rope.rope_dim)) / factor;
    const double share = yarn_share(rope, i);
    return extrapolated * (double(rope.freq_scale) * (1.0 - share) + share);
}

// Cosine and sine of a frequency at a position, magnitude included.
__device__ inline float2 rope_turn(const Rope& rope, double frequency, uint32_t position) {
    double sine, cosine;
    sincos(double(position) * frequency, &sine, &cosine);
    return make_float2(float(cosine) * rope.attn_factor, float(sine) * rope.attn_factor);
}
