// The frame of the streaming products: one activation row, weights in tiles of 16 features fed to every multiprocessor
// at its full bandwidth, one block a multiprocessor.
//
// The block asks for its first weights, waits for the launch in front, stages the activations, then takes its jobs: each
// wave adds up its units of a tile, the waves' sums meet in shared memory, and `finish` gets each feature's sum.
#pragma once

#include "column.h"
#include "feed.h"
#include "tile16.h"

constexpr int STREAM_THREADS = 512;
constexpr int STREAM_WAVES = STREAM_THREADS / WAVE;
constexpr int STREAM_STAGES = 2;

// Waves' sums of a job: two jobs' worth, so that one is read while the next is written.
template <int PARTS> struct Meeting {
    float sums[2][PARTS][TILE_FEATURES][STREAM_WAVES + 1];
};

// What a launch multiplies: where its activations and norm are, and which formats it reads.
struct StreamInput {
    const float* x;
    const float* norm;
    uint32_t width;
    float eps, offset;
};

template <class F> __device__ inline const float* sums_of(const Column& column, uint32_t unit) {
    return (F::GROUP == 32 ? column.by32 : column.by16) + unit * (F::DEPTH / F::GROUP);
}

// `Work` has PARTS, jobs, piece(job, part) as Feed wants them; First and Rest, the formats of jobs before and from
// `rest`; prepare(), run once the launch in front is done; finish(job, feature, sums, inverse), run by a half wave a
// feature with the sum of each part.
template <bool NORM, class Work> __device__ inline void stream(Work& work, const StreamInput& in) {
    using First = typename Work::First;
    using Rest = typename Work::Rest;
    constexpr uint32_t SLOT = First::BYTES > Rest::BYTES ? First::BYTES : Rest::BYTES;
    constexpr bool BY32 = First::GROUP == 32 || Rest::GROUP == 32, BY16 = First::GROUP == 16 || Rest::GROUP == 16;
    extern __shared__ uint4 dynamic_shared[];
    __shared__ Meeting<Work::PARTS> meeting;
    __shared__ CopyBarrier barriers[STREAM_WAVES * STREAM_STAGES];
    uint8_t* shared = reinterpret_cast<uint8_t*>(dynamic_shared);
    Column column;
    column.x = reinterpret_cast<uint16_t*>(shared + STREAM_WAVES * STREAM_STAGES * SLOT);
    column.by32 = reinterpret_cast<float*>(column.x + in.width);
    column.by16 = column.by32 + (BY32 ? in.width / 32 : 0);

    Feed<Work, STREAM_WAVES, STREAM_STAGES> feed(work, shared, barriers, SLOT);
    feed.start();
    release_consumers();
    work.before();
    wait_for_producer();
    const float inverse = stage_column<STREAM_THREADS, NORM, BY32, BY16>(in.x, in.norm, in.width, in.eps, in.offset, column);
    work.prepare();

    const uint32_t wave = threadIdx.x / WAVE, lane = threadIdx.x % WAVE, g = lane / 4;
    const uint32_t feature = threadIdx.x / STREAM_WAVES, from = threadIdx.x % STREAM_WAVES;
    int side = 0;
    for (uint32_t job = blockIdx.x; job < work.jobs; job += gridDim.x, side ^= 1) {
#pragma unroll
        for (int part = 0; part < Work::PARTS; part++) {
            TileSums acc;
            acc.clear();
            const uint32_t units = work.piece(job, part).units;
            for (uint32_t unit = wave; unit < units; unit += STREAM_WAVES) {
                const uint8_t* weights = feed.next();
                if (job < work.rest)
                    First::column(weights, column.x + unit * First::DEPTH, sums_of<First>(column, unit), acc);
                else
                    Rest::column(weights, column.x + unit * Rest::DEPTH, sums_of<Rest>(column, unit), acc);
                feed.done();
            }
            float sums[2];
            acc.total(sums);
            if (lane % 4 == 0) meeting.sums[side][part][g][wave] = sums[0], meeting.sums[side][part][g + 8][wave] = sums[1];
        }
        __syncthreads();
        if (threadIdx.x >= TILE_FEATURES * STREAM_WAVES) continue;
        float sums[Work::PARTS];
#pragma unroll
        for (int part = 0; part < Work::PARTS; part++) {
            float sum = meeting.sums[side][part][feature][from];
#pragma unroll
            for (int mask = STREAM_WAVES / 2; mask > 0; mask /= 2) sum += wave_shuffle_xor(sum, mask);
            sums[part] = sum * inverse;
        }
        work.finish(job, feature, from == 0, sums);
    }
}
