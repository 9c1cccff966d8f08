// Each obligation: the good policy fulfils it, and a policy or a key function that breaks it is reported, by that
// obligation and no other.
#include "gateway/policy_check.h"

#include <filesystem>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/policy_diff.h"
#include "gateway/policy_trace.h"
#include "gateway/policy_values.h"
#include "gateway/testing/policy_text.h"

namespace surety::gateway {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using policy_text::Edits;
using policy_text::GoodPolicyFiles;
using policy_text::MemoryFiles;
using policy_text::ReadEdited;

const int64_t kCheckNow = *ParseInstant("2026-03-01");

std::vector<Obligation> CheckWith(const Policy& policy, MemoryFiles files, const CheckedFunctions& run) {
  return CheckPolicy(CheckInput{.policy = policy, .files = files, .now_ns = kCheckNow, .run = run,
                                .space = SpaceOf(policy)});
}

std::vector<int> Broken(const std::vector<Obligation>& obligations) {
  std::vector<int> out;
  for (const Obligation& obligation : obligations) {
    if (!obligation.holds()) out.push_back(obligation.number);
  }
  return out;
}

std::string FaultsOf(const std::vector<Obligation>& obligations) {
  std::string out;
  for (const Obligation& obligation : obligations) {
    for (const std::string& fault : obligation.faults) out += fmt::format("{}: {}\n", obligation.number, fault);
  }
  return out;
}

TEST(PolicyCheckTest, TheGoodPolicyFulfilsAllThirteen) {
  const auto policy = ReadEdited({});
  ASSERT_TRUE(policy) << policy.error().message();
  const auto obligations = CheckWith(*policy, GoodPolicyFiles(), CheckedFunctions::Real());
  ASSERT_EQ(obligations.size(), 13U);
  for (size_t i = 0; i < obligations.size(); ++i) {
    EXPECT_EQ(obligations[i].number, static_cast<int>(i) + 1);
    EXPECT_FALSE(obligations[i].name.empty());
    EXPECT_FALSE(obligations[i].details.empty()) << obligations[i].name;
  }
  EXPECT_EQ(FaultsOf(obligations), "");
}

TEST(PolicyCheckTest, TheExampleFulfilsAllThirteen) {
  const auto policy = ReadPolicy(FileSystem::Real(), SURETY_TESTDATA "/../policies/retail-demo/policy.yaml");
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(FaultsOf(CheckPolicy(*policy, FileSystem::Real(), kCheckNow)), "");
}

// The nearest siblings of what "words" break: words that raise control, and signals that say what a question is about.
TEST(PolicyCheckTest, UnconfirmedCodesOfATableAreForAPerson) {
  MemoryFiles files = GoodPolicyFiles();
  std::string& table = files.contents["p/codes.json"];
  table.insert(table.find("\"titles\": [\"closed\"]"), "\"unconfirmed\": \"no source\", ");
  const auto faults = [&](const char* fail) {
    const auto policy = policy_text::ReadEdited({{"table: codes.json, fail: review", fail}});
    EXPECT_TRUE(policy.has_value());
    return FaultsOf(CheckWith(*policy, files, CheckedFunctions::Real()));
  };
  EXPECT_EQ(faults("table: codes.json, fail: review"), "");
  EXPECT_THAT(faults("table: codes.json, fail: block"),
              HasSubstr("12: verifier 'codes', table 'codes.json': 1 codes are unconfirmed (R02, ...)"));
}

TEST(PolicyCheckTest, WordsMayRaiseControlAndLabelsMayOpenARoute) {
  const Edits siblings[] = {
      {{"signals:\n", "signals:\n  vip: {by: phrases, labels: {staff: [i am staff], other: [i am not]}}\n"},
       {"intent.group: faq}", "intent.group: faq, vip: staff}"}},
      {{"signals:\n", "signals:\n  vip: {by: phrases, phrases: [i am staff]}\n"},
       {"intent.group: faq}", "intent.group: faq, vip: false}"}},
      {{"intent.group: faq}", "intent.group: faq, amount: [none, abstained]}"}},
      {{"signals:\n", "signals:\n  vip: {by: pattern, pattern: 'code [0-9]+'}\n"},
       {"complexity: low, permissions", "complexity: low, vip: false, permissions"}}};
  for (const Edits& edits : siblings) {
    const auto policy = ReadEdited(edits);
    ASSERT_TRUE(policy) << policy.error().message();
    EXPECT_EQ(FaultsOf(CheckWith(*policy, GoodPolicyFiles(), CheckedFunctions::Real())), "") << edits.back().second;
  }
}

struct BrokenPolicy {
  int obligation;
  const char* name;
  Edits edits;
  const char* fault;
};

void PrintTo(const BrokenPolicy& broken, std::ostream* out) { *out << broken.name; }

class BrokenPolicyTest : public ::testing::TestWithParam<BrokenPolicy> {};

TEST_P(BrokenPolicyTest, IsReportedByItsObligationAlone) {
  const BrokenPolicy& broken = GetParam();
  const auto policy = ReadEdited(broken.edits);
  ASSERT_TRUE(policy) << policy.error().message();
  const auto obligations = CheckWith(*policy, GoodPolicyFiles(), CheckedFunctions::Real());
  EXPECT_THAT(Broken(obligations), ::testing::ElementsAre(broken.obligation)) << FaultsOf(obligations);
  EXPECT_THAT(FaultsOf(obligations), HasSubstr(broken.fault));
}

constexpr const char* kAdviceStart = "  - name: advice\n";

INSTANTIATE_TEST_SUITE_P(
    Keys, BrokenPolicyTest,
    ::testing::Values(
        BrokenPolicy{2,
                     "a caching route without a region",
                     {{"  region: {from: token.claim, claim: rgn, values: [US-NY, US-CA]}\n", ""}},
                     "identity.region has no source"},
        BrokenPolicy{3,
                     "tenant from the body",
                     {{"tenant: {from: token.claim, claim: tid", "tenant: {from: request.metadata, values: [a, b]"}},
                     "identity.tenant comes from the request's body"},
        BrokenPolicy{3,
                     "permissions from a signal",
                     {{"permissions: {from: token.claim, claim: perms", "permissions: {from: signal, signal: channel"}},
                     "identity.permissions comes from the customer's words"},
        BrokenPolicy{3,
                     "any language from the body",
                     {{", key: lang, values: [en, es]", ", key: lang"}},
                     "identity.language takes any text"},
        BrokenPolicy{3,
                     "eligibility from a tool that writes",
                     {{"{from: tool.profile, field: class}", "{from: tool.writer, field: class}"},
                      {"  ledger: {kind", "  writer: {kind: write, url: \"http://127.0.0.1:9/w\"}\n  ledger: {kind"}},
                     "a tool that writes"},
        BrokenPolicy{3,
                     "a ready answer for who says so",
                     {{"signals:\n", "signals:\n  vip: {by: phrases, phrases: [i am staff]}\n"},
                      {"intent.group: faq}", "intent.group: faq, vip: true}"}},
                     "signal 'vip' can be made 'true' by whoever writes the words, and then opens route 'ready', a "
                     "ready-made answer, instead of 'otherwise', where a person decides"},
        BrokenPolicy{3,
                     "a ready answer for who gives a small number",
                     {{"intent.group: faq}", "intent.group: faq, amount: {below: 100}}"}},
                     "signal 'amount' can be made"},
        BrokenPolicy{3,
                     "a ready answer for who writes of a small amount",
                     {{"signals:\n", "signals:\n  sum: {by: amount}\n"},
                      {"intent.group: faq}", "intent.group: faq, sum: {below: 100}}"}},
                     "signal 'sum' can be made"},
        BrokenPolicy{3,
                     "a draft that is streamed for who says so",
                     {{"signals:\n", "signals:\n  vip: {by: pattern, pattern: 'code [0-9]+'}\n"},
                      {"complexity: low, permissions", "complexity: low, vip: true, permissions"}},
                     "route 'advice', which streams before it verifies, instead of 'careful', which holds"},
        BrokenPolicy{3,
                     "words that take a risk away",
                     {{"when: {rights: true}, level: high", "when: {rights: false}, level: high"}},
                     "signal 'rights' can be made 'true'"},
        BrokenPolicy{4,
                     "a value with a space behind",
                     {{"values: [US-NY, US-CA]", "values: [US-NY, 'US-CA ']"}},
                     "the policy's value 'US-CA ' can never be one"},
        BrokenPolicy{6,
                     "a template of another year",
                     {{"effective_from: 2025-01-01", "effective_from: 2024-01-01\n    effective_to: 2025-01-01"}},
                     "is not valid at any moment of the policy"},
        BrokenPolicy{7,
                     "a name in a shared instruction",
                     {{"system: Answer briefly.", "system: 'Answer {tenant} briefly.'"}},
                     "its instruction names {tenant}"},
        BrokenPolicy{13,
                     "the instant in every key",
                     {{"granularity: day", "granularity: instant"}},
                     "identity.effective_date: the instant"},
        BrokenPolicy{13,
                     "a request id in the instruction",
                     {{"system: Answer briefly.", "system: 'Answer {request_id} briefly.'"}},
                     "{request_id} in its instruction"}));

INSTANTIATE_TEST_SUITE_P(
    Release, BrokenPolicyTest,
    ::testing::Values(
        BrokenPolicy{
            8,
            "high risk streamed",
            {{"{audience: customer, mode: held, review: desk}", "{audience: internal, mode: stream, review: desk}"}},
            "route 'controlled': high risk is streamed"},
        BrokenPolicy{8,
                     "streamed to customers",
                     {{"{audience: internal, mode: stream}", "{audience: customer, mode: stream}"}},
                     "route 'advice': text reaches the customer before it is verified"},
        BrokenPolicy{
            8,
            "open when a verifier fails",
            {{"citations: {kind: citations, fail: block", "citations: {kind: citations, fail: block, error: open"}},
            "lets answers of medium or high risk out"},
        BrokenPolicy{8,
                     "high risk by meaning",
                     {{"    context: normal\n    max_attempts: 2",
                       "    cache: {mode: semantic, intents: [loan]}\n    context: normal\n    max_attempts: 2"}},
                     "route 'controlled': high risk is answered from other questions' answers"},
        BrokenPolicy{
            8,
            "high risk that nobody verifies",
            {{"    verify: [citations, promises, codes]\n", ""}, {", mode: held, review: desk}", ", mode: held}"}},
            "reaches the customer without a verifier or a review"},
        BrokenPolicy{8,
                     "high risk by a fallback",
                     {{"fallback: [{to: otherwise, on: [any]}]", "fallback: [{to: drafts}]"},
                      {"  - {name: otherwise",
                       "  - name: drafts\n    when: {risk: low, rights: true}\n    model: strong\n    retrieve: "
                       "handbook\n    tools: [profile, ledger]\n    invariants: [agree]\n    verify: [citations, "
                       "promises, codes]\n    release: {audience: internal, mode: "
                       "held, review: desk}\n    cache: {mode: semantic, intents: [loan]}\n    context: normal\n    "
                       "max_output_tokens: 500\n    deadline: 10s\n  - {name: otherwise"}},
                     "route 'drafts': high risk is answered from other"}));

INSTANTIATE_TEST_SUITE_P(
    Routes, BrokenPolicyTest,
    ::testing::Values(
        BrokenPolicy{
            9,
            "a rule behind one that takes all",
            {{kAdviceStart, "  - {name: early, when: {risk: {at_least: low}}, answer: refuse}\n  - name: advice\n"}},
            "route 'advice' is never reached"},
        BrokenPolicy{9,
                     "a level that never comes",
                     {{"when: {risk: low, intent.group: faq}", "when: {risk: low, intent: loan}"}},
                     "route 'ready' is never reached"},
        BrokenPolicy{9,
                     "a fallback in a circle",
                     {{"    cache: {mode: exact_then", "    fallback: [{to: advice}]\n    cache: {mode: exact_then"},
                      {"mode: stream}", "mode: held}\n    queue: desk"},
                      {"total_p99: 20s", "total_p99: 60s"}},
                     "fallbacks lead round in a circle"},
        BrokenPolicy{9,
                     "a fallback without the verifier",
                     {{"model: strong\n    verify: [citations, promises]", "model: strong\n    verify: [citations]"}},
                     "which lacks verifier 'promises'"},
        BrokenPolicy{9,
                     "a fallback abroad",
                     {{"strong: {engine: local, weights: big, residency: [US]",
                       "strong: {engine: local, weights: big, residency: [US, EU]"}},
                     "whose model may process data outside US"},
        BrokenPolicy{9,
                     "a dearer fallback",
                     {{"weights: small, residency: [US], output_cost_per_token: 0.001",
                       "weights: small, residency: [US], output_cost_per_token: 0.0001"}},
                     "which may cost more"},
        BrokenPolicy{9,
                     "deadlines beyond the objective",
                     {{"total_p99: 20s", "total_p99: 19s"}},
                     "add up to 20s, more than its objective of 19s"},
        BrokenPolicy{9,
                     "no time for the answer",
                     {{"handbook: {index: handbook.db, top_k: 4, deadline: 500ms}",
                       "handbook: {index: handbook.db, top_k: 4, deadline: 9s}"}},
                     "nothing is left for the answer"},
        BrokenPolicy{10,
                     "more attempts than allowed",
                     {{"max_attempts: 4", "max_attempts: 1"}},
                     "2 generations along its fallbacks, more than policy.max_attempts 1"},
        BrokenPolicy{11, "a budget below one request", {{"max_budget: 100", "max_budget: 1"}}, "none is ever admitted"},
        BrokenPolicy{11,
                     "tokens below one request",
                     {{"tpm_limit: 100000", "tpm_limit: 1000"}},
                     "fewer than one request may need"},
        BrokenPolicy{11,
                     "no room for the answer",
                     {{"reserve_output_tokens: 500", "reserve_output_tokens: 100"}},
                     "keeps 100 tokens free for the answer, which may have 500"},
        BrokenPolicy{12,
                     "an intent without a text",
                     {{"texts: {hours: We open at nine., card: \"It is on its way, {product}.\"}",
                       "texts: {hours: We open at nine.}"}},
                     "has no text for the intent 'card'"}));

// Tables.

TEST(PolicyCheckTest, TablesWithoutSourceWithGapsOrOverlapsAreReported) {
  const auto policy = ReadEdited({});
  ASSERT_TRUE(policy);
  const std::pair<std::pair<const char*, const char*>, const char*> cases[] = {
      {{"\"source\": \"the network's list\",", ""}, "'source' must be a text"},
      {{"\"checked_on\": \"2026-01-01\",", ""}, "'checked_on' must be a text"},
      {{"\"effective_from\": \"2026-07-01\"", "\"effective_from\": \"2026-08-01\""}, "has a gap from 2026-07-01"},
      {{"\"effective_from\": \"2026-07-01\"", "\"effective_from\": \"2026-06-01\""}, "stands twice"},
      {{"\"code\": \"R02\"", "\"kode\": \"R02\""}, "'code' must be a text"},
      {{"\"effective_to\": \"2026-07-01\"", "\"effective_to\": \"July\""}, "is no day"}};
  for (const auto& [edit, fault] : cases) {
    MemoryFiles files = GoodPolicyFiles();
    std::string& table = files.contents["p/codes.json"];
    const size_t at = table.find(edit.first);
    ASSERT_NE(at, std::string::npos);
    table.replace(at, std::string_view(edit.first).size(), edit.second);
    const auto obligations = CheckWith(*policy, files, CheckedFunctions::Real());
    EXPECT_THAT(Broken(obligations), ::testing::ElementsAre(12)) << FaultsOf(obligations);
    EXPECT_THAT(FaultsOf(obligations), HasSubstr(fault));
  }
  // A gap before the policy begins is no fault: nobody is served then.
  MemoryFiles files = GoodPolicyFiles();
  std::string& table = files.contents["p/codes.json"];
  table.replace(table.find("2026-07-01"), 10, "2024-07-01");
  table.replace(table.find("2026-07-01"), 10, "2025-07-01");
  EXPECT_THAT(Broken(CheckWith(*policy, files, CheckedFunctions::Real())), IsEmpty());
}

TEST(PolicyCheckTest, TheNextBoundaryOfARouteIsTheFirstOfWhatItUses) {
  const auto policy = ReadEdited({});
  ASSERT_TRUE(policy);
  const auto time = CheckWith(*policy, GoodPolicyFiles(), CheckedFunctions::Real())[5];
  EXPECT_THAT(time.details, Contains(HasSubstr("controlled: next boundary 2026-07-01T00:00:00Z (R01 of codes.json")));
  EXPECT_THAT(time.details, Contains(HasSubstr("ready: next boundary 2027-01-01T00:00:00Z (the policy ends)")));
}

// Functions that keep too little apart. Each is a defect that response caches were seen to have.

CheckedFunctions WithPartition(std::function<std::string(const Circumstances&)> key) {
  CheckedFunctions run = CheckedFunctions::Real();
  run.partition_key = [key](const Circumstances& values) -> Result<std::string> {
    const auto real = CheckedFunctions::Real().partition_key(values);
    if (!real) return real;
    return key(values);
  };
  run.answer_key = [key](const Circumstances& values, const AnswerBasis& basis,
                         const std::string& question) -> Result<std::string> {
    const auto real = CheckedFunctions::Real().answer_key(values, basis, question);
    const auto partition = CheckedFunctions::Real().partition_key(values);
    if (!real || !partition) return real;
    return key(values) + real->substr(partition->size());
  };
  return run;
}

std::string Joined(const Circumstances& values, const std::string& separator, int without = -1) {
  std::string out;
  for (int i = 0; i < kDimensionCount; ++i) {
    if (i == without) continue;
    if (static_cast<Dimension>(i) == Dimension::kPermissions) {
      for (const std::string& permission : *values.permissions) out += permission + separator;
    } else {
      out += values.text[static_cast<size_t>(i)].value_or("");
    }
    out += separator;
  }
  return out;
}

std::vector<Obligation> CheckGoodWith(const CheckedFunctions& run) {
  const auto policy = ReadEdited({});
  return CheckWith(*policy, GoodPolicyFiles(), run);
}

TEST(PolicyCheckTest, AKeyJoinedBySeparatorsIsReported) {
  for (const char* separator : {"", "|", ":", ",", " "}) {
    const auto obligations = CheckGoodWith(WithPartition([separator](const Circumstances& values) {
      return Joined(values, separator);
    }));
    EXPECT_THAT(Broken(obligations), Contains(1)) << separator;
    EXPECT_THAT(FaultsOf(obligations), HasSubstr("1: one key for two")) << separator;
  }
}

TEST(PolicyCheckTest, AKeyWithoutADimensionIsReportedByWitness) {
  for (int i = 0; i < kDimensionCount; ++i) {
    const auto obligations = CheckGoodWith(WithPartition([i](const Circumstances& values) {
      Circumstances cut = values;
      cut.text[static_cast<size_t>(i)] = "2026-01-01";
      if (static_cast<Dimension>(i) == Dimension::kPermissions) cut.permissions = std::vector<std::string>{"x"};
      if (static_cast<Dimension>(i) == Dimension::kPermissions) cut.text[static_cast<size_t>(i)].reset();
      return *CheckedFunctions::Real().partition_key(cut);
    }));
    EXPECT_THAT(Broken(obligations), AllOf(Contains(1), Contains(5))) << i;
    EXPECT_THAT(FaultsOf(obligations), HasSubstr(fmt::format("5: requests that differ in {} share an answer",
                                                             NameOf(static_cast<Dimension>(i)))));
  }
}

TEST(PolicyCheckTest, ACacheThatNeverHitsIsReported) {
  int n = 0;
  const auto obligations = CheckGoodWith(WithPartition([&n](const Circumstances&) { return std::to_string(++n); }));
  EXPECT_THAT(FaultsOf(obligations), HasSubstr("5: equal requests have no equal keys"));
}

TEST(PolicyCheckTest, AKeyThatForgetsWhoseValueItIsIsReportedBySwaps) {
  const auto obligations = CheckGoodWith(WithPartition([](const Circumstances& values) {
    std::vector<std::string> all = *values.permissions;
    for (const auto& text : values.text) all.push_back(text.value_or(""));
    std::ranges::sort(all);
    return fmt::format("{}", fmt::join(all, "\n"));
  }));
  EXPECT_THAT(FaultsOf(obligations), HasSubstr("5: the values of tenant and permissions can be exchanged"));
}

TEST(PolicyCheckTest, ASilentDefaultIsReported) {
  CheckedFunctions run = CheckedFunctions::Real();
  run.canonical = [](Circumstances raw) {
    auto& region = raw.text[static_cast<size_t>(Dimension::kRegion)];
    if (!region) region = "default";
    return Canonical(std::move(raw));
  };
  const auto obligations = CheckGoodWith(run);
  EXPECT_THAT(Broken(obligations), ::testing::ElementsAre(4)) << FaultsOf(obligations);
  EXPECT_THAT(FaultsOf(obligations), HasSubstr("region: without a value there is still a key"));
}

TEST(PolicyCheckTest, FoldedCaseTrimmedSpaceAndUnsortedSetsAreReported) {
  CheckedFunctions run = CheckedFunctions::Real();
  run.canonical = [](Circumstances raw) {
    for (auto& text : raw.text) {
      if (text) std::ranges::transform(*text, text->begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
    }
    return Canonical(std::move(raw));
  };
  EXPECT_THAT(FaultsOf(CheckGoodWith(run)), HasSubstr("'value' and 'Value' have one key"));
  run.canonical = [](Circumstances raw) {
    for (auto& text : raw.text) {
      while (text && text->ends_with(' ')) text->pop_back();
    }
    return Canonical(std::move(raw));
  };
  EXPECT_THAT(FaultsOf(CheckGoodWith(run)), HasSubstr("a value is taken that is none (space behind)"));
  run = CheckedFunctions::Real();
  run.canonical = [](Circumstances raw) -> Result<Circumstances> {
    const auto good = Canonical(raw);
    if (!good) return good;
    return raw;   // as it came: not sorted, not made unique
  };
  run.partition_key = [](const Circumstances& values) -> Result<std::string> {
    const auto good = CheckedFunctions::Real().partition_key(*Canonical(values));
    if (!good) return good;
    return Joined(values, std::string(1, '\0'));
  };
  EXPECT_THAT(FaultsOf(CheckGoodWith(run)), HasSubstr("order or repetition changes the key"));
}

TEST(PolicyCheckTest, AnAnswerKeyWithoutPartOfItsBasisIsReported) {
  CheckedFunctions run = CheckedFunctions::Real();
  run.answer_key = [](const Circumstances& values, AnswerBasis basis, const std::string& question) {
    basis.prompt_template.clear();
    return CheckedFunctions::Real().answer_key(values, basis, question);
  };
  const auto obligations = CheckGoodWith(run);
  EXPECT_THAT(Broken(obligations), ::testing::ElementsAre(2));
  EXPECT_THAT(FaultsOf(obligations), HasSubstr("the prompt template is not part of the key"));
}

TEST(PolicyCheckTest, PrefixesSharedMoreWidelyThanAnswersAreReported) {
  CheckedFunctions run = CheckedFunctions::Real();
  run.scope = [](const Circumstances& values) {
    auto scope = CheckedFunctions::Real().scope(values);
    if (scope) scope->eligibility.clear();
    return scope;
  };
  const auto obligations = CheckGoodWith(run);
  EXPECT_THAT(Broken(obligations), ::testing::ElementsAre(7));
  EXPECT_THAT(FaultsOf(obligations), HasSubstr("requests that differ in eligibility share KV"));
}

TEST(PolicyCheckTest, AValidityThatIsTooWideIsReported) {
  CheckedFunctions run = CheckedFunctions::Real();
  run.intersect = [](const Validity& a, const Validity& b) {
    return Validity{std::max(a.from_ns, b.from_ns), std::max(a.to_ns, b.to_ns)};
  };
  EXPECT_THAT(FaultsOf(CheckGoodWith(run)), HasSubstr("6: the intersection of two validities"));
}

TEST(PolicyCheckTest, AReservationBelowTheWorstCaseIsReported) {
  CheckedFunctions run = CheckedFunctions::Real();
  run.worst_case = [](const Policy& policy, const RouteSpec& route, int input, int output) {
    QuotaAmount worst = WorstCase(policy, route, input, output);
    worst.money /= 2;   // one attempt of two
    return worst;
  };
  const auto obligations = CheckGoodWith(run);
  EXPECT_THAT(Broken(obligations), ::testing::ElementsAre(11));
  EXPECT_THAT(FaultsOf(obligations), HasSubstr("route 'controlled'"));
}

// Reports.

TEST(PolicyCheckTest, TheMatrixShowsThatEveryDimensionTellsRequestsApart) {
  const auto policy = ReadEdited({});
  MemoryFiles files = GoodPolicyFiles();
  const auto matrix = ExplainCache({.policy = *policy, .files = files, .space = {}});
  ASSERT_EQ(matrix.size(), policy->routes.size());
  for (const auto& row : matrix) {
    ASSERT_EQ(row.at("dimensions").as_array().size(), 8U);
    for (const auto& dimension : row.at("dimensions").as_array()) {
      EXPECT_TRUE(dimension.at("differs").as_bool());
      EXPECT_NE(dimension.at("digest"), dimension.at("sibling_digest"));
    }
  }
}

TEST(PolicyDiffTest, ShowsWhatChangedAndWhichEntriesDie) {
  const auto before = ReadEdited({});
  const auto same = DiffPolicies(*before, *before);
  EXPECT_TRUE(same.at("changes").as_array().empty());
  EXPECT_TRUE(same.at("dying").as_array().empty());   // the control: nothing changed, nothing dies
  const auto after = ReadEdited({{"version: 2026.1", "version: 2026.2"},
                                 {"verify: [citations, promises]\n    cache: {mode: exact, ttl",
                                  "verify: [citations]\n    cache: {mode: exact, ttl"},
                                 {"weights: big", "weights: bigger"}});
  ASSERT_TRUE(after) << after.error().message();
  const std::string diff = boost::json::serialize(DiffPolicies(*before, *after));
  EXPECT_THAT(diff, HasSubstr("routes.advice: changed: verify"));
  EXPECT_THAT(diff, HasSubstr("models.strong: changed: weights"));
  EXPECT_THAT(diff, HasSubstr("policy.version: changed"));
  EXPECT_THAT(diff, HasSubstr("\"dying\":[\"ready\",\"advice\",\"careful\"]"));
  EXPECT_THAT(diff, ::testing::Not(HasSubstr("verifiers.")));
}

TEST(PolicyDiffTest, AVersionThatStaysThoughTheFileChangedIsSaid) {
  const auto before = ReadEdited({}), after = ReadEdited({{"ttl: 6h", "ttl: 5h"}});
  EXPECT_THAT(boost::json::serialize(DiffPolicies(*before, *after)), HasSubstr("policy.version is the same"));
}

TEST(PolicyTraceTest, CountsTheRequestsThatTakeAnotherRoute) {
  const auto before = ReadEdited({});
  const auto after = ReadEdited({{"amount: {above: 10000}", "amount: {above: 500}"}});
  ASSERT_TRUE(before && after);
  const auto requests = ParseRequestTrace(
      "{\"text\": \"what are your opening hours?\"}\n\n"
      "{\"text\": \"I want to send usd 900\", \"claims\": {\"perms\": [\"staff\"]}}\n"
      "{\"text\": \"I dispute this\", \"metadata\": {\"channel\": \"app\"}}\n");
  ASSERT_TRUE(requests) << requests.error().message();
  const auto same = CompareTraces(*before, *before, *requests, kCheckNow);
  ASSERT_TRUE(same) << same.error().message();
  EXPECT_EQ(same->at("moved"), 0);
  const auto moved = CompareTraces(*before, *after, *requests, kCheckNow);
  EXPECT_EQ(moved->at("requests"), 3);
  EXPECT_EQ(boost::json::serialize(moved->at("moves")), "{\"otherwise > controlled\":1}");
  const auto router = TraceRouter::Make(*before, kCheckNow);
  EXPECT_EQ((*router)->RouteOf((*requests)[0]), "ready");
  EXPECT_EQ((*router)->RouteOf((*requests)[2]), "controlled");
  EXPECT_FALSE(ParseRequestTrace("{\"text\": 1}"));
  EXPECT_THAT(ParseRequestTrace("{\"text\": \"a\"}\nnot json\n").error().message(), HasSubstr("line 2"));
}

// The demo takes the requests that it was made for the way that it promises.
TEST(PolicyTraceTest, TheExampleRoutesAsItSays) {
  const auto policy = ReadPolicy(FileSystem::Real(), SURETY_TESTDATA "/../policies/retail-demo/policy.yaml");
  ASSERT_TRUE(policy) << policy.error().message();
  const auto router = TraceRouter::Make(*policy, kCheckNow);
  ASSERT_TRUE(router) << router.error().message();
  const std::pair<const char*, const char*> cases[] = {
      {"What are your opening hours?", "faq"},
      {"When will my card arrive?", "faq"},
      {"How high is the monthly fee?", "faq"},
      {"How long does a transfer take?", "policy_answer"},
      {"Is there a fee for an overdraft?", "policy_answer"},
      {"I want to dispute a payment on my card", "high"},
      {"There is a transaction that I did not make. It is not my transaction!", "high"},
      {"I want to make a complaint", "high"},
      {"Can I send $12,000 by wire transfer?", "high"},
      {"Can I send 25000 dollars tomorrow?", "high"},
      {"What are your opening hours? I want to dispute a charge.", "high"},
      {"Tell me a joke", "otherwise"}};
  for (const auto& [text, route] : cases) EXPECT_EQ((*router)->RouteOf({.text = text, .caller = {}}), route) << text;
}

}  // namespace
}  // namespace surety::gateway
