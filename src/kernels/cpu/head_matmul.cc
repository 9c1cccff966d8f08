#include "kernels/cpu/head_matmul.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/head_matmul.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu::HWY_NAMESPACE {

// kM rows by 16 outputs: lane = output, inputs ascending.
template <int kM>
HWY_INLINE void AscendingBlock(const float* HWY_RESTRICT w, int64_t w_step, int n_in, const float* HWY_RESTRICT x,
                               int64_t x_step, float* HWY_RESTRICT out, int64_t out_step) {
  const Tag d;
  V acc[kM][kParts];
#pragma GCC unroll 8
  for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p) acc[m][p] = hn::Zero(d);
  }
  for (int i = 0; i < n_in; ++i) {
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p) {
      const V row = hn::LoadU(d, w + i * w_step + p * kLanes);
#pragma GCC unroll 8
      for (int m = 0; m < kM; ++m) acc[m][p] = hn::MulAdd(hn::Set(d, x[m * x_step + i]), row, acc[m][p]);
    }
  }
  for (int m = 0; m < kM; ++m) {
    for (int p = 0; p < kParts; ++p) hn::StoreU(acc[m][p], d, out + m * out_step + p * kLanes);
  }
}

void Ascending(const float* w, int n_in, int n_out, const float* x, int64_t x_step, int64_t n_rows, float* out,
               int64_t out_step) {
  const OneTag d1;
  int o = 0;
  for (; o + 16 <= n_out; o += 16) {
    int64_t t = 0;
    for (; t + 4 <= n_rows; t += 4) {
      AscendingBlock<4>(w + o, n_out, n_in, x + t * x_step, x_step, out + t * out_step + o, out_step);
    }
    for (; t < n_rows; ++t) {
      AscendingBlock<1>(w + o, n_out, n_in, x + t * x_step, x_step, out + t * out_step + o, out_step);
    }
  }
  for (; o < n_out; ++o) {
    for (int64_t t = 0; t < n_rows; ++t) {
      auto acc = hn::Zero(d1);
      for (int i = 0; i < n_in; ++i) {
        acc = hn::MulAdd(hn::Set(d1, x[t * x_step + i]), hn::Set(d1, w[int64_t{i} * n_out + o]), acc);
      }
      out[t * out_step + o] = hn::GetLane(acc);
    }
  }
}

// kM rows by one output: 16 virtual lanes over the inputs.
template <int kM>
HWY_INLINE void DotBlock(const float* HWY_RESTRICT w, int n_in, const float* HWY_RESTRICT x, int64_t x_step,
                         float* HWY_RESTRICT out, int64_t out_step) {
  const Tag d;
  V acc[kM][kParts];
#pragma GCC unroll 8
  for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p) acc[m][p] = hn::Zero(d);
  }
  int i = 0;
  for (; i + 16 <= n_in; i += 16) {
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p) {
      const V row = hn::LoadU(d, w + i + p * kLanes);
#pragma GCC unroll 8
      for (int m = 0; m < kM; ++m) {
        acc[m][p] = hn::MulAdd(row, hn::LoadU(d, x + m * x_step + i + p * kLanes), acc[m][p]);
      }
    }
  }
  const OneTag d1;
  for (int m = 0; m < kM; ++m) {
    HWY_ALIGN float lanes[16];
    for (int p = 0; p < kParts; ++p) hn::Store(acc[m][p], d, lanes + p * kLanes);
    for (int l = 0; i + l < n_in; ++l) {
      const auto input = hn::Set(d1, x[m * x_step + i + l]);
      lanes[l] = hn::GetLane(hn::MulAdd(hn::Set(d1, w[i + l]), input, hn::Set(d1, lanes[l])));
    }
    out[m * out_step] = TreeSum16(lanes);
  }
}

void Dots(const float* w, int n_in, int n_out, const float* x, int64_t x_step, int64_t n_rows, float* out,
          int64_t out_step) {
  int64_t t = 0;
  for (; t + 4 <= n_rows; t += 4) {
    for (int o = 0; o < n_out; ++o) {
      DotBlock<4>(w + int64_t{o} * n_in, n_in, x + t * x_step, x_step, out + t * out_step + o, out_step);
    }
  }
  for (; t < n_rows; ++t) {
    for (int o = 0; o < n_out; ++o) {
      DotBlock<1>(w + int64_t{o} * n_in, n_in, x + t * x_step, x_step, out + t * out_step + o, out_step);
    }
  }
}

}  // namespace surety::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace surety::kernels::cpu {

HWY_EXPORT(Ascending);
HWY_EXPORT(Dots);

void HeadMatMul(Executor& executor, const float* w, int64_t head_stride, int n_heads, int in_dim, int out_dim,
                bool transposed, ConstMatrixF x, MatrixF out) {
  SURETY_CHECK(n_heads > 0 && x.rows == out.rows && x.cols % n_heads == 0 && out.cols % n_heads == 0);
  const int64_t x_head = x.cols / n_heads;
  const int64_t out_head = out.cols / n_heads;
  SURETY_CHECK(in_dim <= x_head && out_dim <= out_head);
  const auto fn = transposed ? HWY_DYNAMIC_DISPATCH(Ascending) : HWY_DYNAMIC_DISPATCH(Dots);
  constexpr int64_t kRows = 32;
  const int64_t row_blocks = (x.rows + kRows - 1) / kRows;
  ParallelFor(executor, row_blocks * n_heads, [&](int64_t task, int) {
    const int64_t head = task / row_blocks;
    const int64_t row = task % row_blocks * kRows;
    fn(w + head * head_stride, in_dim, out_dim, x.Row(row) + head * x_head, x.stride, std::min(kRows, x.rows - row),
       out.Row(row) + head * out_head, out.stride);
  });
}

}  // namespace surety::kernels::cpu
#endif  // HWY_ONCE
