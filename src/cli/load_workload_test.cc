#include "cli/load_workload.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "cli/load_capacity.h"
#include "cli/load_url.h"

namespace surety::cli {
namespace {

namespace json = boost::json;

Workload Made(LoadOptions options) {
  EXPECT_TRUE(options.Validate().ok());
  auto workload = Workload::Make(options);
  EXPECT_TRUE(workload) << workload.error().message();
  return *std::move(workload);
}

json::object BodyOf(const Workload& workload, int64_t item) {
  return json::parse(workload.Body(item, 0, workload.NewMessages(item, 0), "m")).as_object();
}

int64_t WordsIn(const std::string& text) { return std::count(text.begin(), text.end(), ' ') + 1; }

std::string UserText(const json::object& body) {
  return std::string(body.at("messages").as_array().back().as_object().at("content").as_string());
}

TEST(WorkloadTest, MadeUpPromptsHaveTheirLengthAndComeOutTheSameAgain) {
  LoadOptions options;
  options.prompt_tokens = "uniform:10:40";
  options.output_tokens = "uniform:5:9";
  options.requests = 50;
  const Workload one = Made(options), two = Made(options);
  options.seed = 1;
  const Workload other = Made(options);
  EXPECT_EQ(one.arrivals_ns().size(), 50u);
  EXPECT_EQ(one.arrivals_ns(), two.arrivals_ns());
  EXPECT_NE(one.arrivals_ns(), other.arrivals_ns());
  std::set<std::string> texts;
  for (int64_t i = 0; i < 50; ++i) {
    const auto body = BodyOf(one, i);
    EXPECT_EQ(body, BodyOf(two, i));
    EXPECT_NE(body, BodyOf(other, i));
    const int64_t words = WordsIn(UserText(body));
    EXPECT_EQ(words, one.Plan(i, 0).prompt_tokens);
    EXPECT_TRUE(words >= 10 && words <= 40) << words;
    const auto output = body.at("max_tokens").as_int64();
    EXPECT_TRUE(output >= 5 && output <= 9) << output;
    texts.insert(UserText(body));
  }
  EXPECT_EQ(texts.size(), 50u);
}

TEST(WorkloadTest, BodiesAskForAStreamWithUsageAndCarryWhatWasGiven) {
  LoadOptions options;
  options.requests = 1;
  options.extra_body = "{\"temperature\": 0.5, \"max_tokens\": 7}";
  options.ignore_eos = true;
  const auto body = BodyOf(Made(options), 0);
  EXPECT_EQ(body.at("model"), "m");
  EXPECT_EQ(body.at("stream"), true);
  EXPECT_EQ(body.at("stream_options"), (json::object{{"include_usage", true}}));
  EXPECT_EQ(body.at("temperature"), 0.5);
  EXPECT_EQ(body.at("max_tokens"), 7);
  EXPECT_EQ(body.at("ignore_eos"), true);
}

TEST(WorkloadTest, SessionsShareOneOfTheSystemPromptsAndGrow) {
  LoadOptions options;
  options.system_prompts = 3;
  options.system_tokens = 20;
  options.turns = 2;
  options.prompt_tokens = "5";
  options.requests = 100;
  const Workload workload = Made(options);
  std::set<std::string> systems;
  for (int64_t i = 0; i < 100; ++i) {
    auto conversation = workload.NewMessages(i, 0);
    ASSERT_EQ(conversation.size(), 2u);
    EXPECT_EQ(conversation[0].role, "system");
    EXPECT_EQ(WordsIn(conversation[0].content), 20);
    EXPECT_EQ(WordsIn(conversation[1].content), 5);
    systems.insert(conversation[0].content);
    EXPECT_EQ(workload.Plan(i, 0).prompt_tokens, 25);
    EXPECT_EQ(workload.Plan(i, 1).prompt_tokens, 5);
    ASSERT_EQ(workload.NewMessages(i, 1).size(), 1u);
    EXPECT_NE(workload.NewMessages(i, 1)[0].content, conversation[1].content);
  }
  EXPECT_EQ(systems.size(), 3u);
}

TEST(WorkloadTest, EqualBlocksOfATraceAreEqualTextAndNothingElseIs) {
  LoadOptions options;
  options.trace = SURETY_TESTDATA "/load/mooncake.jsonl";
  options.trace_grid_ms = 0;
  const Workload workload = Made(options);
  const auto trace = ReadTrace(options.trace, "mooncake");
  ASSERT_EQ(workload.arrivals_ns().size(), trace->rows.size());
  std::vector<std::vector<std::string>> blocks;  // of each request, as text
  for (size_t i = 0; i < trace->rows.size(); ++i) {
    std::string text = UserText(BodyOf(workload, static_cast<int64_t>(i))) + " ";
    EXPECT_EQ(WordsIn(text) - 1, trace->rows[i].prompt_tokens);
    auto& parts = blocks.emplace_back();
    while (!text.empty()) {
      size_t end = 0;
      for (int word = 0; word < kTraceBlockTokens && end < text.size(); ++word) end = text.find(' ', end) + 1;
      parts.push_back(text.substr(0, end));
      text.erase(0, end);
    }
    ASSERT_EQ(parts.size(), trace->rows[i].blocks.size());
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      for (size_t k = 0; k + 1 < std::min(blocks[i].size(), blocks[j].size()); ++k) {  // the last one may be cut
        EXPECT_EQ(blocks[i][k] == blocks[j][k], trace->rows[i].blocks[k] == trace->rows[j].blocks[k]);
      }
    }
  }
}

TEST(WorkloadTest, TimeScaleClipsAndTheGridAreApplied) {
  LoadOptions options;
  options.trace = SURETY_TESTDATA "/load/mooncake.jsonl";
  options.time_scale = 0.5;
  options.clip_prompt = 100;
  options.clip_output = 10;
  const Workload spread = Made(options);  // on its own: the stamps lie on a grid of 3 s
  EXPECT_EQ(spread.DescribeTransform().at("spread_over_s"), 3.0);
  EXPECT_EQ(spread.DescribeTransform().at("clipped_prompts"), 12);
  EXPECT_LE(spread.arrivals_ns().back(), 3'000'000'000);
  EXPECT_EQ(std::set<int64_t>(spread.arrivals_ns().begin(), spread.arrivals_ns().end()).size(), 12u);
  EXPECT_EQ(spread.Plan(3, 0).prompt_tokens, 100);
  options.trace_grid_ms = 0;
  const Workload raw = Made(options);
  EXPECT_EQ(raw.arrivals_ns().back(), 1'500'000'000);
  EXPECT_EQ(raw.arrivals_ns()[1], 0);
}

TEST(WorkloadTest, OwnPromptsGoOutAsTheyAre) {
  LoadOptions options;
  options.prompts = SURETY_TESTDATA "/load/own.jsonl";
  options.requests = 7;
  const Workload workload = Made(options);
  EXPECT_EQ(workload.arrivals_ns().size(), 7u);
  EXPECT_EQ(BodyOf(workload, 0).at("messages").as_array().size(), 2u);  // the earliest
  EXPECT_EQ(UserText(BodyOf(workload, 1)), "Why is the sky blue?");
  EXPECT_EQ(UserText(BodyOf(workload, 2)), "A \"quoted\" word");
  EXPECT_EQ(BodyOf(workload, 4), BodyOf(workload, 1));
  EXPECT_EQ(BodyOf(workload, 1).at("max_tokens"), 12);
  EXPECT_EQ(BodyOf(workload, 0).at("max_tokens"), 64);  // not stated: --output-tokens
}

TEST(WorkloadTest, TokenIdsStayBelowTheVocabulary) {
  LoadOptions options;
  options.endpoint = "completions";
  options.token_ids = 50;
  options.prompt_tokens = "300";
  options.requests = 1;
  const auto body = BodyOf(Made(options), 0);
  ASSERT_EQ(body.at("prompt").as_array().size(), 300u);
  for (const auto& id : body.at("prompt").as_array()) EXPECT_TRUE(id.as_int64() >= 0 && id.as_int64() < 50);
}

TEST(WorkloadTest, RequestsAreCountedAfterTheWarmUp) {
  LoadOptions options;
  options.arrivals = "constant";
  options.rate = 10;
  options.warmup_s = 2;
  options.requests = 5;
  const Workload workload = Made(options);
  EXPECT_EQ(workload.arrivals_ns().size(), 25u);
  EXPECT_EQ(std::count_if(workload.arrivals_ns().begin(), workload.arrivals_ns().end(),
                          [](int64_t t) { return t >= 2'000'000'000; }), 5);
}

TEST(LoadOptionsTest, MistakesAreNamedByTheirFlag) {
  const auto fault = [](auto change) {
    LoadOptions options;
    change(options);
    const Status status = options.Validate();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_NE(fault([](auto& o) { o.rate = 0; }).find("--rate"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.arrivals = "pareto"; }).find("--arrivals: 'pareto' is none of"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.arrivals = "ramp"; }).find("--ramp-to"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.arrivals = "burst"; }).find("--requests"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.arrivals = "trace"; }).find("--trace"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.slo = {"speed:3"}; }).find("--slo: 'speed:3'"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.slo = {"ttft_ms:0"}; }).find("--slo"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.slo = {""}; }).find("--slo"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.extra_body = "[1]"; }).find("--extra-body"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.extra_body = "{\"stream\": false}"; }).find("\"stream\""), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.token_ids = 5; }).find("--token-ids"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.find_capacity = true; }).find("--slo"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.prompt_tokens = "0"; }).find("--prompt-tokens"), std::string::npos);
  EXPECT_NE(fault([](auto& o) { o.rate = 1e6; o.duration_s = 1e6; }).find("100 million"), std::string::npos);
}

TEST(LoadOptionsTest, TheHashIsOfWhatIsSentAndWhen) {
  LoadOptions one, two;
  ASSERT_TRUE(one.Validate().ok() && two.Validate().ok());
  EXPECT_EQ(one.ConfigHash(), two.ConfigHash());
  two.label = "x";
  two.json = true;
  EXPECT_EQ(one.ConfigHash(), two.ConfigHash());
  two.rate = 2;
  EXPECT_NE(one.ConfigHash(), two.ConfigHash());
}

TEST(LoadUrlTest, PartsAreFound) {
  const auto plain = ParseLoadUrl("http://example.org:8080");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host + " " + plain->port + " " + plain->base + " " + plain->authority,
            "example.org 8080 /v1 example.org:8080");
  const auto longer = ParseLoadUrl("https://example.org/api/v1/");
  ASSERT_TRUE(longer && longer->tls);
  EXPECT_EQ(longer->port + " " + longer->base, "443 /api/v1");
  const auto six = ParseLoadUrl("http://[::1]:80/x");
  ASSERT_TRUE(six);
  EXPECT_EQ(six->host + " " + six->port + " " + six->base, "::1 80 /x/v1");
  for (const char* bad : {"", "localhost:8080", "ftp://x", "http://", "http://:80", "http://x:0", "http://x:99999",
                          "http://x:", "http://user@x", "http://x/?a", "http://a b", "http://x:8a", "http://[::1"}) {
    EXPECT_FALSE(ParseLoadUrl(bad)) << bad;
  }
}

// A server that keeps its SLO up to a rate, whatever the seed.
TEST(FindCapacityTest, FindsTheRateFromBelowAndFromAbove) {
  for (const double capacity : {0.37, 3.0, 90.0}) {
    for (const double start : {0.25, 1.0, 64.0}) {
      int runs = 0;
      const auto found = FindCapacity(start, 5, [&](double rate, uint64_t seed) -> Result<CapacityProbe> {
        ++runs;
        EXPECT_TRUE(seed >= 5 && seed < 8);
        return CapacityProbe{rate, seed, 1, true, rate <= capacity};
      });
      ASSERT_TRUE(found);
      EXPECT_LE(found->rate, capacity);
      EXPECT_GE(found->rate * 1.05, capacity) << start;
      EXPECT_GT(found->failed_rate, capacity);
      EXPECT_LT(runs, 60);
      EXPECT_EQ(static_cast<int>(found->probes.size()), runs);
    }
  }
}

TEST(FindCapacityTest, OneSeedThatMissesIsEnoughAndAServerThatNeverHoldsHasNone) {
  const auto one_bad = FindCapacity(1, 0, [](double rate, uint64_t seed) -> Result<CapacityProbe> {
    return CapacityProbe{rate, seed, 1, true, rate <= (seed == 2 ? 2.0 : 8.0)};
  });
  EXPECT_EQ(one_bad->rate, 2);
  const auto none = FindCapacity(1, 0, [](double rate, uint64_t seed) -> Result<CapacityProbe> {
    return CapacityProbe{rate, seed, 0, true, false};
  });
  EXPECT_EQ(none->rate, 0);
  const auto ended = FindCapacity(1, 0, [](double, uint64_t) -> Result<CapacityProbe> {
    return Error(CancelledError("interrupted"));
  });
  EXPECT_EQ(ended.error().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace surety::cli
