#include "train/parallel_math.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace surety::train {
namespace {

constexpr int64_t kTileRows = 512, kTileCols = 1024;  // of a product
constexpr int64_t kRowPart = 32;
constexpr int64_t kColumnPart = 64;
constexpr int64_t kElementPart = 1 << 15;

}  // namespace

template <typename T>
void ParallelMath<T>::MultiplyHere(const Product<T>& product) const {
  if constexpr (std::is_same_v<T, float>) {
    math_.product_f(product);
  } else {
    math_.product_d(product);
  }
}

template <typename T>
T ParallelMath<T>::Exponentials(T* x, int64_t n, T shift) const {
  if constexpr (std::is_same_v<T, float>) {
    return math_.exponentials_f(x, n, shift);
  } else {
    return math_.exponentials_d(x, n, shift);
  }
}

template <typename T>
void ParallelMath<T>::Multiply(const Product<T>& p) {
  const int64_t across = (p.n + kTileCols - 1) / kTileCols, down = (p.m + kTileRows - 1) / kTileRows;
  ParallelFor(executor_, across * down, [&](int64_t tile, int) {
    const int64_t row = tile / across * kTileRows, col = tile % across * kTileCols;
    Product<T> part = p;
    part.m = std::min(kTileRows, p.m - row);
    part.n = std::min(kTileCols, p.n - col);
    part.a += p.a_op == Op::kNormal ? row * p.a_stride : row;
    part.b += p.b_op == Op::kNormal ? col : col * p.b_stride;
    part.c += row * p.c_stride + col;
    MultiplyHere(part);
  });
}

template <typename T>
void ParallelMath<T>::Linear(const T* x, int64_t rows, int64_t in_f, const T* w, int64_t out_f, T* out) {
  Multiply({.m = rows, .n = out_f, .k = in_f, .a = x, .a_stride = in_f, .b = w, .b_stride = in_f,
            .b_op = Op::kTransposed, .c = out, .c_stride = out_f});
}

template <typename T>
void ParallelMath<T>::LinearGradient(const T* x, const T* dy, int64_t rows, int64_t in_f, const T* w, int64_t out_f,
                                     T* dx, bool add_dx, T* dw) {
  if (dx != nullptr) {
    Multiply({.m = rows, .n = in_f, .k = out_f, .a = dy, .a_stride = out_f, .b = w, .b_stride = in_f, .c = dx,
              .c_stride = in_f, .accumulate = add_dx});
  }
  if (dw != nullptr) {
    Multiply({.m = out_f, .n = in_f, .k = rows, .a = dy, .a_stride = out_f, .a_op = Op::kTransposed, .b = x,
              .b_stride = in_f, .c = dw, .c_stride = in_f, .accumulate = true});
  }
}

template <typename T>
void ParallelMath<T>::Norm(const T* x, int64_t rows, int64_t d, const T* gain, double eps, T* scale, T* y,
                           int64_t y_stride) {
  Parts(rows, kRowPart, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* in = x + r * d;
      double sum = 0;
      for (int64_t i = 0; i < d; ++i) sum += static_cast<double>(in[i]) * static_cast<double>(in[i]);
      const T s = static_cast<T>(1.0 / std::sqrt(sum / static_cast<double>(d) + eps));
      scale[r] = s;
      T* out = y + r * y_stride;
      for (int64_t i = 0; i < d; ++i) out[i] = in[i] * s * gain[i];
    }
  });
}

template <typename T>
void ParallelMath<T>::NormGradient(const T* x, const T* scale, const T* gain, const T* dy, int64_t dy_stride,
                                   int64_t rows, int64_t d, T* dx, T* dgain) {
  if (dx != nullptr) {
    Parts(rows, kRowPart, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T *in = x + r * d, *g = dy + r * dy_stride;
        const T s = scale[r];
        double dot = 0;
        for (int64_t i = 0; i < d; ++i) dot += static_cast<double>(g[i]) * gain[i] * in[i];
        const T along = static_cast<T>(dot * s * s * s / static_cast<double>(d));
        T* out = dx + r * d;
        for (int64_t i = 0; i < d; ++i) out[i] += s * g[i] * gain[i] - along * in[i];
      }
    });
  }
  Parts(d, kColumnPart, [&](int64_t begin, int64_t end) {
    for (int64_t r = 0; r < rows; ++r) {
      const T *in = x + r * d, *g = dy + r * dy_stride;
      const T s = scale[r];
      for (int64_t i = begin; i < end; ++i) dgain[i] += g[i] * in[i] * s;
    }
  });
}

template <typename T>
void ParallelMath<T>::Rotate(T* x, int64_t rows, int n_heads, int head_dim, const int32_t* positions, int offset,
                             double base, bool inverse) {
  const int half = head_dim / 2;
  std::vector<double> frequencies(static_cast<size_t>(half));
  for (int i = 0; i < half; ++i) frequencies[static_cast<size_t>(i)] = std::pow(base, -2.0 * i / head_dim);
  Parts(rows, kRowPart, [&](int64_t begin, int64_t end) {
    std::vector<T> cosine(static_cast<size_t>(half)), sine(static_cast<size_t>(half));
    for (int64_t r = begin; r < end; ++r) {
      for (int i = 0; i < half; ++i) {
        const double angle = (positions[r] + offset) * frequencies[static_cast<size_t>(i)];
        cosine[static_cast<size_t>(i)] = static_cast<T>(std::cos(angle));
        sine[static_cast<size_t>(i)] = static_cast<T>(inverse ? -std::sin(angle) : std::sin(angle));
      }
      for (int h = 0; h < n_heads; ++h) {
        T* low = x + (r * n_heads + h) * head_dim;
        T* high = low + half;
        for (int i = 0; i < half; ++i) {
          const T a = low[i], b = high[i], c = cosine[static_cast<size_t>(i)], s = sine[static_cast<size_t>(i)];
          low[i] = a * c - b * s;
          high[i] = b * c + a * s;
        }
      }
    }
  });
}

template <typename T>
void ParallelMath<T>::SwiGlu(const T* gate, const T* up, int64_t n, T* a) {
  Parts(n, kElementPart, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) a[i] = -gate[i];
    Exponentials(a + begin, end - begin, 0);
    for (int64_t i = begin; i < end; ++i) a[i] = gate[i] / (1 + a[i]) * up[i];
  });
}

template <typename T>
void ParallelMath<T>::SwiGluGradient(const T* da, int64_t n, T* gate, T* up) {
  Parts(n, kElementPart, [&](int64_t begin, int64_t end) {
    std::vector<T> e(static_cast<size_t>(end - begin));
    for (int64_t i = begin; i < end; ++i) e[static_cast<size_t>(i - begin)] = -gate[i];
    Exponentials(e.data(), end - begin, 0);
    for (int64_t i = begin; i < end; ++i) {
      const T sigmoid = 1 / (1 + e[static_cast<size_t>(i - begin)]), g = gate[i], u = up[i];
      up[i] = da[i] * g * sigmoid;
      gate[i] = da[i] * u * sigmoid * (1 + g * (1 - sigmoid));
    }
  });
}

template <typename T>
void ParallelMath<T>::Add(const T* x, int64_t n, T* y) {
  Parts(n, kElementPart, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] += x[i];
  });
}

template <typename T>
void ParallelMath<T>::Gather(const T* x, const int32_t* rows, int64_t n, int64_t d, T* y) {
  Parts(n, kRowPart, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) std::copy_n(x + rows[i] * d, d, y + i * d);
  });
}

template <typename T>
void ParallelMath<T>::ScatterAdd(const T* x, const int32_t* rows, int64_t n, int64_t d, T* y) {
  Parts(n, kRowPart, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* out = y + rows[i] * d;
      for (int64_t c = 0; c < d; ++c) out[c] += x[i * d + c];
    }
  });
}

template class ParallelMath<float>;
template class ParallelMath<double>;

}  // namespace surety::train
