// The one parameter of every kernel: a launch as the plugin bound it.
//
// The plugin fills this block the same way for all rows, so a new kernel needs no marshalling of its own. Arguments
// are in the order of the row; one that is absent is null. Sizes were checked against the problem when the list was
// prepared; what only the data can say (block tables, token ids, lengths) each kernel checks as it reads it.
#pragma once

#include "shim.h"

constexpr int LAUNCH_ARGS = 12;
constexpr int LAUNCH_SCALARS = 32;

struct Launch {
    uint8_t* arg[LAUNCH_ARGS];
    uint64_t bytes[LAUNCH_ARGS];
    uint8_t* scratch;
    uint8_t* semaphores;
    uint32_t m, n, k, batch, aux;
    // Parts the reduction is split in.
    uint32_t split;
    uint32_t scalars[LAUNCH_SCALARS];
};
static_assert(sizeof(Launch) == 8 * (2 * LAUNCH_ARGS + 2) + 4 * (6 + LAUNCH_SCALARS), "the plugin lays it out the same way");

template <class T> __device__ inline const T* input(const Launch& launch, int index) {
    return reinterpret_cast<const T*>(launch.arg[index]);
}
template <class T> __device__ inline T* output(const Launch& launch, int index) {
    return reinterpret_cast<T*>(launch.arg[index]);
}

// Scalar word `index` of the launch, as f32.
__device__ inline float scalar(const Launch& launch, int index) { return __uint_as_float(launch.scalars[index]); }

// cap * tanh(x / cap); x itself without a cap.
__device__ inline float softcapped(float x, float cap) { return cap == 0.0f ? x : cap * tanhf(x / cap); }

__device__ inline float not_a_number() { return __uint_as_float(0x7fc00000u); }
