#include "http/params.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/nearest_name.h"
#include "http/sse.h"

namespace surety::http {
namespace {

namespace json = boost::json;

std::string NumberText(double value) {
  std::string text;
  if (std::abs(value) < 1e18 && value == std::floor(value)) return std::to_string(static_cast<int64_t>(value));
  AppendJsonNumber(text, static_cast<float>(value));
  return text;
}

std::string RangeText(const Parameter& p, std::string_view unit) {
  const std::string of = unit.empty() ? "" : " " + std::string(unit);
  const std::string low = p.min == kAboveZero ? "above 0" : "at least " + NumberText(p.min);
  if (p.max == kNoLimit) return low + of;
  if (p.min == -kNoLimit) return "at most " + NumberText(p.max) + of;
  if (p.min == kAboveZero) return "above 0 and at most " + NumberText(p.max) + of;
  return "from " + NumberText(p.min) + " to " + NumberText(p.max) + of;
}

std::string TypesText(unsigned types) {
  static constexpr std::pair<unsigned, const char*> kNames[] = {
      {kBool, "true or false"}, {kInt, "a whole number"}, {kNumber, "a number"},
      {kString, "a string"},    {kArray, "an array"},     {kObject, "an object"}};
  std::string text;
  for (const auto& [bit, name] : kNames) {
    if ((types & bit) == 0) continue;
    if (!text.empty()) text += " or ";
    text += name;
  }
  return text;
}

bool HasType(const json::value& value, unsigned types) {
  switch (value.kind()) {
    case json::kind::bool_: return (types & kBool) != 0;
    case json::kind::string: return (types & kString) != 0;
    case json::kind::array: return (types & kArray) != 0;
    case json::kind::object: return (types & kObject) != 0;
    case json::kind::null: return false;
    default: break;
  }
  if ((types & kNumber) != 0) return true;
  const double* real = value.if_double();
  return (types & kInt) != 0 && (real == nullptr || *real == std::floor(*real));
}

Parsed<void> CheckRange(const Parameter& p, const json::value& value, const std::string& path) {
  const auto outside = [&](double x) { return !(x >= p.min && x <= p.max); };
  if (value.is_number()) {
    const double number = value.to_number<double>();
    if (outside(number)) {
      return BadField(path, path + " is " + json::serialize(value) + ", but must be " + RangeText(p, ""));
    }
    // One that a 64-bit whole number cannot hold, though a double's range says so.
    int64_t whole;
    if ((p.types & (kInt | kNumber)) == kInt && !WholeNumber(value, whole)) {
      return BadField(path, path + " is " + json::serialize(value) + ", which is more than a whole number holds");
    }
  } else if (value.is_string() && outside(static_cast<double>(value.get_string().size()))) {
    return BadField(path, path + " has " + std::to_string(value.get_string().size()) + " bytes, but must have " +
                              RangeText(p, ""));
  } else if (value.is_array() && outside(static_cast<double>(value.get_array().size()))) {
    return BadField(path, path + " has " + std::to_string(value.get_array().size()) + " elements, but must have " +
                              RangeText(p, ""));
  } else if (value.is_object() && outside(static_cast<double>(value.get_object().size()))) {
    return BadField(path, path + " has " + std::to_string(value.get_object().size()) + " members, but must have " +
                              RangeText(p, ""));
  }
  return {};
}

bool SameValue(const json::value& a, const json::value& b) {
  if (a.is_number() && b.is_number()) return a.to_number<double>() == b.to_number<double>();
  return a == b;
}

Parsed<void> CheckValues(const Parameter& p, const json::value& value, const std::string& path) {
  if (p.values.empty() && p.use != Use::kOnly) return {};
  json::array allowed;
  if (!p.values.empty()) allowed = json::parse(json::string_view(p.values.data(), p.values.size())).as_array();
  for (const json::value& one : allowed) {
    if (SameValue(one, value)) return {};
  }
  std::string list;
  for (const json::value& one : allowed) list += (list.empty() ? "" : ", ") + json::serialize(one);
  if (p.use == Use::kHonoured && !value.is_string()) return {};  // the values are those of its string form
  std::string shown;
  if (value.is_string()) {
    shown.append(" ").append(Quoted(value.get_string()));
  } else if (!value.is_object() && !value.is_array()) {
    shown.append(" ").append(json::serialize(value));
  }
  if (p.use == Use::kHonoured) {
    return BadField(path, path + shown + " is not supported; it must be one of " + list, "unsupported_value");
  }
  std::string message = path + shown + " is not supported: " + std::string(p.text);
  if (!list.empty()) message += ". Leave it out, or give " + list;
  return BadField(path, std::move(message), list.empty() ? "unsupported_parameter" : "unsupported_value");
}

std::unexpected<ApiError> Unknown(std::string_view name, std::string_view prefix, Endpoint endpoint) {
  const std::string path = std::string(prefix) + std::string(name);
  std::string message = "unknown parameter " + Quoted(path);
  std::vector<std::string> known;
  for (const Parameter& p : Parameters()) {
    if (p.name == path) {
      message += ": " + std::string(PathOf(endpoint)) + " does not have it";
      return BadField(path, std::move(message), "unknown_parameter");
    }
    if ((p.endpoints & endpoint) == 0 || !p.name.starts_with(prefix)) continue;
    const std::string_view parent = ParentOf(p, endpoint);
    if (prefix.size() == parent.size() + (parent.empty() ? 0 : 1)) known.emplace_back(p.name);
  }
  // Distances grow with the product of the lengths.
  const std::string nearest = path.size() > 128 ? "" : NearestName(path, known);
  if (!nearest.empty()) message += "; did you mean '" + nearest + "'?";
  return BadField(path, std::move(message), "unknown_parameter");
}

bool HasChildren(std::string_view name, Endpoint endpoint) {
  return std::ranges::any_of(Parameters(), [&](const Parameter& p) {
    return (p.endpoints & endpoint) != 0 && p.name.size() > name.size() && p.name.starts_with(name) &&
           p.name[name.size()] == '.';
  });
}

Parsed<void> CheckObject(const json::object& object, const std::string& prefix, Endpoint endpoint) {
  for (const auto& member : object) {
    const std::string path = prefix + std::string(member.key());
    const Parameter* p = FindParameter(path, endpoint);
    // A key with a dot in it is no path.
    if (p == nullptr || prefix.size() != ParentOf(*p, endpoint).size() + (prefix.empty() ? 0 : 1)) {
      return Unknown(member.key(), prefix, endpoint);
    }
    const json::value& value = member.value();
    if (value.is_null() || p->use == Use::kAccepted) {
      if (value.is_null() || HasType(value, p->types)) continue;
    }
    if (!HasType(value, p->types)) {
      if (p->use == Use::kOnly && p->values.empty()) return CheckValues(*p, value, path);
      return BadField(path, path + " must be " + TypesText(p->types) + ", but is " + std::string(TypeName(value)),
                      "invalid_type");
    }
    if (auto ok = CheckRange(*p, value, path); !ok) return ok;
    if (auto ok = CheckValues(*p, value, path); !ok) return ok;
    if (value.is_object() && HasChildren(path, endpoint)) {
      if (auto ok = CheckObject(value.get_object(), path + ".", endpoint); !ok) return ok;
    }
  }
  return {};
}

}  // namespace

std::string_view PathOf(Endpoint endpoint) {
  switch (endpoint) {
    case kChat: return "/v1/chat/completions";
    case kCompletions: return "/v1/completions";
    case kResponses: return "/v1/responses";
    case kEmbeddings: return "/v1/embeddings";
    case kTokenize: return "/tokenize";
    case kDetokenize: return "/detokenize";
    case kApplyTemplate: return "/apply-template";
  }
  return "";
}

const Parameter* FindParameter(std::string_view name, Endpoint endpoint) {
  for (const Parameter& p : Parameters()) {
    if ((p.endpoints & endpoint) != 0 && p.name == name) return &p;
  }
  return nullptr;
}

std::string_view ParentOf(const Parameter& parameter, Endpoint endpoint) {
  const std::string_view head = parameter.name.substr(0, std::min(parameter.name.find('.'), parameter.name.size()));
  return head != parameter.name && FindParameter(head, endpoint) != nullptr ? head : std::string_view();
}

Parsed<void> CheckParameters(const json::object& body, Endpoint endpoint) { return CheckObject(body, "", endpoint); }

Parsed<void> CheckMembers(const json::object& object, std::string_view path,
                          std::span<const std::string_view> known) {
  for (const auto& member : object) {
    const std::string_view key = member.key();
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string where = std::string(path) + "." + std::string(key);
    const std::vector<std::string> names(known.begin(), known.end());
    const std::string nearest = key.size() > 128 ? "" : NearestName(key, names);
    std::string message = "unknown field " + Quoted(where);
    if (!nearest.empty()) message += "; did you mean '" + nearest + "'?";
    return BadField(where, std::move(message), "unknown_parameter");
  }
  return {};
}

std::unexpected<ApiError> WrongType(const std::string& path, std::string_view wanted, const json::value& value) {
  return BadField(path, path + " must be " + std::string(wanted) + ", but is " + std::string(TypeName(value)),
                  "invalid_type");
}

std::string_view TypeName(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null: return "null";
    case json::kind::bool_: return value.get_bool() ? "true" : "false";
    case json::kind::string: return "a string";
    case json::kind::array: return "an array";
    case json::kind::object: return "an object";
    case json::kind::double_: return "a number with a fraction or exponent";
    case json::kind::int64:
    case json::kind::uint64: return "a number";
  }
  return "";
}

const json::value* Member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool BoolOr(const json::object& body, std::string_view name, bool fallback) {
  const json::value* value = Member(body, name);
  return value != nullptr && value->is_bool() ? value->get_bool() : fallback;
}

double NumberOr(const json::object& body, std::string_view name, double fallback) {
  const json::value* value = Member(body, name);
  return value != nullptr && value->is_number() ? value->to_number<double>() : fallback;
}

int64_t IntOr(const json::object& body, std::string_view name, int64_t fallback) {
  const json::value* value = Member(body, name);
  int64_t number;
  return value != nullptr && WholeNumber(*value, number) ? number : fallback;
}

std::string_view StringOr(const json::object& body, std::string_view name, std::string_view fallback) {
  const json::value* value = Member(body, name);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string()) : fallback;
}

bool WholeNumber(const json::value& value, int64_t& number) {
  if (const int64_t* whole = value.if_int64()) {
    number = *whole;
    return true;
  }
  const double* real = value.if_double();
  if (real == nullptr || *real != std::floor(*real) || !(std::abs(*real) < 9.2233720368547758e18)) return false;
  number = static_cast<int64_t>(*real);
  return true;
}

}  // namespace surety::http
