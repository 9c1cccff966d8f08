#include "kernels/reference/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kv_read.h"

namespace surety::kernels::reference {
namespace {

constexpr double kU = 0x1p-24;

// A number with a bound on its error.
struct Number {
  double value = 0;
  double error = 0;
};

struct Line {
  const float* q;
  int k_dim, v_dim;
  double scale, cap;
  bool has_sink;
  double sink;
  int lo, hi;
};

// key(j, e) and value(j, c) give Numbers.
template <typename Key, typename Value>
void AttendLine(const Line& line, const Key& key, const Value& value, double* out, double* bound) {
  std::vector<double> score, error;
  double max = -std::numeric_limits<double>::infinity();
  for (int j = line.lo; j < line.hi; ++j) {
    double s = 0, size = 0, key_error = 0;
    for (int e = 0; e < line.k_dim; ++e) {
      const Number k = key(j, e);
      s += double{line.q[e]} * k.value;
      size += std::abs(double{line.q[e]} * k.value);
      key_error += std::abs(double{line.q[e]}) * k.error;
    }
    s *= line.scale;
    error.push_back(kU * (line.k_dim + 3) * size * std::abs(line.scale) + key_error * std::abs(line.scale));
    if (line.cap > 0) {
      s = line.cap * std::tanh(s / line.cap);
      error.back() += 4 * kU * line.cap;
    }
    score.push_back(s);
    max = std::max(max, s);
  }
  const double top = line.has_sink ? std::max(max, line.sink) : max;
  double sum = line.has_sink ? std::exp(line.sink - top) : 0.0, mean_error = 0;
  for (size_t i = 0; i < score.size(); ++i) {
    error[i] += kU * (std::abs(score[i] - max) + std::abs(max - top) + 4);
    sum += std::exp(score[i] - top);
    mean_error += std::exp(score[i] - top) * error[i];
  }
  const int tiles = line.hi / 128 - line.lo / 128 + 1;
  const double additions = 2.0 * (128 + 4.0 * tiles + 16) * kU;
  for (int c = 0; c < line.v_dim; ++c) {
    double o = 0, b = 0;
    for (size_t i = 0; i < score.size(); ++i) {
      const double p = std::exp(score[i] - top) / sum;
      const Number v = value(line.lo + static_cast<int>(i), c);
      o += p * v.value;
      b += p * (std::abs(v.value) * (error[i] + mean_error / sum + additions) + v.error) +
           1e-37 * std::abs(v.value);  // weights below the smallest normal float count as zero
    }
    out[c] = score.empty() ? 0.0 : o;
    bound[c] = b * 1.01;  // second-order terms
  }
}

template <typename Body>
void ForLines(const BatchView& batch, int n_heads, const Body& body) {
  for (const SequenceRows& sequence : batch.sequences) {
    for (int i = 0; i < sequence.n_rows; ++i) {
      for (int head = 0; head < n_heads; ++head) {
        body(sequence, sequence.first_row + i, sequence.first_position + i, head);
      }
    }
  }
}

Bounded Empty(int64_t rows, int64_t cols) {
  return {std::vector<double>(static_cast<size_t>(rows * cols)), std::vector<double>(static_cast<size_t>(rows * cols))};
}

}  // namespace

Bounded Attention(const AttentionParams& params, int layer, ConstMatrixF q, const BatchView& batch,
                  const PagedKvView& kv) {
  const int64_t cols = int64_t{params.n_heads} * params.v_dim;
  Bounded result = Empty(q.rows, cols);
  ForLines(batch, params.n_heads, [&](const SequenceRows& sequence, int row, int position, int head) {
    const int kv_head = head / (params.n_heads / params.n_kv_heads);
    Line line = {q.Row(row) + int64_t{head} * params.k_dim, params.k_dim, params.v_dim, params.scale, params.soft_cap,
                 params.sinks != nullptr, params.sinks != nullptr ? params.sinks[head] : 0.0,
                 sequence.first_visible, position + 1};
    if (params.window > 0) line.lo = std::max(sequence.first_visible, position + 1 - params.window);
    if (!params.causal) line.hi = sequence.first_position + sequence.n_rows;
    AttendLine(
        line,
        [&](int j, int e) { return Number{StoredKey(kv, layer, sequence.page_table, kv_head, j, e)}; },
        [&](int j, int c) { return Number{StoredValue(kv, layer, sequence.page_table, kv_head, j, c)}; },
        &result.value[static_cast<size_t>(row * cols + head * params.v_dim)],
        &result.bound[static_cast<size_t>(row * cols + head * params.v_dim)]);
  });
  return result;
}

Bounded MlaAttention(const MlaParams& params, int layer, ConstMatrixF q, const BatchView& batch,
                     const PagedKvView& kv) {
  const int width = params.latent_dim + params.rope_dim;
  const int64_t cols = int64_t{params.n_heads} * params.latent_dim;
  Bounded result = Empty(q.rows, cols);
  ForLines(batch, params.n_heads, [&](const SequenceRows& sequence, int row, int position, int head) {
    const Line line = {q.Row(row) + int64_t{head} * width, width, params.latent_dim, params.scale, 0, false, 0,
                       sequence.first_visible, position + 1};
    const auto number = [&](int j, int e) { return Number{StoredKey(kv, layer, sequence.page_table, 0, j, e)}; };
    const size_t at = static_cast<size_t>(row * cols + head * params.latent_dim);
    AttendLine(line, number, number, &result.value[at], &result.bound[at]);
  });
  return result;
}

Bounded MlaAttentionMaterialised(const MlaParams& params, int layer, ConstMatrixF q, ConstMatrixF kv_b,
                                 const BatchView& batch, const PagedKvView& kv) {
  const int width = params.nope_dim + params.rope_dim;
  const int64_t cols = int64_t{params.n_heads} * params.v_dim;
  Bounded result = Empty(q.rows, cols);
  ForLines(batch, params.n_heads, [&](const SequenceRows& sequence, int row, int position, int head) {
    const Line line = {q.Row(row) + int64_t{head} * width, width, params.v_dim, params.scale, 0, false, 0,
                       sequence.first_visible, position + 1};
    const auto made = [&](int j, int row_of_head) {
      const float* w = kv_b.Row(int64_t{head} * (params.nope_dim + params.v_dim) + row_of_head);
      Number sum;
      for (int r = 0; r < params.latent_dim; ++r) {
        const double term = double{w[r]} * StoredKey(kv, layer, sequence.page_table, 0, j, r);
        sum.value += term;
        sum.error += std::abs(term) * (params.latent_dim + 1) * kU;
      }
      return sum;
    };
    const size_t at = static_cast<size_t>(row * cols + head * params.v_dim);
    AttendLine(
        line,
        [&](int j, int e) {
          if (e < params.nope_dim) return made(j, e);
          return Number{StoredKey(kv, layer, sequence.page_table, 0, j, params.latent_dim + e - params.nope_dim)};
        },
        [&](int j, int c) { return made(j, params.nope_dim + c); }, &result.value[at], &result.bound[at]);
  });
  return result;
}

}  // namespace surety::kernels::reference
