// The frame of the streaming products: one activation row, weights in tiles of 16 features fed to every multiprocessor
// at its full bandwidth, one block a multiprocessor.
//
// The block asks for its first weights, waits for the launch in front, stages the activations, then takes its jobs: each
// wave adds up its units of a tile, the waves' sums meet in shared memory, and `finish` gets each feature's sum. A wave
// stages the units it uses itself, and the factor of the norm joins at the end, so waves meet only where they add up.
#pragma once

#include "launch.h"
#include "column.h"
#include "feed.h"

constexpr int STREAM_THREADS = 256;
constexpr int STREAM_WAVES = STREAM_THREADS / WAVE;
#define STREAM_KERNEL KERNEL_RESIDENT(STREAM_THREADS, 2)

// Where the sums of the waves meet. Waves run ahead of each other by up to SLOTS jobs; job i of a block is summed by its
// wave i % STREAM_WAVES.
template <int PARTS> struct Meeting {
    static constexpr int SLOTS = 4;
    // A feature's sums of all waves, four words apart from a multiple of eight.
    float sums[SLOTS][PARTS][TILE_FEATURES][STREAM_WAVES + 4];
    // The waves' sums of squares.
    float squares[STREAM_WAVES];
    CopyBarrier full[SLOTS], empty[SLOTS];
};

// What a launch multiplies: its activations and their norm.
struct StreamInput {
    const float* x;
    const float* norm;
    uint32_t width;
    float eps, offset;
};

// `Work` has PARTS, jobs, piece(job, part) as Feed wants them; First and Rest, the formats of jobs before and from
// `rest`; before() and prepare(), run before and after the launch in front is done; finish(job, sums), run by a wave whose
// lane has the sum of feature lane / 2 of each part.
template <bool NORM, class Work> __device__ inline void stream(Work& work, const StreamInput& in) {
    using First = typename Work::First;
    using Rest = typename Work::Rest;
    using Meet = Meeting<Work::PARTS>;
    constexpr uint32_t SLOT = First::BYTES > Rest::BYTES ? First::BYTES : Rest::BYTES;
    // Units a wave has on their way: as many as leave room for those of the next launch.
    constexpr int STAGES = SLOT > 3000 ? 3 : 4;
    extern __shared__ uint4 dynamic_shared[];
    __shared__ Meet meeting;
    __shared__ CopyBarrier barriers[STREAM_WAVES * STAGES];
    uint8_t* shared = reinterpret_cast<uint8_t*>(dynamic_shared);
    const uint32_t units = in.width / UNIT, wave = wave_index(), lane = threadIdx.x % WAVE, g = lane / 4;
    const Column column(shared + STREAM_WAVES * STAGES * SLOT, units);

    if (threadIdx.x < Meet::SLOTS) copy_barrier_init(meeting.full + lane, STREAM_WAVES), copy_barrier_init(meeting.empty + lane);
    Feed<Work, STREAM_WAVES, STAGES> feed(work, shared, barriers, SLOT);
    feed.start();
    if (NORM)
        for (uint32_t line = threadIdx.x; line < in.width / 32; line += STREAM_THREADS) prefetch(in.norm + line * 32);
    work.before();
    // The one time the block meets: the counters above are there for all.
    __syncthreads();
    wait_for_producer();
    float squares = stage_units<STREAM_WAVES, NORM>(in.x, in.norm, in.offset, units, wave, column);
    // Not before: what the launch behind asks for would be in the way of the activations.
    release_consumers();
    work.prepare();
    if (NORM) {
        squares = wave_sum(squares);
        if (lane == 0) meeting.squares[wave] = squares;
    }

    uint32_t index = 0;
    for (uint32_t job = blockIdx.x; job < work.jobs; job += gridDim.x, index++) {
        const uint32_t slot = index % Meet::SLOTS, round = index / Meet::SLOTS;
#pragma unroll
        for (int part = 0; part < Work::PARTS; part++) {
            TileSums acc;
            acc.clear();
            for (uint32_t unit = wave; unit < units; unit += STREAM_WAVES) {
                const uint8_t* weights = feed.next();
                if (job < work.rest)
                    First::column(weights, column.unit(unit), acc);
                else
                    Rest::column(weights, column.unit(unit), acc);
                feed.done();
            }
            float sums[2];
            acc.total(sums);
            if (part == 0 && round > 0) copy_barrier_wait(meeting.empty + slot, (round - 1) & 1);
            if (lane % 4 == 0) meeting.sums[slot][part][g][wave] = sums[0], meeting.sums[slot][part][g + 8][wave] = sums[1];
        }
        wave_sync();
        if (lane == 0) copy_barrier_arrive(meeting.full + slot);
        if (index % STREAM_WAVES != wave) continue;
        copy_barrier_wait(meeting.full + slot, round & 1);
        float norm = 1.0f;
        if (NORM) {
            float total = 0.0f;
#pragma unroll
            for (int i = 0; i < STREAM_WAVES; i++) total += meeting.squares[i];
            norm = rsqrtf(total / float(in.width) + in.eps);
        }
        float sums[Work::PARTS];
#pragma unroll
        for (int part = 0; part < Work::PARTS; part++) {
            const float4 a = *reinterpret_cast<const float4*>(&meeting.sums[slot][part][lane / 2][lane % 2 * (STREAM_WAVES / 2)]);
            const float sum = (a.x + a.y) + (a.z + a.w);
            sums[part] = (sum + wave_shuffle_xor(sum, 1)) * norm;
        }
        wave_sync();
        if (lane == 0) copy_barrier_arrive(meeting.empty + slot);
        work.finish(job, sums);
    }
}
