// The frame of the streaming products of several packed rows. As stream.h, but the inputs are split between blocks too
// (launch.split), so that a block's share of the packed rows fits its shared memory; the last block to finish a tile adds up
// the shares, in their order.
//
// Scratch: for each (share, job) the sums of its parts, the rows filled up. Semaphores: one a job, zero before and after.
#pragma once

#include "launch.h"
#include "feed.h"
#include "tile16_rows.h"

constexpr int ROWS_THREADS = 256;
constexpr int ROWS_WAVES = ROWS_THREADS / WAVE;

// Where the waves' sums of a job meet, as in stream.h.
template <int PARTS, int FOURS> struct RowsMeeting {
    static constexpr int SLOTS = 2;
    float sums[SLOTS][PARTS][4 * FOURS][TILE_FEATURES][ROWS_WAVES + 1];
    CopyBarrier full[SLOTS], empty[SLOTS], inputs[ROWS_WAVES];
};

// Units of a share: the blocks of share s take those from s * units / shares on.
struct Share {
    uint32_t first, count;
    __device__ inline Share(uint32_t units, uint32_t shares, uint32_t share) : first(units * share / shares), count(units * (share + 1) / shares - first) {}
};

// Adds up job number `index` of the block, with the other shares where it is the last of them. Run by one wave.
template <int FOURS, class Work, class Meet>
__device__ inline void finish_job(Work& work, const Launch& launch, Meet& meeting, uint32_t job, uint32_t index) {
    constexpr int PARTS = Work::PARTS;
    const uint32_t slot = index % Meet::SLOTS, lane = threadIdx.x % WAVE;
    // A lane takes every other row's sum of one feature.
    const uint32_t feature = lane % TILE_FEATURES, side = lane / TILE_FEATURES;
    copy_barrier_wait(meeting.full + slot, index / Meet::SLOTS & 1);
    float sums[2 * FOURS][PARTS];
#pragma unroll
    for (int r = 0; r < 2 * FOURS; r++)
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            const float* from = meeting.sums[slot][part][2 * r + side][feature];
            float sum = 0.0f;
#pragma unroll
            for (int w = 0; w < ROWS_WAVES; w++) sum += from[w];
            sums[r][part] = sum;
        }
    wave_sync();
    if (lane == 0) copy_barrier_arrive(meeting.empty + slot);
    if (launch.split > 1) {
        constexpr uint32_t SUMS = PARTS * 4 * FOURS * TILE_FEATURES;
        float* scratch = reinterpret_cast<float*>(launch.scratch) + size_t(job) * SUMS + side * TILE_FEATURES + feature;
        const size_t apart = size_t(work.jobs) * SUMS;
#pragma unroll
        for (int r = 0; r < 2 * FOURS; r++)
#pragma unroll
            for (int part = 0; part < PARTS; part++) scratch[blockIdx.y * apart + (part * 2 * FOURS + r) * 2 * TILE_FEATURES] = sums[r][part];
        if (!last_to_arrive(reinterpret_cast<uint32_t*>(launch.semaphores) + job, launch.split)) return;
#pragma unroll
        for (int r = 0; r < 2 * FOURS; r++)
#pragma unroll
            for (int part = 0; part < PARTS; part++) sums[r][part] = 0.0f;
        // Share after share: the loads of one are on their way together, and the order of the sum is always the same.
        for (uint32_t of = 0; of < launch.split; of++)
#pragma unroll
            for (int r = 0; r < 2 * FOURS; r++)
#pragma unroll
                for (int part = 0; part < PARTS; part++) sums[r][part] += uncached(scratch + of * apart + (part * 2 * FOURS + r) * 2 * TILE_FEATURES);
    }
#pragma unroll
    for (int r = 0; r < 2 * FOURS; r++)
        if (2 * r + side < launch.m) work.finish(job, feature, 2 * r + side, sums[r]);
}

// `Work` has PARTS, jobs, rest, First, Rest, piece(job, part, share), finish(job, feature, row, sums) for each feature and row.
template <int FOURS, class Work> __device__ inline void stream_rows(Work& work, const Launch& launch) {
    using First = typename Work::First;
    using Rest = typename Work::Rest;
    using Meet = RowsMeeting<Work::PARTS, FOURS>;
    constexpr uint32_t SLOT = First::BYTES > Rest::BYTES ? First::BYTES : Rest::BYTES;
    // Sixteen rows leave room for fewer units on their way, and no other block has the rest.
    constexpr int STAGES = FOURS == 4 ? 2 : SLOT > 3000 ? 3 : 4;
    extern __shared__ uint4 dynamic_shared[];
    __shared__ CopyBarrier barriers[ROWS_WAVES * STAGES];
    uint8_t* shared = reinterpret_cast<uint8_t*>(dynamic_shared);
    const uint32_t wave = wave_index(), lane = threadIdx.x % WAVE, g = lane / 4, t = lane % 4, rows = rows_padded(launch.m);
    const Share& share = work.share;
    Meet& meeting = *reinterpret_cast<Meet*>(shared + ROWS_WAVES * STAGES * SLOT);
    uint8_t* inputs = shared + ROWS_WAVES * STAGES * SLOT + (sizeof(Meet) + 127) / 128 * 128;

    if (threadIdx.x < Meet::SLOTS) copy_barrier_init(meeting.full + lane, ROWS_WAVES), copy_barrier_init(meeting.empty + lane);
    if (lane == 0) copy_barrier_init(meeting.inputs + wave);
    Feed<Work, ROWS_WAVES, STAGES> feed(work, shared, barriers, SLOT);
    feed.start();
    __syncthreads();
    wait_for_producer();
    // A wave copies the inputs of the units it uses.
    const uint32_t row_bytes = rows * ROW_UNIT;
    const uint8_t* packed = launch.arg[0] + blockIdx.x % REPLICAS * rows_replica(launch.k / UNIT, launch.m) + size_t(share.first) * row_bytes;
    uint32_t own = 0;
    for (uint32_t unit = wave; unit < share.count; unit += ROWS_WAVES) own++;
    if (lane == 0 && own > 0) bulk_load_several(inputs + wave * row_bytes, packed + wave * row_bytes, row_bytes, ROWS_WAVES * row_bytes, own, meeting.inputs + wave);
    release_consumers();
    if (own > 0) copy_barrier_wait(meeting.inputs + wave, 0);

    uint32_t index = 0;
    for (uint32_t job = blockIdx.x; job < work.jobs; job += gridDim.x, index++) {
        const uint32_t slot = index % Meet::SLOTS, round = index / Meet::SLOTS;
#pragma unroll
        for (int part = 0; part < Work::PARTS; part++) {
            float acc[FOURS][2] = {};
            for (uint32_t unit = wave; unit < share.count; unit += ROWS_WAVES) {
                const RowsUnit in(inputs + unit * row_bytes, rows);
                const uint8_t* weights = feed.next();
                if (job < work.rest)
                    unit_rows<FOURS>(First(), weights, in, acc);
                else
                    unit_rows<FOURS>(Rest(), weights, in, acc);
                feed.done();
            }
            if (part == 0 && round > 0) copy_barrier_wait(meeting.empty + slot, (round - 1) & 1);
#pragma unroll
            for (int j = 0; j < FOURS; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) meeting.sums[slot][part][4 * j + t][g + 8 * i][wave] = acc[j][i];
        }
        wave_sync();
        if (lane == 0) copy_barrier_arrive(meeting.full + slot);
        // One job late, so that the others need not wait for this wave's part of the next.
        if (index > 0 && (index - 1) % ROWS_WAVES == wave) finish_job<FOURS>(work, launch, meeting, job - gridDim.x, index - 1);
    }
    if (index > 0 && (index - 1) % ROWS_WAVES == wave) finish_job<FOURS>(work, launch, meeting, blockIdx.x + (index - 1) * gridDim.x, index - 1);
}
