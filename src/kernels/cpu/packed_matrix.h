// The processor's layout of weight matrices.
//
// Outputs stand in groups of 16 (one SIMD lane an output); a group is one contiguous run of bytes, groups follow each
// other. Float types: [K][16 outputs] in their own format. Quantised types: inputs in blocks of 32, blocks in supers
// (one block, or the 8 of a K-format), a group = supers in ascending order, a super = header, then its blocks' codes.
// A block's codes are 8 quads of [16 outputs][4 inputs] ("quad" q holds inputs 4q..4q+3), at the type's own width:
//   4-bit plane   256 bytes: byte j of row p (p < 4, j < 64) = quad p in the low nibble, quad p + 4 in the high one
//   2-bit plane   128 bytes: byte j of row p (p < 2) = quads 4p .. 4p + 3, two bits each from the lowest
//   1-bit plane    64 bytes: byte j = quads 0 .. 7, one bit each from the lowest
//   8-bit         512 bytes: byte j of row q = quad q
// Type: header; codes
//   Q4_0, IQ4_NL  d f16[16]; 4-bit                     Q4_1  d f16[16], m f16[16]; 4-bit
//   Q5_0          d; 4-bit, 1-bit                      Q5_1  d, m; 4-bit, 1-bit
//   Q8_0          d; 8-bit
//   Q4_K, Q5_K    d, dmin, 8 x (sc u8[16], m u8[16]); 4-bit (, 1-bit)
//   Q6_K          d, 8 x 2 x sc i8[16]; 4-bit, 2-bit
//   Q3_K          d, 8 x 2 x (sc - 32) i8[16]; 2-bit, 1-bit
//   Q2_K          d, dmin, 8 x 2 x (sc | m << 4) u8[16]; 2-bit
//   IQ4_XS        d, 8 x (ls - 32) i8[16]; 4-bit
// Scales keep their stored precision, so nothing is rounded by packing.
// Threads: immutable after PackMatrix.
#pragma once

#include <cstdint>

#include "base/aligned_buffer.h"
#include "kernels/ops.h"
#include "tensor/dtype.h"

namespace surety::kernels::cpu {

inline constexpr int kGroup = 16;  // outputs side by side
inline constexpr int kBlock = 32;  // inputs that share a scale of x
inline constexpr int kQuads = kBlock / 4;

struct PackedLayout {
  int blocks_per_super;  // 0: a float type
  int header_bytes;
  int block_bytes;

  constexpr int64_t super_bytes() const { return header_bytes + int64_t{blocks_per_super} * block_bytes; }
};

constexpr PackedLayout PackedLayoutOf(DType dtype) {
  switch (dtype) {
    case DType::kF32: return {0, 0, 64};  // block_bytes: bytes for one input
    case DType::kF16:
    case DType::kBF16: return {0, 0, 32};
    case DType::kQ4_0:
    case DType::kIQ4_NL: return {1, 32, 256};
    case DType::kQ4_1: return {1, 64, 256};
    case DType::kQ5_0: return {1, 32, 320};
    case DType::kQ5_1: return {1, 64, 320};
    case DType::kQ8_0: return {1, 32, 512};
    case DType::kQ2_K: return {8, 64 + 256, 128};
    case DType::kQ3_K: return {8, 32 + 256, 192};
    case DType::kQ4_K: return {8, 64 + 256, 256};
    case DType::kQ5_K: return {8, 64 + 256, 320};
    case DType::kQ6_K: return {8, 32 + 256, 384};
    case DType::kIQ4_XS: return {8, 32 + 128, 256};
  }
  return {0, 0, 0};
}

constexpr bool IsFloat(DType dtype) { return PackedLayoutOf(dtype).blocks_per_super == 0; }

// Bytes of one group of 16 outputs.
constexpr int64_t GroupBytes(DType dtype, int64_t n_inputs) {
  const PackedLayout layout = PackedLayoutOf(dtype);
  if (layout.blocks_per_super == 0) return n_inputs * layout.block_bytes;
  return n_inputs / kBlock / layout.blocks_per_super * layout.super_bytes();
}

class CpuPackedMatrix final : public PackedMatrix {
 public:
  CpuPackedMatrix(DType dtype, int64_t n_outputs, int64_t n_inputs, AlignedBuffer bytes);

  int64_t n_groups() const { return (n_outputs_ + kGroup - 1) / kGroup; }
  int64_t group_bytes() const { return group_bytes_; }
  const std::byte* Group(int64_t g) const { return bytes_.data() + g * group_bytes_; }

 private:
  int64_t group_bytes_;
  AlignedBuffer bytes_;
};

}  // namespace surety::kernels::cpu
