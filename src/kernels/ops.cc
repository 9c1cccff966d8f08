#include "kernels/ops.h"

#include <cstring>

namespace surety::kernels {

void Ops::GatherRows(ConstMatrixF x, std::span<const int32_t> rows, MatrixF out) {
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(out.Row(static_cast<int64_t>(i)), x.Row(rows[i]), static_cast<size_t>(x.cols) * sizeof(float));
  }
}

void Ops::ScatterAddRows(ConstMatrixF x, std::span<const int32_t> rows, std::span<const float> weights, MatrixF out) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* from = x.Row(static_cast<int64_t>(i));
    float* to = out.Row(rows[i]);
    for (int64_t c = 0; c < x.cols; ++c) to[c] += weights[i] * from[c];
  }
}

void Ops::CopyHeads(ConstMatrixF x, int n_heads, int x_offset, int width, MatrixF out, int out_offset) {
  const int64_t x_step = x.cols / n_heads;
  const int64_t out_step = out.cols / n_heads;
  for (int64_t row = 0; row < x.rows; ++row) {
    for (int head = 0; head < n_heads; ++head) {
      std::memcpy(out.Row(row) + head * out_step + out_offset, x.Row(row) + head * x_step + x_offset,
                  static_cast<size_t>(width) * sizeof(float));
    }
  }
}

}  // namespace surety::kernels
