// pack: activation rows to the form of rows.h, alone and behind a norm. One block a row.
#include "../common/launch.h"
#include "../common/rows.h"

constexpr int THREADS = 256;
constexpr int WAVES = THREADS / WAVE;

template <bool NORM> __device__ inline void pack(const Launch& launch) {
    extern __shared__ uint4 dynamic_shared[];
    const uint32_t units = launch.k / UNIT, rows = rows_padded(launch.m), row = blockIdx.x, wave = wave_index(), lane = threadIdx.x % WAVE;
    const Column column(reinterpret_cast<uint8_t*>(dynamic_shared), units);
    release_consumers();
    wait_for_producer();
    // Rows that fill up are those of the last, which nobody looks at.
    const float* x = input<float>(launch, 0) + size_t(min(row, launch.m - 1)) * launch.k;
    const float squares = stage_units<WAVES, NORM>(x, NORM ? input<float>(launch, 1) : nullptr, NORM ? scalar(launch, 1) : 0.0f, units, wave, column);
    float norm = 1.0f;
    if (NORM) norm = rsqrtf(block_sum<THREADS>(squares) / float(launch.k) + scalar(launch, 0));
    uint8_t* out = launch.arg[NORM ? 2 : 1];
    for (uint32_t unit = wave; unit < units; unit += WAVES) {
        const UnitInputs from = column.unit(unit);
        for (uint32_t replica = 0; replica < REPLICAS; replica++) {
            const RowsUnit to(out + replica * rows_replica(units, launch.m) + size_t(unit) * rows * ROW_UNIT, rows);
            reinterpret_cast<uint4*>(to.x + row * UNIT_ACTIVATIONS)[lane] = reinterpret_cast<const uint4*>(from.x)[lane];
            if (lane < UNIT_SUMS) to.sums[row * UNIT_SUMS + lane] = from.sums[lane];
            if (lane == 0) to.steps[row] = from.step * norm;
        }
    }
}

KERNEL(THREADS) packRows(BY_VALUE Launch launch) { pack<false>(launch); }
KERNEL(THREADS) normPackRows(BY_VALUE Launch launch) { pack<true>(launch); }
