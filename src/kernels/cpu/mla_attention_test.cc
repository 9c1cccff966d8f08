// Latent attention in both forms against plain loops in double, against each other, and bit equality.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/head_matmul.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/testing/attention_rig.h"
#include "kernels/reference/attention_reference.h"

namespace surety::kernels::cpu {
namespace {

using testing::Chunk;
using testing::NumberAt;
using testing::Rig;

struct MlaCase {
  MlaParams params;
  KvType type;
  int page_tokens;
};

std::vector<MlaCase> AllMlaCases() {
  std::vector<MlaCase> cases;
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
    cases.push_back({{4, 16, 8, 32, 16, 0.6f}, type, 16});
    cases.push_back({{3, 7, 5, 21, 9, 0.8f}, type, 32});
    if (type == KvType::kF16) cases.push_back({{70, 8, 4, 16, 8, 1.0f}, type, 64});
  }
  return cases;
}

class MlaRun {
 public:
  MlaRun(const MlaCase& c, int n_sequences, int max_tokens, uint64_t shuffle)
      : params_(c.params),
        rig_({1, 1, c.params.latent_dim + c.params.rope_dim, c.params.latent_dim, c.page_tokens, c.type, true},
             n_sequences, max_tokens, shuffle) {
    const int64_t rows = int64_t{params_.n_heads} * (params_.nope_dim + params_.v_dim);
    for (int64_t i = 0; i < rows * params_.latent_dim; ++i) {
      kv_b_.push_back(NumberAt(11, 0, 0, static_cast<uint64_t>(i)));
    }
  }

  void Store(const std::vector<Chunk>& chunks) { rig_.Store(serial_, 0, chunks); }

  ConstMatrixF kv_b() const {
    return {kv_b_.data(), int64_t{params_.n_heads} * (params_.nope_dim + params_.v_dim), params_.latent_dim};
  }
  int64_t QCols(bool absorbed) const {
    return int64_t{params_.n_heads} * ((absorbed ? params_.latent_dim : params_.nope_dim) + params_.rope_dim);
  }
  int64_t OutCols(bool absorbed) const {
    return int64_t{params_.n_heads} * (absorbed ? params_.latent_dim : params_.v_dim);
  }

  std::vector<float> Attend(Executor& executor, bool absorbed, const std::vector<Chunk>& chunks,
                            const std::vector<float>* queries = nullptr) {
    const BatchView& batch = rig_.Batch(chunks);
    const int64_t rows = batch.n_rows();
    const std::vector<float> q = queries != nullptr ? *queries : Rig::Rows(chunks, 3, QCols(absorbed));
    std::vector<float> out(static_cast<size_t>(rows * OutCols(absorbed)));
    Attention attention;
    EXPECT_TRUE(attention.Reserve(rows, executor.n_workers()).ok());
    const ConstMatrixF qm(q.data(), rows, QCols(absorbed));
    const MatrixF om(out.data(), rows, OutCols(absorbed));
    if (absorbed) {
      attention.RunMla(executor, params_, 0, qm, batch, rig_.kv(), om);
    } else {
      attention.RunMlaMaterialised(executor, params_, 0, qm, kv_b(), batch, rig_.kv(), om);
    }
    return out;
  }

  reference::Bounded Expected(bool absorbed, const std::vector<Chunk>& chunks) {
    const BatchView& batch = rig_.Batch(chunks);
    const std::vector<float> q = Rig::Rows(chunks, 3, QCols(absorbed));
    const ConstMatrixF qm(q.data(), batch.n_rows(), QCols(absorbed));
    return absorbed ? reference::MlaAttention(params_, 0, qm, batch, rig_.kv())
                    : reference::MlaAttentionMaterialised(params_, 0, qm, kv_b(), batch, rig_.kv());
  }

  const MlaParams& params() const { return params_; }

 private:
  MlaParams params_;
  Rig rig_;
  std::vector<float> kv_b_;
  SerialExecutor serial_;
};

class MlaAttentionTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(SetIsa(BestIsa()).ok()); }
  SerialExecutor serial_;
  std::unique_ptr<Executor> two_ = MakeThreadPool({.n_workers = 2, .pin = false, .spin_nanos = 0});
};

TEST_F(MlaAttentionTest, BothFormsMatchPlainLoopsWithinTheErrorBound) {
  for (const MlaCase& c : AllMlaCases()) {
    MlaRun run(c, 2, 200, 3);
    run.Store({{0, 0, 150}, {1, 0, 3}});
    const std::vector<Chunk> chunks = {{1, 0, 3}, {0, 145, 5}};
    for (bool absorbed : {true, false}) {
      const reference::Bounded want = run.Expected(absorbed, chunks);
      for (Isa isa : SupportedIsas()) {
        ASSERT_TRUE(SetIsa(isa).ok());
        const std::vector<float> got = run.Attend(serial_, absorbed, chunks);
        ASSERT_EQ(got.size(), want.value.size());
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_LE(std::abs(got[i] - want.value[i]), want.bound[i])
              << (absorbed ? "absorbed " : "materialised ") << i << " on " << NameOf(isa);
        }
      }
    }
  }
}

TEST_F(MlaAttentionTest, RowsHaveTheSameBitsHoweverTheyAreComputed) {
  constexpr int kTokens = 266;
  for (const MlaCase& c : AllMlaCases()) {
    for (bool absorbed : {true, false}) {
      MlaRun whole(c, 1, kTokens, 0);
      whole.Store({{0, 0, kTokens}});
      const std::vector<float> all = whole.Attend(serial_, absorbed, {{0, 0, kTokens}});
      EXPECT_EQ(all, whole.Attend(*two_, absorbed, {{0, 0, kTokens}}));
      MlaCase other = c;
      other.page_tokens = 48;
      MlaRun chunked(other, 2, kTokens, 7);
      chunked.Store({{1, 0, 20}});
      std::vector<float> rows;
      int first = 0;
      for (int n : {1, 130, 6, 70, 1, 58}) {
        chunked.Store({{0, first, n}});
        const std::vector<float> part = chunked.Attend(n % 2 ? serial_ : *two_, absorbed, {{0, first, n}, {1, 10, 4}});
        rows.insert(rows.end(), part.begin(), part.begin() + n * chunked.OutCols(absorbed));
        first += n;
      }
      ASSERT_EQ(first, kTokens);
      EXPECT_EQ(all, rows);
    }
  }
}

// q_nope . (W_UK c) = (W_UK^T q_nope) . c and W_UV (sum p c) = sum p (W_UV c): the forms differ by rounding only, each
// by at most its own bound plus that of the products outside the attention.
TEST_F(MlaAttentionTest, AbsorbedEqualsMaterialised) {
  for (const MlaCase& c : AllMlaCases()) {
    constexpr int kRows = 5;
    const MlaParams& p = c.params;
    MlaRun run(c, 1, 200, 3);
    run.Store({{0, 0, 170}});
    const std::vector<Chunk> chunks = {{0, 140, kRows}};
    const std::vector<float> made = run.Attend(serial_, false, chunks);
    const reference::Bounded want = run.Expected(false, chunks);
    // Absorb the queries.
    const std::vector<float> q = Rig::Rows(chunks, 3, run.QCols(false));
    std::vector<float> absorbed(static_cast<size_t>(kRows * run.QCols(true)));
    const ConstMatrixF qm(q.data(), kRows, run.QCols(false));
    const MatrixF am(absorbed.data(), kRows, run.QCols(true));
    const int64_t stride = int64_t{p.nope_dim + p.v_dim} * p.latent_dim;
    HeadMatMul(serial_, run.kv_b().data, stride, p.n_heads, p.nope_dim, p.latent_dim, true, qm, am);
    for (int r = 0; r < kRows; ++r) {
      for (int h = 0; h < p.n_heads; ++h) {
        for (int i = 0; i < p.rope_dim; ++i) {
          am.Row(r)[h * (p.latent_dim + p.rope_dim) + p.latent_dim + i] =
              qm.Row(r)[h * (p.nope_dim + p.rope_dim) + p.nope_dim + i];
        }
      }
    }
    const std::vector<float> latent = run.Attend(serial_, true, chunks, &absorbed);
    std::vector<float> out(made.size());
    HeadMatMul(serial_, run.kv_b().data + p.nope_dim * p.latent_dim, stride, p.n_heads, p.latent_dim, p.v_dim, false,
               ConstMatrixF(latent.data(), kRows, run.OutCols(true)), MatrixF(out.data(), kRows, run.OutCols(false)));
    // The materialised bound covers every product of the absorbed form in another order: the same count of roundings
    // on the same magnitudes, once more for the latent sums.
    for (size_t i = 0; i < out.size(); ++i) EXPECT_LE(std::abs(out[i] - made[i]), 3 * want.bound[i]) << i;
  }
}

}  // namespace
}  // namespace surety::kernels::cpu
