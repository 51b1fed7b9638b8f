// matmul of up to sixteen packed activation rows over relaid weights, alone and with what surrounds it: the residual, the
// gated unit, the three projections of attention.
#include "../common/launch.h"
#include "../common/stream_rows.h"

// A tile's share of the inputs.
template <class F> __device__ inline Piece share_of(const uint8_t* weight, uint32_t tile, uint32_t units, const Share& share) {
    return Piece{weight + (size_t(tile) * units + share.first) * F::BYTES, share.count, F::BYTES};
}

// Arguments: x, weight, bias, (residual,) out.
template <class F, bool ADDS> struct Product {
    using First = F;
    using Rest = F;
    static constexpr int PARTS = 1;
    const Launch& launch;
    uint32_t jobs, rest, units;
    Share share;

    __device__ inline explicit Product(const Launch& launch)
        : launch(launch), jobs((launch.n + TILE_FEATURES - 1) / TILE_FEATURES), rest(jobs), units(launch.k / UNIT), share(units, launch.split, blockIdx.y) {}
    __device__ inline Piece piece(uint32_t job, uint32_t) const { return share_of<F>(launch.arg[1], job, units, share); }
    __device__ inline void finish(uint32_t job, uint32_t feature, uint32_t row, const float (&sums)[1]) {
        const uint32_t n = job * TILE_FEATURES + feature;
        if (n >= launch.n) return;
        const float* bias = input<float>(launch, 2);
        const size_t at = size_t(row) * launch.n + n;
        float value = softcapped(sums[0] + (bias == nullptr ? 0.0f : bias[n]), scalar(launch, 0));
        if (ADDS) value += input<float>(launch, 3)[at];
        output<float>(launch, ADDS ? 4 : 3)[at] = value;
    }
};

// Arguments: x, gate, up, out.
template <class F, bool GELU> struct Gated {
    using First = F;
    using Rest = F;
    static constexpr int PARTS = 2;
    const Launch& launch;
    uint32_t jobs, rest, units;
    Share share;

    __device__ inline explicit Gated(const Launch& launch)
        : launch(launch), jobs((launch.n + TILE_FEATURES - 1) / TILE_FEATURES), rest(jobs), units(launch.k / UNIT), share(units, launch.split, blockIdx.y) {}
    __device__ inline Piece piece(uint32_t job, uint32_t part) const { return share_of<F>(launch.arg[1 + part], job, units, share); }
    __device__ inline void finish(uint32_t job, uint32_t feature, uint32_t row, const float (&sums)[2]) {
        const uint32_t n = job * TILE_FEATURES + feature;
        if (n >= launch.n) return;
        const float x = sums[0];
        const float inner = 0.79788456080286536f * (x + 0.044715f * x * x * x);
        output<float>(launch, 3)[size_t(row) * launch.n + n] = (GELU ? 0.5f * x * (1.0f + tanhf(inner)) : x / (1.0f + expf(-x))) * sums[1];
    }
};

// Arguments: x, wq, wk, wv, q, k, v. The width of k and v is the launch's aux.
template <class F, class V> struct Projections {
    using First = F;
    using Rest = V;
    static constexpr int PARTS = 1;
    const Launch& launch;
    uint32_t queries, rest, jobs, units;
    Share share;

    __device__ inline explicit Projections(const Launch& launch)
        : launch(launch), queries(launch.n / TILE_FEATURES), rest(queries + launch.aux / TILE_FEATURES), jobs(rest + launch.aux / TILE_FEATURES),
          units(launch.k / UNIT), share(units, launch.split, blockIdx.y) {}
    __device__ inline Piece piece(uint32_t job, uint32_t) const {
        if (job >= rest) return share_of<V>(launch.arg[3], job - rest, units, share);
        return job < queries ? share_of<F>(launch.arg[1], job, units, share) : share_of<F>(launch.arg[2], job - queries, units, share);
    }
    __device__ inline void finish(uint32_t job, uint32_t feature, uint32_t row, const float (&sums)[1]) {
        const int which = job < queries ? 0 : job < rest ? 1 : 2;
        const uint32_t n = (job - (which == 0 ? 0 : which == 1 ? queries : rest)) * TILE_FEATURES + feature;
        output<float>(launch, 4 + which)[size_t(row) * (which == 0 ? launch.n : launch.aux) + n] = sums[0];
    }
};

#define ROWS_KERNEL KERNEL_RESIDENT(ROWS_THREADS, 1)
#define SIZES(name, ...)                                                                                                               \
    ROWS_KERNEL name##4(BY_VALUE Launch launch) { __VA_ARGS__ work(launch); stream_rows<1>(work, launch); }                             \
    ROWS_KERNEL name##8(BY_VALUE Launch launch) { __VA_ARGS__ work(launch); stream_rows<2>(work, launch); }                             \
    ROWS_KERNEL name##16(BY_VALUE Launch launch) { __VA_ARGS__ work(launch); stream_rows<4>(work, launch); }
#define ENTRY(prefix, F)                              \
    SIZES(prefix##StreamRows, Product<F, false>)      \
    SIZES(prefix##StreamRowsAdd, Product<F, true>)    \
    SIZES(prefix##StreamRowsGateUpSilu, Gated<F, false>) \
    SIZES(prefix##StreamRowsGateUpGelu, Gated<F, true>)
ENTRY(q4k, TileQ4_K)
ENTRY(q6k, TileQ6_K)
SIZES(q4kq4kStreamRowsQkv, Projections<TileQ4_K, TileQ4_K>)
SIZES(q4kq6kStreamRowsQkv, Projections<TileQ4_K, TileQ6_K>)
SIZES(q6kq6kStreamRowsQkv, Projections<TileQ6_K, TileQ6_K>)
