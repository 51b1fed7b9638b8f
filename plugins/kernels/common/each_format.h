// Names the kernels of every format: EACH_FORMAT(X) expands X(prefix, Format).
#pragma once

#include "format.h"

#define EACH_FORMAT(X) \
    X(f32, FormatF32)  \
    X(f16, FormatF16)  \
    X(bf16, FormatBF16) \
    X(q80, FormatQ8_0) \
    X(q41, FormatQ4_1) \
    X(q4k, FormatQ4_K) \
    X(q6k, FormatQ6_K)
