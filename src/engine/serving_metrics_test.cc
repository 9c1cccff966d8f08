// The series of a served model against the engine's own counters, over a tiny real file.
#include "engine/serving_metrics.h"

#include <map>
#include <sstream>

#include <gtest/gtest.h>

namespace surety::engine {
namespace {

// Each look at it takes a microsecond, so a step takes as long with drafts as without.
class MetricsClock final : public Clock {
 public:
  int64_t NowNanos() const override { return now_ += 1000; }
  int64_t WallNanos() const override { return now_; }
  void SleepNanos(int64_t nanos) override { now_ += nanos; }

 private:
  mutable int64_t now_ = 1'000'000'000;
};

// "name{labels}" to value.
std::map<std::string, double> SeriesOf(const observe::Registry& registry) {
  std::map<std::string, double> series;
  std::istringstream text(registry.Expose());
  for (std::string line; std::getline(text, line);) {
    const size_t space = line.rfind(' ');
    if (line.starts_with('#') || space == std::string::npos) continue;
    series[line.substr(0, space)] = std::stod(line.substr(space));
  }
  return series;
}

class ServingMetricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = std::string(SURETY_TESTDATA) + "/gguf/tiny-llama-q8_0.gguf";
    auto model = LocalModel::Open(FileSystem::Real(), {.path = path, .n_threads = 1},
                                  [](const model::LoadProgress&) { return true; });
    ASSERT_TRUE(model.has_value()) << model.error().ToString();
    model_ = *std::move(model);
    EngineOptions options;
    options.context_tokens = 256;
    auto engine = Engine::Make(*model_, options, clock_);
    ASSERT_TRUE(engine.has_value()) << engine.error().ToString();
    engine_ = *std::move(engine);
    metrics_.emplace(registry_.get(), "tiny", options, engine_->pages().n_pages());
  }

  // A greedy answer, that is expected to be `prediction`.
  std::string Answer(const std::string& prediction) {
    api::GenerationRequest request;
    request.has_prompt = true;
    request.prompt = "a b c";
    request.prediction = prediction;
    request.sampling.temperature = 0;
    request.max_tokens = 60;
    request.ignore_end_of_text = true;
    const auto id = engine_->Submit(request);
    EXPECT_TRUE(id.has_value());
    metrics_->Arrived(*id, clock_.NowNanos(), request);
    std::string text;
    while (!engine_->idle()) {
      std::vector<api::Event> events;
      EXPECT_TRUE(engine_->Step(events).ok());
      metrics_->AfterStep(*engine_, 0, 0);
      for (const api::Event& event : events) {
        metrics_->OnEvent(event, clock_.NowNanos());
        text += event.text;
      }
    }
    return text;
  }

  MetricsClock clock_;
  std::unique_ptr<observe::Registry> registry_ = observe::Registry::Make();
  std::unique_ptr<LocalModel> model_;
  std::unique_ptr<Engine> engine_;
  std::optional<ServingMetrics> metrics_;
};

TEST_F(ServingMetricsTest, DraftsAreCountedUnderOurNamesByMethodAndUnderVllmsInSum) {
  const std::string first = Answer("");
  EXPECT_EQ(Answer(first), first);
  const SpeculationCounters& s = engine_->speculation();
  ASSERT_GT(s.accepted_tokens(), 0);
  const auto series = SeriesOf(*registry_);
  const auto own = [&](const std::string& name, const std::string& labels) {
    const auto it = series.find("surety_spec_decode_" + name + "{" + labels + "model=\"tiny\"" + "}");
    EXPECT_NE(it, series.end()) << name << labels;
    return it == series.end() ? -1 : it->second;
  };
  const auto alias = [&](const std::string& name, const std::string& position) {
    const auto it = series.find("vllm:spec_decode_" + name + "{engine=\"0\",model_name=\"tiny\"" + position + "}");
    EXPECT_NE(it, series.end()) << name << position;
    return it == series.end() ? -1 : it->second;
  };
  double n_drafts = 0, drafted = 0, accepted = 0;
  std::array<double, SpeculationCounters::kPositions> accepted_at{};
  for (size_t m = 0; m < s.methods.size(); ++m) {
    const std::string method = "method=\"" + std::string(NameOf(static_cast<DraftMethod>(m))) + "\",";
    const SpeculationCounters::Method& c = s.methods[m];
    EXPECT_EQ(own("num_drafts_total", method), c.n_drafts);
    EXPECT_EQ(own("num_draft_tokens_total", method), c.draft_tokens);
    EXPECT_EQ(own("num_accepted_tokens_total", method), c.accepted_tokens);
    n_drafts += own("num_drafts_total", method);
    drafted += own("num_draft_tokens_total", method);
    accepted += own("num_accepted_tokens_total", method);
    for (size_t i = 0; i < accepted_at.size(); ++i) {
      const auto at = [&](const std::string& name) {
        const auto it = series.find("surety_spec_decode_" + name + "{" + method + "model=\"tiny\",position=\"" +
                                    std::to_string(i) + "\"}");
        EXPECT_NE(it, series.end()) << name << i;
        return it == series.end() ? -1 : it->second;
      };
      EXPECT_EQ(at("num_draft_tokens_per_pos_total"), c.drafted_at[i]);
      EXPECT_EQ(at("num_accepted_tokens_per_pos_total"), c.accepted_at[i]);
      accepted_at[i] += at("num_accepted_tokens_per_pos_total");
    }
    for (size_t i = 0; i < c.accepted_rank.size(); ++i) {
      const std::string rank = method + "model=\"tiny\",rank=\"" + std::to_string(i) + "\"}";
      EXPECT_EQ(series.at("surety_spec_decode_num_draft_tokens_per_rank_total{" + rank), c.drafted_rank[i]);
      EXPECT_EQ(series.at("surety_spec_decode_num_accepted_tokens_per_rank_total{" + rank), c.accepted_rank[i]);
    }
  }
  EXPECT_EQ(alias("num_drafts_total", ""), n_drafts);
  EXPECT_EQ(alias("num_draft_tokens_total", ""), drafted);
  EXPECT_EQ(alias("num_accepted_tokens_total", ""), accepted);
  double sum = 0;
  for (size_t i = 0; i < accepted_at.size(); ++i) {
    EXPECT_EQ(alias("num_accepted_tokens_per_pos_total", ",position=\"" + std::to_string(i) + "\""), accepted_at[i]);
    sum += accepted_at[i];
  }
  EXPECT_EQ(sum, accepted);
  // Each pass brings one token of its own and those of the draft that held.
  EXPECT_EQ(own("passes_total", "") + accepted, series.at("surety_generation_tokens_total{model=\"tiny\"}"));
  EXPECT_EQ(own("branches_total", ""), s.branches);
  EXPECT_NEAR(own("saved_seconds", ""), s.saved_ns * 1e-9, 1e-9);
}

TEST_F(ServingMetricsTest, WithoutARegistryNothingIsCounted) {
  metrics_.emplace(nullptr, "tiny", EngineOptions(), 1);
  EXPECT_FALSE(Answer("").empty());
  EXPECT_TRUE(SeriesOf(*registry_).contains("surety_generation_tokens_total{model=\"tiny\"}"));
  EXPECT_EQ(SeriesOf(*registry_).at("surety_generation_tokens_total{model=\"tiny\"}"), 0);
}

}  // namespace
}  // namespace surety::engine
