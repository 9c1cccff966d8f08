#include "model/chat/printing.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "model/chat/operators.h"
#include "model/chat/unicode.h"

namespace surety::model::chat {
namespace {

// Containers within containers; more than a value's own depth because a namespace may hold itself.
constexpr int kMaxPrintDepth = 200;

Status CheckGrowth(Machine& machine, const TaintedText& out, int depth) {
  machine.budget().Spend(1);
  SURETY_RETURN_IF_ERROR(machine.CheckBudget());
  SURETY_RETURN_IF_ERROR(machine.CheckTextSize(out.size()));
  if (depth > kMaxPrintDepth) return ResourceExhaustedError("a value is nested too deep to be printed");
  return OkStatus();
}

std::string Hex(std::string_view prefix, uint32_t code, int digits) {
  char text[16];
  std::snprintf(text, sizeof(text), "%0*x", digits, code);
  return std::string(prefix) + text;
}

void AppendTextRepr(TaintedText& out, const TaintedText& text) {
  const std::string& bytes = text.text();
  const bool double_quoted = bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos;
  const char quote = double_quoted ? '"' : '\'';
  out.Append(std::string_view(&quote, 1), true);
  for (size_t i = 0; i < bytes.size();) {
    const Character c = CharacterAt(bytes, i);
    const bool trusted = text.TrustedAt(i);
    if (c.code == '\n' || c.code == '\r' || c.code == '\t') {
      out.Append(c.code == '\n' ? "\\n" : c.code == '\r' ? "\\r" : "\\t", trusted);
    } else if (c.code == kNoCharacter || IsPrintable(c.code)) {
      if (c.code == '\\' || c.code == static_cast<uint32_t>(quote)) out.Append("\\", trusted);
      out.AppendRange(text, i, c.size);
    } else if (c.code < 0x100) {
      out.Append(Hex("\\x", c.code, 2), trusted);
    } else {
      out.Append(c.code < 0x10000 ? Hex("\\u", c.code, 4) : Hex("\\U", c.code, 8), trusted);
    }
    i += c.size;
  }
  out.Append(std::string_view(&quote, 1), true);
}

Status AppendRepr(Machine& machine, TaintedText& out, const Value& value, int depth);

Status AppendEntries(Machine& machine, TaintedText& out, const std::vector<std::pair<Value, Value>>& entries,
                     int depth) {
  out.Append("{", true);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out.Append(", ", true);
    SURETY_RETURN_IF_ERROR(AppendRepr(machine, out, entries[i].first, depth + 1));
    out.Append(": ", true);
    SURETY_RETURN_IF_ERROR(AppendRepr(machine, out, entries[i].second, depth + 1));
  }
  out.Append("}", true);
  return OkStatus();
}

Status AppendListRepr(Machine& machine, TaintedText& out, const ListObject& list, int depth) {
  using Form = ListObject::Form;
  if (list.form == Form::kRange) {
    out.Append(list.label, true);
    return OkStatus();
  }
  if (list.form == Form::kIterator) {
    return InvalidArgumentError("an iterator has no text; put '| list' or '| join' behind the filter");
  }
  const bool tuple = list.form == Form::kTuple;
  if (list.form == Form::kView) out.Append(list.label + "(", true);
  out.Append(tuple ? "(" : "[", true);
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.Append(", ", true);
    SURETY_RETURN_IF_ERROR(AppendRepr(machine, out, list.items[i], depth + 1));
  }
  if (tuple && list.items.size() == 1) out.Append(",", true);
  out.Append(tuple ? ")" : "]", true);
  if (list.form == Form::kView) out.Append(")", true);
  return OkStatus();
}

Status AppendRepr(Machine& machine, TaintedText& out, const Value& value, int depth) {
  SURETY_RETURN_IF_ERROR(CheckGrowth(machine, out, depth));
  if (value.IsUndefined()) {
    out.Append("Undefined", true);
  } else if (value.IsNone()) {
    out.Append("None", true);
  } else if (value.Is<bool>()) {
    out.Append(value.integer() != 0 ? "True" : "False", true);
  } else if (value.IsInteger()) {
    out.Append(std::to_string(value.integer()), true);
  } else if (value.Is<double>()) {
    out.Append(FloatRepr(value.number()), true);
  } else if (value.IsText()) {
    machine.budget().SpendBytes(value.text().size());
    AppendTextRepr(out, value.text());
  } else if (value.IsList()) {
    return AppendListRepr(machine, out, value.list(), depth);
  } else if (value.IsDict()) {
    return AppendEntries(machine, out, value.dict().entries, depth);
  } else if (value.Is<NamespaceObject*>()) {
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [name, member] : value.name_space()->entries) {
      entries.emplace_back(Value::Text(name, true), member);
    }
    out.Append("<Namespace ", true);
    SURETY_RETURN_IF_ERROR(AppendEntries(machine, out, entries, depth));
    out.Append(">", true);
  } else {
    return InvalidArgumentError("a " + std::string(value.TypeName()) + " has no text");
  }
  return OkStatus();
}

// --- JSON

class JsonWriter {
 public:
  JsonWriter(Machine& machine, const JsonOptions& options) : machine_(machine), options_(options) {}

  Status Write(const Value& value, int depth) {
    SURETY_RETURN_IF_ERROR(CheckGrowth(machine_, out_, depth));
    if (value.IsText()) return WriteText(value.text());
    if (value.IsNone()) {
      out_.Append("null", true);
    } else if (value.Is<bool>()) {
      out_.Append(value.integer() != 0 ? "true" : "false", true);
    } else if (value.IsInteger()) {
      out_.Append(std::to_string(value.integer()), true);
    } else if (value.Is<double>()) {
      out_.Append(Number(value.number()), true);
    } else if (value.IsDict()) {
      return WriteDict(value.dict(), depth);
    } else if (value.IsList() &&
               (value.list().form == ListObject::Form::kList || value.list().form == ListObject::Form::kTuple)) {
      return WriteList(value.list().items, depth);
    } else if (value.IsUndefined()) {
      return UndefinedError(value);
    } else {
      return InvalidArgumentError("a value of type " + std::string(value.TypeName()) + " has no JSON form");
    }
    return OkStatus();
  }

  TaintedText Take() { return std::move(out_); }

 private:
  static std::string Number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
    return FloatRepr(d);
  }

  void NewLine(int depth) {
    if (!options_.indent) return;
    out_.Append("\n", true);
    for (int i = 0; i < depth; ++i) out_.Append(*options_.indent, true);
  }

  Status WriteList(const std::vector<Value>& items, int depth) {
    if (items.empty()) {
      out_.Append("[]", true);
      return OkStatus();
    }
    out_.Append("[", true);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.Append(options_.item_separator);
      NewLine(depth + 1);
      SURETY_RETURN_IF_ERROR(Write(items[i], depth + 1));
    }
    NewLine(depth);
    out_.Append("]", true);
    return OkStatus();
  }

  Status WriteKey(const Value& key) {
    if (key.IsText()) return WriteText(key.text());
    if (!key.IsNone() && !key.IsNumber()) {
      return InvalidArgumentError("a key of type " + std::string(key.TypeName()) + " has no JSON form");
    }
    out_.Append("\"", true);
    SURETY_RETURN_IF_ERROR(Write(key, 0));
    out_.Append("\"", true);
    return OkStatus();
  }

  Status WriteDict(const DictObject& dict, int depth) {
    if (dict.entries.empty()) {
      out_.Append("{}", true);
      return OkStatus();
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (options_.sort_keys) {
      Status status;
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        auto order = Order(machine_, a->first, b->first);
        if (!order && status.ok()) status = order.error();
        return order && *order < 0;
      });
      SURETY_RETURN_IF_ERROR(status);
    }
    out_.Append("{", true);
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.Append(options_.item_separator);
      NewLine(depth + 1);
      SURETY_RETURN_IF_ERROR(WriteKey(entries[i]->first));
      out_.Append(options_.key_separator);
      SURETY_RETURN_IF_ERROR(Write(entries[i]->second, depth + 1));
    }
    NewLine(depth);
    out_.Append("}", true);
    return OkStatus();
  }

  static std::string Escape(uint32_t code) {
    if (code < 0x10000) return Hex("\\u", code, 4);
    const uint32_t rest = code - 0x10000;
    return Hex("\\u", 0xD800 + (rest >> 10), 4) + Hex("\\u", 0xDC00 + (rest & 0x3FF), 4);
  }

  Status WriteText(const TaintedText& text) {
    machine_.budget().SpendBytes(text.size());
    const std::string& bytes = text.text();
    out_.Append("\"", true);
    for (size_t i = 0; i < bytes.size();) {
      static constexpr std::string_view kSpecial = "\"\\\n\r\t\f\b";
      static constexpr std::string_view kLetters = "\"\\nrtfb";
      const auto byte = static_cast<unsigned char>(bytes[i]);
      size_t end = i + 1;
      if (const size_t special = kSpecial.find(bytes[i]); special != std::string_view::npos) {
        out_.Append(std::string{'\\', kLetters[special]}, text.TrustedAt(i));
      } else if (byte < 0x20) {
        out_.Append(Escape(byte), text.TrustedAt(i));
      } else if (byte >= 0x80 && options_.ensure_ascii) {
        const Character c = CharacterAt(bytes, i);
        out_.Append(Escape(c.code == kNoCharacter ? 0xFFFD : c.code), text.TrustedAt(i));
        end = i + c.size;
      } else {
        while (end < bytes.size() && static_cast<unsigned char>(bytes[end]) >= 0x20 && bytes[end] != '"' &&
               bytes[end] != '\\' && (static_cast<unsigned char>(bytes[end]) < 0x80 || !options_.ensure_ascii)) {
          ++end;
        }
        out_.AppendRange(text, i, end - i);
      }
      i = end;
    }
    out_.Append("\"", true);
    return OkStatus();
  }

  Machine& machine_;
  const JsonOptions& options_;
  TaintedText out_;
};

}  // namespace

std::string FloatRepr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  char text[64];
  const auto shortest = std::to_chars(text, text + sizeof(text), d, std::chars_format::scientific);
  const std::string_view scientific(text, static_cast<size_t>(shortest.ptr - text));
  const size_t e = scientific.find('e');
  int exponent = 0;
  const char* digits = scientific.data() + e + 1;
  std::from_chars(*digits == '+' ? digits + 1 : digits, scientific.data() + scientific.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  char fixed[512];
  const auto plain = std::to_chars(fixed, fixed + sizeof(fixed), d, std::chars_format::fixed);
  std::string result(fixed, plain.ptr);
  if (result.find('.') == std::string::npos) result += ".0";
  return result;
}

Result<TaintedText> ToRepr(Machine& machine, const Value& value) {
  TaintedText out;
  SURETY_RETURN_IF_ERROR(AppendRepr(machine, out, value, 0));
  SURETY_RETURN_IF_ERROR(machine.CheckTextSize(out.size()));
  return out;
}

Result<TaintedText> ToText(Machine& machine, const Value& value) {
  if (value.IsText()) {
    machine.budget().SpendBytes(value.text().size());
    return value.text();
  }
  if (value.IsUndefined()) return TaintedText();
  return ToRepr(machine, value);
}

Result<TaintedText> ToJson(Machine& machine, const Value& value, const JsonOptions& options) {
  JsonWriter writer(machine, options);
  SURETY_RETURN_IF_ERROR(writer.Write(value, 0));
  TaintedText out = writer.Take();
  SURETY_RETURN_IF_ERROR(machine.CheckTextSize(out.size()));
  return out;
}

}  // namespace surety::model::chat
