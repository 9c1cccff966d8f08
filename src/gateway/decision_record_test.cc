#include "gateway/decision_record.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace surety::gateway {
namespace {

// Values of all fields, drawn; with the ends of their ranges among them.
class RecordMaker {
 public:
  explicit RecordMaker(uint64_t seed) : random_(seed) {}

  std::string Text() {
    static const std::vector<std::string> kTexts = {"",  "a", "dec_1", "\"\\\n\t\x01", "\xC3\xA9\xE2\x82\xAC",
                                                    "a:b:c", std::string(300, 'x'), std::string("nul\0in", 6)};
    return kTexts[Below(kTexts.size())];
  }
  int64_t Whole() {
    static const std::vector<int64_t> kNumbers = {0, 1, -1, 1'700'000'000'123'456'789,
                                                  std::numeric_limits<int64_t>::max(),
                                                  std::numeric_limits<int64_t>::min()};
    return Below(3) == 0 ? kNumbers[Below(kNumbers.size())] : static_cast<int64_t>(random_());
  }
  double Number() {
    static const std::vector<double> kNumbers = {0, 1, -0.5, 1e-9, 0.1, 1e300, 5e-324, 123456789.123456789};
    return kNumbers[Below(kNumbers.size())];
  }
  size_t Below(size_t n) { return random_() % n; }
  template <typename F>
  auto List(F make) {
    std::vector<decltype(make())> out;
    for (size_t n = Below(4); n > 0; --n) out.push_back(make());
    return out;
  }

  Verdict MakeVerdict() {
    Verdict verdict{Text(), Text(), static_cast<Verdict::Outcome>(Below(3)), Text(), {}, Whole()};
    verdict.findings = List([&] { return Finding{Text(), Text(), random_(), Below(9)}; });
    return verdict;
  }
  DecisionRecord Make() {
    DecisionRecord record;
    record.decision.id = "dec_" + Text();
    record.decision.outcome = static_cast<api::Outcome>(Below(6));
    record.decision.draft = Below(2) == 0;
    record.decision.cost = Number();
    record.decision.attempts = static_cast<int>(random_());
    record.time_ns = Whole();
    for (std::string* text : {&record.decision.route, &record.decision.policy_version, &record.decision.cache,
                              &record.decision.verifier, &record.decision.review_ticket, &record.policy_id,
                              &record.policy_digest, &record.subject, &record.tenant,
                              &record.partition_digest, &record.model, &record.model_revision, &record.request_digest,
                              &record.prompt_digest, &record.answer_digest, &record.seed, &record.answer,
                              &record.action, &record.error}) {
      *text = Text();
    }
    for (size_t n = Below(4); n > 0; --n) record.signals[Text()] = Text();
    for (size_t n = Below(4); n > 0; --n) record.confidence[Text()] = Number();
    if (Below(2) == 0) record.request = {{"messages", {{{"role", "user"}}}}, {"deep", {1, nullptr, true}}};
    record.passages = List([&] { return Text(); });
    record.permissions = List([&] { return Text(); });
    record.tool_digests = List([&] { return Text(); });
    record.verdicts = List([&] { return MakeVerdict(); });
    record.conflicts = List([&] { return Conflict{Text(), Text(), Text(), List([&] { return Text(); })}; });
    record.attempts = List([&] { return Text(); });
    for (int* n : {&record.usage.prompt_tokens, &record.usage.cached_tokens, &record.usage.output_tokens,
                   &record.usage.draft_tokens, &record.usage.accepted_tokens}) {
      *n = static_cast<int>(random_());
    }
    StageTimes& times = record.times;
    for (int64_t* n : {&times.queue_ns, &times.gather_ns, &times.prefill_ns, &times.decode_ns, &times.verify_ns,
                       &times.release_ns, &times.total_ns, &times.first_token_ns, &times.first_useful_ns}) {
      *n = Whole();
    }
    CostParts& cost = record.cost;
    for (double* n : {&cost.prefill, &cost.cached_prefill, &cost.decode, &cost.tools, &cost.verify, &cost.review,
                      &record.avoided_cost}) {
      *n = Number();
    }
    return record;
  }

 private:
  std::mt19937_64 random_;
};

// Field by field, written out: a field that both directions of the code forget is found here.
void ExpectSameRecord(const DecisionRecord& a, const DecisionRecord& b) {
  const api::Decision &c = a.decision, &d = b.decision;
  EXPECT_EQ(std::tie(c.id, c.route, c.policy_version, c.cache, c.outcome, c.draft, c.verifier, c.review_ticket, c.cost,
                     c.attempts),
            std::tie(d.id, d.route, d.policy_version, d.cache, d.outcome, d.draft, d.verifier, d.review_ticket, d.cost,
                     d.attempts));
  EXPECT_EQ(std::tie(a.time_ns, a.policy_id, a.policy_digest, a.subject, a.tenant, a.partition_digest, a.signals,
                     a.confidence, a.model, a.model_revision, a.request_digest, a.prompt_digest, a.answer_digest),
            std::tie(b.time_ns, b.policy_id, b.policy_digest, b.subject, b.tenant, b.partition_digest, b.signals,
                     b.confidence, b.model, b.model_revision, b.request_digest, b.prompt_digest, b.answer_digest));
  EXPECT_EQ(std::tie(a.seed, a.answer, a.passages, a.tool_digests, a.action, a.error, a.attempts, a.avoided_cost,
                     a.permissions),
            std::tie(b.seed, b.answer, b.passages, b.tool_digests, b.action, b.error, b.attempts, b.avoided_cost,
                     b.permissions));
  EXPECT_EQ(a.request, b.request);
  ASSERT_EQ(a.verdicts.size(), b.verdicts.size());
  for (size_t i = 0; i < a.verdicts.size(); ++i) {
    const Verdict &v = a.verdicts[i], &w = b.verdicts[i];
    EXPECT_EQ(std::tie(v.verifier, v.version, v.outcome, v.reason, v.duration_ns),
              std::tie(w.verifier, w.version, w.outcome, w.reason, w.duration_ns));
    ASSERT_EQ(v.findings.size(), w.findings.size());
    for (size_t j = 0; j < v.findings.size(); ++j) {
      const Finding &f = v.findings[j], &g = w.findings[j];
      EXPECT_EQ(std::tie(f.what, f.where, f.offset, f.length), std::tie(g.what, g.where, g.offset, g.length));
    }
  }
  ASSERT_EQ(a.conflicts.size(), b.conflicts.size());
  for (size_t i = 0; i < a.conflicts.size(); ++i) {
    const Conflict &v = a.conflicts[i], &w = b.conflicts[i];
    EXPECT_EQ(std::tie(v.invariant, v.when, v.require, v.violated_by),
              std::tie(w.invariant, w.when, w.require, w.violated_by));
  }
  const api::Usage &u = a.usage, &v = b.usage;
  EXPECT_EQ(std::tie(u.prompt_tokens, u.cached_tokens, u.output_tokens, u.draft_tokens, u.accepted_tokens),
            std::tie(v.prompt_tokens, v.cached_tokens, v.output_tokens, v.draft_tokens, v.accepted_tokens));
  const StageTimes &s = a.times, &t = b.times;
  EXPECT_EQ(std::tie(s.queue_ns, s.gather_ns, s.prefill_ns, s.decode_ns, s.verify_ns, s.release_ns, s.total_ns,
                     s.first_token_ns, s.first_useful_ns),
            std::tie(t.queue_ns, t.gather_ns, t.prefill_ns, t.decode_ns, t.verify_ns, t.release_ns, t.total_ns,
                     t.first_token_ns, t.first_useful_ns));
  EXPECT_EQ(std::tie(a.cost.prefill, a.cost.cached_prefill, a.cost.decode, a.cost.tools, a.cost.verify, a.cost.review),
            std::tie(b.cost.prefill, b.cost.cached_prefill, b.cost.decode, b.cost.tools, b.cost.verify, b.cost.review));
}

TEST(DecisionRecordTest, EveryFieldComesBack) {
  RecordMaker maker(1);
  for (int i = 0; i < 500; ++i) {
    const DecisionRecord record = maker.Make();
    const auto back = DecisionRecord::FromJson(record.ToJson());
    ASSERT_TRUE(back.has_value()) << back.error().message();
    ExpectSameRecord(record, *back);
    ASSERT_FALSE(HasFailure());
  }
}

// The JSON library reads a number's text to within a unit of its last place, so numbers may move by that.
bool SameButForRounding(const boost::json::value& a, const boost::json::value& b) {
  if (a.is_double() && b.is_double()) {
    return std::abs(a.get_double() - b.get_double()) <= 1e-14 * std::abs(a.get_double());
  }
  if (a.is_array() && b.is_array()) {
    return std::ranges::equal(a.get_array(), b.get_array(), SameButForRounding);
  }
  if (!a.is_object() || !b.is_object()) return a == b;
  return std::ranges::equal(a.get_object(), b.get_object(), [](const auto& x, const auto& y) {
    return x.key() == y.key() && SameButForRounding(x.value(), y.value());
  });
}

TEST(DecisionRecordTest, ARecordThatWasTextComesBack) {
  RecordMaker maker(2);
  for (int i = 0; i < 500; ++i) {
    const std::string text = boost::json::serialize(maker.Make().ToJson());
    const auto back = DecisionRecord::FromJson(boost::json::parse(text).as_object());
    ASSERT_TRUE(back.has_value()) << back.error().message();
    ASSERT_TRUE(SameButForRounding(back->ToJson(), boost::json::parse(text))) << text;
  }
}

// The names are an interface: this list changes only by growing.
TEST(DecisionRecordTest, NamesAreStable) {
  DecisionRecord record;
  record.decision.id = "dec_1";
  record.request = {{"a", 1}};
  record.answer = "b";
  std::vector<std::string> names;
  const boost::json::object json = record.ToJson();
  for (const auto& member : json) names.emplace_back(member.key());
  EXPECT_EQ(names, (std::vector<std::string>{
                       "id", "time_ns", "route", "outcome", "policy_id", "policy_version", "policy_digest", "subject",
                       "tenant", "permissions", "partition", "signals", "confidence", "model", "model_revision",
                       "request_digest", "prompt_digest", "answer_digest", "seed", "cache", "draft", "verifier",
                       "review_ticket", "caller_cost", "n_attempts", "request", "answer", "passages", "tools",
                       "verdicts", "conflicts", "action", "error", "attempts", "usage", "times_ns", "cost",
                       "avoided_cost"}));
  record.request = {};
  record.answer = "";
  EXPECT_FALSE(record.ToJson().contains("request"));
  EXPECT_FALSE(record.ToJson().contains("answer"));
}

TEST(DecisionRecordTest, OlderAndNewerRowsAreRead) {
  const auto read = [](const char* text) { return DecisionRecord::FromJson(boost::json::parse(text).as_object()); };
  EXPECT_EQ(read(R"({"id":"dec_1","of_a_later_version":{"x":1}})")->decision.id, "dec_1");
  EXPECT_EQ(read(R"({"route":"faq"})").error().code(), StatusCode::kInvalidArgument);
}

TEST(DecisionRecordTest, AFaultIsNamedByItsPath) {
  const auto fault = [](const char* text) {
    return DecisionRecord::FromJson(boost::json::parse(text).as_object()).error().message();
  };
  EXPECT_EQ(fault(R"({"id":5})"), "decision record: id is not a text");
  EXPECT_EQ(fault(R"({"id":"d","verdicts":[{},{"outcome":"ok"}]})"),
            "decision record: verdicts[1].outcome is not pass, fail or error");
  EXPECT_EQ(fault(R"({"id":"d","times_ns":{"total":1.5}})"),
            "decision record: times_ns.total is not a whole number in its range");
  EXPECT_EQ(fault(R"({"id":"d","usage":{"prompt_tokens":3000000000}})"),
            "decision record: usage.prompt_tokens is not a whole number in its range");
  EXPECT_EQ(fault(R"({"id":"d","signals":{"risk":1}})"), "decision record: signals.risk is not a text");
}

TEST(DecisionRecordTest, TextsAreTakenOutAndNamesAndCodesStay) {
  DecisionRecord record;
  record.decision.id = "dec_1";
  record.request = {{"messages", "MARKER request"}};
  record.answer = "MARKER answer";
  record.verdicts = {{"judge", "1", Verdict::Outcome::kFail, "MARKER reason", {{"MARKER found", "text", 3, 4}}, 5}};
  record.conflicts = {{"agree", "a.x == 1", "b.y", {"rail.status = \"MARKER\" (observed 2026)", "core.reversed"}}};
  record.error = "UNAVAILABLE: MARKER of the provider";
  const std::string before = boost::json::serialize(record.ToJson());
  size_t n_markers = 0;
  for (size_t at = before.find("MARKER"); at != std::string::npos; at = before.find("MARKER", at + 1)) ++n_markers;
  EXPECT_EQ(n_markers, 6u);  // the control
  const std::string texts = boost::json::serialize(record.TakeTexts());
  const std::string clear = boost::json::serialize(record.ToJson());
  EXPECT_EQ(clear.find("MARKER"), std::string::npos) << clear;
  for (const char* kept : {"judge", "fail", "agree", "a.x == 1", "rail.status", "core.reversed", "UNAVAILABLE"}) {
    EXPECT_NE(clear.find(kept), std::string::npos) << kept;
  }
  for (const char* taken : {"MARKER request", "MARKER answer", "MARKER reason", "MARKER found", "MARKER\\\"",
                            "MARKER of the provider"}) {
    EXPECT_NE(texts.find(taken), std::string::npos) << taken;
  }
  EXPECT_EQ(record.verdicts[0].findings[0].offset, 3u);
  DecisionRecord tools;
  tools.error = "tool 'rail': MARKER";
  (void)tools.TakeTexts();
  EXPECT_EQ(tools.error, "EVIDENCE");
}

// The plain way makes the object and has Boost.JSON write it.
TEST(DecisionRecordTest, ARowsTextIsThatOfItsObject) {
  std::string every_byte;
  for (int c = 0; c < 256; ++c) every_byte += static_cast<char>(c);
  const std::vector<double> odd = {-0.0, std::nan(""), std::numeric_limits<double>::infinity(), -1e-7, 3e21};
  for (uint64_t seed = 0; seed < 500; ++seed) {
    DecisionRecord record = RecordMaker(seed).Make();
    record.subject += seed % 3 == 0 ? every_byte : "";
    record.avoided_cost = seed % 2 == 0 ? odd[seed / 2 % odd.size()] : record.avoided_cost;
    (void)record.TakeTexts();
    std::string row;
    record.AppendRow(row);
    ASSERT_EQ(row + "}", boost::json::serialize(record.ToJson())) << seed;
  }
}

}  // namespace
}  // namespace surety::gateway
