// Instruction counts of norms, rotary embedding, activations, sums and rows that move about.
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/testing/counted_cases.h"

namespace surety::kernels::cpu::testing {
namespace {

constexpr int64_t kRows = 16, kCols = 1536, kElements = kRows * kCols;

struct Rows {
  std::vector<float> x = CountedNumbers(kElements), delta = CountedNumbers(kElements);
  std::vector<float> out = std::vector<float>(kElements);
  std::vector<float> weight = CountedNumbers(kCols), bias = CountedNumbers(kCols);

  MatrixF xm() { return {x.data(), kRows, kCols}; }
  ConstMatrixF deltam() const { return {delta.data(), kRows, kCols}; }
  MatrixF outm() { return {out.data(), kRows, kCols}; }
};

void AddNorms(CountedCases& cases) {
  Executor& executor = cases.executor();
  Rows& rows = cases.Keep<Rows>();
  cases.Add("rms_norm/16x1536", kElements, "element",
            [&] { RmsNorm(executor, rows.deltam(), rows.weight.data(), kCols, 1e-6f, rows.outm()); });
  cases.Add("rms_norm/16x24x64", kElements, "element",
            [&] { RmsNorm(executor, rows.deltam(), rows.weight.data(), 64, 1e-6f, rows.outm()); });
  cases.Add("add_rms_norm/16x1536", kElements, "element", [&] {
    AddRmsNorm(executor, rows.xm(), rows.deltam(), rows.weight.data(), 1e-6f, rows.outm());
  });
  cases.Add("layer_norm/16x1536", kElements, "element", [&] {
    LayerNorm(executor, rows.deltam(), rows.weight.data(), rows.bias.data(), 1e-5f, rows.outm());
  });
}

void AddActivations(CountedCases& cases) {
  Executor& executor = cases.executor();
  Rows& rows = cases.Keep<Rows>();
  cases.Add("add/16x1536", kElements, "element", [&] { Add(executor, rows.xm(), rows.deltam()); });
  cases.Add("scale/16x1536", kElements, "element", [&] { Scale(executor, rows.xm(), 0.5f); });
  cases.Add("soft_cap/16x1536", kElements, "element", [&] { SoftCap(executor, rows.xm(), 30.0f); });
  const std::pair<Activation, const char*> activations[] = {{Activation::kSilu, "silu"},
                                                            {Activation::kGeluTanh, "gelu_tanh"},
                                                            {Activation::kGeluErf, "gelu_erf"},
                                                            {Activation::kRelu, "relu"}};
  for (const auto& [activation, name] : activations) {
    cases.Add("activation/" + std::string(name) + "/16x1536", kElements, "element",
              [&, activation = activation] { Activate(executor, activation, rows.xm()); });
    cases.Add("gated_activation/" + std::string(name) + "/16x768", kElements / 2, "element",
              [&, activation = activation] {
                GatedActivation(executor, activation, rows.deltam(), MatrixF(rows.out.data(), kRows, kCols / 2));
              });
  }
}

struct Rotation {
  static constexpr int kHeads = 14, kDim = 64, kFreqs = kDim / 2;
  std::vector<double> inv_freq;
  std::vector<int32_t> positions;
  std::vector<float> table = std::vector<float>(kRows * 2 * kFreqs);
  std::vector<float> x = CountedNumbers(kRows * kHeads * kDim);

  Rotation() {
    for (int i = 0; i < kFreqs; ++i) inv_freq.push_back(std::pow(10000.0, -2.0 * i / kDim));
    for (int i = 0; i < kRows; ++i) positions.push_back(1000 + i);
  }
  RopeSpec Spec(bool interleaved) const { return {kFreqs, interleaved, inv_freq.data()}; }
  MatrixF tablem() { return {table.data(), kRows, 2 * kFreqs}; }
};

void AddRotations(CountedCases& cases) {
  Executor& executor = cases.executor();
  Rotation& rotation = cases.Keep<Rotation>();
  cases.Add("rope_table/16x32", kRows * Rotation::kFreqs, "angle",
            [&] { RopeTable(executor, rotation.Spec(false), rotation.positions, rotation.tablem()); });
  for (bool interleaved : {false, true}) {
    cases.Add(interleaved ? "rope/interleaved/16x14x64" : "rope/halves/16x14x64",
              kRows * Rotation::kHeads * Rotation::kDim, "element", [&, interleaved] {
                Rope(executor, rotation.Spec(interleaved), rotation.tablem(), Rotation::kHeads, Rotation::kDim, 0,
                     MatrixF(rotation.x.data(), kRows, Rotation::kHeads * Rotation::kDim));
              });
  }
}

struct Moves {
  Rows rows;
  std::vector<int32_t> ids = {5, 0, 3, 15, 9, 9, 2, 7};
  std::vector<float> weights = CountedNumbers(8);
  std::unique_ptr<Ops> ops;
  explicit Moves(Executor& executor) : ops(MakeCpuOps(executor, nullptr, [](Ops&) { return OkStatus(); })) {}
};

void AddMoves(CountedCases& cases) {
  Moves& moves = cases.Keep<Moves>(cases.executor());
  const auto n = static_cast<int64_t>(moves.ids.size());
  cases.AddPlain("gather_rows/8x1536", n * kCols, "element", [&, n] {
    moves.ops->GatherRows(moves.rows.deltam(), moves.ids, MatrixF(moves.rows.out.data(), n, kCols));
  });
  cases.AddPlain("scatter_add_rows/8x1536", n * kCols, "element", [&, n] {
    moves.ops->ScatterAddRows(ConstMatrixF(moves.rows.x.data(), n, kCols), moves.ids, moves.weights,
                              moves.rows.outm());
  });
  cases.AddPlain("copy_heads/16x12x64", kRows * 12 * 64, "element",
                 [&] { moves.ops->CopyHeads(moves.rows.deltam(), 12, 64, 64, moves.rows.outm(), 0); });
}

}  // namespace

void AddElementwiseCases(CountedCases& cases) {
  AddNorms(cases);
  AddActivations(cases);
  AddRotations(cases);
  AddMoves(cases);
}

}  // namespace surety::kernels::cpu::testing
