// Instruction counts of attention in all its forms, and of storing and copying keys and values.
#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/kv_store.h"
#include "kernels/cpu/testing/attention_rig.h"
#include "kernels/cpu/testing/counted_cases.h"

namespace surety::kernels::cpu::testing {
namespace {

constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0};
constexpr int kPageTokens = 16;

// Rows of one sequence over the keys before them.
struct Step {
  const char* name;
  int first, n;

  std::vector<Chunk> chunks() const { return {{0, first, n}}; }
  // Of rows and keys that they see.
  int64_t n_pairs() const { return int64_t{n} * first + int64_t{n} * (n + 1) / 2; }
};
constexpr Step kSteps[] = {{"decode1/512", 511, 1}, {"decode4/512", 508, 4}, {"prefill32/256", 224, 32}};

// One call of attention: its pages, rows and outputs.
struct Call {
  Rig rig;
  std::vector<float> q, out;
  int64_t q_cols, out_cols;
  const BatchView* batch;
  Attention attention;

  Call(const KvLayout& layout, const Step& step, int64_t q_columns, int64_t out_columns, Executor& executor)
      : rig(layout, 1, step.first + step.n, 7), q(Rig::Rows(step.chunks(), 3, q_columns)),
        out(static_cast<size_t>(step.n * out_columns)), q_cols(q_columns), out_cols(out_columns) {
    rig.Store(executor, 0, {{0, 0, step.first + step.n}});
    batch = &rig.Batch(step.chunks());
    SURETY_CHECK(attention.Reserve(step.n, 1).ok());
  }

  ConstMatrixF queries() const { return {q.data(), batch->n_rows(), q_cols}; }
  MatrixF outputs() { return {out.data(), batch->n_rows(), out_cols}; }
};

AttentionParams ParamsOf(int n_heads, int n_kv_heads, int dim) {
  AttentionParams params;
  params.n_heads = n_heads;
  params.n_kv_heads = n_kv_heads;
  params.k_dim = params.v_dim = dim;
  params.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  return params;
}

void AddHeadsCase(CountedCases& cases, const std::string& name, const AttentionParams& params, KvType type,
                  const Step& step) {
  const KvLayout layout = {1, params.n_kv_heads, params.k_dim, params.v_dim, kPageTokens, type, false};
  Executor& executor = cases.executor();
  Call& call = cases.Keep<Call>(layout, step, int64_t{params.n_heads} * params.k_dim,
                                int64_t{params.n_heads} * params.v_dim, executor);
  const std::string shape = "H" + std::to_string(params.n_heads) + "K" + std::to_string(params.n_kv_heads) + "E" +
                            std::to_string(params.k_dim);
  cases.Add("attention/" + std::string(NameOf(type)) + "/" + shape + "/" + step.name + name,
            step.n_pairs() * params.n_heads * (params.k_dim + params.v_dim), "product", [&, params] {
              call.attention.Run(executor, params, 0, call.queries(), *call.batch, call.rig.kv(), call.outputs());
            });
}

void AddHeads(CountedCases& cases) {
  for (KvType type : kTypes) {
    for (const Step& step : kSteps) {
      AddHeadsCase(cases, "", ParamsOf(9, 3, 64), type, step);
      AddHeadsCase(cases, "", ParamsOf(12, 2, 128), type, step);
    }
  }
  static const std::vector<float> sinks = CountedNumbers(9);
  for (const Step& step : {kSteps[0], kSteps[2]}) {
    AttentionParams params = ParamsOf(9, 3, 64);
    params.soft_cap = 30.0f;
    AddHeadsCase(cases, "/soft_cap", params, KvType::kF16, step);
    params = ParamsOf(9, 3, 64);
    params.window = 128;
    params.sinks = sinks.data();
    AddHeadsCase(cases, "/window,sinks", params, KvType::kF16, step);
  }
  AttentionParams params = ParamsOf(9, 3, 64);
  params.causal = false;
  AddHeadsCase(cases, "/all_visible", params, KvType::kF16, kSteps[2]);
}

constexpr MlaParams kMla = {4, 64, 32, 128, 64, 0.1f};
constexpr int kKeyDim = kMla.latent_dim + kMla.rope_dim, kMadeDim = kMla.nope_dim + kMla.rope_dim;
constexpr int64_t kMadeRows = int64_t{kMla.n_heads} * (kMla.nope_dim + kMla.v_dim);

void AddMla(CountedCases& cases) {
  Executor& executor = cases.executor();
  const auto& kv_b = cases.Keep<std::vector<float>>(CountedNumbers(kMadeRows * kMla.latent_dim));
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
    const KvLayout layout = {1, 1, kKeyDim, kMla.latent_dim, kPageTokens, type, true};
    for (const Step& step : kSteps) {
      const std::string name = std::string(NameOf(type)) + "/" + step.name;
      Call& absorbed = cases.Keep<Call>(layout, step, kMla.n_heads * kKeyDim, kMla.n_heads * kMla.latent_dim,
                                        executor);
      cases.Add("mla_absorbed/" + name, step.n_pairs() * kMla.n_heads * (kKeyDim + kMla.latent_dim), "product",
                [&] {
                  absorbed.attention.RunMla(executor, kMla, 0, absorbed.queries(), *absorbed.batch,
                                            absorbed.rig.kv(), absorbed.outputs());
                });
      if (step.n < 8) continue;  // few rows would make all keys for little; models take the other form
      Call& made = cases.Keep<Call>(layout, step, kMla.n_heads * kMadeDim, kMla.n_heads * kMla.v_dim,
                                    executor);
      const int64_t n_products = step.n_pairs() * kMla.n_heads * (kMadeDim + kMla.v_dim) +
                                 (step.first + step.n) * kMadeRows * kMla.latent_dim;
      cases.Add("mla_materialised/" + name, n_products, "product", [&] {
        made.attention.RunMlaMaterialised(executor, kMla, 0, made.queries(),
                                          ConstMatrixF(kv_b.data(), kMadeRows, kMla.latent_dim), *made.batch,
                                          made.rig.kv(), made.outputs());
      });
    }
  }
}

// Keys and values of `rows` tokens from position `first` on.
struct Store {
  Rig rig;
  std::vector<float> k, v;
  ConstMatrixF keys, values;
  const BatchView* batch;

  Store(const KvLayout& layout, int first, int n)
      : rig(layout, 1, first + n, 7), batch(&rig.Batch({{0, first, n}})) {
    const int64_t k_cols = int64_t{layout.n_kv_heads} * layout.k_dim;
    const int64_t v_cols = int64_t{layout.n_kv_heads} * layout.v_dim;
    k = CountedNumbers(n * k_cols);
    v = CountedNumbers(n * v_cols);
    keys = {k.data(), n, k_cols};
    if (!layout.latent) values = {v.data(), n, v_cols};
  }
};

void AddStores(CountedCases& cases) {
  Executor& executor = cases.executor();
  for (KvType type : kTypes) {
    for (bool latent : {false, true}) {
      if (latent && type == KvType::kQ8_0) continue;
      const KvLayout layout = latent ? KvLayout{1, 1, 576, 512, kPageTokens, type, true}
                                     : KvLayout{1, 2, 128, 128, kPageTokens, type, false};
      for (int n : {1, 32}) {
        Store& store = cases.Keep<Store>(layout, 37, n);
        cases.Add("kv_store/" + std::string(NameOf(type)) + (latent ? "/latent576/" : "/K2E128/") + std::to_string(n),
                  n * (latent ? 576 : 512), "element",
                  [&] { KvStore(executor, 0, store.keys, store.values, *store.batch, store.rig.kv()); });
      }
    }
  }
}

// Two tables of four pages, the second a copy of the first but for its ends.
struct Copies {
  static constexpr int kTokens = 50;
  Rig rig;
  std::vector<int32_t> from = {0, 1, 2, 3}, to = {4, 5, 6, 7};
  std::vector<KvCopy> copies;
  std::unique_ptr<Ops> ops;

  Copies(KvType type, Executor& executor) : rig({1, 2, 128, 128, kPageTokens, type, false}, 1, 160, 0) {
    copies = {{from, to, 5, kTokens}};
    ops = MakeCpuOps(executor, nullptr, [](Ops&) { return OkStatus(); });
  }
};

}  // namespace

void AddAttentionCases(CountedCases& cases) {
  AddHeads(cases);
  AddMla(cases);
}

void AddKvCases(CountedCases& cases) {
  AddStores(cases);
  for (KvType type : kTypes) {
    Copies& copies = cases.Keep<Copies>(type, cases.executor());
    cases.AddPlain("kv_copy/" + std::string(NameOf(type)) + "/K2E128/50", Copies::kTokens * 512, "element",
                   [&] { copies.ops->CopyKv(0, copies.copies, copies.rig.kv()); });
  }
}

}  // namespace surety::kernels::cpu::testing
