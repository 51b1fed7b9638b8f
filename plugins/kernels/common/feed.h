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
    uint32_t slot_bytes;
    // What is asked for next: a job, a part of it, and what is left of that part's units.
    uint32_t job, part, left, bytes;
    const uint8_t* at;
    // What is used next: slot and parity of its barrier.
    uint32_t slot, parity;

    __device__ inline void open() {
        left = 0;
        while (job < work.jobs) {
            const Piece piece = work.piece(job, part);
            if (wave_index() < piece.units) {
                at = piece.at + size_t(wave_index()) * piece.bytes;
                bytes = piece.bytes;
                left = (piece.units - wave_index() + WAVES - 1) / WAVES;
                return;
            }
            step();
        }
    }
    __device__ inline void step() {
        if (++part == Work::PARTS) part = 0, job += gridDim.x;
    }
    __device__ inline void ask(uint32_t into) {
        if (left == 0) return;
        if (threadIdx.x % WAVE == 0) bulk_load(ring + into * slot_bytes, at, bytes, barriers + into);
        at += WAVES * bytes;
        if (--left == 0) {
            step();
            open();
        }
    }

  public:
    // `shared` has a wave's STAGES slots for each wave, `all` as many counters.
    __device__ inline Feed(const Work& work, uint8_t* shared, CopyBarrier* all, uint32_t slot_bytes)
        : work(work), slot_bytes(slot_bytes), job(blockIdx.x), part(0), slot(0), parity(0) {
        ring = shared + wave_index() * STAGES * slot_bytes;
        barriers = all + wave_index() * STAGES;
        if (threadIdx.x % WAVE == 0) {
            for (int i = 0; i < STAGES; i++) copy_barrier_init(barriers + i);
            copy_barriers_ready();
        }
        wave_sync();
        open();
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
