#include "kernels/ops.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace surety::kernels {
namespace {

// Consecutive tokens of one head, `n` of them from `slot` on, all in one group of 16 of a page.
struct SlotRun {
  const std::byte* from;
  std::byte* to;
  int slot;
  int n;
};

// `n_items` elements of `bytes` bytes each for every token, the token fastest, from `offset` in the head's part.
void CopyInterleaved(const SlotRun& run, int64_t offset, int64_t n_items, int64_t bytes) {
  const int64_t group = offset + run.slot / kKvLaneTokens * kKvLaneTokens * n_items * bytes;
  if (run.n == kKvLaneTokens) {
    std::memcpy(run.to + group, run.from + group, static_cast<size_t>(kKvLaneTokens * n_items * bytes));
    return;
  }
  for (int64_t item = 0; item < n_items; ++item) {
    const int64_t at = group + (item * kKvLaneTokens + run.slot % kKvLaneTokens) * bytes;
    std::memcpy(run.to + at, run.from + at, static_cast<size_t>(run.n * bytes));
  }
}

void CopyPlain(const SlotRun& run, int64_t offset, int64_t bytes) {
  std::memcpy(run.to + offset + run.slot * bytes, run.from + offset + run.slot * bytes,
              static_cast<size_t>(run.n * bytes));
}

void CopyHeadRun(const KvLayout& layout, const SlotRun& run) {
  const int64_t bytes = layout.ElementBytes();
  if (layout.latent) {
    CopyPlain(run, 0, layout.k_dim * bytes);
    return;
  }
  CopyInterleaved(run, 0, layout.k_dim, bytes);
  CopyPlain(run, layout.ValueOffset(), layout.v_dim * bytes);
  if (layout.type != KvType::kQ8_0) return;
  CopyInterleaved(run, layout.KeyScaleOffset(), layout.k_dim / 32, 2);
  CopyPlain(run, layout.ValueScaleOffset(), layout.v_dim / 32 * 2);
}

}  // namespace

void Ops::CopyKv(int layer, std::span<const KvCopy> copies, const PagedKvView& kv) {
  const KvLayout& layout = kv.layout;
  for (const KvCopy& copy : copies) {
    const int end = copy.first_position + copy.n_tokens;
    for (int position = copy.first_position; position < end;) {
      const int n = std::min(kKvLaneTokens - position % kKvLaneTokens, end - position);
      const auto page = static_cast<size_t>(position / layout.page_tokens);
      SURETY_CHECK(page < copy.from.size() && page < copy.to.size());
      for (int head = 0; head < layout.n_kv_heads && copy.from[page] != copy.to[page]; ++head) {
        CopyHeadRun(layout, {kv.Head(layer, copy.from[page], head), kv.Head(layer, copy.to[page], head),
                             position % layout.page_tokens, n});
      }
      position += n;
    }
  }
}

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
