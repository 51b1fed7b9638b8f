// relayout: GGML blocks to tiles of 16 features for the matrix units. One wave a unit; features past the last are zero.
#include "../common/launch.h"
#include "../common/tile16.h"

constexpr int THREADS = 128;

struct SourceQ4_K {
    using Tile = TileQ4_K;
    static __device__ inline size_t row_bytes(uint32_t k) { return FormatQ4_K::row_bytes(k); }
    static constexpr uint32_t BLOCK = 144;
    static __device__ inline uint32_t low(const uint8_t* block, uint32_t k) { return block[16 + k / 64 * 32 + k % 32] >> (k % 64 / 32 * 4) & 15u; }

    static __device__ inline void rest(const uint8_t* block, uint8_t* unit, uint32_t feature) {
        const uint32_t* head = reinterpret_cast<const uint32_t*>(block);
        for (int s = 0; s < 8; s++) {
            uint32_t scale = 0, least = 0;
            if (block != nullptr) FormatQ4_K::pair(head[1], head[2], head[3], s, scale, least);
            unit[Tile::SCALES + feature * 16 + s] = uint8_t(scale);
            unit[Tile::SCALES + feature * 16 + 8 + s] = uint8_t(least);
        }
        reinterpret_cast<uint32_t*>(unit + Tile::STEPS)[feature] = block == nullptr ? 0 : head[0];
    }
    static __device__ inline void high(const uint8_t*, const uint8_t*, uint8_t*, uint32_t) {}
};

struct SourceQ6_K {
    using Tile = TileQ6_K;
    static __device__ inline size_t row_bytes(uint32_t k) { return FormatQ6_K::row_bytes(k); }
    static constexpr uint32_t BLOCK = 210;
    static __device__ inline uint32_t low(const uint8_t* block, uint32_t k) {
        return block[k / 128 * 64 + k / 32 % 2 * 32 + k % 32] >> (k / 64 % 2 * 4) & 15u;
    }
    static __device__ inline uint32_t top(const uint8_t* block, uint32_t k) { return block[128 + k / 128 * 32 + k % 32] >> (k / 32 % 4 * 2) & 3u; }

    static __device__ inline void rest(const uint8_t* block, uint8_t* unit, uint32_t feature) {
        for (int s = 0; s < 16; s++) unit[Tile::SCALES + feature * 16 + s] = block == nullptr ? 0 : block[192 + s];
        reinterpret_cast<uint16_t*>(unit + Tile::STEPS)[feature] = block == nullptr ? 0 : *reinterpret_cast<const uint16_t*>(block + 208);
    }
    // High bits of features g (`first`) and g + 8.
    static __device__ inline void high(const uint8_t* first, const uint8_t* second, uint8_t* unit, uint32_t lane) {
        for (int run = 0; run < 4; run++)
            for (int side = 0; side < 2; side++) {
                const uint8_t* block = side ? second : first;
                uint32_t word = 0;
                for (int value = 0; value < 16 && block != nullptr; value++)
                    word |= top(block, run * 64 + value / 4 * 16 + lane % 4 * 4 + value % 4) << (value % 4 * 8 + value / 4 * 2);
                reinterpret_cast<uint32_t*>(unit + Tile::HIGH + run / 2 * 512 + lane * 16)[run % 2 * 2 + side] = word;
            }
    }
};

template <class Source> __device__ inline void relayout(const Launch& launch) {
    using Tile = typename Source::Tile;
    wait_for_producer();
    release_consumers();
    const uint32_t units = launch.k / UNIT, lane = threadIdx.x % WAVE;
    const size_t index = size_t(blockIdx.x) * (THREADS / WAVE) + threadIdx.x / WAVE;
    const uint32_t tile = uint32_t(index / units), at = uint32_t(index % units);
    if (tile >= (launch.n + TILE_FEATURES - 1) / TILE_FEATURES) return;
    auto block_of = [&](uint32_t feature) -> const uint8_t* {
        const uint32_t row = tile * TILE_FEATURES + feature;
        return row < launch.n ? input<uint8_t>(launch, 0) + row * Source::row_bytes(launch.k) + size_t(at) * Source::BLOCK : nullptr;
    };
    uint8_t* unit = launch.arg[1] + index * Tile::BYTES;
    const uint8_t* sides[2] = {block_of(lane / 4), block_of(lane / 4 + 8)};
    for (uint32_t run = 0; run < 4; run++) {
        uint32_t words[4];
        for (int word = 0; word < 4; word++) {
            const uint8_t* block = sides[word % 2];
            words[word] = 0;
            for (int value = 0; value < 8 && block != nullptr; value++) {
                // Four inputs in the low halves of the bytes, then four in the high ones.
                const uint32_t k = run * 64 + word / 2 * 32 + value / 4 * 16 + lane % 4 * 4 + value % 4;
                words[word] |= Source::low(block, k) << (value % 4 * 8 + value / 4 * 4);
            }
        }
        *reinterpret_cast<uint4*>(unit + run * 512 + lane * 16) = make_uint4(words[0], words[1], words[2], words[3]);
    }
    Source::high(sides[0], sides[1], unit, lane);
    if (lane < TILE_FEATURES) Source::rest(block_of(lane), unit, lane);
}

KERNEL(THREADS) q4kRelayoutTile16(BY_VALUE Launch launch) { relayout<SourceQ4_K>(launch); }
KERNEL(THREADS) q6kRelayoutTile16(BY_VALUE Launch launch) { relayout<SourceQ6_K>(launch); }
