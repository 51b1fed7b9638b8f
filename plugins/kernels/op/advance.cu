// advance: moves the step state one token forward. One block; a thread takes every THREADS-th sequence.
#include "../common/launch.h"

constexpr int THREADS = 128;
constexpr uint32_t RING_TOKENS = 64;

__device__ inline uint64_t section(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

KERNEL(THREADS) advanceState(BY_VALUE Launch launch) {
    release_consumers();
    wait_for_producer();
    const uint64_t rows = launch.scalars[0], seqs = launch.scalars[1], blocks = launch.scalars[2];
    uint8_t* state = output<uint8_t>(launch, 0);
    // The sections in memory order; a row section holds a word a row, a sequence section a word a sequence.
    const uint64_t row_section = section(rows * 4), seq_section = section(seqs * 4);
    uint32_t* tokens = reinterpret_cast<uint32_t*>(state + 256);
    uint32_t* positions = reinterpret_cast<uint32_t*>(state + 256 + row_section);
    uint8_t* seq_start = state + 256 + 3 * row_section;
    uint32_t* kv_len = reinterpret_cast<uint32_t*>(seq_start + section(seqs * 4 + 4));
    // The wanted rows lie between: a word a row.
    uint8_t* tables = reinterpret_cast<uint8_t*>(kv_len) + seq_section + row_section;
    uint32_t* sampling = reinterpret_cast<uint32_t*>(tables + section(seqs * 4 * blocks));
    const uint32_t* sampled = reinterpret_cast<const uint32_t*>(reinterpret_cast<uint8_t*>(sampling) + section(seqs * 32));
    uint32_t* ring = reinterpret_cast<uint32_t*>(const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(sampled)) + seq_section);
    uint32_t* step = reinterpret_cast<uint32_t*>(state);
    const uint32_t slot = *step % RING_TOKENS;
    for (uint32_t seq = threadIdx.x; seq < launch.m; seq += THREADS) {
        const uint32_t token = sampled[seq];
        tokens[seq] = token;
        positions[seq] += 1;
        kv_len[seq] += 1;
        sampling[seq * 8 + 6] += 1;
        ring[seq * RING_TOKENS + slot] = token;
    }
    __syncthreads();
    if (threadIdx.x == 0) *step += 1;
}
