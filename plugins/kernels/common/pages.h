// Feeds the waves of a block of attention with pages: a page's keys of one head lie together, as do its values, and each
// wave has a ring of its own in shared memory, kept full by bulk copies of keys and values in turn.
#pragma once

#include "paged.h"

constexpr int PACKED_THREADS = 256;
constexpr int PACKED_WAVES = PACKED_THREADS / WAVE;

// How heads of DIM elements are held.
template <int DIM> struct Shape {
    static constexpr int STEPS = DIM / 16;
    // Slabs a wave has on their way: 96 KB a block, 128 KB for heads of 256. One block fills a multiprocessor.
    static constexpr int STAGES = DIM == 64 ? 6 : DIM == 128 ? 3 : 2;
    static constexpr uint32_t SLAB = BLOCK_POSITIONS * DIM * 2;
    static constexpr uint32_t RING = PACKED_WAVES * STAGES * SLAB;
    // Queries of long heads stay in shared memory behind the ring: registers have no room.
    static constexpr bool HELD = DIM <= 128;
    // Floats between two pairs' sums.
    static constexpr int STRIDE = DIM + 4;
};
constexpr int STAGES_MOST = 6;

// A wave's way through its pages: the keys of a page, its values, the keys of the next.
template <int DIM> class Pages {
    using S = Shape<DIM>;
    const uint32_t* table;
    uint32_t entries, blocks, page, stride, left;
    const uint8_t *keys, *values;
    size_t block_bytes;
    uint8_t* ring;
    CopyBarrier* barriers;
    // Table entries of 32 pages, one a lane, and of the 32 behind; slabs asked for so far, and the block of the last.
    uint32_t mine, later, asked, block;
    // Whether `block` is the first page's already.
    bool known;
    // What is used next. Bits are a slot's: the parity of its barrier, and whether its page does not exist.
    uint32_t slot, parities, missing;

    __device__ inline uint32_t look_up(uint32_t from) const {
        const uint32_t index = from + threadIdx.x % WAVE, at = page + index * stride;
        return index < left && at < entries ? table[at] : 0xffffffffu;
    }
    __device__ inline void ask(uint32_t into) {
        const uint32_t index = asked / 2, side = asked % 2;
        if (index >= left) return;
        if (side == 0) {
            if (index % WAVE == 0) mine = later, later = look_up(index + WAVE);
            if (index > 0 || !known) block = wave_shuffle(mine, index % WAVE);
        }
        asked++;
        if (block >= blocks) {
            missing |= 1u << into;
            return;
        }
        missing &= ~(1u << into);
        if (threadIdx.x % WAVE == 0) bulk_load(ring + into * S::SLAB, (side == 0 ? keys : values) + block * block_bytes, S::SLAB, barriers + into);
    }

  public:
    // Before the block meets.
    __device__ inline Pages(uint8_t* shared, CopyBarrier* all) : left(0), mine(0), later(0), asked(0), block(0), known(false), slot(0), parities(0), missing(0) {
        const uint32_t wave = threadIdx.x / WAVE;
        ring = shared + wave * S::STAGES * S::SLAB;
        barriers = all + wave * S::STAGES;
        if (threadIdx.x % WAVE == 0) {
            for (int i = 0; i < S::STAGES; i++) copy_barrier_init(barriers + i);
            copy_barriers_ready();
        }
    }
    // Looks the block of a page up that is likely the first, while it is not yet known what is asked for.
    __device__ inline void guess(const Launch& launch, const Heads& heads, uint32_t seq, uint32_t at) {
        if (seq < launch.batch && at < heads.max_blocks) block = input<uint32_t>(launch, 5)[size_t(seq) * heads.max_blocks + at];
    }
    // Asks for `count` pages from `first` on, `step` apart; `guessed` where the guess was the first of these.
    __device__ inline void start(const Launch& launch, const Heads& heads, uint32_t seq, uint32_t head, uint32_t first, uint32_t step,
                                 uint32_t count, bool guessed) {
        table = input<uint32_t>(launch, 5) + size_t(seq) * heads.max_blocks;
        entries = heads.max_blocks;
        block_bytes = size_t(heads.n_head_kv) * S::SLAB;
        blocks = uint32_t(min(min(launch.bytes[1], launch.bytes[2]) / block_bytes, uint64_t(0xffffffffu)));
        keys = launch.arg[1] + head * S::SLAB;
        values = launch.arg[2] + head * S::SLAB;
        page = first, stride = step, left = count;
        known = guessed && first < entries;
        later = look_up(0);
        for (int i = 0; i < S::STAGES; i++) ask(i);
    }
    __device__ inline bool exists() const { return (missing >> slot & 1) == 0; }
    // The next slab, once it is there; of a page that exists.
    __device__ inline const uint8_t* next() const {
        copy_barrier_wait(barriers + slot, parities >> slot & 1);
        return ring + slot * S::SLAB;
    }
    // Gives its place away.
    __device__ inline void done() {
        if (exists()) parities ^= 1u << slot;
        wave_sync();
        ask(slot);
        if (++slot == S::STAGES) slot = 0;
    }
};
