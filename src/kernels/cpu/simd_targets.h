// The SIMD targets that the elementwise and attention kernels are compiled for. Included before any Highway header by
// each file that is compiled once for each target: targets without a gain here are left out, which saves build time.
// Dispatch then takes the best of those compiled, so kAvx512Vnni runs the AVX-512 code.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
