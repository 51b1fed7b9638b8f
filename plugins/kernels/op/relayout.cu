// relayout: GGML blocks to tiles of 16 features for the matrix units. One wave a unit; features past the last are zero.
#include "../common/launch.h"
#include "../common/tile16.h"

constexpr int THREADS = 128;

// The eight inputs of lane part t of a 32, in the order of its pairs.
__device__ inline uint32_t input_of(uint32_t t, int value) { return value < 4 ? 4 * t + value : 16 + 4 * t + value - 4; }

// Place of value v (of eight) of a word of low bits.
__device__ inline uint32_t low_place(int value) { return uint32_t((value / 2 + 1) % 4 * 4 + value % 2 * 16); }

struct SourceQ4_K {
    using Tile = TileQ4_K;
    static __device__ inline size_t row_bytes(uint32_t k) { return FormatQ4_K::row_bytes(k); }
    static __device__ inline const uint8_t* block(const uint8_t* row, uint32_t unit) { return row + size_t(unit) * 144; }
    static __device__ inline uint32_t low(const uint8_t* block, uint32_t, uint32_t k) { return block[16 + k / 64 * 32 + k % 32] >> (k % 64 / 32 * 4) & 15u; }

    static __device__ inline void rest(const uint8_t* block, uint8_t* unit, uint32_t, uint32_t feature) {
        const uint32_t* head = reinterpret_cast<const uint32_t*>(block);
        for (int s = 0; s < 8; s++) {
            uint32_t scale = 0, least = 0;
            if (block != nullptr) FormatQ4_K::pair(head[1], head[2], head[3], s, scale, least);
            unit[Tile::SCALES + feature * 16 + s] = uint8_t(scale);
            unit[Tile::SCALES + feature * 16 + 8 + s] = uint8_t(least);
        }
        reinterpret_cast<uint32_t*>(unit + Tile::STEPS)[feature] = block == nullptr ? 0 : head[0];
    }
    static __device__ inline void high(const uint8_t*, const uint8_t*, uint8_t*, uint32_t, uint32_t) {}
};

struct SourceQ6_K {
    using Tile = TileQ6_K;
    static __device__ inline size_t row_bytes(uint32_t k) { return FormatQ6_K::row_bytes(k); }
    static __device__ inline const uint8_t* block(const uint8_t* row, uint32_t unit) { return row + size_t(unit / 2) * 210; }
    // `part` is the half of the block that the unit is.
    static __device__ inline uint32_t low(const uint8_t* block, uint32_t part, uint32_t k) {
        return block[64 * part + k / 32 % 2 * 32 + k % 32] >> (k / 64 * 4) & 15u;
    }
    static __device__ inline uint32_t top(const uint8_t* block, uint32_t part, uint32_t k) { return block[128 + 32 * part + k % 32] >> (k / 32 * 2) & 3u; }

    static __device__ inline void rest(const uint8_t* block, uint8_t* unit, uint32_t part, uint32_t feature) {
        for (int s = 0; s < 8; s++)
            unit[Tile::SCALES + feature * 8 + s] = uint8_t(block == nullptr ? 128 : int(int8_t(block[192 + 8 * part + s])) + 128);
        reinterpret_cast<uint16_t*>(unit + Tile::STEPS)[feature] = block == nullptr ? 0 : *reinterpret_cast<const uint16_t*>(block + 208);
    }
    // High bits of features g (`first`) and g + 8.
    static __device__ inline void high(const uint8_t* first, const uint8_t* second, uint8_t* unit, uint32_t part, uint32_t lane) {
        uint32_t* to = reinterpret_cast<uint32_t*>(unit + Tile::HIGH + lane * 16);
        for (int run = 0; run < 2; run++)
            for (int side = 0; side < 2; side++) {
                const uint8_t* block = side ? second : first;
                uint32_t word = 0;
                for (int value = 0; value < 16 && block != nullptr; value++) {
                    const uint32_t k = run * 64 + value / 8 * 32 + input_of(lane % 4, value % 8);
                    word |= top(block, part, k) << (value / 2 * 2 + value % 2 * 16);
                }
                to[run * 2 + side] = word;
            }
    }
};

template <class Source> __device__ inline void relayout(const Launch& launch) {
    using Tile = typename Source::Tile;
    wait_for_producer();
    release_consumers();
    const uint32_t units = launch.k / Tile::DEPTH, lane = threadIdx.x % WAVE;
    const size_t index = size_t(blockIdx.x) * (THREADS / WAVE) + threadIdx.x / WAVE;
    const uint32_t tile = uint32_t(index / units), at = uint32_t(index % units);
    if (tile >= (launch.n + TILE_FEATURES - 1) / TILE_FEATURES) return;
    const uint32_t part = at * Tile::DEPTH % 256 / Tile::DEPTH;
    const size_t row_bytes = Source::row_bytes(launch.k);
    auto block_of = [&](uint32_t feature) -> const uint8_t* {
        const uint32_t row = tile * TILE_FEATURES + feature;
        return row < launch.n ? Source::block(input<uint8_t>(launch, 0) + row * row_bytes, at) : nullptr;
    };
    uint8_t* unit = launch.arg[1] + index * Tile::BYTES;
    const uint8_t* sides[2] = {block_of(lane / 4), block_of(lane / 4 + 8)};
    for (uint32_t run = 0; run < Tile::DEPTH / 64; run++) {
        uint32_t words[4];
        for (int word = 0; word < 4; word++) {
            const uint8_t* block = sides[word % 2];
            words[word] = 0;
            for (int value = 0; value < 8 && block != nullptr; value++) {
                const uint32_t k = run * 64 + word / 2 * 32 + input_of(lane % 4, value);
                words[word] |= Source::low(block, part, k) << low_place(value);
            }
        }
        *reinterpret_cast<uint4*>(unit + run * 512 + lane * 16) = make_uint4(words[0], words[1], words[2], words[3]);
    }
    Source::high(sides[0], sides[1], unit, part, lane);
    if (lane < TILE_FEATURES) Source::rest(block_of(lane), unit, part, lane);
}

KERNEL(THREADS) q4kRelayoutTile16(BY_VALUE Launch launch) { relayout<SourceQ4_K>(launch); }
KERNEL(THREADS) q6kRelayoutTile16(BY_VALUE Launch launch) { relayout<SourceQ6_K>(launch); }
