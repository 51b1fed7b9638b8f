// Feeds the waves of a block with units of weights: each wave has a ring of its own in shared memory, kept full by bulk
// copies, so that weights of the next tile arrive while this one is reduced, and those of this launch while the launch
// in front still runs.
//
// A block takes every gridDim.x-th job. A job is one or more pieces of weights (`Work::PARTS`), a piece is some units one
// after another, and wave w takes units w, w + WAVES, ... of each.
#pragma once

#include "shim.h"

// Units of one tile of features.
struct Piece {
    const uint8_t* at;
    uint32_t units, bytes;
};

template <class Work, int WAVES, int STAGES> class Feed {
    const Work& work;
    uint8_t* ring;
    CopyBarrier* barriers;
    uint32_t slot_bytes, wave;
    // What is asked for next.
    uint32_t job, part, unit;
    // What is used next: slot and parity of its barrier.
    uint32_t slot, parity;

    __device__ inline void ask(uint32_t into) {
        while (job < work.jobs) {
            const Piece piece = work.piece(job, part);
            if (unit < piece.units) {
                if (threadIdx.x % WAVE == 0) bulk_load(ring + into * slot_bytes, piece.at + size_t(unit) * piece.bytes, piece.bytes, barriers + into);
                unit += WAVES;
                return;
            }
            unit = wave;
            if (++part == Work::PARTS) part = 0, job += gridDim.x;
        }
    }

  public:
    // `shared` has WAVES * STAGES slots, `barriers` as many counters. The block meets between this and `start`.
    __device__ inline Feed(const Work& work, uint8_t* shared, CopyBarrier* all, uint32_t slot_bytes)
        : work(work), slot_bytes(slot_bytes), wave(threadIdx.x / WAVE), job(blockIdx.x), part(0), slot(0), parity(0) {
        ring = shared + wave * STAGES * slot_bytes;
        barriers = all + wave * STAGES;
        unit = wave;
        if (threadIdx.x % WAVE == 0) {
            for (int i = 0; i < STAGES; i++) copy_barrier_init(barriers + i);
            copy_barriers_ready();
        }
        wave_sync();
    }
    // Fills the ring.
    __device__ inline void start() {
        for (int i = 0; i < STAGES; i++) ask(i);
    }
    // The next unit, once it is there.
    __device__ inline const uint8_t* next() {
        copy_barrier_wait(barriers + slot, parity);
        return ring + slot * slot_bytes;
    }
    // Gives the unit's place away.
    __device__ inline void done() {
        wave_sync();
        ask(slot);
        if (++slot == STAGES) slot = 0, parity ^= 1;
    }
};
