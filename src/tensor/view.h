// Views on memory that somebody else owns. A view is two or three words, passed by value; it is valid as long as the
// memory is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace surety {

// rows x cols numbers, row r at data + r * stride (in elements).
template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  Matrix() = default;
  Matrix(T* d, int64_t r, int64_t c) : data(d), rows(r), cols(c), stride(c) {}
  Matrix(T* d, int64_t r, int64_t c, int64_t s) : data(d), rows(r), cols(c), stride(s) {}
  operator Matrix<const T>() const { return {data, rows, cols, stride}; }  // NOLINT: implicit by design

  T* Row(int64_t r) const { return data + r * stride; }
  Matrix Rows(int64_t first, int64_t n) const { return {data + first * stride, n, cols, stride}; }
  Matrix Cols(int64_t first, int64_t n) const { return {data + first, rows, n, stride}; }
};

using MatrixF = Matrix<float>;
using ConstMatrixF = Matrix<const float>;

// A stored tensor as its file has it: row-major, the last dimension contiguous and, for block types, a multiple of the
// block. `shape` has the slowest dimension first (so a weight matrix is {outputs, inputs}; GGUF stores the reverse).
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;

  int64_t ElementCount() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
  int64_t cols() const { return shape.empty() ? 1 : shape.back(); }
  int64_t rows() const { return cols() == 0 ? 0 : ElementCount() / cols(); }
};

}  // namespace surety
