// What governance adds to HTTP: progress of a stream, headers, and what a governed model does not take.
#include "http/governance_note.h"

#include <string>

#include <gtest/gtest.h>

#include "http/testing/openai_rig.h"

namespace surety::http {
namespace {

using namespace testing;  // NOLINT: the rig's words
namespace json = boost::json;
using api::FinishReason;

constexpr char kGovernedChat[] = R"({"messages":[{"role":"user","content":"hi"}],"stream":)";

api::Decision GovernedNote(api::Outcome outcome = api::Outcome::kNone) {
  api::Decision note;
  note.id = "dec_1";
  note.route = "held";
  note.policy_version = "7";
  note.outcome = outcome;
  note.slo = {{"ttfu_p95", 1'500'000'000}};
  return note;
}

api::Event ProgressEvent(api::Stage stage) {
  api::Decision note = GovernedNote();
  note.stage = stage;
  api::Event event;
  event.progress = true;
  event.decision = std::make_shared<const api::Decision>(note);
  return event;
}

api::Event Noted(api::Event event, const api::Decision& note) {
  event.decision = std::make_shared<const api::Decision>(note);
  return event;
}

// The lines of server-sent events as the standard has them read: the payloads, comments apart.
void ReadEvents(const std::string& body, std::vector<std::string>& data, std::vector<std::string>& comments) {
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    const std::string line = body.substr(at, end - at);
    at = end + 1;
    if (line.starts_with(":")) comments.push_back(line.substr(2));
    if (line.starts_with("data: ")) data.push_back(line.substr(6));
  }
}

TEST(GovernanceNoteTest, ProgressIsACommentThatLeavesTheAnswerAsItIs) {
  const api::Event text = Text("Hello");
  const api::Event end = Noted(End(FinishReason::kStop), GovernedNote(api::Outcome::kHeld));
  ApiRig plain, told;
  plain.backend->scripts = {{text, end}};
  told.backend->scripts = {};
  const std::string body = std::string(kGovernedChat) + "true}";
  const auto expected = plain.Post("/v1/chat/completions", body);
  const auto record = told.Post("/v1/chat/completions", body);
  EXPECT_TRUE(told.backend->requests.at(0).wants_progress);
  told.backend->Emit(1, ProgressEvent(api::Stage::kGathering));
  EXPECT_EQ(record->status, 200);
  EXPECT_TRUE(record->streamed);
  EXPECT_EQ(record->Header("x-surety-decision-id"), "dec_1");
  EXPECT_EQ(record->Header("x-surety-slo"), "ttfu_p95=1500ms");
  EXPECT_EQ(record->Header("x-surety-release"), "");  // nobody knows
  EXPECT_EQ(record->Header("x-surety-cost"), "");
  told.backend->Emit(1, ProgressEvent(api::Stage::kGenerating));
  told.backend->Emit(1, text);
  told.backend->Emit(1, end);
  EXPECT_TRUE(record->finished);
  std::vector<std::string> data, comments, expected_data, none;
  ReadEvents(record->body, data, comments);
  ReadEvents(expected->body, expected_data, none);
  EXPECT_EQ(data, expected_data);
  EXPECT_EQ(data.back(), "[DONE]");
  EXPECT_TRUE(none.empty());
  ASSERT_EQ(comments.size(), 2u);
  EXPECT_EQ(json::parse(comments[1]),
            json::parse(R"({"governance":{"decision_id":"dec_1","route":"held","state":"generating",)"
                        R"("slo":{"ttfu_p95":"1500ms"}}})"));
}

TEST(GovernanceNoteTest, ABodyHasNoProgress) {
  ApiRig rig;
  const auto record = rig.Post("/v1/chat/completions", std::string(kGovernedChat) + "false}");
  EXPECT_FALSE(rig.backend->requests.at(0).wants_progress);
  rig.backend->Emit(1, ProgressEvent(api::Stage::kGathering));
  EXPECT_EQ(record->n_answers, 0);
  rig.backend->Emit(1, Text("Hello"));
  rig.backend->Emit(1, Noted(End(FinishReason::kStop), GovernedNote(api::Outcome::kHeld)));
  EXPECT_EQ(record->Header("x-surety-release"), "held");
  EXPECT_EQ(record->body.find("gathering"), std::string::npos);
}

TEST(GovernanceNoteTest, AfterProgressAFailureIsTheLastEventBeforeItAStatus) {
  api::Event review = Noted(End(FinishReason::kError), GovernedNote(api::Outcome::kReview));
  review.error = FailedPreconditionError("a person answers this");
  for (const bool told : {false, true}) {
    ApiRig rig;
    const auto record = rig.Post("/v1/chat/completions", std::string(kGovernedChat) + "true}");
    if (told) rig.backend->Emit(1, ProgressEvent(api::Stage::kGenerating));
    rig.backend->Emit(1, review);
    EXPECT_EQ(record->status, told ? 200 : 409);
    EXPECT_EQ(record->n_answers, 1);
    EXPECT_TRUE(record->finished);
    EXPECT_EQ(record->body.find("[DONE]"), std::string::npos);
    std::string error = record->body;
    if (told) {
      std::vector<std::string> data, comments;
      ReadEvents(record->body, data, comments);
      ASSERT_EQ(data.size(), 1u);
      error = data[0];
    }
    EXPECT_EQ(json::parse(error).at("error").at("code"), "review_pending");
    EXPECT_EQ(json::parse(error).at("error").at("governance").at("decision_id"), "dec_1");
  }
}

// OpenAI's typed events: the same code and note in the last of them.
TEST(GovernanceNoteTest, AfterProgressAReviewIsTheLastEventOfAResponse) {
  api::Event review = Noted(End(FinishReason::kError), GovernedNote(api::Outcome::kReview));
  review.error = FailedPreconditionError("a person answers this");
  ApiRig rig;
  const auto record = rig.Post("/v1/responses", R"({"input":"hi","stream":true})");
  rig.backend->Emit(1, ProgressEvent(api::Stage::kGenerating));
  rig.backend->Emit(1, review);
  std::vector<std::string> data, comments;
  ReadEvents(record->body, data, comments);
  ASSERT_FALSE(data.empty());
  const json::value last = json::parse(data.back());
  EXPECT_EQ(last.at("type"), "response.failed");
  EXPECT_EQ(last.at("response").at("error").at("code"), "review_pending");
  EXPECT_EQ(last.at("response").at("error").at("governance").at("decision_id"), "dec_1");
}

TEST(GovernanceNoteTest, AClientThatLeavesDuringProgressCancels) {
  ApiRig rig;
  const auto record = rig.Post("/v1/chat/completions", std::string(kGovernedChat) + "true}");
  rig.backend->Emit(1, ProgressEvent(api::Stage::kGenerating));
  record->on_disconnect();
  EXPECT_EQ(rig.backend->cancelled, std::vector<api::RequestId>{1});
}

// OpenAI's names; durations as its servers write them.
TEST(GovernanceNoteTest, RateLimitsAreToldAsOpenAiTellsThem) {
  const auto told = [](const api::Decision& note, std::string_view name) {
    for (const auto& [key, value] : GovernanceHeaders(note)) {
      if (key == name) return value;
    }
    return std::string("none");
  };
  api::Decision note = GovernedNote(api::Outcome::kHeld);
  EXPECT_EQ(told(note, "x-ratelimit-limit-requests"), "none");
  EXPECT_EQ(told(note, "x-ratelimit-remaining-tokens"), "none");
  note.requests = {30, 29, 59.9994};
  note.tokens = {200'000, 0, 0.1201};
  EXPECT_EQ(told(note, "x-ratelimit-limit-requests"), "30");
  EXPECT_EQ(told(note, "x-ratelimit-remaining-requests"), "29");
  EXPECT_EQ(told(note, "x-ratelimit-reset-requests"), "1m0s");  // rounded up: it is free then
  EXPECT_EQ(told(note, "x-ratelimit-limit-tokens"), "200000");
  EXPECT_EQ(told(note, "x-ratelimit-remaining-tokens"), "0");
  EXPECT_EQ(told(note, "x-ratelimit-reset-tokens"), "121ms");
  for (const auto& [seconds, text] : {std::pair{0.0, "0ms"}, std::pair{1.0, "1s"}, std::pair{59.25, "59.25s"},
                                      std::pair{61.5, "1m1.5s"}, std::pair{-1.0, "0ms"}}) {
    note.requests = {1, 0, seconds};
    EXPECT_EQ(told(note, "x-ratelimit-reset-requests"), text);
  }
  note.requests = {0, 0, 0};  // a budget that allows nothing is one
  EXPECT_EQ(told(note, "x-ratelimit-limit-requests"), "0");
}

TEST(GovernanceNoteTest, AGovernedModelTakesOnePromptARequest) {
  ApiRig rig;
  rig.backend->scripts = {{Text("a"), End(FinishReason::kStop)}, {Text("b"), End(FinishReason::kStop)},
                          {Text("c"), End(FinishReason::kStop)}};
  const std::string two = R"({"prompt":["one","two"]})", one = R"({"prompt":["one"]})";
  EXPECT_EQ(rig.Post("/v1/completions", two)->status, 200);  // the control: without a policy
  rig.backend->description_.governed = true;
  const auto refused = rig.Post("/v1/completions", two);
  EXPECT_EQ(refused->status, 400);
  EXPECT_EQ(refused->Json().at("error").at("param"), "prompt");
  EXPECT_EQ(rig.backend->requests.size(), 2u);  // nothing of it was begun
  EXPECT_EQ(rig.Post("/v1/completions", one)->status, 200);
}

}  // namespace
}  // namespace surety::http
