// What the device allows at most: reads alone, reads in a chain of kernels, an edge between kernels, a barrier of a grid.
//
// `plugins/cuda/examples/ceilings.rs` times these. Every kernel of a chain reads what the one before it wrote and writes
// one more, so that a chain that ran out of order shows in its last words.
#include "../common/shim.h"

constexpr int THREADS = 256;
constexpr int WAVES = THREADS / WAVE;
constexpr int STAGES_MOST = 8;

// The one parameter; the example lays it out the same way.
struct Bench {
    const uint8_t* data;
    const uint32_t* from;
    uint32_t* to;
    uint64_t bytes;
    // Bytes of a slot of a wave's ring, and slots.
    uint32_t slot, stages;
    // 0: waits for the launch in front first; 1: asks for its first bytes before it waits.
    uint32_t early;
    // Slots of a wave asked into the second-level cache before the wait, beyond the ring.
    uint32_t ahead;
    uint32_t rounds, reserved;
};

__device__ inline uint32_t mixed(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

// Fills with f32 between -1 and 1: constant data would travel faster.
KERNEL(THREADS) fillReal(BY_VALUE Bench bench) {
    float* to = reinterpret_cast<float*>(const_cast<uint8_t*>(bench.data));
    for (uint64_t i = uint64_t(blockIdx.x) * THREADS + threadIdx.x; i < bench.bytes / 4; i += uint64_t(gridDim.x) * THREADS)
        to[i] = float(int(mixed(uint32_t(i)))) * 4.6566129e-10f;
}

__device__ inline uint32_t added(uint4 v) { return v.x + v.y + v.z + v.w; }
// Hands the chain on; `sum` keeps the reads alive.
__device__ inline void hand_on(const Bench& bench, uint32_t seen, uint32_t sum) {
    if (threadIdx.x == 0) bench.to[blockIdx.x] = seen + 1;
    if (sum == 0x9e3779b9u && bench.reserved != 0) bench.to[blockIdx.x] = sum;
}

// Reads through registers: eight 16-byte loads a thread on their way.
KERNEL(THREADS) readLoads(BY_VALUE Bench bench) {
    release_consumers();
    wait_for_producer();
    const uint32_t seen = bench.from[blockIdx.x];
    const uint4* data = reinterpret_cast<const uint4*>(bench.data);
    const uint64_t count = bench.bytes / 16, step = uint64_t(gridDim.x) * THREADS * 8;
    uint32_t sum = 0;
    for (uint64_t i = uint64_t(blockIdx.x) * THREADS * 8 + threadIdx.x; i + 7 * THREADS < count; i += step) {
        uint4 v[8];
#pragma unroll
        for (int j = 0; j < 8; j++) v[j] = read_only(data + i + j * THREADS);
#pragma unroll
        for (int j = 0; j < 8; j++) sum += added(v[j]);
    }
    hand_on(bench, seen, sum);
}

// Reads through bulk copies: a ring of slots a wave.
KERNEL(THREADS) readBulk(BY_VALUE Bench bench) {
    extern __shared__ uint4 dynamic_shared[];
    __shared__ CopyBarrier barriers[WAVES * STAGES_MOST];
    release_consumers();
    const uint32_t wave = threadIdx.x / WAVE, lane = threadIdx.x % WAVE, stages = bench.stages, slot = bench.slot;
    uint8_t* ring = reinterpret_cast<uint8_t*>(dynamic_shared) + wave * stages * slot;
    CopyBarrier* mine = barriers + wave * STAGES_MOST;
    const uint32_t units = uint32_t(bench.bytes / slot), step = gridDim.x * WAVES;
    uint32_t asked = blockIdx.x * WAVES + wave;
    if (lane == 0) {
        for (uint32_t i = 0; i < stages; i++) copy_barrier_init(mine + i);
        copy_barriers_ready();
    }
    wave_sync();
    if (bench.early == 0) wait_for_producer();
    for (uint32_t i = 0; i < stages; i++, asked += step)
        if (lane == 0 && asked < units) bulk_load(ring + i * slot, bench.data + uint64_t(asked) * slot, slot, mine + i);
    for (uint32_t i = 0; i < bench.ahead; i++) {
        const uint64_t unit = uint64_t(asked) + uint64_t(i) * step;
        if (lane == 0 && unit < units)
            asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(bench.data + unit * slot), "r"(slot) : "memory");
    }
    if (bench.early != 0) wait_for_producer();
    const uint32_t seen = bench.from[blockIdx.x];
    uint32_t sum = 0, at = 0, parity = 0;
    for (uint32_t unit = blockIdx.x * WAVES + wave; unit < units; unit += step) {
        copy_barrier_wait(mine + at, parity);
        for (uint32_t i = lane; i < slot / 16; i += WAVE) sum += added(reinterpret_cast<const uint4*>(ring + at * slot)[i]);
        wave_sync();
        if (lane == 0 && asked < units) bulk_load(ring + at * slot, bench.data + uint64_t(asked) * slot, slot, mine + at);
        asked += step;
        if (++at == stages) at = 0, parity ^= 1;
    }
    hand_on(bench, seen, sum);
}

__device__ inline void tiny(const Bench& bench) {
    release_consumers();
    wait_for_producer();
    if (threadIdx.x == 0) bench.to[blockIdx.x] = bench.from[blockIdx.x] + 1;
}
KERNEL(THREADS) tinyStep(BY_VALUE Bench bench) { tiny(bench); }
KERNEL(THREADS) __cluster_dims__(2, 1, 1) tinyCluster2(BY_VALUE Bench bench) { tiny(bench); }
KERNEL(THREADS) __cluster_dims__(4, 1, 1) tinyCluster4(BY_VALUE Bench bench) { tiny(bench); }
KERNEL(THREADS) __cluster_dims__(8, 1, 1) tinyCluster8(BY_VALUE Bench bench) { tiny(bench); }

// `rounds` barriers of the whole grid over one counter at `to`, which is 0 before. All blocks must be resident at once.
KERNEL(THREADS) gridBarrier(BY_VALUE Bench bench) {
    for (uint32_t round = 1; round <= bench.rounds; round++) {
        __syncthreads();
        if (threadIdx.x == 0) {
            uint32_t seen;
            asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(bench.to) : "memory");
            do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(bench.to) : "memory");
            while (seen < round * gridDim.x);
        }
        __syncthreads();
    }
}
