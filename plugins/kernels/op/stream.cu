// matmul of one activation row over relaid weights, alone and with what surrounds it: the norm in front, the residual, the
// gated unit.
#include "../common/launch.h"
#include "../common/stream.h"

// Rows of one weight, with bias and cap.
template <class F> struct Product {
    using First = F;
    using Rest = F;
    static constexpr int PARTS = 1;
    const uint8_t* weight;
    const float *bias, *residual;
    float* out;
    float cap;
    uint32_t jobs, rest, units, features;

    // `at` is the argument of the weight; bias and what follows it come after.
    __device__ inline Product(const Launch& launch, int at, bool adds)
        : weight(launch.arg[at]), bias(input<float>(launch, at + 1)), residual(adds ? input<float>(launch, at + 2) : nullptr),
          out(output<float>(launch, at + (adds ? 3 : 2))), jobs((launch.n + TILE_FEATURES - 1) / TILE_FEATURES), rest(jobs),
          units(launch.k / F::DEPTH), features(launch.n) {}

    __device__ inline Piece piece(uint32_t job, uint32_t) const { return Piece{weight + size_t(job) * units * F::BYTES, units, F::BYTES}; }
    __device__ inline void before() {}
    __device__ inline void prepare() {}
    __device__ inline void finish(uint32_t job, uint32_t feature, bool writes, const float (&sums)[1]) {
        const uint32_t n = job * TILE_FEATURES + feature;
        if (!writes || n >= features) return;
        float value = softcapped(sums[0] + (bias == nullptr ? 0.0f : bias[n]), cap);
        if (residual != nullptr) value += residual[n];
        out[n] = value;
    }
};

// Gate and up, and the gated unit of both.
template <class F, bool GELU> struct Gated {
    using First = F;
    using Rest = F;
    static constexpr int PARTS = 2;
    const uint8_t *gate, *up;
    float* out;
    uint32_t jobs, rest, units, features;

    __device__ inline Gated(const Launch& launch, int at)
        : gate(launch.arg[at]), up(launch.arg[at + 1]), out(output<float>(launch, at + 2)), jobs((launch.n + TILE_FEATURES - 1) / TILE_FEATURES),
          rest(jobs), units(launch.k / F::DEPTH), features(launch.n) {}

    __device__ inline Piece piece(uint32_t job, uint32_t part) const {
        return Piece{(part == 0 ? gate : up) + size_t(job) * units * F::BYTES, units, F::BYTES};
    }
    __device__ inline void before() {}
    __device__ inline void prepare() {}
    __device__ inline void finish(uint32_t job, uint32_t feature, bool writes, const float (&sums)[2]) {
        const uint32_t n = job * TILE_FEATURES + feature;
        if (!writes || n >= features) return;
        const float x = sums[0];
        const float inner = 0.79788456080286536f * (x + 0.044715f * x * x * x);
        out[n] = (GELU ? 0.5f * x * (1.0f + tanhf(inner)) : x / (1.0f + expf(-x))) * sums[1];
    }
};

__device__ inline StreamInput plain_input(const Launch& launch) { return StreamInput{input<float>(launch, 0), nullptr, launch.k, 0.0f, 0.0f}; }
__device__ inline StreamInput normed_input(const Launch& launch) {
    return StreamInput{input<float>(launch, 0), input<float>(launch, 1), launch.k, scalar(launch, 0), scalar(launch, 1)};
}

template <class F, bool NORM, bool ADDS> __device__ inline void product(const Launch& launch) {
    Product<F> work(launch, NORM ? 2 : 1, ADDS);
    // The cap is the product's first scalar; the norm has two before it.
    work.cap = scalar(launch, NORM ? 2 : 0);
    stream<NORM>(work, NORM ? normed_input(launch) : plain_input(launch));
}

template <class F, bool GELU> __device__ inline void gated(const Launch& launch) {
    Gated<F, GELU> work(launch, 2);
    stream<true>(work, normed_input(launch));
}

#define ENTRY(prefix, F)                                                                                                             \
    KERNEL_RESIDENT(STREAM_THREADS, 2) prefix##StreamMatVec(BY_VALUE Launch launch) { product<F, false, false>(launch); }             \
    KERNEL_RESIDENT(STREAM_THREADS, 2) prefix##StreamMatVecAdd(BY_VALUE Launch launch) { product<F, false, true>(launch); }           \
    KERNEL_RESIDENT(STREAM_THREADS, 2) prefix##StreamNormMatVec(BY_VALUE Launch launch) { product<F, true, false>(launch); }          \
    KERNEL_RESIDENT(STREAM_THREADS, 2) prefix##StreamNormGateUpSilu(BY_VALUE Launch launch) { gated<F, false>(launch); }              \
    KERNEL_RESIDENT(STREAM_THREADS, 2) prefix##StreamNormGateUpGelu(BY_VALUE Launch launch) { gated<F, true>(launch); }
ENTRY(q4k, TileQ4_K)
ENTRY(q6k, TileQ6_K)
