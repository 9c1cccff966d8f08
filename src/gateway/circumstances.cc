#include "gateway/circumstances.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace surety::gateway {
namespace {

namespace json = boost::json;
using From = DimensionSource::From;

Status Denied(Dimension dimension, std::string_view why) {
  return {StatusCode::kPermissionDenied, std::string(NameOf(dimension)) + ": " + std::string(why)};
}

struct Inputs {
  const Policy& policy;
  const api::Caller& caller;
  int64_t as_of_ns;
  const Signals* signals;
  const std::vector<ToolResult>* tools;
};

const json::value* FindToolField(const Inputs& in, const DimensionSource& source) {
  if (in.tools == nullptr) return nullptr;
  const auto result = std::ranges::find(*in.tools, source.name, &ToolResult::tool);
  if (result == in.tools->end() || !result->status.ok() || !result->value.is_object()) return nullptr;
  return result->value.get_object().if_contains(source.field);
}

// The raw value, null where there is none. `made` holds what stands nowhere else.
const json::value* RawValue(const Inputs& in, Dimension dimension, const DimensionSource& source, json::value& made) {
  const auto make = [&](std::string_view text) {
    made = json::string(text);
    return &made;
  };
  const json::value* found = nullptr;
  switch (source.from) {
    case From::kUnset: return nullptr;
    case From::kClaim: found = in.caller.claims.if_contains(source.name); break;
    case From::kMetadata: found = in.caller.metadata.if_contains(source.name); break;
    case From::kTool: found = FindToolField(in, source); break;
    case From::kSignal: {
      if (in.signals == nullptr) return nullptr;
      const auto signal = in.signals->values.find(source.name);
      if (signal == in.signals->values.end() || signal->second.label == kAbstained || signal->second.label == "none") {
        return nullptr;
      }
      return make(signal->second.label);
    }
    case From::kClock: return make(UtcDate(in.as_of_ns));
    case From::kPolicy: return make(in.policy.version);
    case From::kConstant: return make(source.name);
  }
  if (found == nullptr) return nullptr;
  // A date that metadata picked is the instant that the request is about.
  if (source.from == From::kMetadata && dimension == Dimension::kEffectiveDate) return make(UtcDate(in.as_of_ns));
  return found;
}

Result<std::vector<std::string>> ReadSet(const json::value& value) {
  std::vector<std::string> out;
  if (value.is_string()) {
    const std::string_view text = value.get_string();
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(' ', at), text.size());
      if (end > at) out.emplace_back(text.substr(at, end - at));
      at = end + 1;
    }
    return out;
  }
  if (!value.is_array()) return Error(Denied(Dimension::kPermissions, "must be a list of texts"));
  for (const json::value& element : value.get_array()) {
    if (!element.is_string()) return Error(Denied(Dimension::kPermissions, "must be a list of texts"));
    out.emplace_back(element.get_string());
  }
  return out;
}

Status CheckAllowed(Dimension dimension, const DimensionSource& source, std::string_view value) {
  if (source.values.empty() || std::ranges::find(source.values, value) != source.values.end()) return OkStatus();
  return Denied(dimension, "the value is none of those that the policy lists");
}

// Metadata narrows: a claim of the same name, where there is one, is the most that it may say.
Status CheckNarrowing(const Inputs& in, Dimension dimension, const std::vector<std::string>& chosen) {
  const json::value* claim = in.caller.claims.if_contains(NameOf(dimension));
  if (claim == nullptr || claim->is_null()) return OkStatus();
  std::vector<std::string> most;
  if (dimension == Dimension::kPermissions || claim->is_array()) {
    SURETY_ASSIGN_OR_RETURN(most, ReadSet(*claim));
  } else if (claim->is_string()) {
    most.emplace_back(claim->get_string());
  }
  for (const std::string& value : chosen) {
    if (std::ranges::find(most, value) == most.end()) return Denied(dimension, "metadata may narrow, but not widen");
  }
  return OkStatus();
}

Status ReadDimension(const Inputs& in, Dimension dimension, Circumstances& out) {
  const DimensionSource& source = in.policy.identity[static_cast<size_t>(dimension)];
  json::value made;
  const json::value* const raw = RawValue(in, dimension, source, made);
  if (raw == nullptr || raw->is_null()) {
    const bool later = (source.from == From::kSignal && in.signals == nullptr) ||
                       (source.from == From::kTool && in.tools == nullptr);
    if (source.required && !later) return Denied(dimension, "the request has none, and the policy requires one");
    return OkStatus();
  }
  if (dimension == Dimension::kPermissions) {
    SURETY_ASSIGN_OR_RETURN(std::vector<std::string> set, ReadSet(*raw));
    for (const std::string& one : set) SURETY_RETURN_IF_ERROR(CheckAllowed(dimension, source, one));
    if (source.from == From::kMetadata) {
      if (!in.caller.claims.contains(NameOf(dimension))) {
        return Denied(dimension, "metadata can only narrow permissions that the identity has");
      }
      SURETY_RETURN_IF_ERROR(CheckNarrowing(in, dimension, set));
    }
    out.permissions = std::move(set);
    return OkStatus();
  }
  if (!raw->is_string()) return Denied(dimension, "must be a text");
  std::string text(raw->get_string());
  SURETY_RETURN_IF_ERROR(CheckAllowed(dimension, source, text));
  if (source.from == From::kMetadata && dimension != Dimension::kEffectiveDate) {
    SURETY_RETURN_IF_ERROR(CheckNarrowing(in, dimension, {text}));
  }
  out.text[static_cast<size_t>(dimension)] = std::move(text);
  return OkStatus();
}

}  // namespace

Result<Circumstances> ReadCircumstances(const Policy& policy, const api::Caller& caller, int64_t as_of_ns,
                                        const Signals* signals, const std::vector<ToolResult>* tools) {
  const Inputs in{policy, caller, as_of_ns, signals, tools};
  Circumstances raw;
  for (int i = 0; i < kDimensionCount; ++i) {
    SURETY_RETURN_IF_ERROR(ReadDimension(in, static_cast<Dimension>(i), raw));
  }
  auto canonical = Canonical(std::move(raw));
  if (!canonical) return Error(Status(StatusCode::kPermissionDenied, canonical.error().message()));
  return canonical;
}

Result<Circumstances> ReadDimensions(const Policy& policy, const api::Caller& caller, int64_t as_of_ns,
                                     std::span<const Dimension> dimensions) {
  const Inputs in{policy, caller, as_of_ns, nullptr, nullptr};
  Circumstances raw;
  for (const Dimension dimension : dimensions) SURETY_RETURN_IF_ERROR(ReadDimension(in, dimension, raw));
  auto canonical = Canonical(std::move(raw));
  if (!canonical) return Error(Status(StatusCode::kPermissionDenied, canonical.error().message()));
  return canonical;
}

Result<int64_t> AsOf(const Policy& policy, const api::Caller& caller, int64_t now_wall_ns) {
  const DimensionSource& source = policy.identity[static_cast<size_t>(Dimension::kEffectiveDate)];
  if (source.from != From::kMetadata && source.from != From::kClaim) return now_wall_ns;
  const json::object& from = source.from == From::kMetadata ? caller.metadata : caller.claims;
  const json::value* value = from.if_contains(source.name);
  if (value == nullptr) return now_wall_ns;
  int year = 0, month = 0, day = 0, end = 0;
  const std::string text = value->is_string() ? std::string(value->get_string()) : std::string();
  const bool read = text.size() == 10 && std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &end) == 3 &&
                    end == 10;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!read || !date.ok()) return Error(Denied(Dimension::kEffectiveDate, "must be a date as YYYY-MM-DD"));
  const std::chrono::nanoseconds since = std::chrono::sys_days(date).time_since_epoch();
  if (source.from == From::kMetadata && since.count() > now_wall_ns) {
    return Error(Denied(Dimension::kEffectiveDate, "lies ahead: a request can only ask about today or the past"));
  }
  // Today means now, to the instant: a change at noon counts in the afternoon.
  return text == UtcDate(now_wall_ns) ? now_wall_ns : since.count();
}

std::string UtcDate(int64_t wall_ns) { return UtcInstant(wall_ns).substr(0, 10); }

std::string UtcInstant(int64_t wall_ns) {
  using namespace std::chrono;  // NOLINT: names of units
  const std::chrono::sys_time<std::chrono::nanoseconds> time{std::chrono::nanoseconds(wall_ns)};
  const auto day_point = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day_point};
  const std::chrono::hh_mm_ss clock{std::chrono::floor<std::chrono::seconds>(time - day_point)};
  std::string text = "0000-00-00T00:00:00Z";   // 64 bits of nanoseconds reach from 1677 to 2262
  const auto write = [&](size_t at, size_t n_digits, int64_t number) {
    for (size_t i = n_digits; i > 0; --i, number /= 10) text[at + i - 1] = static_cast<char>('0' + number % 10);
  };
  write(0, 4, static_cast<int>(date.year()));
  write(5, 2, static_cast<unsigned>(date.month()));
  write(8, 2, static_cast<unsigned>(date.day()));
  write(11, 2, clock.hours().count());
  write(14, 2, clock.minutes().count());
  write(17, 2, clock.seconds().count());
  return text;
}

std::map<std::string, std::string> DimensionTexts(const Circumstances& circumstances) {
  std::map<std::string, std::string> out;
  for (int i = 0; i < kDimensionCount; ++i) {
    const auto& text = circumstances.text[static_cast<size_t>(i)];
    if (text) out[std::string(NameOf(static_cast<Dimension>(i)))] = *text;
  }
  return out;
}

}  // namespace surety::gateway
