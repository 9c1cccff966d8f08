// Random weights and plain reference sums for the tests and benchmarks of the matrix product.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/dequantize.h"
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/view.h"

namespace surety::kernels::cpu {

// Byte offsets of the scales (IEEE halves) in a block: d and, if any, m or dmin (negative: none).
struct ScaleOffsets {
  int d;
  int m;
  bool m_is_subtracted;
};
inline ScaleOffsets ScaleOffsetsOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1: return {0, 2, false};
    case DType::kQ2_K: return {80, 82, true};
    case DType::kQ3_K: return {108, -1, false};
    case DType::kQ4_K:
    case DType::kQ5_K: return {0, 2, true};
    case DType::kQ6_K: return {208, -1, false};
    default: return {0, -1, false};
  }
}

// A weight matrix with the bytes it stands on; these start at an odd address.
struct RandomWeights {
  TensorView view;
  std::vector<std::byte> storage;

  RandomWeights(DType dtype, int64_t n_outputs, int64_t n_inputs, uint32_t seed) {
    std::mt19937 rng(seed);
    const DTypeInfo& info = InfoOf(dtype);
    const size_t size = static_cast<size_t>(n_outputs * RowBytes(dtype, n_inputs));
    storage.resize(size + 1);
    std::byte* bytes = storage.data() + 1;
    for (size_t i = 0; i < size; i += 4) {
      const uint32_t word = rng();
      std::memcpy(bytes + i, &word, std::min<size_t>(4, size - i));
    }
    std::normal_distribution<float> normal(0.0f, 0.05f);
    for (size_t block = 0; block < size / static_cast<size_t>(info.block_bytes); ++block) {
      std::byte* at = bytes + block * static_cast<size_t>(info.block_bytes);
      const float value = normal(rng);
      if (dtype == DType::kF32) {
        std::memcpy(at, &value, 4);
        continue;
      }
      const uint16_t half = dtype == DType::kBF16 ? F32ToBF16(value) : F32ToF16(value);
      const ScaleOffsets offsets = ScaleOffsetsOf(dtype);
      std::memcpy(at + offsets.d, &half, 2);
      if (offsets.m < 0) continue;
      const uint16_t m = F32ToF16(normal(rng));
      std::memcpy(at + offsets.m, &m, 2);
    }
    view.name = "random";
    view.dtype = dtype;
    view.shape = {n_outputs, n_inputs};
    view.bytes = {bytes, size};
  }
  RandomWeights(const RandomWeights&) = delete;
  RandomWeights& operator=(const RandomWeights&) = delete;

  std::byte* BlockAt(int64_t row, int64_t block) {
    return storage.data() + 1 + row * RowBytes(view.dtype, view.cols()) + block * InfoOf(view.dtype).block_bytes;
  }
};

inline std::vector<float> DequantizeAll(const TensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.ElementCount()));
  const int64_t row_bytes = RowBytes(view.dtype, view.cols());
  for (int64_t r = 0; r < view.rows(); ++r) {
    DequantizeRow(view.dtype, view.bytes.data() + r * row_bytes, view.cols(), values.data() + r * view.cols());
  }
  return values;
}

// |scale * code| + |minimum| of each weight: what its rounding errors are relative to.
inline std::vector<float> MagnitudesOf(const TensorView& view) {
  TensorView positive = view;
  std::vector<std::byte> bytes(view.bytes.begin(), view.bytes.end());
  const ScaleOffsets offsets = ScaleOffsetsOf(view.dtype);
  const auto block = static_cast<size_t>(InfoOf(view.dtype).block_bytes);
  if (offsets.m >= 0) {
    for (size_t at = 0; at < bytes.size(); at += block) {
      bytes[at + static_cast<size_t>(offsets.d) + 1] &= std::byte{0x7F};
      std::byte& sign = bytes[at + static_cast<size_t>(offsets.m) + 1];
      sign = offsets.m_is_subtracted ? sign | std::byte{0x80} : sign & std::byte{0x7F};
    }
  }
  positive.bytes = bytes;
  std::vector<float> values = DequantizeAll(positive);
  for (float& value : values) value = std::abs(value);
  return values;
}

}  // namespace surety::kernels::cpu
