// Instruction counts of the matrix product, of rounding its input, and of packing and reading weights.
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/embed.h"
#include "kernels/cpu/head_matmul.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_test_util.h"
#include "kernels/cpu/quantized_x.h"
#include "kernels/cpu/testing/counted_cases.h"
#include "tensor/dtype.h"

namespace surety::kernels::cpu::testing {
namespace {

// 8 groups; two chunks of unpacked blocks (matmul.cc), six supers of a K format.
constexpr int64_t kOutputs = 128, kInputs = 1536;
// One row, one pass over the packed form where registers are narrow and where they are wide, one group at a time, all
// groups at once.
constexpr int64_t kRowCounts[] = {1, 4, 8, 24, 64};
constexpr int64_t kMostRows = 64;

struct Product {
  std::unique_ptr<PackedMatrix> weight;
  std::vector<float> x = CountedNumbers(kMostRows * kInputs);
  std::vector<float> out = std::vector<float>(kMostRows * kOutputs);
  std::vector<float> bias = CountedNumbers(kOutputs);
  MatMul matmul;

  Product(DType dtype, int64_t n_outputs, Executor& executor) {
    const RandomWeights random(dtype, n_outputs, kInputs, 1);
    weight = PackMatrix({&random.view, 1}, executor).value();
    SURETY_CHECK(matmul.Reserve(kMostRows, kInputs, 1).ok());
  }

  void Run(Executor& executor, int64_t rows, bool with_rest) {
    const MatMulTask task = {weight.get(), MatrixF(out.data(), rows, weight->n_outputs()),
                             with_rest ? bias.data() : nullptr, with_rest};
    matmul.Run(executor, ConstMatrixF(x.data(), rows, kInputs), {&task, 1});
  }
};

std::string ShapeOf(int64_t rows, int64_t n_outputs) {
  return std::to_string(rows) + "x" + std::to_string(n_outputs) + "x" + std::to_string(kInputs);
}

void AddProducts(CountedCases& cases) {
  Executor& executor = cases.executor();
  for (const DTypeInfo& info : AllDTypes()) {
    Product& product = cases.Keep<Product>(info.dtype, kOutputs, executor);
    for (int64_t rows : kRowCounts) {
      cases.Add("matmul/" + std::string(info.name) + "/" + ShapeOf(rows, kOutputs), rows * kOutputs * kInputs,
                "product", [&, rows] { product.Run(executor, rows, false); });
    }
  }
  // The last group is not full, and the sums meet a bias and what stood there.
  constexpr int64_t kFewer = 120;
  for (DType dtype : {DType::kQ8_0, DType::kF16}) {
    Product& product = cases.Keep<Product>(dtype, kFewer, executor);
    for (int64_t rows : {1, 8}) {
      cases.Add("matmul/" + std::string(NameOf(dtype)) + "/" + ShapeOf(rows, kFewer) + "/bias,accumulate",
                rows * kFewer * kInputs, "product", [&, rows] { product.Run(executor, rows, true); });
    }
  }
}

struct Rounding {
  static constexpr int kSegments = 16, kElements = kSegments * kSegment * kBlock;
  std::vector<float> x = CountedNumbers(kElements);
  std::vector<XBlock> blocks = std::vector<XBlock>(kSegments * kSegment);
  XBlock extras[kMaxExtras];

  void Run() {
    for (int s = 0; s < kSegments; ++s) {
      QuantizeSegment(x.data() + s * kSegment * kBlock, kSegment, 0, blocks.data() + s * kSegment, extras);
    }
  }
};

struct Stored {
  static constexpr int64_t kRows = 16, kCols = 1536;
  RandomWeights weights;
  std::vector<int32_t> ids = {3, 15, 0, 7};
  std::vector<float> out = std::vector<float>(4 * kCols);
  explicit Stored(DType dtype) : weights(dtype, kRows, kCols, 1) {}
};

void AddStored(CountedCases& cases) {
  Executor& executor = cases.executor();
  for (const DTypeInfo& info : AllDTypes()) {
    Stored& stored = cases.Keep<Stored>(info.dtype);
    cases.AddPlain("pack/" + std::string(info.name) + "/16x1536", Stored::kRows * Stored::kCols, "element", [&] {
      SURETY_CHECK(PackMatrix({&stored.weights.view, 1}, executor).has_value());
    });
    cases.AddPlain("embed/" + std::string(info.name) + "/4x1536", 4 * Stored::kCols, "element", [&] {
      Embed(executor, stored.weights.view, stored.ids, 1.0f, MatrixF(stored.out.data(), 4, Stored::kCols));
    });
  }
}

struct Heads {
  static constexpr int kHeads = 4, kIn = 64, kOut = 128;
  std::vector<float> w = CountedNumbers(kHeads * kIn * kOut);
  std::vector<float> x = CountedNumbers(8 * kHeads * kIn);
  std::vector<float> out = std::vector<float>(8 * kHeads * kOut);
};

void AddHeadProducts(CountedCases& cases) {
  Executor& executor = cases.executor();
  Heads& heads = cases.Keep<Heads>();
  for (bool transposed : {false, true}) {
    for (int64_t rows : {1, 8}) {
      const std::string name = "head_matmul/" + std::string(transposed ? "transposed" : "plain") + "/" +
                               std::to_string(rows) + "x4x128x64";
      cases.Add(name, rows * Heads::kHeads * Heads::kIn * Heads::kOut, "product", [&, transposed, rows] {
        HeadMatMul(executor, heads.w.data(), int64_t{Heads::kIn} * Heads::kOut, Heads::kHeads, Heads::kIn, Heads::kOut,
                   transposed, ConstMatrixF(heads.x.data(), rows, Heads::kHeads * Heads::kIn),
                   MatrixF(heads.out.data(), rows, Heads::kHeads * Heads::kOut));
      });
    }
  }
}

}  // namespace

void AddMatMulCases(CountedCases& cases) {
  AddProducts(cases);
  Rounding& rounding = cases.Keep<Rounding>();
  cases.Add("quantize/16x1024", Rounding::kElements, "element", [&] { rounding.Run(); });
  AddHeadProducts(cases);
  AddStored(cases);
}

}  // namespace surety::kernels::cpu::testing
