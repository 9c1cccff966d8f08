// Draft heads against references that were computed by hand (tools/goldens/draft_heads.py): several rows with the
// target's states, then rows that go on with the head's own, over paged keys and values.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "kernels/cpu/cpu_ops.h"
#include "model/heads/draft_head.h"
#include "model/testing/allocation_counter.h"
#include "model/testing/reference_file.h"

namespace surety::model {
namespace {

const std::string kHeads = std::string(SURETY_TESTDATA) + "/heads/";
constexpr int kOwnRows = 4;  // DEPTH of the generator

// A head on the tiny Llama with pages of its own, whose memory holds NaN.
struct HeadRig {
  std::unique_ptr<Executor> executor = MakeThreadPool({.n_workers = 1});
  std::unique_ptr<kernels::Ops> ops, head_ops;
  std::unique_ptr<ModelSource> source;
  std::unique_ptr<Model> model;
  std::unique_ptr<DraftHead> head;
  AlignedBuffer memory;
  PagedKvView kv;
  std::vector<int32_t> pages = {5, 2, 7, 1, 0, 6, 3, 4};

  static std::unique_ptr<HeadRig> Make(const HeadOptions& options, KvType type = KvType::kF32) {
    auto rig = std::make_unique<HeadRig>();
    rig->ops = kernels::cpu::MakeCpuOps(*rig->executor, nullptr);
    rig->head_ops = kernels::cpu::MakeCpuOps(*rig->executor, nullptr);
    rig->source = *OpenModelSource(FileSystem::Real(), std::string(SURETY_TESTDATA) + "/tiny/llama");
    rig->model = *Model::Load(*rig->source, *rig->ops, [](const LoadProgress&) { return true; });
    EXPECT_TRUE(rig->model->Reserve(64, 128).ok());
    auto head = LoadDraftHead(FileSystem::Real(), options, {*rig->source, *rig->model}, *rig->head_ops);
    EXPECT_TRUE(head.has_value()) << head.error().ToString();
    if (!head) return nullptr;
    rig->head = *std::move(head);
    EXPECT_TRUE(rig->head->Reserve(64, 128).ok());
    if (rig->head->recipe().method == HeadMethod::kMedusa) return rig;
    rig->kv.layout = rig->head->recipe().KvLayoutFor(type, 16);
    rig->kv.page_stride_bytes = rig->kv.layout.PageStrideBytes();
    rig->kv.n_pages = static_cast<int>(rig->pages.size());
    rig->memory = AlignedBuffer(static_cast<size_t>(rig->kv.page_stride_bytes * rig->kv.n_pages));
    std::memset(rig->memory.data(), 0xFF, rig->memory.size_bytes());
    rig->kv.base = rig->memory.data();
    return rig;
  }

  EagleHead& eagle() { return static_cast<EagleHead&>(*head); }
};

struct EagleOutput {
  std::vector<float> hidden, logits;
};

// Rows of positions 1 .. n, cut as given; the last kOwnRows one by one with the head's own states.
EagleOutput RunEagle(HeadRig& rig, const ReferenceFile& reference, const std::vector<int>& cuts, int64_t* allocations) {
  EagleHead& head = rig.eagle();
  const auto& states = reference.values.at("states");
  const int n_rows = static_cast<int>(reference.input_ids.size()) - 1, n_true = n_rows - kOwnRows;
  const auto width = static_cast<size_t>(head.state_dim(false)), own_width = static_cast<size_t>(head.state_dim(true));
  const int64_t vocab = head.recipe().draft_vocab_size;
  EagleOutput out;
  std::vector<float> own;
  for (int done = 0, c = 0; done < n_rows; ++c) {
    const bool goes_on = done >= n_true;
    const int cut = cuts[std::min(static_cast<size_t>(c), cuts.size() - 1)];
    const int n = goes_on ? 1 : std::min(n_true - done, cut);
    std::vector<int32_t> positions(static_cast<size_t>(n)), wanted(static_cast<size_t>(n));
    std::iota(positions.begin(), positions.end(), done + 1);
    std::iota(wanted.begin(), wanted.end(), 0);
    const SequenceRows rows = {0, n, done + 1, rig.pages, 1};
    const std::span<const int32_t> tokens(reference.input_ids);
    const BatchView batch = {tokens.subspan(static_cast<size_t>(done + 1), static_cast<size_t>(n)), positions,
                             {&rows, 1}, wanted};
    std::vector<float> logits(static_cast<size_t>(n * vocab));
    const ConstMatrixF read = goes_on ? ConstMatrixF(own.data(), 1, static_cast<int64_t>(own_width))
                                      : ConstMatrixF(states.data() + static_cast<size_t>(done) * width, n,
                                                     static_cast<int64_t>(width));
    const int64_t before = AllocationsSoFar();
    head.Forward(batch, read, goes_on, rig.kv, MatrixF(logits.data(), n, vocab));
    *allocations += AllocationsSoFar() - before;
    const ConstMatrixF hidden = head.hidden();
    EXPECT_EQ(hidden.rows, n);
    EXPECT_EQ(hidden.cols, static_cast<int64_t>(own_width));
    for (int row = 0; row < n; ++row) out.hidden.insert(out.hidden.end(), hidden.Row(row), hidden.Row(row) + own_width);
    out.logits.insert(out.logits.end(), logits.begin(), logits.end());
    own.assign(hidden.Row(n - 1), hidden.Row(n - 1) + own_width);
    done += n;
  }
  return out;
}

// As in model_test.cc: how far the reference moves under a relative noise of 1e-6, scaled to what float sums may err.
double HeadTolerance(const ReferenceFile& reference, int longest_sum) {
  return reference.Number("noise_1e-6") / 1e-6 * longest_sum * 0x1p-24;
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want, double tolerance, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << what << " element " << i;
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - want[i]));
  }
  EXPECT_LE(worst, tolerance) << what;
}

class EagleHeadTest : public ::testing::TestWithParam<const char*> {};

TEST_P(EagleHeadTest, EqualsTheReferenceHoweverItIsCut) {
  const std::string path = kHeads + GetParam();
  const auto reference = ReadReferenceFile(path + "/reference.safetensors");
  ASSERT_FALSE(reference.input_ids.empty());
  std::vector<float> first;
  for (const std::vector<int>& cuts : std::vector<std::vector<int>>{{100}, {1}, {4, 7}}) {
    const auto rig = HeadRig::Make({.path = path, .round_weights = false});
    ASSERT_NE(rig, nullptr);
    int64_t allocations = 0;
    const EagleOutput out = RunEagle(*rig, reference, cuts, &allocations);
    const double tolerance = HeadTolerance(reference, rig->head->recipe().feature_dim() + rig->head->recipe().d_model);
    ExpectNear(out.hidden, reference.values.at("hidden"), tolerance, "hidden");
    ExpectNear(out.logits, reference.values.at("logits"), tolerance, "logits");
    EXPECT_EQ(allocations, 0);
    if (first.empty()) first = out.logits;
    EXPECT_EQ(first, out.logits) << "a row's bits depend on the cut";
  }
}

TEST_P(EagleHeadTest, RoundedWeightsSayNearlyTheSame) {
  const std::string path = kHeads + GetParam();
  const auto reference = ReadReferenceFile(path + "/reference.safetensors");
  for (const KvType type : {KvType::kF16, KvType::kQ8_0}) {
    const auto rig = HeadRig::Make({.path = path}, type);
    ASSERT_NE(rig, nullptr);
    int64_t allocations = 0;
    const EagleOutput out = RunEagle(*rig, reference, {100}, &allocations);
    const auto& want = reference.values.at("logits");
    double dot = 0, a = 0, b = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      dot += static_cast<double>(out.logits[i]) * want[i];
      a += static_cast<double>(out.logits[i]) * out.logits[i];
      b += static_cast<double>(want[i]) * want[i];
    }
    // Rounding to 8 bits moves weights and inputs by under a hundredth of their size, in some five products in a row.
    EXPECT_GT(dot / std::sqrt(a * b), 0.99) << NameOf(type);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, EagleHeadTest,
                         ::testing::Values("eagle1", "eagle3", "eagle3_speculators", "eagle3_narrow"));

class MedusaHeadTest : public ::testing::TestWithParam<const char*> {};

TEST_P(MedusaHeadTest, EachHeadEqualsTheReference) {
  const std::string path = kHeads + GetParam();
  const auto reference = ReadReferenceFile(path + "/reference.safetensors");
  ASSERT_FALSE(reference.input_ids.empty());
  const auto rig = HeadRig::Make({.path = path, .round_weights = false});
  ASSERT_NE(rig, nullptr);
  auto& head = static_cast<MedusaHead&>(*rig->head);
  const auto& states = reference.values.at("states");
  const auto n = static_cast<int64_t>(reference.input_ids.size());
  const bool vllm = std::string(GetParam()) == "medusa_vllm";
  EXPECT_EQ(head.n_heads(), vllm ? 2 : 3);
  EXPECT_EQ(head.recipe().note.empty(), vllm) << "the count in config.json is wrong on purpose";
  for (int i = 0; i < head.n_heads(); ++i) {
    std::vector<float> logits(static_cast<size_t>(n * head.recipe().draft_vocab_size));
    const int64_t before = AllocationsSoFar();
    head.Forward(i, ConstMatrixF(states.data(), n, 64), MatrixF(logits.data(), n, head.recipe().draft_vocab_size));
    EXPECT_EQ(AllocationsSoFar(), before);
    ExpectNear(logits, reference.values.at("logits_" + std::to_string(i)), HeadTolerance(reference, 64), "logits");
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, MedusaHeadTest, ::testing::Values("medusa", "medusa_vllm"));

TEST(DraftHeadTest, RecipesSayWhatTheFilesSay) {
  const auto third = HeadRig::Make({.path = kHeads + "eagle3"});
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(third->head->recipe().taps, (std::vector<HiddenTap>{{0}, {1}, {0}}));
  EXPECT_FALSE(third->head->recipe().norm_before_residual);
  const auto ids = third->head->target_ids();
  ASSERT_EQ(ids.size(), 96u);
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_NE(third->head->recipe().Describe().find("entering layers 0, 1, 0 (3 x 64)"), std::string::npos);
  EXPECT_NE(third->head->recipe().Describe().find("vocabulary 96 of 256"), std::string::npos);

  const auto nested = HeadRig::Make({.path = kHeads + "eagle3_speculators"});
  ASSERT_NE(nested, nullptr);
  const HeadRecipe& recipe = nested->head->recipe();
  EXPECT_TRUE(recipe.norm_before_residual && recipe.input_norm && recipe.norm_output && recipe.own_output);
  EXPECT_FALSE(recipe.own_embedding);
  EXPECT_TRUE(nested->head->target_ids().empty());

  const auto chosen = HeadRig::Make(
      {.path = kHeads + "eagle3", .entering_layers = {1, 1, 0}, .norm_before_residual = true});
  ASSERT_NE(chosen, nullptr);
  EXPECT_EQ(chosen->head->recipe().taps, (std::vector<HiddenTap>{{1}, {1}, {0}}));
  EXPECT_TRUE(chosen->head->recipe().norm_before_residual);

  const auto first = HeadRig::Make({.path = kHeads + "eagle1"});
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->head->recipe().taps, (std::vector<HiddenTap>{{HiddenTap::kFinal}}));
}

}  // namespace
}  // namespace surety::model
