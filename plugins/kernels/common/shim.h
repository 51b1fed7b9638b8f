// Chooses the vendor's shim.
#pragma once

#if defined(__CUDACC__)
#include "../shim/cuda.h"
#else
#error "no shim for this compiler: add plugins/kernels/shim/<vendor>.h"
#endif
