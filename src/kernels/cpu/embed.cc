#include "kernels/cpu/embed.h"

#include "base/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/dequantize.h"

namespace surety::kernels::cpu {

void Embed(Executor& executor, const TensorView& table, std::span<const int32_t> ids, float scale, MatrixF out) {
  SURETY_CHECK(out.rows == static_cast<int64_t>(ids.size()) && out.cols == table.cols());
  const int64_t n_rows = table.rows();
  const int64_t row_bytes = RowBytes(table.dtype, table.cols());
  SURETY_CHECK(static_cast<int64_t>(table.bytes.size()) >= n_rows * row_bytes);
  ForRows(executor, out.rows, 4 * out.cols, [&](int64_t row) {  // plain code, some four times an addition
    const int64_t id = ids[static_cast<size_t>(row)];
    SURETY_CHECK(id >= 0 && id < n_rows);
    float* to = out.Row(row);
    DequantizeRow(table.dtype, table.bytes.data() + id * row_bytes, out.cols, to);
    if (scale != 1.0f) {
      for (int64_t i = 0; i < out.cols; ++i) to[i] *= scale;
    }
  });
}

}  // namespace surety::kernels::cpu
