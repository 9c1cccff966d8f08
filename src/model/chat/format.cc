#include "model/chat/format.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "model/chat/operators.h"
#include "model/chat/printing.h"
#include "model/chat/unicode.h"

namespace surety::model::chat {
namespace {

constexpr int kMaxWidth = 1000;

struct Directive {
  bool left = false, zero = false, alternate = false;
  char sign = '\0';  // '+' or ' ' before positive numbers
  int width = 0;
  int precision = -1;
  char letter = '\0';
};

Status ReadNumber(std::string_view text, size_t& i, int& out) {
  for (out = 0; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    out = out * 10 + (text[i] - '0');
    if (out > kMaxWidth) return InvalidArgumentError("a format's width of more than " + std::to_string(kMaxWidth));
  }
  return OkStatus();
}

// What stands after '%' (and after a "(name)").
Result<Directive> ReadDirective(std::string_view text, size_t& i) {
  Directive directive;
  for (; i < text.size() && std::string_view("-+ 0#").find(text[i]) != std::string_view::npos; ++i) {
    if (text[i] == '-') directive.left = true;
    if (text[i] == '0') directive.zero = true;
    if (text[i] == '#') directive.alternate = true;
    if (text[i] == '+' || (text[i] == ' ' && directive.sign == '\0')) directive.sign = text[i];
  }
  SURETY_RETURN_IF_ERROR(ReadNumber(text, i, directive.width));
  if (i < text.size() && text[i] == '.') {
    ++i;
    SURETY_RETURN_IF_ERROR(ReadNumber(text, i, directive.precision));
  }
  if (i >= text.size()) return Error(InvalidArgumentError("incomplete format"));
  directive.letter = text[i++];
  return directive;
}

Result<std::string> NumberText(const Directive& directive, const Value& value) {
  const bool floating = std::string_view("fFeEgG").find(directive.letter) != std::string_view::npos;
  if (!value.IsNumber()) {
    return Error(InvalidArgumentError(std::string("%") + directive.letter + " needs a number, not " +
                                      std::string(value.TypeName())));
  }
  std::string pattern = "%";
  if (directive.left) pattern += '-';
  if (directive.zero) pattern += '0';
  if (directive.alternate) pattern += '#';
  if (directive.sign != '\0') pattern += directive.sign;
  char text[2 * kMaxWidth + 400];
  if (floating) {
    pattern += "*.*";
    pattern += directive.letter;
    const int precision = directive.precision < 0 ? 6 : directive.precision;
    std::snprintf(text, sizeof(text), pattern.c_str(), directive.width, precision, value.number());
    return std::string(text);
  }
  int64_t integer = 0;
  if (value.IsInteger()) {
    integer = value.integer();
  } else if (directive.letter != 'd') {
    return Error(InvalidArgumentError("this format needs an integer"));
  } else if (value.number() >= -0x1p63 && value.number() < 0x1p63) {
    integer = static_cast<int64_t>(value.number());
  } else {
    return Error(InvalidArgumentError("an integer of more than 64 bits"));
  }
  if (directive.letter != 'd' && integer < 0) return Error(InvalidArgumentError("a negative number in %x or %o"));
  pattern += "*.*j";
  pattern += directive.letter;
  std::snprintf(text, sizeof(text), pattern.c_str(), directive.width, directive.precision,
                static_cast<intmax_t>(integer));
  return std::string(text);
}

void AppendPadded(TaintedText& out, const TaintedText& text, int width, bool left) {
  const auto missing = std::max<int64_t>(0, width - CharacterCount(text.text()));
  const std::string padding(static_cast<size_t>(missing), ' ');
  if (!left) out.Append(padding, true);
  out.Append(text);
  if (left) out.Append(padding, true);
}

Status AppendDirective(Machine& machine, TaintedText& out, Directive directive, const Value& value) {
  switch (directive.letter) {
    case 's':
    case 'r': {
      SURETY_ASSIGN_OR_RETURN(TaintedText text,
                              directive.letter == 's' ? ToText(machine, value) : ToRepr(machine, value));
      if (directive.precision >= 0) {
        const std::vector<size_t> offsets = CharacterOffsets(text.text());
        text = text.Substring(0, offsets[std::min(offsets.size() - 1, static_cast<size_t>(directive.precision))]);
      }
      AppendPadded(out, text, directive.width, directive.left);
      return OkStatus();
    }
    case 'i':
    case 'u': directive.letter = 'd'; [[fallthrough]];
    case 'd':
    case 'x':
    case 'X':
    case 'o':
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G': {
      if (value.IsUndefined()) return UndefinedError(value);
      SURETY_ASSIGN_OR_RETURN(const std::string text, NumberText(directive, value));
      out.Append(text, true);
      return OkStatus();
    }
    default: return InvalidArgumentError(std::string("unknown format '%") + directive.letter + "'");
  }
}

// Where the values of '%' come from: a tuple's items one by one, a dict's by name, or the one value.
class Values {
 public:
  explicit Values(const Value& values) : values_(values) {
    tuple_ = values.IsList() && values.list().form == ListObject::Form::kTuple;
  }
  Result<const Value*> Next() {
    if (tuple_ ? next_ >= values_.list().items.size() : next_ > 0) {
      return Error(InvalidArgumentError("not enough values for the format"));
    }
    const Value* value = tuple_ ? &values_.list().items[next_] : &values_;
    ++next_;
    return value;
  }
  Result<const Value*> Named(std::string_view name) {
    const Value* value = values_.IsDict() ? values_.dict().Find(name) : nullptr;
    if (value == nullptr) return Error(InvalidArgumentError("no value for the format '" + std::string(name) + "'"));
    return value;
  }
  bool AllUsed() const {
    if (tuple_) return next_ == values_.list().items.size();
    return next_ > 0 || values_.IsDict() || values_.IsList() || values_.IsUndefined();
  }

 private:
  const Value& values_;
  bool tuple_;
  size_t next_ = 0;
};

}  // namespace

Result<Value> FormatPercent(Machine& machine, const TaintedText& format, const Value& values) {
  const std::string& text = format.text();
  machine.budget().SpendBytes(text.size());
  Values source(values);
  TaintedText out;
  for (size_t i = 0; i < text.size();) {
    const size_t percent = std::min(text.find('%', i), text.size());
    out.AppendRange(format, i, percent - i);
    if (percent == text.size()) break;
    i = percent + 1;
    Result<const Value*> value = nullptr;
    if (i < text.size() && text[i] == '(') {
      const size_t end = text.find(')', i);
      if (end == std::string::npos) return Error(InvalidArgumentError("incomplete format"));
      SURETY_ASSIGN_OR_RETURN(value, source.Named(std::string_view(text).substr(i + 1, end - i - 1)));
      i = end + 1;
    }
    SURETY_ASSIGN_OR_RETURN(const Directive directive, ReadDirective(text, i));
    if (directive.letter == '%') {
      out.AppendRange(format, percent, 1);
      continue;
    }
    if (*value == nullptr) {
      SURETY_ASSIGN_OR_RETURN(value, source.Next());
    }
    SURETY_RETURN_IF_ERROR(AppendDirective(machine, out, directive, **value));
    SURETY_RETURN_IF_ERROR(machine.CheckTextSize(out.size()));
    machine.budget().Spend(1 + directive.width / 64);
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
  }
  if (!source.AllUsed()) return Error(InvalidArgumentError("not all values were used by the format"));
  return machine.MakeText(std::move(out));
}

namespace {

// The value of a field name: empty (the next one), a number or a name.
Result<const Value*> FieldValue(const CallArgs& args, std::string_view field, size_t& next) {
  if (field.find_first_of(".[") != std::string_view::npos) {
    return Error(InvalidArgumentError("format: attributes and items inside braces are not supported"));
  }
  const bool number = std::all_of(field.begin(), field.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (number && field.size() < 6) {
    const size_t place = field.empty() ? next++ : static_cast<size_t>(std::stoi(std::string(field)));
    if (place >= args.positional.size()) return Error(InvalidArgumentError("format: not enough values"));
    return &args.positional[place];
  }
  for (const auto& [name, value] : args.named) {
    if (name == field) return &value;
  }
  return Error(InvalidArgumentError("format: no value for '" + std::string(field) + "'"));
}

// "[<>]0?width.precision letter" as a directive of '%'.
Status AppendWithSpec(Machine& machine, TaintedText& out, std::string_view spec, const Value& value) {
  Directive directive;
  size_t i = 0;
  directive.left = !value.IsNumber();
  if (i < spec.size() && (spec[i] == '<' || spec[i] == '>')) directive.left = spec[i++] == '<';
  if (i < spec.size() && spec[i] == '0') directive.zero = true;
  SURETY_RETURN_IF_ERROR(ReadNumber(spec, i, directive.width));
  if (i < spec.size() && spec[i] == '.') {
    ++i;
    SURETY_RETURN_IF_ERROR(ReadNumber(spec, i, directive.precision));
  }
  directive.letter = i < spec.size() ? spec[i++] : value.Is<int64_t>() ? 'd' : 's';
  if (i != spec.size() || std::string_view("sdxXofFeEgG").find(directive.letter) == std::string_view::npos) {
    return InvalidArgumentError("format: the specification '" + std::string(spec) + "' is not supported");
  }
  if (directive.letter == 's' && (value.Is<double>() || !(value.IsText() || spec.empty()))) {
    return InvalidArgumentError("format: this specification does not fit the value");
  }
  return AppendDirective(machine, out, directive, value);
}

}  // namespace

Result<Value> FormatBraces(Machine& machine, const Value& self, const BoundArgs& args) {
  const TaintedText& format = self.text();
  const std::string_view text = format.text();
  machine.budget().SpendBytes(text.size());
  TaintedText out;
  size_t next = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t brace = std::min(text.find_first_of("{}", i), text.size());
    out.AppendRange(format, i, brace - i);
    if (brace == text.size()) break;
    if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
      out.AppendRange(format, brace, 1);
      i = brace + 2;
      continue;
    }
    const size_t end = text.find('}', brace);
    if (text[brace] == '}' || end == std::string_view::npos) {
      return Error(InvalidArgumentError("format: a single brace"));
    }
    std::string_view field = text.substr(brace + 1, end - brace - 1);
    if (field.find_first_of("{!") != std::string_view::npos) {
      return Error(InvalidArgumentError("format: nested braces and conversions are not supported"));
    }
    std::string_view spec;
    if (const size_t colon = field.find(':'); colon != std::string_view::npos) {
      spec = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    SURETY_ASSIGN_OR_RETURN(const Value* value, FieldValue(*args.all, field, next));
    if (spec.empty()) {
      SURETY_ASSIGN_OR_RETURN(const TaintedText piece, ToText(machine, *value));
      out.Append(piece);
    } else {
      SURETY_RETURN_IF_ERROR(AppendWithSpec(machine, out, spec, *value));
    }
    SURETY_RETURN_IF_ERROR(machine.CheckTextSize(out.size()));
    machine.budget().Spend(1);
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    i = end + 1;
  }
  return machine.MakeText(std::move(out));
}

}  // namespace surety::model::chat
