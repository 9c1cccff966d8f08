#include "gateway/policy_trace.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "gateway/partition.h"
#include "gateway/policy_values.h"

namespace surety::gateway {
namespace {

std::string TextMember(const boost::json::object& object, const std::string& name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(std::string_view(value->get_string())) : "";
}

std::string ValueOfSource(const DimensionSource& source, const Policy& policy, const TracedRequest& request,
                          const Signals& signals, int64_t now_ns) {
  switch (source.from) {
    case DimensionSource::From::kClaim: return TextMember(request.caller.claims, source.name);
    case DimensionSource::From::kMetadata: return TextMember(request.caller.metadata, source.name);
    case DimensionSource::From::kSignal: {
      const auto found = signals.values.find(source.name);
      return found == signals.values.end() ? "" : found->second.label;
    }
    case DimensionSource::From::kClock: return FormatInstant(now_ns).substr(0, 10);
    case DimensionSource::From::kPolicy: return policy.version;
    case DimensionSource::From::kConstant: return source.name;
    case DimensionSource::From::kTool:
    case DimensionSource::From::kUnset: break;
  }
  return "";
}

std::vector<std::string> PermissionsOf(const DimensionSource& source, const TracedRequest& request) {
  if (source.from == DimensionSource::From::kConstant) return {source.name};
  if (source.from != DimensionSource::From::kClaim) return {};
  const auto* claim = request.caller.claims.if_contains(source.name);
  std::vector<std::string> out;
  if (claim != nullptr && claim->is_string()) out.emplace_back(std::string_view(claim->get_string()));
  if (claim == nullptr || !claim->is_array()) return out;
  for (const auto& item : claim->get_array()) {
    if (item.is_string()) out.emplace_back(std::string_view(item.get_string()));
  }
  return out;
}

bool TakesValue(const DimensionSource& source, const std::string& value) {
  return source.values.empty() || std::ranges::find(source.values, value) != source.values.end();
}

}  // namespace

Result<std::vector<TracedRequest>> ParseRequestTrace(std::string_view text) {
  std::vector<TracedRequest> out;
  for (size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    boost::system::error_code error;
    const boost::json::value json = boost::json::parse(line, error);
    const auto* object = error ? nullptr : json.if_object();
    const auto* said = object != nullptr ? object->if_contains("text") : nullptr;
    if (said == nullptr || !said->is_string()) {
      return Error(InvalidArgumentError(fmt::format("line {}: a JSON object with \"text\" is wanted", number)));
    }
    TracedRequest request;
    request.text = std::string_view(said->get_string());
    for (const auto& [name, target] : {std::pair("claims", &request.caller.claims),
                                       std::pair("metadata", &request.caller.metadata)}) {
      const auto* part = object->if_contains(name);
      if (part == nullptr) continue;
      if (!part->is_object()) return Error(InvalidArgumentError(fmt::format("line {}: {} is no object", number, name)));
      *target = part->get_object();
    }
    out.push_back(std::move(request));
  }
  return out;
}

Result<std::unique_ptr<TraceRouter>> TraceRouter::Make(const Policy& policy, int64_t now_ns) {
  auto router = std::unique_ptr<TraceRouter>(new TraceRouter(policy, now_ns));
  const std::string directory = std::filesystem::path(policy.path).parent_path().string();
  SURETY_ASSIGN_OR_RETURN(router->reader_, SignalReader::Make(policy, directory, {}));
  return router;
}

std::string TraceRouter::RouteOf(const TracedRequest& request) const {
  const Signals signals = reader_->Read(request.text, request.text, request.caller);
  RoutingFacts facts{.policy = &policy_, .signals = &signals, .dimensions = {}, .permissions = {}};
  for (size_t d = 0; d < kDimensionCount; ++d) {
    const auto dimension = static_cast<Dimension>(d);
    const DimensionSource& source = policy_.identity[d];
    if (dimension == Dimension::kPermissions) {
      facts.permissions = PermissionsOf(source, request);
      continue;
    }
    const std::string value = ValueOfSource(source, policy_, request, signals, now_ns_);
    Circumstances one;
    one.text[d] = value;
    if (!value.empty() && TakesValue(source, value) && Canonical(one)) facts.dimensions[std::string(NameOf(dimension))] = value;
  }
  return ChooseRoute(facts).name;
}

Result<boost::json::object> CompareTraces(const Policy& old_policy, const Policy& new_policy,
                                          const std::vector<TracedRequest>& requests, int64_t now_ns) {
  SURETY_ASSIGN_OR_RETURN(const auto before, TraceRouter::Make(old_policy, now_ns));
  SURETY_ASSIGN_OR_RETURN(const auto after, TraceRouter::Make(new_policy, now_ns));
  std::map<std::string, int64_t> moves;
  boost::json::array lines;
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::string one = before->RouteOf(requests[i]), two = after->RouteOf(requests[i]);
    if (one == two) continue;
    ++moves[fmt::format("{} > {}", one, two)];
    lines.push_back(boost::json::object{{"request", i + 1}, {"old", one}, {"new", two}});
  }
  boost::json::object counted;
  for (const auto& [move, n] : moves) counted[move] = n;
  return boost::json::object{{"requests", requests.size()}, {"moved", lines.size()}, {"moves", counted}, {"lines", lines}};
}

}  // namespace surety::gateway
