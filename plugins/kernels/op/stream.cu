// matmul of one activation row over relaid weights, alone and with what surrounds it: the norm in front, the residual, the
// gated unit.
#include "../common/launch.h"
#include "../common/stream.h"

// Rows of one weight, with bias and cap. `AT` is the argument of the weight; bias, residual and out come after.
template <class F, int AT, bool ADDS> struct Product {
    using First = F;
    using Rest = F;
    static constexpr int PARTS = 1;
    const Launch& launch;
    uint32_t jobs, rest;

    __device__ inline explicit Product(const Launch& launch) : launch(launch), jobs((launch.n + TILE_FEATURES - 1) / TILE_FEATURES), rest(jobs) {}

    __device__ inline Piece piece(uint32_t job, uint32_t) const {
        const uint32_t units = launch.k / UNIT;
        return Piece{launch.arg[AT] + size_t(job) * units * F::BYTES, units, F::BYTES};
    }
    __device__ inline void before() {}
    __device__ inline void prepare() {}
    __device__ inline void finish(uint32_t job, const float (&sums)[1]) {
        const uint32_t n = job * TILE_FEATURES + threadIdx.x % WAVE / 2;
        if (threadIdx.x % 2 != 0 || n >= launch.n) return;
        const float* bias = input<float>(launch, AT + 1);
        // The cap is the product's first scalar; a norm has two before it.
        float value = softcapped(sums[0] + (bias == nullptr ? 0.0f : bias[n]), scalar(launch, AT == 2 ? 2 : 0));
        if (ADDS) value += input<float>(launch, AT + 2)[n];
        output<float>(launch, AT + (ADDS ? 3 : 2))[n] = value;
    }
};

// Gate and up, and the gated unit of both. Arguments: x, norm, gate, up, out.
template <class F, bool GELU> struct Gated {
    using First = F;
    using Rest = F;
    static constexpr int PARTS = 2;
    const Launch& launch;
    uint32_t jobs, rest;

    __device__ inline explicit Gated(const Launch& launch) : launch(launch), jobs((launch.n + TILE_FEATURES - 1) / TILE_FEATURES), rest(jobs) {}

    __device__ inline Piece piece(uint32_t job, uint32_t part) const {
        const uint32_t units = launch.k / UNIT;
        return Piece{launch.arg[2 + part] + size_t(job) * units * F::BYTES, units, F::BYTES};
    }
    __device__ inline void before() {}
    __device__ inline void prepare() {}
    __device__ inline void finish(uint32_t job, const float (&sums)[2]) {
        const uint32_t n = job * TILE_FEATURES + threadIdx.x % WAVE / 2;
        if (threadIdx.x % 2 != 0 || n >= launch.n) return;
        const float x = sums[0];
        const float inner = 0.79788456080286536f * (x + 0.044715f * x * x * x);
        output<float>(launch, 4)[n] = (GELU ? 0.5f * x * (1.0f + tanhf(inner)) : x / (1.0f + expf(-x))) * sums[1];
    }
};

__device__ inline StreamInput plain_input(const Launch& launch) { return StreamInput{input<float>(launch, 0), nullptr, launch.k, 0.0f, 0.0f}; }
__device__ inline StreamInput normed_input(const Launch& launch) {
    return StreamInput{input<float>(launch, 0), input<float>(launch, 1), launch.k, scalar(launch, 0), scalar(launch, 1)};
}

template <class F, bool NORM, bool ADDS> __device__ inline void product(const Launch& launch) {
    Product<F, NORM ? 2 : 1, ADDS> work(launch);
    stream<NORM>(work, NORM ? normed_input(launch) : plain_input(launch));
}

template <class F, bool GELU> __device__ inline void gated(const Launch& launch) {
    Gated<F, GELU> work(launch);
    stream<true>(work, normed_input(launch));
}

#define ENTRY(prefix, F)                                                                                                             \
    STREAM_KERNEL prefix##StreamMatVec(BY_VALUE Launch launch) { product<F, false, false>(launch); }             \
    STREAM_KERNEL prefix##StreamMatVecAdd(BY_VALUE Launch launch) { product<F, false, true>(launch); }           \
    STREAM_KERNEL prefix##StreamNormMatVec(BY_VALUE Launch launch) { product<F, true, false>(launch); }          \
    STREAM_KERNEL prefix##StreamNormGateUpSilu(BY_VALUE Launch launch) { gated<F, false>(launch); }              \
    STREAM_KERNEL prefix##StreamNormGateUpGelu(BY_VALUE Launch launch) { gated<F, true>(launch); }
ENTRY(q4k, TileQ4_K)
ENTRY(q6k, TileQ6_K)
