// Values as text: Python's str and repr, and json.dumps.
// Errors: kInvalidArgument for what has no such form, kResourceExhausted when a text passes the output limit.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/chat/machine.h"

namespace surety::model::chat {

std::string FloatRepr(double d);
// Punctuation and numbers are trusted; the bytes of strings keep their trust.
Result<TaintedText> ToText(Machine& machine, const Value& value);
Result<TaintedText> ToRepr(Machine& machine, const Value& value);

struct JsonOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // one level's indentation; a line for each member if set
  TaintedText item_separator{", ", true};
  TaintedText key_separator{": ", true};
};
Result<TaintedText> ToJson(Machine& machine, const Value& value, const JsonOptions& options);

}  // namespace surety::model::chat
