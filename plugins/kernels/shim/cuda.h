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
// memory, nothing else: launches of a list are chained so that one may start while the one in front still runs. Every
// block calls it, because the launch behind relies on this one ending after the one in front.
__device__ inline void wait_for_producer() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// Lets the launch behind start as soon as every block has said so or ended. It waits itself before it reads.
__device__ inline void release_consumers() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// The launch block is read in place from constant memory instead of being copied to each thread.
#define BY_VALUE const __grid_constant__

__device__ inline float wave_shuffle_xor(float value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
__device__ inline uint32_t wave_shuffle_xor(uint32_t value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
__device__ inline float wave_shuffle(float value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
__device__ inline uint32_t wave_shuffle(uint32_t value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
__device__ inline bool wave_any(bool value) { return __any_sync(0xffffffffu, value) != 0; }
__device__ inline uint32_t wave_shuffle_up(uint32_t value, int by) { return __shfl_up_sync(0xffffffffu, value, by); }

__device__ inline float half_bits_to_float(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
__device__ inline uint16_t float_to_half_bits(float value) { return __half_as_ushort(__float2half_rn(value)); }

// 2^x to 22 bits; what is below the normal numbers is 0.
__device__ inline float power_of_two(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// A read of memory that nothing writes while the kernel runs.
template <class T> __device__ inline T read_only(const T* at) { return __ldg(at); }

// An arrival counter of bulk copies in shared memory.
using CopyBarrier = uint64_t;

__device__ inline uint32_t shared_address(const void* at) { return uint32_t(__cvta_generic_to_shared(at)); }
__device__ inline void copy_barrier_init(CopyBarrier* barrier, uint32_t arrivals = 1) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// Arrives without a copy: what this thread wrote before is seen by whoever waits.
__device__ inline void copy_barrier_arrive(CopyBarrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Makes initialised barriers visible to the copy engine; one thread calls it before the block meets.
__device__ inline void copy_barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Starts a copy of `bytes` (a multiple of 16, as both addresses are) into shared memory; one thread calls it.
__device__ inline void bulk_load(void* to, const void* from, uint32_t bytes, CopyBarrier* barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}
// As `bulk_load`, `count` pieces of `bytes`, each `apart` further on both sides.
__device__ inline void bulk_load_several(uint8_t* to, const uint8_t* from, uint32_t bytes, uint32_t apart, uint32_t count, CopyBarrier* barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes * count) : "memory");
    for (uint32_t i = 0; i < count; i++)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to) + i * apart),
                     "l"(from + size_t(i) * apart), "r"(bytes), "r"(shared_address(barrier))
                     : "memory");
}
// Waits for the phase of that parity to complete.
__device__ inline void copy_barrier_wait(CopyBarrier* barrier, uint32_t parity) {
    uint32_t done = 0;
    while (done == 0) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
    }
}
// (value & mask) | bits, in one instruction.
__device__ inline uint32_t masked_or(uint32_t value, uint32_t mask, uint32_t bits) {
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(value), "r"(mask), "r"(bits));
    return result;
}
// The wave's index in its block, which the compiler then knows to be the same for all its lanes.
__device__ inline uint32_t wave_index() { return __shfl_sync(0xffffffffu, threadIdx.x / WAVE, 0); }
// Asks for the line at an address without waiting for it.
__device__ inline void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }
__device__ inline void wave_sync() { __syncwarp(); }

// Products of signed bytes over a wave, spread over the lanes as the PTX manual says for m16n8k32 and m16n8k16: a is 16
// rows of 32 (or 16) bytes, b as many by 8 columns, d 16 x 8 sums.
__device__ inline void multiply_bytes32(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(0));
}
__device__ inline void multiply_bytes16(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(b0), "r"(0));
}
// Byte `index` of a word, and the same as a signed number.
__device__ inline int byte_of(uint32_t word, int index) { return int(__byte_perm(word, 0, 0x4440 + index)); }
__device__ inline int signed_byte_of(uint32_t word, int index) {
    int value;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(value) : "r"(word), "r"(0x8880 + 0x1111 * index));
    return value;
}
// The largest of a wave's numbers.
__device__ inline uint32_t wave_largest(uint32_t value) { return __reduce_max_sync(0xffffffffu, value); }
// d = a * b + c over a wave: a is 16 x 16 f16 by rows, b 16 x 8 f16 by columns, c and d 16 x 8 f32, spread over the lanes
// as the PTX manual says for m16n8k16.
__device__ inline void multiply_tile(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1,
                                     float c0, float c1, float c2, float c3) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2), "f"(c3));
}
__device__ inline uint32_t pack_halves(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}
// Counts this wave's block in at a counter that is zero at first; true, for the whole wave, for the last of `all`, which
// sees what the others wrote before and leaves the counter zero.
__device__ inline bool last_to_arrive(uint32_t* counter, uint32_t all) {
    __threadfence();
    __syncwarp();
    uint32_t before = 0;
    if (threadIdx.x % WAVE == 0) {
        before = atomicAdd(counter, 1);
        if (before == all - 1) *counter = 0;
    }
    const bool last = __shfl_sync(0xffffffffu, before, 0) == all - 1;
    if (last) __threadfence();
    return last;
}
// Reads what another block wrote.
__device__ inline float uncached(const float* at) { return __ldcg(at); }
