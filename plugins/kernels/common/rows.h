// Activation rows packed for the products over relaid weights, in device memory: what column.h puts into shared memory for
// one row, for up to ROWS_MOST of them, unit by unit, so that a wave copies what it needs of a unit in three pieces.
//
// For each unit of 256 inputs: a row's 512 bytes (column.h), row after row; then their sums of each 16; then what a step
// is worth, a float a row. Rows are filled up to 4, 8 or 16. The whole lies there REPLICAS times, because
// all multiprocessors read it at once and a line gives only so much at a time.
#pragma once

#include "column.h"

constexpr uint32_t ROWS_MOST = 16, REPLICAS = 4;
constexpr uint32_t ROW_UNIT = UNIT_ACTIVATIONS + UNIT_SUMS * 4 + 4;

__device__ inline uint32_t rows_padded(uint32_t rows) { return rows <= 4 ? 4 : rows <= 8 ? 8 : ROWS_MOST; }
__device__ inline size_t rows_replica(uint32_t units, uint32_t rows) { return size_t(units) * rows_padded(rows) * ROW_UNIT; }

// One unit of `rows` (padded) rows.
struct RowsUnit {
    uint8_t* x;
    int* sums;
    float* steps;
    __device__ inline RowsUnit(uint8_t* at, uint32_t rows) : x(at) {
        sums = reinterpret_cast<int*>(at + rows * UNIT_ACTIVATIONS);
        steps = reinterpret_cast<float*>(sums + rows * UNIT_SUMS);
    }
};
