// Values of stored tensors as float32, exactly as the format's formula gives them (quant_block.h): one rounding at
// most. Plain loops, the same bits on every machine.
//
// Threads: any. Errors: none; CHECKs that n is a multiple of the type's block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace surety::kernels {

// n elements from RowBytes(dtype, n) bytes, which need no alignment, to out.
void DequantizeRow(DType dtype, const std::byte* bytes, int64_t n, float* out);

}  // namespace surety::kernels
