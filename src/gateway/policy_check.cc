#include "gateway/policy_check.h"

#include <algorithm>
#include <span>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/hash.h"
#include "gateway/policy_values.h"

namespace surety::gateway {
namespace {

// A Partition can only be made of canonical values; anything else would be a bug there, and is a fault here.
Result<Partition> CheckedPartition(const Circumstances& canonical) {
  SURETY_ASSIGN_OR_RETURN(const Circumstances again, Canonical(canonical));
  if (!(again == canonical)) return Error(InvalidArgumentError("the values are not canonical"));
  return Partition::Make(canonical);
}

std::string SampleOf(Dimension dimension, bool sibling) {
  switch (dimension) {
    case Dimension::kTenant: return sibling ? "tenant-b" : "tenant-a";
    case Dimension::kPermissions: return sibling ? "write" : "read";
    case Dimension::kRegion: return sibling ? "US-CA" : "US-NY";
    case Dimension::kProduct: return sibling ? "savings" : "checking";
    case Dimension::kPolicyVersion: return sibling ? "2" : "1";
    case Dimension::kLanguage: return sibling ? "es" : "en";
    case Dimension::kEligibility: return sibling ? "premium" : "standard";
    case Dimension::kEffectiveDate: return sibling ? "2026-01-02" : "2026-01-01";
  }
  return "value";
}

// Whether a value stays what it is and is accepted for this dimension.
bool IsCanonicalValue(const CheckInput& input, Dimension dimension, const std::string& value) {
  Circumstances one;
  if (dimension == Dimension::kPermissions) {
    one.permissions = std::vector<std::string>{value};
  } else {
    one.text[static_cast<size_t>(dimension)] = value;
  }
  const auto canonical = input.run.canonical(one);
  return canonical && *canonical == one;
}

std::string WitnessValue(const CheckInput& input, Dimension dimension, bool sibling) {
  const DimensionSource& source = input.policy.identity[static_cast<size_t>(dimension)];
  std::vector<std::string> own = source.values;
  if (source.from == DimensionSource::From::kConstant) own.insert(own.begin(), source.name);
  if (dimension == Dimension::kPolicyVersion) own = {input.policy.version, input.policy.version + ".next"};
  std::vector<std::string> good;
  for (const std::string& value : own) {
    if (IsCanonicalValue(input, dimension, value) && std::ranges::find(good, value) == good.end()) good.push_back(value);
  }
  const size_t wanted = sibling ? 1 : 0;
  if (good.size() > wanted) return good[wanted];
  const std::string sample = SampleOf(dimension, sibling);
  return good.empty() || good[0] != sample ? sample : SampleOf(dimension, false);
}

void PutWitness(Circumstances& out, Dimension dimension, std::string value) {
  if (dimension == Dimension::kPermissions) {
    out.permissions = std::vector<std::string>{std::move(value)};
  } else {
    out.text[static_cast<size_t>(dimension)] = std::move(value);
  }
}

}  // namespace

CheckedFunctions CheckedFunctions::Real() {
  CheckedFunctions run;
  run.canonical = [](Circumstances raw) { return Canonical(std::move(raw)); };
  run.partition_key = [](const Circumstances& canonical) -> Result<std::string> {
    SURETY_ASSIGN_OR_RETURN(const Partition partition, CheckedPartition(canonical));
    return partition.key();
  };
  run.scope = [](const Circumstances& canonical) -> Result<api::Scope> {
    SURETY_ASSIGN_OR_RETURN(const Partition partition, CheckedPartition(canonical));
    return partition.scope();
  };
  run.answer_key = [](const Circumstances& canonical, const AnswerBasis& basis,
                      const std::string& question) -> Result<std::string> {
    SURETY_ASSIGN_OR_RETURN(const Partition partition, CheckedPartition(canonical));
    return AnswerKey(partition, basis, question);
  };
  run.intersect = [](const Validity& a, const Validity& b) { return a.Intersect(b); };
  run.worst_case = WorstCase;
  return run;
}

std::vector<Obligation> CheckPolicy(const Policy& policy, FileSystem& files, int64_t now_ns) {
  return CheckPolicy({.policy = policy, .files = files, .now_ns = now_ns, .space = SpaceOf(policy)});
}

std::vector<Obligation> CheckPolicy(const CheckInput& input) {
  return {CheckKeyInjectivity(input), CheckKeyCompleteness(input), CheckProvenance(input), CheckNoSilentDefault(input),
          CheckWitnesses(input),      CheckTime(input),            CheckPrefixSharing(input), CheckReleaseSafety(input),
          CheckRouting(input),        CheckRetryBound(input),      CheckReservations(input), CheckTables(input),
          CheckHitRate(input)};
}

bool Caches(const RouteSpec& route) { return route.cache.mode != CacheSpec::Mode::kOff; }

bool Generates(const RouteSpec& route) {
  return route.answer == RouteSpec::Answer::kModel || route.answer == RouteSpec::Answer::kTools;
}

std::string DescribeSource(const DimensionSource& source) {
  switch (source.from) {
    case DimensionSource::From::kUnset: return "no source";
    case DimensionSource::From::kClaim: return "token.claim " + source.name;
    case DimensionSource::From::kMetadata: return "request.metadata " + source.name;
    case DimensionSource::From::kSignal: return "signal " + source.name;
    case DimensionSource::From::kTool: return fmt::format("tool.{} field {}", source.name, source.field);
    case DimensionSource::From::kClock: return source.instant ? "clock (instant)" : "clock (day)";
    case DimensionSource::From::kPolicy: return "policy";
    case DimensionSource::From::kConstant: return "constant " + source.name;
  }
  return "?";
}

Circumstances WitnessBase(const CheckInput& input) {
  Circumstances out;
  for (int i = 0; i < kDimensionCount; ++i) {
    PutWitness(out, static_cast<Dimension>(i), WitnessValue(input, static_cast<Dimension>(i), false));
  }
  return out;
}

Circumstances WitnessSibling(const CheckInput& input, Dimension dimension) {
  Circumstances out = WitnessBase(input);
  PutWitness(out, dimension, WitnessValue(input, dimension, true));
  return out;
}

AnswerBasis WitnessBasis(const Policy& policy, const RouteSpec& route) {
  AnswerBasis basis;
  basis.route = route.name;
  basis.policy_digest = policy.digest;
  if (const auto model = policy.models.find(route.model); model != policy.models.end()) {
    basis.model_revision = model->second.weights;
  }
  if (const auto made = policy.templates.find(route.template_name); made != policy.templates.end()) {
    basis.prompt_template = made->second.version;
  }
  if (!route.system.empty()) basis.prompt_template = ShortDigest(route.system);
  basis.decoding = fmt::format("max_tokens={}", route.max_output_tokens);
  for (const std::string& tool : route.tools) basis.tools += tool + ";";
  for (const std::string& verifier : route.verify) basis.verifiers += verifier + ";";
  basis.retrieval_snapshot = route.retrieve.empty() ? "" : route.retrieve + "@snapshot";
  basis.audience = route.release.audience == ReleaseSpec::Audience::kCustomer ? "customer" : "internal";
  basis.channel = "api";
  basis.subject = route.cache.subject_bound ? "subject" : "";
  return basis;
}

std::string ShortDigest(const std::string& key) {
  return HexOf(Sha256Of(std::as_bytes(std::span(key.data(), key.size())))).substr(0, 16);
}

boost::json::array ExplainCache(const CheckInput& input) {
  boost::json::array out;
  for (const RouteSpec& route : input.policy.routes) {
    boost::json::object row{{"route", route.name}, {"caches", Caches(route)}};
    boost::json::array dimensions;
    const AnswerBasis basis = WitnessBasis(input.policy, route);
    const auto key_of = [&](const Circumstances& values) {
      const auto key = input.run.answer_key(values, basis, "question");
      return key ? ShortDigest(*key) : key.error().message();
    };
    const Circumstances base = WitnessBase(input);
    for (int i = 0; i < kDimensionCount; ++i) {
      const auto dimension = static_cast<Dimension>(i);
      const Circumstances sibling = WitnessSibling(input, dimension);
      const auto text = [&](const Circumstances& values) {
        return dimension == Dimension::kPermissions ? values.permissions->front() : *values.text[static_cast<size_t>(i)];
      };
      const std::string one = key_of(base), other = key_of(sibling);
      dimensions.push_back({{"dimension", NameOf(dimension)},
                            {"source", DescribeSource(input.policy.identity[static_cast<size_t>(i)])},
                            {"form", dimension == Dimension::kPermissions    ? "sorted set"
                                     : dimension == Dimension::kEffectiveDate ? "YYYY-MM-DD"
                                                                              : "NFC text"},
                            {"value", text(base)},
                            {"digest", one},
                            {"sibling_value", text(sibling)},
                            {"sibling_digest", other},
                            {"differs", one != other}});
    }
    row["dimensions"] = std::move(dimensions);
    out.push_back(std::move(row));
  }
  return out;
}

boost::json::object ObligationsToJson(const std::vector<Obligation>& obligations) {
  boost::json::array list;
  bool all = true;
  const auto lines = [](const std::vector<std::string>& texts) {
    boost::json::array out;
    for (const std::string& text : texts) out.push_back(boost::json::string(text));
    return out;
  };
  for (const Obligation& obligation : obligations) {
    all = all && obligation.holds();
    list.push_back({{"number", obligation.number},
                    {"name", obligation.name},
                    {"holds", obligation.holds()},
                    {"details", lines(obligation.details)},
                    {"faults", lines(obligation.faults)},
                    {"warnings", lines(obligation.warnings)}});
  }
  return {{"holds", all}, {"obligations", std::move(list)}};
}

}  // namespace surety::gateway
