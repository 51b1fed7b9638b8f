// The vendor shim for CUDA: everything a kernel here says that another vendor spells differently.
//
// A kernel includes "shim.h" and uses these names only, so that one source serves every vendor. The wave width is
// a constant of the build, never a literal in a kernel.
#pragma once

#include <cuda_fp16.h>
#include <stdint.h>

constexpr int WAVE = 32;

// Declares an entry point. Every kernel says how many threads its block has at most; the build refuses one that does
// not, because its register budget would be a guess.
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
// As KERNEL, for at least `blocks` blocks on a multiprocessor: caps the registers where the compiler's own guess spills.
#define KERNEL_RESIDENT(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)

// Waits until everything the launch in front wrote is there. Before it a kernel may touch weights and its own shared
// memory, nothing else: launches of a list are chained so that one may start while the one in front still runs.
__device__ inline void wait_for_producer() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// Lets the launch behind start as soon as every block has said so or ended. It waits itself before it reads.
__device__ inline void release_consumers() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// The launch block is read in place from constant memory instead of being copied to each thread.
#define BY_VALUE const __grid_constant__

__device__ inline float wave_shuffle_xor(float value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
__device__ inline uint32_t wave_shuffle_xor(uint32_t value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
__device__ inline float wave_shuffle(float value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
__device__ inline uint32_t wave_shuffle_up(uint32_t value, int by) { return __shfl_up_sync(0xffffffffu, value, by); }

__device__ inline float half_bits_to_float(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
__device__ inline uint16_t float_to_half_bits(float value) { return __half_as_ushort(__float2half_rn(value)); }

// A read of memory that nothing writes while the kernel runs.
template <class T> __device__ inline T read_only(const T* at) { return __ldg(at); }
