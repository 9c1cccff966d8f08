#include "cli/json_out.h"

#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "cli/output.h"
#include "model/tokenizer/unicode.h"

namespace surety::cli {
namespace {

bool IsPlain(const boost::json::value& value) { return !value.is_object() && !value.is_array(); }

void Append(const boost::json::value& value, int indent, std::string& out) {
  const std::string inner(static_cast<size_t>(indent + 2), ' ');
  const std::string outer(static_cast<size_t>(indent), ' ');
  if (const auto* number = value.if_double()) {
    out += std::isfinite(*number) ? fmt::format("{}", *number) : "null";
  } else if (const auto* object = value.if_object()) {
    if (object->empty()) {
      out += "{}";
      return;
    }
    out += "{\n";
    bool first = true;
    for (const auto& member : *object) {
      if (!first) out += ",\n";
      first = false;
      out += inner + boost::json::serialize(boost::json::string(member.key())) + ": ";
      Append(member.value(), indent + 2, out);
    }
    out += "\n" + outer + "}";
  } else if (const auto* array = value.if_array()) {
    bool plain = true;
    for (const auto& item : *array) plain = plain && IsPlain(item);
    out += "[";
    bool first = true;
    for (const auto& item : *array) {
      if (!first) out += plain ? ", " : ",";
      first = false;
      if (!plain) out += "\n" + inner;
      Append(item, indent + 2, out);
    }
    if (!plain) out += "\n" + outer;
    out += "]";
  } else {
    out += boost::json::serialize(value);
  }
}

}  // namespace

std::string ValidJsonText(std::string json) {
  return model::IsValidUtf8(json) ? json : model::ReplaceInvalidUtf8(json);
}

std::string PrettyJson(const boost::json::value& value) {
  std::string out;
  Append(value, 0, out);
  out += "\n";
  return ValidJsonText(std::move(out));
}

void PrintJson(const boost::json::value& value) {
  const std::string text = PrettyJson(value);
  PrintText(text);
  FlushOutput();
}

double Rounded(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr);
}

}  // namespace surety::cli
