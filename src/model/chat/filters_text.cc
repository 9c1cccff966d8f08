// Filters on strings, and tojson.
#include <algorithm>

#include "model/chat/function_spec.h"
#include "model/chat/operators.h"
#include "model/chat/printing.h"
#include "model/chat/text_ops.h"

namespace surety::model::chat {
namespace {

Result<Value> Upper(Machine& machine, const Value& self, const BoundArgs&) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText text, ToText(machine, self));
  return machine.MakeText(InCase(text, Case::kUpper));
}
Result<Value> Lower(Machine& machine, const Value& self, const BoundArgs&) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText text, ToText(machine, self));
  return machine.MakeText(InCase(text, Case::kLower));
}
Result<Value> Title(Machine& machine, const Value& self, const BoundArgs&) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText text, ToText(machine, self));
  return machine.MakeText(TitleFilter(text));
}
Result<Value> CapitalizeFilter(Machine& machine, const Value& self, const BoundArgs&) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText text, ToText(machine, self));
  return machine.MakeText(Capitalize(text));
}
Result<Value> String(Machine& machine, const Value& self, const BoundArgs&) {
  SURETY_ASSIGN_OR_RETURN(TaintedText text, ToText(machine, self));
  return machine.MakeText(std::move(text));
}

Result<Value> Trim(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText text, ToText(machine, self));
  if (!args.Has(0) || args[0].IsNone()) return machine.MakeText(Strip(text, nullptr, Side::kBoth));
  SURETY_ASSIGN_OR_RETURN(const TaintedText characters, args.Text(0, ""));
  machine.budget().SpendBytes(text.size() * characters.size());
  return machine.MakeText(Strip(text, &characters, Side::kBoth));
}

Result<Value> ReplaceFilter(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText text, ToText(machine, self));
  SURETY_ASSIGN_OR_RETURN(const TaintedText from, ToText(machine, args[0]));
  SURETY_ASSIGN_OR_RETURN(const TaintedText to, ToText(machine, args[1]));
  int64_t count = -1;
  if (args.Has(2) && !args[2].IsNone()) {
    SURETY_ASSIGN_OR_RETURN(count, args.Integer(2, -1));
  }
  SURETY_ASSIGN_OR_RETURN(TaintedText out, Replace(machine, text, from, to, count));
  return machine.MakeText(std::move(out));
}

Result<Value> Escape(Machine& machine, const Value& self, const BoundArgs&) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText text, ToText(machine, self));
  TaintedText out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.text()[i];
    const std::string_view entity = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '"'  ? "&#34;"
                                    : c == '\'' ? "&#39;"
                                                : std::string_view(&text.text()[i], 1);
    out.Append(entity, text.TrustedAt(i));
  }
  return machine.MakeText(std::move(out));
}

Result<Value> Indent(Machine& machine, const Value& self, const BoundArgs& args) {
  if (self.IsUndefined()) return Error(UndefinedError(self));
  if (!self.IsText()) return Error(InvalidArgumentError("indent works on strings"));
  TaintedText margin(std::string(4, ' '), true);
  if (args.Has(0) && args[0].IsText()) {
    margin = args[0].text();
  } else {
    SURETY_ASSIGN_OR_RETURN(const int64_t width, args.Integer(0, 4));
    SURETY_RETURN_IF_ERROR(machine.CheckTextSize(static_cast<size_t>(std::max<int64_t>(0, width))));
    margin = TaintedText(std::string(static_cast<size_t>(std::max<int64_t>(0, width)), ' '), true);
  }
  const bool blank = args.Truth(2, false);
  TaintedText whole = self.text();
  whole.Append("\n", true);
  const std::vector<Value> lines = SplitLines(whole, false);
  TaintedText out;
  if (args.Truth(1, false)) out.Append(margin);
  for (size_t i = 0; i < lines.size(); ++i) {
    const TaintedText& line = lines[i].text();
    if (i > 0) {
      out.Append("\n", true);
      if (blank || !line.empty()) out.Append(margin);
    }
    out.Append(line);
    machine.budget().SpendBytes(line.size() + margin.size());
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    SURETY_RETURN_IF_ERROR(machine.CheckTextSize(out.size()));
  }
  return machine.MakeText(std::move(out));
}

Result<Value> WordCount(Machine& machine, const Value& self, const BoundArgs&) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText text, ToText(machine, self));
  int64_t words = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const Character c = CharacterAt(text.text(), i);
    const bool letter = c.code == '_' || IsAlphabetic(c.code) || IsDecimalDigit(c.code);
    if (letter && !in_word) ++words;
    in_word = letter;
    i += c.size;
  }
  return Value(words);
}

Result<Value> Truncate(Machine& machine, const Value& self, const BoundArgs& args) {
  if (self.IsNumber() || self.IsNone()) {
    return Error(InvalidArgumentError("truncate works on strings, not on " + std::string(self.TypeName())));
  }
  SURETY_ASSIGN_OR_RETURN(const TaintedText text, ToText(machine, self));
  SURETY_ASSIGN_OR_RETURN(const int64_t length, args.Integer(0, 255));
  SURETY_ASSIGN_OR_RETURN(const TaintedText end, args.Text(2, "..."));
  const bool has_leeway = args.Has(3) && !args[3].IsNone();
  SURETY_ASSIGN_OR_RETURN(const int64_t leeway, has_leeway ? args.Integer(3, 5) : Result<int64_t>(5));
  const std::vector<size_t> offsets = CharacterOffsets(text.text());
  const auto n = static_cast<int64_t>(offsets.size()) - 1;
  const int64_t end_length = CharacterCount(end.text());
  if (length < end_length || leeway < 0) {
    return Error(InvalidArgumentError("truncate: the length must be at least the end's, the leeway not negative"));
  }
  if (n <= length || n - length <= leeway) return machine.MakeText(TaintedText(text));
  TaintedText out = text.Substring(0, offsets[static_cast<size_t>(length - end_length)]);
  if (!args.Truth(1, false)) {
    const size_t space = out.text().rfind(' ');
    if (space != std::string::npos) out = out.Substring(0, space);
  }
  out.Append(end);
  return machine.MakeText(std::move(out));
}

Result<Value> CenterFilter(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText text, ToText(machine, self));
  SURETY_ASSIGN_OR_RETURN(const int64_t width, args.Integer(0, 80));
  SURETY_ASSIGN_OR_RETURN(TaintedText out, Center(machine, text, width));
  return machine.MakeText(std::move(out));
}

Result<Value> Format(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText format, ToText(machine, self));
  const CallArgs& all = *args.all;
  if (!all.named.empty() && !all.positional.empty()) {
    return Error(InvalidArgumentError("format takes positional or named arguments, not both"));
  }
  if (all.named.empty()) {
    SURETY_ASSIGN_OR_RETURN(const Value values, machine.MakeList(all.positional, ListObject::Form::kTuple));
    return FormatPercent(machine, format, values);
  }
  auto dict = std::make_shared<DictObject>();
  for (const auto& [name, value] : all.named) dict->Set(Value::Text(name, true), value, machine.budget());
  SURETY_ASSIGN_OR_RETURN(const Value values, machine.MakeDict(std::move(dict)));
  return FormatPercent(machine, format, values);
}

Result<Value> ToJsonFilter(Machine& machine, const Value& self, const BoundArgs& args) {
  constexpr int64_t kMaxIndent = 100;
  JsonOptions options;
  options.ensure_ascii = args.Truth(0, false);
  options.sort_keys = args.Truth(3, false);
  if (args.Has(1) && !args[1].IsNone()) {
    if (args[1].IsText()) {
      options.indent = args[1].text().text();
    } else {
      SURETY_ASSIGN_OR_RETURN(const int64_t width, args.Integer(1, 0));
      options.indent = std::string(static_cast<size_t>(std::clamp<int64_t>(width, 0, kMaxIndent + 1)), ' ');
    }
    if (static_cast<int64_t>(options.indent->size()) > kMaxIndent) {
      return Error(InvalidArgumentError("tojson: an indent of more than " + std::to_string(kMaxIndent)));
    }
    options.item_separator = TaintedText(",", true);
  }
  if (args.Has(2) && !args[2].IsNone()) {
    SURETY_ASSIGN_OR_RETURN(const std::vector<Value> separators, Iterate(machine, args[2]));
    if (separators.size() != 2 || !separators[0].IsText() || !separators[1].IsText()) {
      return Error(InvalidArgumentError("tojson: separators are a pair of strings"));
    }
    options.item_separator = separators[0].text();
    options.key_separator = separators[1].text();
  }
  SURETY_ASSIGN_OR_RETURN(TaintedText json, ToJson(machine, self, options));
  return machine.MakeText(std::move(json));
}

constexpr FunctionSpec kTextFilters[] = {
    {"upper", Upper},
    {"lower", Lower},
    {"title", Title},
    {"capitalize", CapitalizeFilter},
    {"string", String},
    {"safe", String},
    {"trim", Trim, 0, {"chars"}},
    {"replace", ReplaceFilter, 2, {"old", "new", "count"}},
    {"escape", Escape},
    {"e", Escape},
    {"indent", Indent, 0, {"width", "first", "blank"}},
    {"wordcount", WordCount},
    {"truncate", Truncate, 0, {"length", "killwords", "end", "leeway"}},
    {"center", CenterFilter, 0, {"width"}},
    {"format", Format, 0, {}, true},
    {"tojson", ToJsonFilter, 0, {"ensure_ascii", "indent", "separators", "sort_keys"}},
};

}  // namespace

std::span<const FunctionSpec> TextFilters() { return kTextFilters; }

}  // namespace surety::model::chat
