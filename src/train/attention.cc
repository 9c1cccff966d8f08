#include "train/attention.h"

#include <algorithm>
#include <cmath>

namespace surety::train {
namespace {

template <typename T>
T Dot(const T* a, const T* b, int n) {
  T sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <typename T>
void AddScaled(T factor, const T* x, int n, T* y) {
  for (int i = 0; i < n; ++i) y[i] += factor * x[i];
}

}  // namespace

// One text and one head.
template <typename T>
struct Attention<T>::Part {
  Part(const HeadShape& s, const HeadBatch<T>& b, int d, const typename HeadBatch<T>::Text& t, int h)
      : batch(b), text(t), depth(d), e(s.head_dim), q_stride(s.q_width()), kv_stride(s.kv_width()),
        width(t.n_roots + d), q_at(t.first_active * q_stride + int64_t{h} * e),
        kv_head(int64_t{h / (s.n_heads / s.n_kv_heads)} * e), root_at(t.first_root * kv_stride + kv_head),
        own_at(t.first_active * kv_stride + kv_head) {}

  // Keys of depth 0 that the i-th active root sees.
  int64_t Visible(int64_t i) const {
    return batch.active[static_cast<size_t>(text.first_active + i)] - text.first_root + 1;
  }

  const HeadBatch<T>& batch;
  const typename HeadBatch<T>::Text& text;
  const int depth, e;
  const int64_t q_stride, kv_stride, width, q_at, kv_head, root_at, own_at;
};

template <typename T>
int64_t Attention<T>::ProbabilityCount(const HeadBatch<T>& batch, int depth) const {
  int64_t n = 0;
  for (const auto& text : batch.texts) n += text.n_active * (text.n_roots + depth) * shape_.n_heads;
  return n;
}

template <typename T>
void Attention<T>::Forward(const HeadBatch<T>& batch, int depth, const T* q, std::span<const T* const> keys,
                           std::span<const T* const> values, T* probabilities, T* heads) {
  std::vector<T*> places;
  for (const auto& text : batch.texts) {
    places.push_back(probabilities);
    probabilities += text.n_active * (text.n_roots + depth) * shape_.n_heads;
  }
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(shape_.head_dim)));
  const auto tasks = static_cast<int64_t>(batch.texts.size()) * shape_.n_heads;
  ParallelFor(math_.executor(), tasks, [&](int64_t task, int) {
    const auto t = static_cast<size_t>(task / shape_.n_heads);
    const auto h = static_cast<int>(task % shape_.n_heads);
    const auto& text = batch.texts[t];
    const Part part(shape_, batch, depth, text, h);
    T* p = places[t] + int64_t{h} * text.n_active * part.width;
    math_.MultiplyHere({.m = text.n_active, .n = text.n_roots, .k = part.e, .a = q + part.q_at,
                        .a_stride = part.q_stride, .b = keys[0] + part.root_at, .b_stride = part.kv_stride,
                        .b_op = Op::kTransposed, .c = p, .c_stride = part.width});
    for (int64_t i = 0; i < text.n_active; ++i) {
      T* row = p + i * part.width;
      const int64_t visible = part.Visible(i);
      T* own = row + text.n_roots;
      for (int j = 1; j <= depth; ++j) {
        own[j - 1] = Dot(q + part.q_at + i * part.q_stride, keys[static_cast<size_t>(j)] + part.own_at +
                         i * part.kv_stride, part.e);
      }
      std::copy_n(own, depth, row + std::min(visible, text.n_roots));  // one run of numbers for the softmax
      const int64_t n = visible + depth;
      T most = row[0] * scale;
      for (int64_t c = 0; c < n; ++c) most = std::max(most, row[c] *= scale);
      const T sum = math_.Exponentials(row, n, most);
      for (int64_t c = 0; c < n; ++c) row[c] /= sum;
      std::copy_backward(row + visible, row + n, row + part.width);
      std::fill(row + visible, own, T(0));
    }
    T* out = heads + part.q_at;
    math_.MultiplyHere({.m = text.n_active, .n = part.e, .k = text.n_roots, .a = p, .a_stride = part.width,
                        .b = values[0] + part.root_at, .b_stride = part.kv_stride, .c = out,
                        .c_stride = part.q_stride});
    for (int64_t i = 0; i < text.n_active; ++i) {
      for (int j = 1; j <= depth; ++j) {
        AddScaled(p[i * part.width + text.n_roots + j - 1],
                  values[static_cast<size_t>(j)] + part.own_at + i * part.kv_stride, part.e, out + i * part.q_stride);
      }
    }
  });
}

template <typename T>
void Attention<T>::Backward(const HeadBatch<T>& batch, int depth, const T* q, std::span<const T* const> keys,
                            std::span<const T* const> values, const T* probabilities, const T* d_heads, T* d_q,
                            std::span<T* const> d_keys, std::span<T* const> d_values) {
  std::vector<const T*> places;
  for (const auto& text : batch.texts) {
    places.push_back(probabilities);
    probabilities += text.n_active * (text.n_roots + depth) * shape_.n_heads;
  }
  scratch_.resize(static_cast<size_t>(math_.executor().n_workers()));
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(shape_.head_dim)));
  const int group = shape_.n_heads / shape_.n_kv_heads;
  // Heads that share keys add to the same gradients: they are one task.
  const auto tasks = static_cast<int64_t>(batch.texts.size()) * shape_.n_kv_heads;
  ParallelFor(math_.executor(), tasks, [&](int64_t task, int worker) {
    const auto t = static_cast<size_t>(task / shape_.n_kv_heads);
    const auto& text = batch.texts[t];
    auto& scratch = scratch_[static_cast<size_t>(worker)];
    for (int h = static_cast<int>(task % shape_.n_kv_heads) * group, last = h + group; h < last; ++h) {
      const Part part(shape_, batch, depth, text, h);
      const int64_t width = part.width;
      if (static_cast<int64_t>(scratch.size()) < text.n_active * width) {
        scratch.resize(static_cast<size_t>(text.n_active * width));
      }
      const T* p = places[t] + int64_t{h} * text.n_active * width;
      T* ds = scratch.data();
      math_.MultiplyHere({.m = text.n_active, .n = text.n_roots, .k = part.e, .a = d_heads + part.q_at,
                          .a_stride = part.q_stride, .b = values[0] + part.root_at, .b_stride = part.kv_stride,
                          .b_op = Op::kTransposed, .c = ds, .c_stride = width});
      for (int64_t i = 0; i < text.n_active; ++i) {
        const T *d_out = d_heads + part.q_at + i * part.q_stride, *p_row = p + i * width;
        T* row = ds + i * width;
        for (int j = 1; j <= depth; ++j) {
          const int64_t at = part.own_at + i * part.kv_stride;
          row[text.n_roots + j - 1] = Dot(d_out, values[static_cast<size_t>(j)] + at, part.e);
          AddScaled(p_row[text.n_roots + j - 1], d_out, part.e, d_values[static_cast<size_t>(j)] + at);
        }
        double dot = 0;
        for (int64_t c = 0; c < width; ++c) dot += static_cast<double>(p_row[c]) * static_cast<double>(row[c]);
        for (int64_t c = 0; c < width; ++c) row[c] = p_row[c] * (row[c] - static_cast<T>(dot)) * scale;
      }
      math_.MultiplyHere({.m = text.n_active, .n = part.e, .k = text.n_roots, .a = ds, .a_stride = width,
                          .b = keys[0] + part.root_at, .b_stride = part.kv_stride, .c = d_q + part.q_at,
                          .c_stride = part.q_stride});
      for (int64_t i = 0; i < text.n_active; ++i) {
        for (int j = 1; j <= depth; ++j) {
          const T own = ds[i * width + text.n_roots + j - 1];
          const int64_t at = part.own_at + i * part.kv_stride, q_at = part.q_at + i * part.q_stride;
          AddScaled(own, keys[static_cast<size_t>(j)] + at, part.e, d_q + q_at);
          AddScaled(own, q + q_at, part.e, d_keys[static_cast<size_t>(j)] + at);
        }
      }
      math_.MultiplyHere({.m = text.n_roots, .n = part.e, .k = text.n_active, .a = ds, .a_stride = width,
                          .a_op = Op::kTransposed, .b = q + part.q_at, .b_stride = part.q_stride,
                          .c = d_keys[0] + part.root_at, .c_stride = part.kv_stride, .accumulate = true});
      math_.MultiplyHere({.m = text.n_roots, .n = part.e, .k = text.n_active, .a = p, .a_stride = width,
                          .a_op = Op::kTransposed, .b = d_heads + part.q_at, .b_stride = part.q_stride,
                          .c = d_values[0] + part.root_at, .c_stride = part.kv_stride, .accumulate = true});
    }
  });
}

template class Attention<float>;
template class Attention<double>;

}  // namespace surety::train
