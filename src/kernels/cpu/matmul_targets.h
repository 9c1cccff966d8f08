// The SIMD targets that the matrix product is compiled for: as simd_targets.h, plus AVX-512 with its byte dot product.
// Included before any Highway header by each file that is compiled once for each target.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

// Whether the compiler knows AMX, whose tiles the product of many rows uses beside AVX-512.
#if defined(__x86_64__) && ((defined(__clang__) && __clang_major__ >= 12) || (!defined(__clang__) && __GNUC__ >= 11))
#define SURETY_KERNELS_HAVE_TILES 1
#else
#define SURETY_KERNELS_HAVE_TILES 0
#endif
