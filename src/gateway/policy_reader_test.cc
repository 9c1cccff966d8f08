#include "gateway/policy_reader.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/testing/policy_text.h"

namespace surety::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using policy_text::EditedPolicyText;
using policy_text::Edits;
using policy_text::GoodPolicyFiles;
using policy_text::GoodPolicyText;
using policy_text::MemoryFiles;
using policy_text::ReadEdited;

// The line of the good policy, after `edits`, in which `text` stands.
int LineOf(const std::string& whole, std::string_view text) {
  const size_t at = whole.find(text);
  return at == std::string::npos ? -1 : 1 + static_cast<int>(std::count(whole.begin(), whole.begin() + at, '\n'));
}

TEST(PolicyReaderTest, ReadsEveryPart) {
  const auto policy = ReadEdited({});
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(policy->version, "2026.1");
  EXPECT_EQ(policy->validity.from_ns, 1'767'225'600'000'000'000);
  const auto& tenant = policy->identity[static_cast<size_t>(Dimension::kTenant)];
  EXPECT_EQ(tenant.from, DimensionSource::From::kClaim);
  EXPECT_EQ(tenant.name, "tid");
  EXPECT_TRUE(tenant.required);
  const auto& product = policy->identity[static_cast<size_t>(Dimension::kProduct)];
  EXPECT_EQ(product.name, "product");   // the dimension's own name
  EXPECT_THAT(product.values, ElementsAre("checking", "savings"));
  EXPECT_EQ(policy->identity[static_cast<size_t>(Dimension::kEligibility)].field, "class");
  EXPECT_EQ(policy->identity[static_cast<size_t>(Dimension::kPolicyVersion)].from, DimensionSource::From::kPolicy);
  EXPECT_EQ(policy->required_dimensions.size(), 8U);
  EXPECT_THAT(policy->signals[1].phrases.at(""), ElementsAre("dispute", "not my transaction"));
  EXPECT_THAT(policy->signals[0].groups.at("faq"), ElementsAre("hours", "card"));
  ASSERT_EQ(policy->risk.rules.size(), 4U);
  EXPECT_EQ(policy->risk.rules[2].when[0].above, 10000);
  const RouteSpec& controlled = policy->routes[0];
  EXPECT_EQ(controlled.release.review, "desk");
  EXPECT_EQ(controlled.max_attempts, 2);
  EXPECT_EQ(controlled.deadline_ns, 10'000'000'000);
  EXPECT_TRUE(controlled.fallback[0].on.empty());
  EXPECT_EQ(policy->routes[1].cache.ttl_ns, 21'600'000'000'000);
  EXPECT_EQ(policy->routes[2].when[0].at_least, Level::kMedium);
  EXPECT_THAT(policy->routes[2].fallback[0].on,
              ElementsAre(FallbackSpec::Cause::kTimeout, FallbackSpec::Cause::kError));
  EXPECT_TRUE(policy->routes.back().always);
  EXPECT_EQ(policy->budgets[0].max_budget, 100);
  EXPECT_EQ(policy->state.cache_bytes, 8'000'000);
  EXPECT_EQ(policy->slos[0].objectives[1].quantile, 0.99);
  EXPECT_EQ(policy->slos[0].error_budget, 0.005);
  EXPECT_EQ(policy->review.at("desk").approvals, 2);
  EXPECT_EQ(policy->invariants.at("agree").require, "ledger.closed");
  EXPECT_EQ(policy->digest.size(), 64U);
}

TEST(PolicyReaderTest, LimitsOfAModelBecomeBudgets) {
  const auto policy = ReadEdited({{"weights: small,", "weights: small, rpm: 60, tpm: 1000,"}});
  ASSERT_TRUE(policy) << policy.error().message();
  const BudgetSpec& budget = policy->budgets.back();
  EXPECT_EQ(budget.scope, BudgetSpec::Scope::kModel);
  EXPECT_EQ(budget.only, "fast");
  EXPECT_EQ(budget.rpm_limit, 60);
  EXPECT_EQ(budget.tpm_limit, 1000);
}

TEST(PolicyReaderTest, RemoteModelsCarryLiteLlmsNames) {
  const auto policy = ReadEdited({{"fast: {engine: local, weights: small, residency: [US],",
                                   "fast: {engine: remote, model: gpt, api_base: \"http://127.0.0.1:1/v1\", api_key: "
                                   "os.environ/FAST_KEY, timeout: 7.5, max_parallel_requests: 3, residency: [US], "
                                   "cache_read_input_token_cost: 0.00001,"}});
  ASSERT_TRUE(policy) << policy.error().message();
  const ModelSpec& model = policy->models.at("fast");
  EXPECT_EQ(model.weights, "gpt");
  EXPECT_EQ(model.api_key.variable, "FAST_KEY");
  EXPECT_EQ(model.timeout_ns, 7'500'000'000);
  EXPECT_EQ(model.max_parallel_requests, 3);
}

TEST(PolicyReaderTest, ALocalModelMayHaveADrafter) {
  auto policy = ReadEdited({{"weights: small,", "weights: small, draft_model: smaller,"}});
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(policy->models.at("fast").draft_model, "smaller");
  policy = ReadEdited({{"weights: small,", "weights: small, draft_head: /heads/small,"}});
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(policy->models.at("fast").draft_head, "/heads/small");
}

// Not said is not free.
TEST(PolicyReaderTest, APriceOfCachedTokensThatIsNotSaidIsThatOfInput) {
  const std::string_view stands = "weights: small, residency: [US],";
  const auto price = [&](std::string_view said) {
    const auto policy = ReadEdited({{stands, std::string(stands) + std::string(said)}});
    EXPECT_TRUE(policy) << policy.error().message();
    return policy ? policy->models.at("fast").cache_read_input_token_cost : -1;
  };
  EXPECT_EQ(price(""), 0.0001);
  EXPECT_EQ(price(" cache_read_input_token_cost: 0,"), 0);
  EXPECT_EQ(price(" cache_read_input_token_cost: 0.00002,"), 0.00002);
}

TEST(PolicyReaderTest, CalendarMonthsAreForBudgetsAlone) {
  const auto policy = ReadEdited({{"budget_duration: 1d", "budget_duration: 1mo"}});
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_TRUE(policy->budgets[0].calendar_month);
  EXPECT_FALSE(ReadEdited({{"ttl: 6h", "ttl: 1mo"}}));
}

TEST(PolicyReaderTest, TheLogIsRotatedAtAGigabyteUnlessThePolicySaysOtherwise) {
  const auto plain = ReadEdited({});
  EXPECT_EQ(plain->state.audit_rotate_at, int64_t{1} << 30);
  EXPECT_EQ(plain->state.audit_rotate_every_ns, 0);
  const auto daily = ReadEdited({{"cache: {size: 8MB}",
                                  "cache: {size: 8MB}\naudit: {rotate_at: 0, rotate_every: 1d}"}});
  ASSERT_TRUE(daily) << daily.error().message();
  EXPECT_EQ(daily->state.audit_rotate_at, 0);
  EXPECT_EQ(daily->state.audit_rotate_every_ns, 86400LL * 1'000'000'000);
}

TEST(PolicyReaderTest, InvariantsMayUseTheWholeGrammar) {
  const auto policy = ReadEdited({{"when: profile.state == closed, require: ledger.closed",
                                   "when: 'not (profile.state != closed or profile.n <= 5)', require: "
                                   "'ledger.closed and ledger.note == \"a b\"'"}});
  EXPECT_TRUE(policy) << policy.error().message();
}

struct ReaderFault {
  std::string_view before, after;   // the edit
  std::string_view place;           // text of the edited file on whose line the fault is
  std::string_view message;
};

void PrintTo(const ReaderFault& fault, std::ostream* out) { *out << fault.after; }

class PolicyReaderFaultTest : public ::testing::TestWithParam<ReaderFault> {};

TEST_P(PolicyReaderFaultTest, SaysWhatWhereAndWhatWouldBeRight) {
  const ReaderFault& fault = GetParam();
  const std::string text = EditedPolicyText({{fault.before, fault.after}});
  const auto policy = ReadEdited({{fault.before, fault.after}});
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(policy.error().message(), HasSubstr(fault.message));
  EXPECT_THAT(policy.error().message(), HasSubstr("policy.yaml:" + std::to_string(LineOf(text, fault.place)) + ":"));
}

INSTANTIATE_TEST_SUITE_P(
    Keys, PolicyReaderFaultTest,
    ::testing::Values(
        ReaderFault{"retrieve: handbook\n    tools", "retreive: handbook\n    tools", "retreive",
                    "unknown key 'retreive'; did you mean 'retrieve'?"},
        ReaderFault{"retrievers:", "retriever:", "retriever:", "unknown key 'retriever'; did you mean 'retrievers'?"},
        ReaderFault{"top_k: 4", "topk: 4", "topk", "unknown key 'topk'; did you mean 'top_k'?"},
        ReaderFault{"top_k: 4", "top_k: four", "top_k", "'four' is no whole number"},
        ReaderFault{"top_k: 4", "top_k: '4'", "top_k", "without quotes"},
        ReaderFault{"top_k: 4", "top_k: 0", "top_k", "0 is not within 1 to 1000"},
        ReaderFault{"top_k: 4", "top_k: [4]", "top_k", "a whole number is wanted; here stands a list"},
        ReaderFault{"top_k: 4", "top_k: 4, top_k: 5", "top_k", "the key 'top_k' stands here twice"},
        ReaderFault{"index: handbook.db, ", "", "top_k: 4", "the key 'index' is missing"},
        ReaderFault{"deadline: 500ms", "deadline: 500", "deadline: 500", "'500' is no duration"},
        ReaderFault{"cache: {size: 8MB}", "cache: {size: 8MB}\naudit: {rotate_at: 10KB}", "rotate_at: 10KB",
                    "rotate_at: 1MiB at least, or 0 for never"},
        ReaderFault{"cache: {size: 8MB}", "cache: {size: 8MB}\naudit: {rotate_every: 59m}", "rotate_every: 59m",
                    "rotate_every: 1h at least"},
        ReaderFault{"size: 8MB", "size: 8 MB", "size: 8 MB", "'8 MB' is no size"},
        ReaderFault{"effective_from: 2026-01-01T00:00:00Z", "effective_from: 2026-01-01T00:00:00", "id: good",
                    "is no instant"},
        ReaderFault{"effective_from: 2026-01-01T00:00:00Z, ", "", "id: good", "the key 'effective_from' is missing"},
        ReaderFault{"effective_to: 2027-01-01", "effective_to: 2025-01-01", "id: good",
                    "effective_to must be later than effective_from"},
        ReaderFault{"max_attempts: 4", "max_attempts: 4}\n\npolicy: {", "policy: {}",
                    "the key 'policy' stands here twice"},
        ReaderFault{"error_budget: 0.5%", "error_budget: 5", "error_budget", "'5' is no share"},
        ReaderFault{"ttfu_p95: 1500ms", "ttfu_p96: 1500ms", "ttfu_p96", "did you mean 'ttfu_p9"},
        ReaderFault{"mode: stream", "mode: streamed", "streamed",
                    "'streamed' is not one of its values; did you mean "
                    "'stream'?"},
        ReaderFault{"level: medium}\n    - {when: {rights", "level: middle}\n    - {when: {rights", "middle",
                    "'middle' is not one of its values; there is low, medium, high"},
        ReaderFault{"exclude: [author]", "exclude: author", "exclude: author", "a list is wanted"},
        ReaderFault{"release: {audience: internal, mode: held}",
                    "release: {audience: internal, mode: held, progress: 1ms}", "progress: 1ms", "10ms or more"},
        ReaderFault{"name: ready", "name: rea dy", "rea dy", "'rea dy' is no name"},
        ReaderFault{"engine: local, weights: small", "engine: local, weights: small, api_base: \"http://h/v1\"",
                    "weights: small", "the key 'api_base' has no effect with engine: local"},
        ReaderFault{"weights: small,", "weights: small, draft_model: a, draft_head: b,", "fast: {engine",
                    "draft_model and draft_head exclude each other"},
        ReaderFault{"engine: local, weights: small", "engine: remote, weights: small", "weights: small",
                    "engine: remote needs the key 'api_base'"},
        ReaderFault{"kind: citations, fail", "kind: citations, phrases: [x], fail", "kind: citations, phrases",
                    "the key 'phrases' has no effect with kind: citations"},
        ReaderFault{"kind: citations, fail", "kind: citatons, fail", "citatons", "did you mean 'citations'?"},
        ReaderFault{"template: faq\n", "template: faq\n    model: fast\n", "model: fast\n    cache",
                    "the key 'model' has no effect with answer: template"},
        ReaderFault{", queue: desk}", "}", "name: otherwise", "answer: human needs the key 'queue'"}));

INSTANTIATE_TEST_SUITE_P(
    Names, PolicyReaderFaultTest,
    ::testing::Values(
        ReaderFault{"model: fast\n", "model: fats\n", "fats",
                    "'fats' is no model of this policy; did you mean 'fast'?"},
        ReaderFault{"retrieve: handbook\n    tools", "retrieve: handbok\n    tools", "handbok",
                    "did you mean 'handbook'?"},
        ReaderFault{"verify: [citations, promises, codes]", "verify: [citation, promises, codes]", "[citation,",
                    "'citation' is no verifier of this policy; did you mean 'citations'?"},
        ReaderFault{"verify: [citations, promises, codes]", "verify: [citations, citations, promises]",
                    "citations, citations", "stands in this list twice"},
        ReaderFault{"tools: [profile, ledger]", "tools: [profil, ledger]", "profil,", "did you mean 'profile'?"},
        ReaderFault{"invariants: [agree]", "invariants: [agre]", "agre]", "did you mean 'agree'?"},
        ReaderFault{"template: faq", "template: fqa", "fqa",
                    "'fqa' is no template of this policy; did you mean 'faq'?"},
        ReaderFault{"review: desk}", "review: dsk}", "dsk", "did you mean 'desk'?"},
        ReaderFault{"to: careful", "to: carefull", "carefull", "'carefull' is no route"},
        ReaderFault{"from: tool.profile", "from: tool.profle", "profle", "did you mean 'profile'?"},
        ReaderFault{"only: fast", "only: slow", "slow", "'slow' is no model"},
        ReaderFault{"slo:\n  advice:", "slo:\n  advise:", "advise", "did you mean 'advice'?"},
        ReaderFault{"when: {risk: high}", "when: {risks: high}", "risks", "did you mean 'risk'?"},
        ReaderFault{"when: {risk: high}", "when: {risk: hihg}", "hihg",
                    "'hihg' is never a value of 'risk'; did you mean "
                    "'high'?"},
        ReaderFault{"when: {rights: true}", "when: {rights: yes}", "rights: yes", "'yes' is never a value of 'rights'"},
        ReaderFault{"intent.group: faq", "intent.group: fag", "fag", "did you mean 'faq'?"},
        ReaderFault{"intent: [loan, abstained]", "intent: [laon, abstained]", "laon", "did you mean 'loan'?"},
        ReaderFault{"amount: {above: 10000}", "amount: 10000", "amount: 10000", "'amount' is a number"},
        ReaderFault{"when: {rights: true}", "when: {rights: {above: 1}}", "above: 1}",
                    "above and below are for signals "
                    "that are numbers"},
        ReaderFault{"when: {rights: true}", "when: {region: US-NY}", "when: {region", "'region' is not known yet"},
        ReaderFault{"complexity: low, permissions", "complexity: {at_least: medum}, permissions", "medum",
                    "did you mean 'medium'?"},
        ReaderFault{"groups: {faq: [hours, card]}", "groups: {faq: [hours, crad]}", "crad", "did you mean 'card'?"},
        ReaderFault{"intents: [loan]", "intents: [lone]", "lone", "did you mean 'none'?"},
        ReaderFault{"{product}", "{prodct}", "prodct", "'{prodct}' stands for nothing"},
        ReaderFault{"texts: {hours:", "texts: {houers:", "houers", "did you mean 'hours'?"},
        ReaderFault{"when: profile.state == closed", "when: profil.state == closed", "profil.",
                    "there is no tool 'profil'; did you mean 'profile'?"},
        ReaderFault{"when: profile.state == closed", "when: profile.state = closed", "profile.state = closed",
                    "'=' is no comparison; write == or !="},
        ReaderFault{"when: profile.state == closed", "when: profile.state == closed or ledgre.x",
                    "profile.state == closed or", "there is no tool 'ledgre'; did you mean 'ledger'?"},
        ReaderFault{"when: profile.state == closed", "when: profile", "profile, require", "a fixed value alone"},
        ReaderFault{"require: ledger.closed", "require: (ledger.closed", "(ledger.closed", "'(' without ')'"},
        ReaderFault{"require: ledger.closed", "require: ledger.closed and", "ledger.closed and",
                    "something is missing at the end"},
        ReaderFault{"tools: [profile, ledger]", "tools: [profile]", "agree]",
                    "'agree' reads the tool 'ledger', which this route does not ask"},
        ReaderFault{"name: careful", "name: advice", "name: advice\n    when: {risk: medium}",
                    "'advice' stands here twice"},
        ReaderFault{"when: always", "when: {risk: low}", "name: otherwise", "must be when: always"},
        ReaderFault{"when: {risk: high}", "when: sometimes", "sometimes", "conditions are wanted"},
        ReaderFault{"when: {risk: high}", "when: {}", "when: {}", "no condition; write when: always"},
        ReaderFault{"  rights: {by", "  region: {by", "  region: {by: phrases", "a signal cannot be called 'region'"}));

INSTANTIATE_TEST_SUITE_P(
    Values, PolicyReaderFaultTest,
    ::testing::Values(
        ReaderFault{"from: token.claim, claim: tid", "from: token.clam, claim: tid", "token.clam",
                    "'token.clam' is no source; did you mean 'token.claim'?"},
        ReaderFault{"from: token.claim, claim: rgn", "from: clock, claim: rgn", "from: clock, claim",
                    "the clock gives "
                    "effective_date alone"},
        ReaderFault{"from: clock, granularity: day", "from: policy", "effective_date",
                    "the policy gives policy_version alone"},
        ReaderFault{"phrases: rights.txt", "phrases: right.txt", "right.txt", "'p/right.txt': no such file"},
        ReaderFault{"phrases: rights.txt", "phrases: []", "phrases: []", "a list of 1 to 10000 is wanted"},
        ReaderFault{"'usd (\\d+)', number", "'usd (\\d+', number", "usd (", "is not RE2"},
        ReaderFault{"'usd (\\d+)', number", "'usd \\d+', number", "usd ", "needs a group"},
        ReaderFault{"cache: {size: 8MB}",
                    "cache: {required_dimensions: [tenant, permissions, region, product, policy_version, eligibility, "
                    "effective_date]}",
                    "required_dimensions", "the dimension 'language' is missing"},
        ReaderFault{"cache: {mode: exact_then_semantic, intents: [loan], similarity: 0.97}", "cache: {mode: semantic}",
                    "mode: semantic", "answers by meaning are for named intents alone"},
        ReaderFault{"cache: {mode: exact, ttl: 1h}", "cache: on", "cache: on", "'on' is no cache: write off"},
        ReaderFault{"url: \"http://127.0.0.1:9/ledger\"", "url: \"http://127.0.0.1:9/ledger\", command: [/bin/true]",
                    "/bin/true", "a tool is one of url, database (with query) and command"},
        ReaderFault{"url: \"http://127.0.0.1:9/ledger\"", "command: [cat]", "[cat]", "must be an absolute path"},
        ReaderFault{"url: \"http://127.0.0.1:9/ledger\"", "url: \"ftp://h/\"", "ftp", "ftp"},
        ReaderFault{"scope: tenant, max_budget: 100, budget_duration: 1d", "scope: tenant", "scope: tenant",
                    "a budget needs max_budget, rpm_limit, tpm_limit or max_parallel_requests"},
        ReaderFault{"cite_tokens: 2000", "cite_tokens: 3500", "cite_tokens", "more than max_input_tokens"},
        ReaderFault{"table: codes.json", "table: code.json", "code.json", "no such file"},
        ReaderFault{"labels: {hours:", "labels: {none: [x], hours:", "by: phrases\n    labels",
                    "'none' cannot be a label"},
        ReaderFault{"version: 7", "version: ~", "version: ~", "a text is wanted; here stands nothing"}));

TEST(PolicyReaderTest, AKeyInTheFileIsRefusedAndNotRepeated) {
  const auto policy = ReadEdited({{"fast: {engine: local, weights: small,",
                                   "fast: {engine: remote, model: m, api_base: \"http://h/v1\", api_key: sk-secret,"}});
  ASSERT_FALSE(policy);
  EXPECT_THAT(policy.error().message(), HasSubstr("os.environ/NAME"));
  EXPECT_THAT(policy.error().message(), ::testing::Not(HasSubstr("sk-secret")));
}

TEST(PolicyReaderTest, SaysAllFaultsAtOnce) {
  const auto policy = ReadEdited({{"top_k: 4", "top_k: x"}, {"ttl: 6h", "ttl: 6"}, {"size: 8MB", "size: y"}});
  ASSERT_FALSE(policy);
  const std::string& message = policy.error().message();
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 2) << message;
}

// Digests.

TEST(PolicyDigestTest, EveryByteOfEveryNamedFileCounts) {
  MemoryFiles files = GoodPolicyFiles();
  const std::string text = GoodPolicyText();
  const auto digest = [&] {
    const auto policy = ReadPolicyText(files, "p/policy.yaml", text);
    return policy ? policy->digest : policy.error().message();
  };
  const std::string first = digest();
  EXPECT_EQ(first, digest());
  for (const char* name : {"p/rights.txt", "p/codes.json"}) {
    const std::string before = files.contents[name];
    files.contents[name] += " ";
    EXPECT_NE(digest(), first) << name;
    files.contents[name] = before;
  }
  EXPECT_EQ(first, digest());
  files.contents["p/other.txt"] = "not named";
  EXPECT_EQ(first, digest());
  EXPECT_NE(ReadPolicyText(files, "p/policy.yaml", text + "# a comment\n")->digest, first);
}

TEST(PolicyDigestTest, BytesCannotMoveBetweenFiles) {
  MemoryFiles files = GoodPolicyFiles();
  const std::string text = EditedPolicyText({{"phrases: [we guarantee]", "phrases: promises.txt"}});
  files.contents["p/rights.txt"] = "dispute\nfraud\n";
  files.contents["p/promises.txt"] = "we guarantee\n";
  const auto one = ReadPolicyText(files, "p/policy.yaml", text);
  ASSERT_TRUE(one) << one.error().message();
  files.contents["p/rights.txt"] = "dispute\n";
  files.contents["p/promises.txt"] = "fraud\nwe guarantee\n";
  const auto two = ReadPolicyText(files, "p/policy.yaml", text);
  EXPECT_NE(one->digest, two->digest);
  std::swap(files.contents["p/rights.txt"], files.contents["p/promises.txt"]);
  EXPECT_NE(ReadPolicyText(files, "p/policy.yaml", text)->digest, two->digest);
}

// Garbage.

TEST(PolicyReaderTest, GarbageIsRefusedAndNeverCrashes) {
  std::mt19937 random(7);
  const std::string good = GoodPolicyText();
  MemoryFiles files = GoodPolicyFiles();
  int n_good = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string text = good;
    const int n_edits = 1 + static_cast<int>(random() % 3);
    for (int e = 0; e < n_edits; ++e) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text[at] = "{}[]:,&*!|>'\"%@`#-? \n\t\x01\xff"[random() % 25]; break;
        case 1: text.erase(at, 1 + random() % 20); break;
        case 2: text.insert(at, text.substr(random() % text.size(), random() % 40)); break;
        default: text.resize(at); break;
      }
      if (text.empty()) text = "x";
    }
    const auto policy = ReadPolicyText(files, "p/policy.yaml", text);
    n_good += policy ? 1 : 0;
    if (policy) continue;
    EXPECT_THAT(policy.error().message(), ::testing::StartsWith("policy.yaml:"));
  }
  EXPECT_LT(n_good, 700);
}

// The example that ships.

TEST(PolicyReaderTest, TheExampleReads) {
  const auto policy = ReadPolicy(FileSystem::Real(), SURETY_TESTDATA "/../policies/retail-demo/policy.yaml");
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(policy->routes.size(), 4U);
}

// Schema, reader and document say the same.

// Every object of the schema with its properties, by the path of the keys that lead to it ("*": any name).
void PropertiesOf(const boost::json::value& schema, const std::string& path,
                  std::map<std::string, std::vector<std::string>>& out) {
  if (!schema.is_object()) return;
  const auto& object = schema.get_object();
  if (const auto* properties = object.if_contains("properties")) {
    for (const auto& member : properties->as_object()) {
      out[path].emplace_back(member.key());
      PropertiesOf(member.value(), path + "/" + std::string(member.key()), out);
    }
  }
  if (const auto* more = object.if_contains("additionalProperties")) PropertiesOf(*more, path + "/*", out);
  if (const auto* items = object.if_contains("items")) PropertiesOf(*items, path + "/[]", out);
  if (const auto* any = object.if_contains("anyOf")) {
    for (const auto& one : any->as_array()) PropertiesOf(one, path, out);
  }
}

// A file in which `key` stands at `path` and nothing else: whether it is known shows in what the reader says.
std::string FileWithKey(const std::string& path, const std::string& key) {
  std::string open, close;
  size_t at = 1;
  while (at < path.size()) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    at = end + 1;
    if (part == "[]") {
      open += "[";
      close.insert(0, "]");
    } else {
      open += "{" + (part == "*" ? "name" : part) + ": ";
      close.insert(0, "}");
    }
  }
  return open + "{" + key + ": ~}" + close;
}

TEST(PolicySchemaTest, EveryKeyOfTheSchemaIsReadAndNoOther) {
  std::map<std::string, std::vector<std::string>> objects;
  PropertiesOf(PolicySchema(), "", objects);
  MemoryFiles files;
  size_t n_keys = 0;
  for (const auto& [path, keys] : objects) {
    for (const std::string& key : keys) {
      const auto policy = ReadPolicyText(files, "policy.yaml", FileWithKey(path, key));
      ASSERT_FALSE(policy);
      EXPECT_THAT(policy.error().message(), ::testing::Not(HasSubstr("unknown key"))) << path << " " << key;
      ++n_keys;
    }
    const auto policy = ReadPolicyText(files, "policy.yaml", FileWithKey(path, "unheard_of"));
    ASSERT_FALSE(policy);
    EXPECT_THAT(policy.error().message(), HasSubstr("unknown key 'unheard_of'")) << path;
  }
  EXPECT_GT(n_keys, 120U);   // an empty schema must not pass
}

TEST(PolicySchemaTest, TheDocumentNamesEveryKey) {
  std::ifstream file(SURETY_TESTDATA "/../docs/policy.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(text.empty());
  std::map<std::string, std::vector<std::string>> objects;
  PropertiesOf(PolicySchema(), "", objects);
  for (const auto& [path, keys] : objects) {
    for (const std::string& key : keys) {
      if (std::regex_match(key, std::regex("(total|ttft|ttfu|queue)_p[0-9]+"))) continue;   // named as a family
      EXPECT_NE(text.find("`" + key + "`"), std::string::npos) << path << "/" << key;
    }
  }
}

}  // namespace
}  // namespace surety::gateway
