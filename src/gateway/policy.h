// A policy: what may be asked, by whom, which route a request takes, and what must hold before a word of the answer is
// released. Read from one YAML file (policy_reader.h); proved by policy_check.h; the file's form is docs/policy.md.
//
// Threads: immutable once read; shared as const. Units: durations and deadlines in nanoseconds, instants in nanoseconds
// since the Unix epoch.
// Invariants (the reader's): (1) every name that is referred to is defined. (2) A route named in a fallback exists.
// (3) The last route is `when: always`. What needs an argument beyond one field is an obligation of `surety check`.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/json/value.hpp>

namespace surety::gateway {

// Ordered: a higher level asks for more control.
enum class Level : uint8_t { kLow, kMedium, kHigh };
std::string_view NameOf(Level level);

// Where a secret lies; the policy never holds one.
struct SecretSource {
  std::string variable;              // of the environment
  std::string file;                  // relative to the policy; not part of its digest
  bool empty() const { return variable.empty() && file.empty(); }
  bool operator==(const SecretSource&) const = default;
};

// How another server is reached (http_access.h). Files are relative to the policy.
struct HttpAccess {
  std::string ca_file;                           // PEM; authorities that are trusted beside the system's
  std::string client_certificate, client_key;    // PEM; both or neither
  std::map<std::string, SecretSource> headers;
  bool operator==(const HttpAccess&) const = default;
};

// What must be equal for an answer to be shared, in the order in which it is encoded.
enum class Dimension : uint8_t {
  kTenant, kPermissions, kRegion, kProduct, kPolicyVersion, kLanguage, kEligibility, kEffectiveDate,
};
inline constexpr int kDimensionCount = 8;
std::string_view NameOf(Dimension dimension);  // "tenant", ...

// Half-open: from <= t < to.
struct Validity {
  int64_t from_ns = std::numeric_limits<int64_t>::min();
  int64_t to_ns = std::numeric_limits<int64_t>::max();
  bool Contains(int64_t t_ns) const { return from_ns <= t_ns && t_ns < to_ns; }
  Validity Intersect(const Validity& other) const;
  bool operator==(const Validity&) const = default;
};

// Where the value of a dimension comes from.
struct DimensionSource {
  // kUnset: the dimension has no value, so nothing is cached. kClaim: of the verified identity. kMetadata: of the body,
  // one of `values` only. kSignal: a signal's label. kTool: a field of a tool's result. kClock: effective_date alone.
  enum class From : uint8_t { kUnset, kClaim, kMetadata, kSignal, kTool, kClock, kPolicy, kConstant };
  From from = From::kUnset;
  std::string name;                  // of the claim, metadata key, signal or tool; the constant
  std::string field;                 // kTool
  std::vector<std::string> values;   // allowed; empty: any
  bool required = false;             // missing: the request is denied, not only kept out of caches
  bool instant = false;  // kClock: of instants, not days; no answer is ever found again (`check` refuses it)
  int line = 0;                      // in the file
};

// A condition on one signal, dimension, "risk", "complexity", "permissions" or "SIGNAL.group".
struct Condition {
  std::string subject;
  std::vector<std::string> any_of;   // labels, levels, or "true" and "false"
  std::optional<double> above, below;
  std::optional<Level> at_least;
};
// All conditions hold; none: always.
using When = std::vector<Condition>;

struct SignalSpec {
  enum class By : uint8_t { kPhrases, kPattern, kClassifier, kMetadata, kLength, kAmount };
  std::string name;
  By by = By::kPhrases;
  // kPhrases: by label. One unnamed label: the signal is true or false. Several: the label whose phrase occurs; "none";
  // "abstained" where phrases of two labels occur.
  std::map<std::string, std::vector<std::string>> phrases;
  std::string pattern;               // kPattern: RE2
  bool number = false;               // kPattern: the largest number of its first group; else true or false
  std::string file;                  // kClassifier: made by surety train-router
  double min_confidence = 0;         // kClassifier: below it, "abstained"
  std::string key;                   // kMetadata
  std::vector<std::string> values;   // kMetadata
  std::map<std::string, std::vector<std::string>> groups;  // group -> labels, for "SIGNAL.group"
  int line = 0;
};

// A level that is the highest of all rules that hold.
struct LevelSpec {
  struct Rule {
    When when;
    Level level = Level::kHigh;
  };
  Level base = Level::kLow;
  std::vector<Rule> rules;
  // Of risk: verifiers that each route with a model needs which can be taken at that level or a higher one. Without it
  // a route needs those of the routes of lower levels.
  std::optional<std::array<std::vector<std::string>, 3>> verify;
};

// Costs and limits carry LiteLLM's names in the file.
struct ModelSpec {
  enum class Engine : uint8_t { kLocal, kRemote };
  std::string name;
  Engine engine = Engine::kLocal;
  std::string weights;               // kLocal: as `surety serve -m` takes it; kRemote: the model's name there
  std::string draft_model;           // kLocal: a smaller model that drafts for it, as weights; empty: none
  std::string draft_head;            // kLocal: a path; empty: the one in the folder of heads; "none"
  std::string api_base;              // kRemote: "http://host:port/v1"
  SecretSource api_key;              // kRemote
  HttpAccess access;                 // kRemote
  double input_cost_per_token = 0, output_cost_per_token = 0, cache_read_input_token_cost = 0;
  int max_parallel_requests = 0;     // 0: no limit
  int64_t rpm = 0, tpm = 0;          // 0: no limit; the reader makes budgets of scope kModel of them
  std::vector<std::string> residency;
  int64_t timeout_ns = 60'000'000'000;
  int line = 0;
};

struct RetrieverSpec {
  std::string name;
  std::string index;                 // the store's file (document_store.h)
  enum class By : uint8_t { kText, kVector, kBoth } by = By::kText;
  std::string embedding_model;       // kVector, kBoth: a model of `models`, or served beside it
  int top_k = 8;
  int64_t deadline_ns = 1'000'000'000;
  int line = 0;
};

struct ToolSpec {
  enum class Kind : uint8_t { kRead, kWrite };
  enum class By : uint8_t { kHttp, kSql, kCommand };
  std::string name;
  Kind kind = Kind::kRead;
  By by = By::kHttp;
  std::string url;                   // kHttp
  HttpAccess access;                 // kHttp
  std::string database, query;       // kSql: SQLite file or postgresql://...; named parameters :case, :subject, ...
  std::vector<std::string> command;  // kCommand: program (absolute) and arguments; arguments of the call come on stdin
  std::vector<std::string> arguments;  // allowed names, from metadata or signals; anything else is refused
  int64_t deadline_ns = 1'000'000'000;
  int64_t fresh_ns = 0;              // > 0: results that were observed longer ago do not count
  bool mandatory = true;
  bool four_eyes = false;            // kWrite: approval by two people
  int line = 0;
};

// when/require: "TOOL.field OP value" with ==, !=, <, <=, >, >=, or "TOOL.field" (true), over tools' results.
struct InvariantSpec {
  std::string name, when, require;
  int line = 0;
};

struct VerifierSpec {
  enum class Kind : uint8_t { kCitations, kNumbers, kPhrases, kPii, kSchema, kTable, kHttp };
  enum class Action : uint8_t { kBlock, kReview, kRepair };   // kRepair: one new attempt, then review
  std::string name;
  Kind kind = Kind::kPhrases;
  Action fail = Action::kBlock;
  Action error = Action::kReview;    // it crashed, was late, or answered something else than a verdict
  bool open_on_error = false;        // instead: released. Only where no route of medium or high risk uses it
  int64_t deadline_ns = 2'000'000'000;
  std::vector<std::string> phrases;  // kPhrases: forbidden texts, compared as text_folding.h says
  std::vector<std::string> patterns; // kPhrases: RE2, over the folded text
  std::string table;                 // kTable: a file of codes with effective dates (code_table.h)
  bool complete = false;             // kTable: the text names what tools gave, all of it and nothing else
  std::vector<std::string> kinds;    // kPii: card, ssn, iban, email, phone, ...; empty: all
  boost::json::value schema;         // kSchema
  std::string url;                   // kHttp
  HttpAccess access;                 // kHttp
  int min_quote = 12;                // kCitations: characters
  int line = 0;
};

struct CacheSpec {
  enum class Mode : uint8_t { kOff, kExact, kSemantic, kExactThenSemantic };
  Mode mode = Mode::kOff;
  int64_t ttl_ns = 3'600'000'000'000;
  double similarity = 0.95;              // kSemantic
  std::vector<std::string> intents;      // kSemantic: labels of the signal `intent` that may match by meaning
  bool subject_bound = true;             // entries are for the subject that caused them alone, unless declared public
};

// Of a model that does not say how long its context is.
inline constexpr int kAssumedContextTokens = 8192;

// What a model's context may be filled with.
struct ContextSpec {
  std::string name;
  int max_input_tokens = 0;          // 0: what the model takes, or kAssumedContextTokens where that is not known
  int reserve_output_tokens = 512;
  int cite_tokens = 2048;            // for retrieved passages, best first
  int per_document_tokens = 0;       // of cite_tokens; 0: no cap
  int history_tokens = 0;            // 0: all; else the oldest turns go first
  std::vector<std::string> forbidden;  // kinds of personal data that must not enter: ssn, card, ...
  bool force_citations = false;      // the answer's grammar makes each sentence quote a passage (CitationGrammar)
  int line = 0;
};

struct ReleaseSpec {
  enum class Audience : uint8_t { kCustomer, kInternal };
  enum class Mode : uint8_t { kStream, kHeld };
  Audience audience = Audience::kCustomer;
  Mode mode = Mode::kHeld;
  std::string review;                // a queue of `review`; empty: released when all verifiers passed
  int64_t progress_ns = 10'000'000'000;  // a stream that has nothing to say for so long says that it is worked on
};

struct FallbackSpec {
  enum class Cause : uint8_t { kTimeout, kOverload, kError, kVerifier, kBudget };
  std::string to;                    // a route
  std::vector<Cause> on;             // empty: any
};

struct RouteSpec {
  enum class Answer : uint8_t { kTemplate, kModel, kTools, kHuman, kRefuse };
  std::string name;
  When when;
  bool always = false;
  Answer answer = Answer::kModel;
  std::string template_name;         // kTemplate
  std::string model;                 // kModel, kTools
  std::string system;                // instruction put before the conversation
  std::string retrieve;              // a retriever; empty: none
  std::vector<std::string> tools;
  std::vector<std::string> invariants;
  std::vector<std::string> verify;
  CacheSpec cache;
  ReleaseSpec release;
  std::vector<FallbackSpec> fallback;
  std::string context;
  std::string queue;                 // of `review`: kHuman: who answers; else who decides what needs a person
  int max_attempts = 1;              // generations, repair included
  int max_output_tokens = 1024;
  int64_t deadline_ns = 60'000'000'000;
  int line = 0;
};

// A ready-made answer by label of the signal `intent`. "default" answers the rest; without it those go on to the
// route's fallback. {name} in a text is the value of a signal, dimension or metadata key that the policy declares.
struct TemplateSpec {
  std::string name, version;
  Validity validity;
  std::map<std::string, std::string> texts;
  int line = 0;
};

struct BudgetSpec {
  enum class Scope : uint8_t { kTenant, kSubject, kRoute, kModel, kAll };
  Scope scope = Scope::kTenant;
  std::string only;                     // this tenant, subject, route or model alone; empty: each of them
  std::optional<double> max_budget;     // money in `budget_duration_ns`
  int64_t budget_duration_ns = 86'400'000'000'000;
  bool calendar_month = false;          // "1mo"
  std::optional<int64_t> rpm_limit, tpm_limit;
  std::optional<int> max_parallel_requests;
  bool shadow = false;                  // counted, not enforced
  int line = 0;
};

struct SloSpec {
  std::string route;
  struct Objective {
    std::string name;                // "total", "ttft", "ttfu", "queue"
    double quantile = 0.95;
    int64_t limit_ns = 0;
  };
  std::vector<Objective> objectives; // "ttfu_p95: 1500ms"
  double error_budget = 0.01;        // share of requests that may miss
  int line = 0;
};

// ReviewQueueSpec::permission: nobody but administrators, whatever permissions a token names.
inline constexpr std::string_view kAdministratorsAlone = "administrators";

struct ReviewQueueSpec {
  std::string name;
  int64_t lease_ns = 600'000'000'000;
  int approvals = 1;
  bool exclude_author = true;
  bool reasons_required = true;
  std::string permission;            // that a reviewer needs; empty (not by the reader): any reviewer
  double minute_cost = 0;            // of a reviewer
  int line = 0;
};

struct StateSpec {                   // where state lies
  std::string directory = "state";   // cache, audit, documents; relative to the policy file
  std::string review_database;       // empty: SQLite in `directory`; postgresql://...
  std::string audit;                 // empty: audit.log in `directory`
  int64_t cache_bytes = 64 << 20;
  double cache_shadow = 0.01;        // share of answers from the cache that are computed again afterwards
  int max_waiting_audit_rows = 4096;
  int64_t audit_rotate_at = int64_t{1} << 30;    // bytes of one file of the log; 0: never for its size
  int64_t audit_rotate_every_ns = 0;             // 0: never for its age
};

struct Policy {
  std::string id, version;
  Validity validity;
  std::string digest;                // SHA-256 of the file and every file it names, hex
  std::string path;                  // of the file
  std::string currency = "USD";
  int max_attempts = 4;              // generations along any way through fallbacks: the product of the routes' attempts
  std::array<DimensionSource, kDimensionCount> identity;
  std::vector<Dimension> required_dimensions;    // of every cache key; the reader refuses fewer than all eight
  std::map<std::string, ModelSpec> models;
  std::map<std::string, RetrieverSpec> retrievers;
  std::map<std::string, ToolSpec> tools;
  std::map<std::string, InvariantSpec> invariants;
  std::vector<SignalSpec> signals;
  LevelSpec risk, complexity;
  std::map<std::string, VerifierSpec> verifiers;
  std::map<std::string, TemplateSpec> templates;
  std::vector<RouteSpec> routes;                 // the first whose conditions hold is taken
  std::map<std::string, ContextSpec> contexts;
  std::vector<BudgetSpec> budgets;
  std::vector<SloSpec> slos;
  std::map<std::string, ReviewQueueSpec> review;
  StateSpec state;

  const RouteSpec* FindRoute(std::string_view name) const;
};

}  // namespace surety::gateway
