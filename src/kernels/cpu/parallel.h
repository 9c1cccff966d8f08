// When to spread elementwise work over the workers: waking them costs about a microsecond, so small work stays on the
// caller. Bits do not depend on it, since rows and elements are independent.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/executor.h"

namespace surety::kernels::cpu {

inline constexpr int64_t kSerialElements = 8192;  // 1 to 2 microseconds of elementwise work

// body(row) for each of n_rows rows of n_cols elements.
template <typename Body>
void ForRows(Executor& executor, int64_t n_rows, int64_t n_cols, const Body& body) {
  if (n_rows <= 1 || n_rows * n_cols <= kSerialElements) {
    for (int64_t row = 0; row < n_rows; ++row) body(row);
    return;
  }
  const int64_t rows_a_task = std::clamp<int64_t>(kSerialElements / 2 / std::max<int64_t>(n_cols, 1), 1, n_rows);
  ParallelFor(executor, (n_rows + rows_a_task - 1) / rows_a_task, [&](int64_t task, int) {
    const int64_t end = std::min(n_rows, (task + 1) * rows_a_task);
    for (int64_t row = task * rows_a_task; row < end; ++row) body(row);
  });
}

// body(row, first_column, end_column): also cuts long rows.
template <typename Body>
void ForElements(Executor& executor, int64_t n_rows, int64_t n_cols, const Body& body) {
  if (n_rows * n_cols <= kSerialElements) {
    for (int64_t row = 0; row < n_rows; ++row) body(row, int64_t{0}, n_cols);
    return;
  }
  constexpr int64_t kCut = kSerialElements / 2;
  const int64_t cuts = std::max<int64_t>(1, n_cols / kCut);
  const int64_t step = ((n_cols + cuts - 1) / cuts + 15) / 16 * 16;
  const int64_t rows_a_task = std::max<int64_t>(1, kCut / std::max<int64_t>(n_cols, 1));
  const int64_t row_tasks = (n_rows + rows_a_task - 1) / rows_a_task;
  ParallelFor(executor, row_tasks * cuts, [&](int64_t task, int) {
    const int64_t first = std::min(n_cols, task % cuts * step);
    const int64_t end = std::min(n_cols, first + step);
    const int64_t end_row = std::min(n_rows, (task / cuts + 1) * rows_a_task);
    for (int64_t row = task / cuts * rows_a_task; row < end_row; ++row) body(row, first, end);
  });
}

}  // namespace surety::kernels::cpu
