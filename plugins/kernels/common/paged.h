// Attention's scalars, and what a query row may see of its sequence's positions.
#pragma once

#include "launch.h"

constexpr uint32_t BLOCK_POSITIONS = 16;

struct Heads {
    uint32_t n_head, n_head_kv, dim, max_blocks;
    float scale, softcap;
    uint32_t window, causal;
};

__device__ inline Heads heads_of(const Launch& launch) {
    return Heads{launch.scalars[0], launch.scalars[1], launch.scalars[2], launch.scalars[3],
                 scalar(launch, 4), scalar(launch, 5), launch.scalars[6], launch.scalars[7]};
}

// The rows of one sequence that a block serves, and what they may see.
struct Part {
    uint32_t seq, first, count;
    // Position of row `first`, and positions cached.
    uint32_t position, kv_len;
};

// `count` rows from `row` on, of a sequence of rows `first` to `past`.
__device__ inline Part part_of(uint32_t seq, uint32_t first, uint32_t past, uint32_t row, uint32_t count, uint32_t kv_len) {
    const uint32_t queries = past - first;
    // More rows than cached positions contradict each other: such rows see nothing.
    if (kv_len < queries) return Part{seq, row, count, 0, 0};
    return Part{seq, row, count, kv_len - queries + (row - first), kv_len};
}

__device__ inline uint32_t seen_from(const Heads& heads, uint32_t position) {
    return heads.window == 0 || position + 1 < heads.window ? 0 : position + 1 - heads.window;
}
__device__ inline uint32_t seen_to(const Heads& heads, uint32_t position, uint32_t kv_len) {
    return heads.causal ? position + 1 : kv_len;
}
