#include "kernels/cpu/activation.h"

#include "base/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu::HWY_NAMESPACE {

void AddRow(float* HWY_RESTRICT x, const float* HWY_RESTRICT delta, int64_t n) {
  ForVectors(n, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, delta + i)), d, x + i);
  });
}

void ScaleRow(float* x, float factor, int64_t n) {
  ForVectors(n, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, x + i);
  });
}

void SoftCapRow(float* x, float cap, int64_t n) {
  const float inv = 1.0f / cap;
  ForVectors(n, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::Set(d, cap), Tanh(d, hn::Mul(hn::LoadU(d, x + i), hn::Set(d, inv)))), d, x + i);
  });
}

// Calls body with the function as a callable of (tag, vector).
template <typename Body>
HWY_INLINE void WithActivation(Activation act, const Body& body) {
  switch (act) {
    case Activation::kSilu: return body([](auto d, auto v) HWY_ATTR { return Silu(d, v); });
    case Activation::kGeluTanh: return body([](auto d, auto v) HWY_ATTR { return GeluTanh(d, v); });
    case Activation::kGeluErf: return body([](auto d, auto v) HWY_ATTR { return GeluErf(d, v); });
    case Activation::kRelu: return body([](auto d, auto v) HWY_ATTR { return hn::Max(v, hn::Zero(d)); });
  }
}

void ActivateRow(Activation act, float* x, int64_t n) {
  WithActivation(act, [&](auto f) HWY_ATTR {
    ForVectors(n, [&](auto d, int64_t i) HWY_ATTR { hn::StoreU(f(d, hn::LoadU(d, x + i)), d, x + i); });
  });
}

void GatedRow(Activation act, const float* gate, const float* up, float* out, int64_t n) {
  WithActivation(act, [&](auto f) HWY_ATTR {
    ForVectors(n, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(f(d, hn::LoadU(d, gate + i)), hn::LoadU(d, up + i)), d, out + i);
    });
  });
}

void MathRow(MathFunction function, const float* x, int64_t n, float* out) {
  ForVectors(n, [&](auto d, int64_t i) HWY_ATTR {
    auto v = hn::LoadU(d, x + i);
    switch (function) {
      case MathFunction::kExp: v = Exp(d, v); break;
      case MathFunction::kExpNonPositive: v = ExpNonPositive(d, v); break;
      case MathFunction::kTanh: v = Tanh(d, v); break;
      case MathFunction::kErf: v = Erf(d, v); break;
      case MathFunction::kSigmoid: v = Sigmoid(d, v); break;
      case MathFunction::kSilu: v = Silu(d, v); break;
      case MathFunction::kGeluTanh: v = GeluTanh(d, v); break;
      case MathFunction::kGeluErf: v = GeluErf(d, v); break;
    }
    hn::StoreU(v, d, out + i);
  });
}

}  // namespace surety::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace surety::kernels::cpu {

HWY_EXPORT(AddRow);
HWY_EXPORT(ScaleRow);
HWY_EXPORT(SoftCapRow);
HWY_EXPORT(ActivateRow);
HWY_EXPORT(GatedRow);
HWY_EXPORT(MathRow);

void Add(Executor& executor, MatrixF x, ConstMatrixF delta) {
  SURETY_CHECK(x.rows == delta.rows && x.cols == delta.cols);
  const auto fn = HWY_DYNAMIC_DISPATCH(AddRow);
  ForElements(executor, x.rows, x.cols / 2, [&](int64_t row, int64_t first, int64_t end) {  // adding is cheap: half
    const int64_t last = end == x.cols / 2 ? x.cols : 2 * end;
    fn(x.Row(row) + 2 * first, delta.Row(row) + 2 * first, last - 2 * first);
  });
}

void Scale(Executor& executor, MatrixF x, float factor) {
  const auto fn = HWY_DYNAMIC_DISPATCH(ScaleRow);
  ForElements(executor, x.rows, x.cols, [&](int64_t row, int64_t first, int64_t end) {
    fn(x.Row(row) + first, factor, end - first);
  });
}

void SoftCap(Executor& executor, MatrixF x, float cap) {
  SURETY_CHECK(cap > 0);
  const auto fn = HWY_DYNAMIC_DISPATCH(SoftCapRow);
  ForElements(executor, x.rows, x.cols, [&](int64_t row, int64_t first, int64_t end) {
    fn(x.Row(row) + first, cap, end - first);
  });
}

void GatedActivation(Executor& executor, Activation act, ConstMatrixF gate_up, MatrixF out) {
  SURETY_CHECK(gate_up.rows == out.rows && gate_up.cols == 2 * out.cols);
  const auto fn = HWY_DYNAMIC_DISPATCH(GatedRow);
  ForElements(executor, out.rows, out.cols, [&](int64_t row, int64_t first, int64_t end) {
    const float* gate = gate_up.Row(row) + first;
    fn(act, gate, gate + out.cols, out.Row(row) + first, end - first);
  });
}

void Activate(Executor& executor, Activation act, MatrixF x) {
  const auto fn = HWY_DYNAMIC_DISPATCH(ActivateRow);
  ForElements(executor, x.rows, x.cols, [&](int64_t row, int64_t first, int64_t end) {
    fn(act, x.Row(row) + first, end - first);
  });
}

void ApplyMath(MathFunction function, const float* x, int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(MathRow)(function, x, n, out);
}

}  // namespace surety::kernels::cpu
#endif  // HWY_ONCE
