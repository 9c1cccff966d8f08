// Constrained answers of a model with random weights, which left alone writes noise: what ends is what was asked for.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/random.h"
#include "engine/engine.h"

namespace surety::engine {
namespace {

class EngineShapeTest : public ::testing::Test {
 protected:
  EngineShapeTest() {
    const std::string path = std::string(SURETY_TESTDATA) + "/gguf/tiny-llama-q8_0.gguf";
    model_ = *LocalModel::Open(FileSystem::Real(), {.path = path, .n_threads = 2},
                               [](const model::LoadProgress&) { return true; });
    EngineOptions options;
    options.context_tokens = 128;
    options.max_sequences = 8;
    options.kv_budget_bytes = 64 * model_->config().KvLayoutFor(KvType::kF16, 16).PageStrideBytes();
    engine_ = *Engine::Make(*model_, options);
  }

  static api::GenerationRequest Request(uint64_t seed) {
    api::GenerationRequest request;
    request.has_tokens = true;
    request.tokens = {3, static_cast<int32_t>(4 + seed % 100), 5};
    request.sampling.temperature = 1.0f;
    request.sampling.seed = seed;
    request.scope.tenant = "t";
    return request;
  }

  // The texts of all choices, in the order of submission, with their ends.
  std::vector<std::pair<std::string, api::FinishReason>> Run(const std::vector<api::GenerationRequest>& requests) {
    std::map<std::pair<api::RequestId, int>, std::pair<std::string, api::FinishReason>> answers;
    for (const auto& request : requests) EXPECT_TRUE(engine_->Submit(request).has_value());
    while (!engine_->idle()) {
      std::vector<api::Event> events;
      EXPECT_TRUE(engine_->Step(events).ok());
      for (const api::Event& event : events) {
        auto& answer = answers[{event.request, event.choice}];
        answer.first += event.text;
        if (event.finish != api::FinishReason::kNone) answer.second = event.finish;
        EXPECT_TRUE(event.error.ok()) << event.error.ToString();
      }
    }
    std::vector<std::pair<std::string, api::FinishReason>> result;
    for (auto& [key, answer] : answers) result.push_back(std::move(answer));
    return result;
  }

  std::unique_ptr<LocalModel> model_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineShapeTest, ASchemaHoldsForEveryChoiceInAnyCompany) {
  std::vector<api::GenerationRequest> requests;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    api::GenerationRequest request = Request(seed);
    request.n_choices = 1 + static_cast<int>(seed % 3);
    request.constraint.kind = api::Constraint::Kind::kJsonSchema;
    request.constraint.schema = boost::json::parse(
        R"({"type":"object","properties":{"ok":{"type":"boolean"},"kind":{"enum":["card","loan","other"]},
            "n":{"type":"integer","minimum":-20,"maximum":300}},"required":["ok","kind","n"],
            "additionalProperties":false})");
    requests.push_back(request);
  }
  const auto answers = Run(requests);
  EXPECT_EQ(answers.size(), 24u);
  for (const auto& [text, finish] : answers) {
    ASSERT_EQ(finish, api::FinishReason::kStop) << text;
    boost::system::error_code error;
    const auto value = boost::json::parse(text, error);
    ASSERT_FALSE(error) << text;
    const auto& object = value.as_object();
    EXPECT_EQ(object.size(), 3u) << text;
    EXPECT_TRUE(object.at("ok").is_bool());
    const std::string kind(object.at("kind").as_string());
    EXPECT_TRUE(kind == "card" || kind == "loan" || kind == "other") << text;
    EXPECT_GE(object.at("n").as_int64(), -20);
    EXPECT_LE(object.at("n").as_int64(), 300);
  }
}

TEST_F(EngineShapeTest, AGrammarHoldsAndMinTokensGiveWayToItsEnd) {
  api::GenerationRequest request = Request(1);
  request.constraint.kind = api::Constraint::Kind::kGrammar;
  request.constraint.grammar = "root ::= \"approve\" | \"decline\"";
  request.sampling.min_tokens = 60;
  const auto answers = Run({request});
  EXPECT_TRUE(answers[0].first == "approve" || answers[0].first == "decline") << answers[0].first;
  EXPECT_EQ(answers[0].second, api::FinishReason::kStop);
}

TEST_F(EngineShapeTest, WhatCannotBeHonouredIsRefusedBeforeItRuns) {
  const auto code = [&](const api::GenerationRequest& request) {
    const auto id = engine_->Submit(request);
    return id ? StatusCode::kOk : id.error().code();
  };
  api::GenerationRequest broken = Request(1);
  broken.constraint.kind = api::Constraint::Kind::kGrammar;
  broken.constraint.grammar = "root ::= (";
  EXPECT_EQ(code(broken), StatusCode::kInvalidArgument);
  api::GenerationRequest endless = Request(1);
  endless.constraint.kind = api::Constraint::Kind::kJsonObject;
  endless.ignore_end_of_text = true;
  EXPECT_EQ(code(endless), StatusCode::kInvalidArgument);
  api::GenerationRequest no_tools = Request(1);
  no_tools.tool_use.choice = api::ToolUse::Choice::kRequired;
  EXPECT_EQ(code(no_tools), StatusCode::kInvalidArgument);
  // The tiny model has no chat template, so no form for calls.
  api::GenerationRequest no_form = no_tools;
  no_form.template_values["tools"] = boost::json::parse(
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}])");
  EXPECT_EQ(code(no_form), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(engine_->idle());
}

}  // namespace
}  // namespace surety::engine
