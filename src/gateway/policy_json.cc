#include "gateway/policy_json.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include "gateway/policy_check.h"
#include "gateway/policy_values.h"
#include "gateway/tool_call.h"

namespace surety::gateway {
namespace {

using boost::json::array;
using boost::json::object;

array Texts(const std::vector<std::string>& texts) {
  array out;
  for (const std::string& text : texts) out.push_back(boost::json::string(text));
  return out;
}

object ConditionJson(const Condition& condition) {
  object out{{"subject", condition.subject}};
  if (!condition.any_of.empty()) out["any_of"] = Texts(condition.any_of);
  if (condition.above) out["above"] = *condition.above;
  if (condition.below) out["below"] = *condition.below;
  if (condition.at_least) out["at_least"] = NameOf(*condition.at_least);
  return out;
}

array WhenJson(const When& when) {
  array out;
  for (const Condition& condition : when) out.push_back(ConditionJson(condition));
  return out;
}

object SignalJson(const SignalSpec& signal) {
  object phrases, groups;
  for (const auto& [label, list] : signal.phrases) phrases[label] = Texts(list);
  for (const auto& [group, labels] : signal.groups) groups[group] = Texts(labels);
  return {{"by", static_cast<int>(signal.by)},
          {"phrases", phrases},
          {"pattern", signal.pattern},
          {"number", signal.number},
          {"file", signal.file},
          {"min_confidence", signal.min_confidence},
          {"key", signal.key},
          {"values", Texts(signal.values)},
          {"groups", groups}};
}

object LevelJson(const LevelSpec& level) {
  array rules;
  for (const auto& rule : level.rules)
    rules.push_back(object{{"when", WhenJson(rule.when)}, {"level", NameOf(rule.level)}});
  return {{"base", NameOf(level.base)}, {"rules", rules}};
}

// Where secrets lie, as the file says it.
std::string SecretJson(const SecretSource& secret) {
  if (secret.empty()) return {};
  return secret.variable.empty() ? "file:" + secret.file : "os.environ/" + secret.variable;
}

object AccessJson(const HttpAccess& access) {
  object headers;
  for (const auto& [name, secret] : access.headers) headers[name] = SecretJson(secret);
  return {{"ca_file", access.ca_file},
          {"client_certificate", access.client_certificate},
          {"client_key", access.client_key},
          {"headers", headers}};
}

object ModelJson(const ModelSpec& model) {
  return {{"engine", model.engine == ModelSpec::Engine::kLocal ? "local" : "remote"},
          {"weights", model.weights},
          {"draft_model", model.draft_model},
          {"draft_head", model.draft_head},
          {"api_base", model.api_base},
          {"api_key", SecretJson(model.api_key)},
          {"access", AccessJson(model.access)},
          {"input_cost_per_token", model.input_cost_per_token},
          {"output_cost_per_token", model.output_cost_per_token},
          {"cache_read_input_token_cost", model.cache_read_input_token_cost},
          {"max_parallel_requests", model.max_parallel_requests},
          {"residency", Texts(model.residency)},
          {"timeout", FormatDuration(model.timeout_ns)}};
}

object RetrieverJson(const RetrieverSpec& retriever) {
  return {{"index", retriever.index},
          {"by", static_cast<int>(retriever.by)},
          {"embedding_model", retriever.embedding_model},
          {"top_k", retriever.top_k},
          {"deadline", FormatDuration(retriever.deadline_ns)}};
}

object ToolJson(const ToolSpec& tool) {
  return {{"kind", tool.kind == ToolSpec::Kind::kRead ? "read" : "write"},
          {"url", tool.url},
          {"access", AccessJson(tool.access)},
          {"database", ShownDatabase(tool.database)},
          {"query", tool.query},
          {"command", Texts(tool.command)},
          {"arguments", Texts(tool.arguments)},
          {"deadline", FormatDuration(tool.deadline_ns)},
          {"fresh", FormatDuration(tool.fresh_ns)},
          {"mandatory", tool.mandatory},
          {"four_eyes", tool.four_eyes}};
}

object VerifierJson(const VerifierSpec& verifier) {
  return {{"kind", static_cast<int>(verifier.kind)},
          {"fail", static_cast<int>(verifier.fail)},
          {"error", static_cast<int>(verifier.error)},
          {"open_on_error", verifier.open_on_error},
          {"deadline", FormatDuration(verifier.deadline_ns)},
          {"phrases", Texts(verifier.phrases)},
          {"patterns", Texts(verifier.patterns)},
          {"table", verifier.table},
          {"complete", verifier.complete},
          {"kinds", Texts(verifier.kinds)},
          {"schema", verifier.schema},
          {"url", verifier.url},
          {"access", AccessJson(verifier.access)},
          {"min_quote", verifier.min_quote}};
}

object TemplateJson(const TemplateSpec& made) {
  object texts;
  for (const auto& [label, text] : made.texts) texts[label] = text;
  return {{"version", made.version},
          {"effective_from", FormatInstant(made.validity.from_ns)},
          {"effective_to", FormatInstant(made.validity.to_ns)},
          {"texts", texts}};
}

object CacheJson(const CacheSpec& cache) {
  return {{"mode", static_cast<int>(cache.mode)},
          {"ttl", FormatDuration(cache.ttl_ns)},
          {"similarity", cache.similarity},
          {"intents", Texts(cache.intents)},
          {"subject_bound", cache.subject_bound}};
}

object RouteJson(const RouteSpec& route) {
  array fallbacks;
  for (const FallbackSpec& fallback : route.fallback) {
    array causes;
    for (const FallbackSpec::Cause cause : fallback.on) causes.push_back(static_cast<int>(cause));
    fallbacks.push_back(object{{"to", fallback.to}, {"on", causes}});
  }
  return {{"when", route.always ? boost::json::value("always") : boost::json::value(WhenJson(route.when))},
          {"answer", static_cast<int>(route.answer)},
          {"template", route.template_name},
          {"model", route.model},
          {"system", route.system},
          {"retrieve", route.retrieve},
          {"tools", Texts(route.tools)},
          {"invariants", Texts(route.invariants)},
          {"verify", Texts(route.verify)},
          {"cache", CacheJson(route.cache)},
          {"audience", static_cast<int>(route.release.audience)},
          {"release", route.release.mode == ReleaseSpec::Mode::kStream ? "stream" : "held"},
          {"review", route.release.review},
          {"fallback", fallbacks},
          {"context", route.context},
          {"queue", route.queue},
          {"max_attempts", route.max_attempts},
          {"max_output_tokens", route.max_output_tokens},
          {"deadline", FormatDuration(route.deadline_ns)}};
}

object ContextJson(const ContextSpec& context) {
  return {{"max_input_tokens", context.max_input_tokens}, {"reserve_output_tokens", context.reserve_output_tokens},
          {"cite_tokens", context.cite_tokens},           {"per_document_tokens", context.per_document_tokens},
          {"history_tokens", context.history_tokens},     {"forbidden", Texts(context.forbidden)}};
}

object BudgetJson(const BudgetSpec& budget) {
  object out{{"scope", static_cast<int>(budget.scope)},
             {"only", budget.only},
             {"budget_duration", budget.calendar_month ? "1mo" : FormatDuration(budget.budget_duration_ns)},
             {"shadow", budget.shadow}};
  if (budget.max_budget) out["max_budget"] = *budget.max_budget;
  if (budget.rpm_limit) out["rpm_limit"] = *budget.rpm_limit;
  if (budget.tpm_limit) out["tpm_limit"] = *budget.tpm_limit;
  if (budget.max_parallel_requests) out["max_parallel_requests"] = *budget.max_parallel_requests;
  return out;
}

object SloJson(const SloSpec& slo) {
  object out{{"error_budget", slo.error_budget}};
  for (const auto& objective : slo.objectives) {
    out[fmt::format("{}_{}", objective.name, objective.quantile)] = FormatDuration(objective.limit_ns);
  }
  return out;
}

object QueueJson(const ReviewQueueSpec& queue) {
  return {{"lease", FormatDuration(queue.lease_ns)},       {"approvals", queue.approvals},
          {"exclude_author", queue.exclude_author},         {"reasons_required", queue.reasons_required},
          {"permission", queue.permission},                 {"minute_cost", queue.minute_cost}};
}

template <typename T, typename Make>
object ByName(const std::map<std::string, T>& map, Make make) {
  object out;
  for (const auto& [name, item] : map) out[name] = make(item);
  return out;
}

object IdentityJson(const Policy& policy) {
  object out;
  for (size_t d = 0; d < kDimensionCount; ++d) {
    const DimensionSource& source = policy.identity[d];
    out[NameOf(static_cast<Dimension>(d))] = object{
        {"source", DescribeSource(source)}, {"values", Texts(source.values)}, {"required", source.required}};
  }
  return out;
}

}  // namespace

object PolicyJson(const Policy& policy) {
  object signals, routes, slos, budgets;
  array order;
  for (const SignalSpec& signal : policy.signals) signals[signal.name] = SignalJson(signal);
  for (const RouteSpec& route : policy.routes) {
    routes[route.name] = RouteJson(route);
    order.push_back(boost::json::string(route.name));
  }
  for (const SloSpec& slo : policy.slos) slos[slo.route] = SloJson(slo);
  for (size_t i = 0; i < policy.budgets.size(); ++i) budgets[fmt::format("{}", i)] = BudgetJson(policy.budgets[i]);
  return {{"policy", object{{"id", policy.id},
                            {"version", policy.version},
                            {"effective_from", FormatInstant(policy.validity.from_ns)},
                            {"effective_to", FormatInstant(policy.validity.to_ns)},
                            {"currency", policy.currency},
                            {"max_attempts", policy.max_attempts}}},
          {"identity", IdentityJson(policy)},
          {"models", ByName(policy.models, ModelJson)},
          {"retrievers", ByName(policy.retrievers, RetrieverJson)},
          {"tools", ByName(policy.tools, ToolJson)},
          {"invariants", ByName(policy.invariants, [](const InvariantSpec& invariant) {
             return object{{"when", invariant.when}, {"require", invariant.require}};
           })},
          {"signals", signals},
          {"levels", object{{"risk", LevelJson(policy.risk)}, {"complexity", LevelJson(policy.complexity)}}},
          {"verifiers", ByName(policy.verifiers, VerifierJson)},
          {"templates", ByName(policy.templates, TemplateJson)},
          {"routes", routes},
          {"route_order", order},
          {"context", ByName(policy.contexts, ContextJson)},
          {"budgets", budgets},
          {"slo", slos},
          {"review", ByName(policy.review, QueueJson)},
          {"state", object{{"directory", policy.state.directory},
                           {"review_database", ShownDatabase(policy.state.review_database)},
                           {"audit", policy.state.audit},
                           {"cache_bytes", policy.state.cache_bytes},
                           {"max_waiting_audit_rows", policy.state.max_waiting_audit_rows},
                           {"audit_rotate_at", policy.state.audit_rotate_at},
                           {"audit_rotate_every_ns", policy.state.audit_rotate_every_ns}}}};
}

}  // namespace surety::gateway
