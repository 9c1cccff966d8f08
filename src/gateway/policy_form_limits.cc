// Budgets, objectives, review queues, and the file as a whole.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "gateway/policy_form.h"
#include "gateway/policy_values.h"

namespace surety::gateway {
namespace {

struct BudgetDuration {
  int64_t ns = 86'400'000'000'000;
  bool calendar_month = false;
};

Shape<BudgetDuration> BudgetDurationShape() {
  Shape<BudgetDuration> shape;
  shape.schema = {{"type", "string"}, {"pattern", "^([0-9.]+(s|m|h|d)|1mo)$"}};
  shape.read = [](PolicyReading& reading, const YamlNode& node, BudgetDuration& out) {
    std::string text;
    if (!ReadScalar(reading, node, "a duration as in 1d or 1mo", text)) return false;
    if (text == "1mo") {
      out = {30 * int64_t{86'400'000'000'000}, true};
      return true;
    }
    const auto duration = ParseDuration(text);
    if (!duration || *duration < 1'000'000'000) {
      reading.Fail(node,
                   fmt::format("'{}' is no duration of a budget: write 1s or more, as in 1h, 1d or 30d, or 1mo (a "
                               "calendar month)",
                               text));
      return false;
    }
    out = {*duration, false};
    return true;
  };
  return shape;
}

void FinishBudget(PolicyReading& reading, const YamlNode& node, BudgetSpec& out) {
  if (!out.max_budget && !out.rpm_limit && !out.tpm_limit && !out.max_parallel_requests) {
    reading.Fail(node, "a budget needs max_budget, rpm_limit, tpm_limit or max_parallel_requests");
  }
  if (!out.max_budget && node.Find("budget_duration") != nullptr) {
    reading.Fail(*node.Find("budget_duration"), "budget_duration has no effect without max_budget; take it away");
  }
  if (out.only.empty()) return;
  const YamlNode& only = *node.Find("only");
  if (out.scope == BudgetSpec::Scope::kAll)
    reading.Fail(only, "the key 'only' has no effect with scope: all; take it away");
  if (out.scope == BudgetSpec::Scope::kRoute) reading.Refer("route", only);
  if (out.scope == BudgetSpec::Scope::kModel) reading.Refer("model", only);
}

// Three keys of the file fill Policy::state, each its own fields.
struct StateForm {
  std::string directory = "state", review_database;
};

struct AuditForm {
  std::string file;
  int max_waiting_rows = 4096;
  int64_t rotate_at = StateSpec().audit_rotate_at;
  int64_t rotate_every = 0;
};

Shape<AuditForm> AuditShape() {
  return Fields<AuditForm>("the log of decisions")
      .Add("file", &AuditForm::file, TextShape(1024), "(default: audit.log in state.directory)")
      .Add("max_waiting_rows", &AuditForm::max_waiting_rows, IntShape(1, 1'000'000),
           "then requests wait for the disk (default: 4096)")
      .Add("rotate_at", &AuditForm::rotate_at, SizeShape(),
           "a file of this size is closed and the next begun; 0: never (default: 1GiB)")
      .Add("rotate_every", &AuditForm::rotate_every, DurationShape(),
           "so is one that began in an earlier such span, counted in UTC: 1d at midnight (default: never)")
      .Then([](PolicyReading& reading, const YamlNode& node, AuditForm& out) {
        const auto at = [&](const char* key) -> const YamlNode& {
          const YamlNode* stands = node.Find(key);
          return stands != nullptr ? *stands : node;
        };
        if (out.rotate_at != 0 && out.rotate_at < (1 << 20)) {
          reading.Fail(at("rotate_at"), "rotate_at: 1MiB at least, or 0 for never");
        }
        if (out.rotate_every != 0 && out.rotate_every < 60LL * 60 * 1'000'000'000) {
          reading.Fail(at("rotate_every"), "rotate_every: 1h at least");
        }
      })
      .Done();
}

struct CacheForm {
  std::vector<Dimension> required;
  int64_t size = 64 << 20;
  double shadow = 0.01;
};

Shape<CacheForm> CacheShape() {
  std::vector<std::pair<std::string, Dimension>> dimensions;
  for (int i = 0; i < kDimensionCount; ++i) {
    dimensions.emplace_back(NameOf(static_cast<Dimension>(i)), static_cast<Dimension>(i));
  }
  return Fields<CacheForm>("of answers")
      .Add("required_dimensions", &CacheForm::required,
           ListShape(EnumShape<Dimension>(dimensions), kDimensionCount, 0, true),
           "what must be equal for an answer to be shared: all eight, written out (default: all eight)")
      .Add("size", &CacheForm::size, SizeShape(), "in memory (default: 64MiB)")
      .Add("shadow", &CacheForm::shadow, ShareShape(),
           "share of answers from it that are computed again afterwards and compared (default: 1%)")
      .Then([](PolicyReading& reading, const YamlNode& node, CacheForm& out) {
        const YamlNode* stands = node.Find("required_dimensions");
        if (stands == nullptr) return;
        for (int i = 0; i < kDimensionCount; ++i) {
          if (std::ranges::find(out.required, static_cast<Dimension>(i)) != out.required.end()) continue;
          reading.Fail(*stands, fmt::format("the dimension '{}' is missing: answers that differ in it would be shared",
                                            NameOf(static_cast<Dimension>(i))));
        }
        if (out.size < (1 << 20)) reading.Fail(node, "a cache smaller than 1MiB; leave it off by route instead");
      })
      .Done();
}

Shape<Policy> AboutShape() {
  return Fields<Policy>("what this file is")
      .Add("id", &Policy::id, NameShape(), "the policy's name", Presence::kRequired)
      .Add("version", &Policy::version, LabelShape(), "shown in every decision, part of every cache key",
           Presence::kRequired)
      .AddWith<int64_t>("effective_from", InstantShape(), "the first instant at which it holds",
                        [](Policy& out, int64_t t) { out.validity.from_ns = t; }, Presence::kRequired)
      .AddWith<int64_t>("effective_to", InstantShape(), "the first instant after it (default: never)",
                        [](Policy& out, int64_t t) { out.validity.to_ns = t; })
      .Add("currency", &Policy::currency, NameShape(), "of all money here (default: USD)")
      .Add("max_attempts", &Policy::max_attempts, IntShape(1, 100),
           "generations of one request along any way through fallbacks (default: 4)")
      .Then([](PolicyReading& reading, const YamlNode& node, Policy& out) {
        if (out.validity.from_ns < out.validity.to_ns) return;
        reading.Fail(*node.Find("effective_to"), "effective_to must be later than effective_from");
      })
      .Done();
}

template <typename T>
void PutNamed(std::map<std::string, T>& out, Named<T> named) {
  for (auto& [name, value] : named) out.emplace(std::move(name), std::move(value));
}

// Adds the part `name` whose values go into a map of the policy.
template <typename T>
void AddNamed(Fields<Policy>& fields, std::string name, std::map<std::string, T> Policy::*member, Shape<Named<T>> shape,
              std::string help) {
  fields.AddWith<Named<T>>(std::move(name), std::move(shape), std::move(help),
                           [member](Policy& out, Named<T> named) { PutNamed(out.*member, std::move(named)); });
}

// A part whose keys fill the policy itself.
void AddPart(Fields<Policy>& fields, std::string name, const Shape<Policy>& part, std::string help, Presence presence,
             void (*take)(Policy& out, Policy& read)) {
  fields.AddWith<Policy>(std::move(name), part, std::move(help),
                         [take](Policy& out, Policy read) { take(out, read); }, presence);
}

void AddStateParts(Fields<Policy>& fields) {
  fields
      .AddWith<CacheForm>("cache", CacheShape(), "of answers",
                          [](Policy& out, CacheForm form) {
                            out.required_dimensions = std::move(form.required);
                            out.state.cache_bytes = form.size;
                            out.state.cache_shadow = form.shadow;
                          })
      .AddWith<StateForm>("state",
                          Fields<StateForm>("where state lies")
                              .Add("directory", &StateForm::directory, TextShape(1024),
                                   "cache, documents, audit; relative to this file (default: state)")
                              .Add("review_database", &StateForm::review_database, TextShape(1024),
                                   "postgresql://... (default: SQLite in the directory)")
                              .Done(),
                          "where state lies", [](Policy& out, StateForm form) {
                            out.state.directory = std::move(form.directory);
                            out.state.review_database = std::move(form.review_database);
                          })
      .AddWith<AuditForm>("audit", AuditShape(), "the log of decisions", [](Policy& out, AuditForm form) {
        out.state.audit = std::move(form.file);
        out.state.max_waiting_audit_rows = form.max_waiting_rows;
        out.state.audit_rotate_at = form.rotate_at;
        out.state.audit_rotate_every_ns = form.rotate_every;
      });
}

void FinishPolicy(PolicyReading&, const YamlNode&, Policy& out) {
  if (out.required_dimensions.empty()) {
    for (int i = 0; i < kDimensionCount; ++i) out.required_dimensions.push_back(static_cast<Dimension>(i));
  }
  std::ranges::sort(out.required_dimensions);
  DimensionSource& version = out.identity[static_cast<size_t>(Dimension::kPolicyVersion)];
  if (version.from == DimensionSource::From::kUnset) version.from = DimensionSource::From::kPolicy;
  for (const auto& [name, model] : out.models) {
    if (model.rpm == 0 && model.tpm == 0) continue;
    BudgetSpec budget;
    budget.scope = BudgetSpec::Scope::kModel;
    budget.only = name;
    if (model.rpm > 0) budget.rpm_limit = model.rpm;
    if (model.tpm > 0) budget.tpm_limit = model.tpm;
    budget.line = model.line;
    out.budgets.push_back(std::move(budget));
  }
}

}  // namespace

Shape<std::vector<BudgetSpec>> BudgetsShape() {
  using Scope = BudgetSpec::Scope;
  auto shape =
      Fields<BudgetSpec>("a limit; a request counts against all that apply")
          .Add("scope", &BudgetSpec::scope,
               EnumShape<Scope>({{"tenant", Scope::kTenant}, {"subject", Scope::kSubject}, {"route", Scope::kRoute},
                                 {"model", Scope::kModel}, {"all", Scope::kAll}}),
               "tenant, subject, route, model or all", Presence::kRequired)
          .Add("only", &BudgetSpec::only, LabelShape(), "this tenant, subject, route or model (default: each of them)")
          .AddWith<double>("max_budget", NumberShape(0, 1e12), "money in budget_duration",
                           [](BudgetSpec& out, double value) { out.max_budget = value; })
          .AddWith<BudgetDuration>("budget_duration", BudgetDurationShape(), "1h, 1d, 30d, 1mo ... (default: 1d)",
                                   [](BudgetSpec& out, BudgetDuration value) {
                                     out.budget_duration_ns = value.ns;
                                     out.calendar_month = value.calendar_month;
                                   })
          .AddWith<int64_t>("rpm_limit", IntegerShape(0, 1'000'000'000), "requests a minute",
                            [](BudgetSpec& out, int64_t value) { out.rpm_limit = value; })
          .AddWith<int64_t>("tpm_limit", IntegerShape(0, 1'000'000'000'000), "tokens a minute",
                            [](BudgetSpec& out, int64_t value) { out.tpm_limit = value; })
          .AddWith<int>("max_parallel_requests", IntShape(0, 1'000'000), "at the same time",
                        [](BudgetSpec& out, int value) { out.max_parallel_requests = value; })
          .Add("shadow", &BudgetSpec::shadow, BoolShape(), "counted, not enforced (default: false)")
          .Line(&BudgetSpec::line)
          .Then(FinishBudget)
          .Done();
  return ListShape(std::move(shape), 256);
}

Shape<Named<SloSpec>> SlosShape() {
  static constexpr std::pair<std::string_view, double> kQuantiles[] = {{"p50", 0.5}, {"p75", 0.75}, {"p90", 0.9},
                                                                       {"p95", 0.95}, {"p99", 0.99}, {"p999", 0.999}};
  static constexpr std::pair<std::string_view, std::string_view> kMeasures[] = {
      {"total", "whole request"}, {"ttft", "first token"}, {"ttfu", "first useful answer"}, {"queue", "waiting"}};
  Fields<SloSpec> fields("objectives of a route");
  for (const auto& [measure, meaning] : kMeasures) {
    for (const auto& [suffix, quantile] : kQuantiles) {
      fields.AddWith<int64_t>(fmt::format("{}_{}", measure, suffix), DurationShape(), std::string(meaning),
                              [name = std::string(measure), quantile = quantile](SloSpec& out, int64_t limit) {
                                out.objectives.push_back({name, quantile, limit});
                              });
    }
  }
  fields.Add("error_budget", &SloSpec::error_budget, ShareShape(), "share of requests that may miss (default: 1%)")
      .Line(&SloSpec::line)
      .Then([](PolicyReading& reading, const YamlNode& node, SloSpec& out) {
        if (out.objectives.empty()) reading.Fail(node, "no objective; give one, as in ttfu_p95: 1500ms");
      });
  return NamedShape<SloSpec>(ReferenceShape("route"), fields.Done(), 256,
                             [](SloSpec& out, const std::string& name) { out.route = name; });
}

Shape<Named<ReviewQueueSpec>> ReviewShape() {
  enum class Excluded { kAuthor };
  auto shape =
      Fields<ReviewQueueSpec>("people who approve or answer")
          .Add("lease", &ReviewQueueSpec::lease_ns, DurationShape(), "how long a case is kept for one (default: 10m)")
          .Add("approvals", &ReviewQueueSpec::approvals, IntShape(1, 5), "different people (default: 1)")
          .AddWith<std::vector<Excluded>>("exclude", ListShape(EnumShape<Excluded>({{"author", Excluded::kAuthor}}), 1),
                                          "who may not decide (default: [author])",
                                          [](ReviewQueueSpec& out, std::vector<Excluded> excluded) {
                                            out.exclude_author = !excluded.empty();
                                          })
          .Add("reasons_required", &ReviewQueueSpec::reasons_required, BoolShape(), "(default: true)")
          .Add("permission", &ReviewQueueSpec::permission, LabelShape(),
               "that a reviewer needs (default: administrators alone decide)")
          .Add("minute_cost", &ReviewQueueSpec::minute_cost, NumberShape(0, 1e6), "money (default: 0)")
          .Line(&ReviewQueueSpec::line)
          .Done();
  return NamedShape<ReviewQueueSpec>(NameShape(), std::move(shape), 64,
                                     [](ReviewQueueSpec& out, const std::string& name) {
                                       out.name = name;
                                       out.permission = kAdministratorsAlone;
                                     });
}

Shape<Policy> PolicyShape() {
  Fields<Policy> fields("surety's policy file");
  AddPart(fields, "policy", AboutShape(), "what this file is", Presence::kRequired, [](Policy& out, Policy& read) {
    out.id = std::move(read.id);
    out.version = std::move(read.version);
    out.validity = read.validity;
    out.currency = std::move(read.currency);
    out.max_attempts = read.max_attempts;
  });
  AddPart(fields, "identity", IdentityShape(), "where each governed value comes from", Presence::kRequired,
          [](Policy& out, Policy& read) { out.identity = std::move(read.identity); });
  AddNamed(fields, "models", &Policy::models, ModelsShape(), "by name");
  AddNamed(fields, "retrievers", &Policy::retrievers, RetrieversShape(), "by name");
  AddNamed(fields, "tools", &Policy::tools, ToolsShape(), "by name");
  fields.AddWith<std::vector<InvariantSpec>>(
      "invariants", InvariantsShape(), "what must hold between tools' results",
      [](Policy& out, std::vector<InvariantSpec> list) {
        for (auto& invariant : list) out.invariants.emplace(invariant.name, invariant);
      });
  fields.AddWith<Named<SignalSpec>>("signals", SignalsShape(), "by name", [](Policy& out, Named<SignalSpec> named) {
    for (auto& [name, signal] : named) out.signals.push_back(std::move(signal));
  });
  fields.Add("risk", &Policy::risk, LevelShape(false), "how much control a request needs (default: low)")
      .Add("complexity", &Policy::complexity, LevelShape(true), "how able a model it needs (default: low)");
  AddNamed(fields, "verifiers", &Policy::verifiers, VerifiersShape(), "by name");
  AddNamed(fields, "templates", &Policy::templates, TemplatesShape(), "by name");
  fields.Add("routes", &Policy::routes, RoutesShape(), "the first whose conditions hold is taken; the last: always",
             Presence::kRequired);
  AddNamed(fields, "context", &Policy::contexts, ContextsShape(), "by name");
  fields.Add("budgets", &Policy::budgets, BudgetsShape(), "limits of money, tokens and requests")
      .AddWith<Named<SloSpec>>("slo", SlosShape(), "objectives by route", [](Policy& out, Named<SloSpec> named) {
        for (auto& [name, slo] : named) out.slos.push_back(std::move(slo));
      });
  AddNamed(fields, "review", &Policy::review, ReviewShape(), "queues by name");
  AddStateParts(fields);
  return fields.Then(FinishPolicy).Done();
}

}  // namespace surety::gateway
