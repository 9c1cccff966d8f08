#include "model/chat/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/chat/printing.h"
#include "model/chat/unicode.h"

namespace surety::model::chat {
namespace {

Status NoOperation(std::string_view symbol, const Value& a, const Value& b) {
  if (a.IsUndefined()) return UndefinedError(a);
  if (b.IsUndefined()) return UndefinedError(b);
  return InvalidArgumentError(Quoted(symbol) + " is not possible between " + std::string(a.TypeName()) +
                              " and " + std::string(b.TypeName()));
}

std::string_view SymbolOf(Operator op) {
  switch (op) {
    case Operator::kAdd: return "+";
    case Operator::kSubtract: return "-";
    case Operator::kMultiply: return "*";
    case Operator::kDivide: return "/";
    case Operator::kFloorDivide: return "//";
    case Operator::kModulo: return "%";
    case Operator::kPower: return "**";
    case Operator::kEqual: return "==";
    case Operator::kNotEqual: return "!=";
    case Operator::kLess: return "<";
    case Operator::kLessEqual: return "<=";
    case Operator::kGreater: return ">";
    case Operator::kGreaterEqual: return ">=";
    case Operator::kIn: return "in";
    case Operator::kNotIn: return "not in";
  }
  return "?";
}

Status IntegerOverflow() { return InvalidArgumentError("an integer of more than 64 bits; these are not supported"); }

Result<Value> IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return Error(InvalidArgumentError("0 to a negative power"));
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  if (base == 0 || base == 1 || base == -1) return Value(exponent == 0 ? 1 : exponent % 2 == 0 ? base * base : base);
  for (; exponent > 0; --exponent) {  // at most 63 turns before it overflows
    if (__builtin_mul_overflow(result, base, &result)) return Error(IntegerOverflow());
  }
  return Value(result);
}

Result<Value> IntegerArithmetic(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Operator::kAdd: overflow = __builtin_add_overflow(a, b, &result); break;
    case Operator::kSubtract: overflow = __builtin_sub_overflow(a, b, &result); break;
    case Operator::kMultiply: overflow = __builtin_mul_overflow(a, b, &result); break;
    case Operator::kPower: return IntegerPower(a, b);
    default: {
      if (b == 0) return Error(InvalidArgumentError("division by zero"));
      if (op == Operator::kDivide) return Value(static_cast<double>(a) / static_cast<double>(b));
      if (b == -1) {  // the one quotient that can overflow
        if (op == Operator::kModulo) return Value(int64_t{0});
        overflow = __builtin_sub_overflow(int64_t{0}, a, &result);
        break;
      }
      const int64_t rest = a % b;
      const bool adjust = rest != 0 && (rest < 0) != (b < 0);  // Python rounds down
      result = op == Operator::kModulo ? rest + (adjust ? b : 0) : a / b - (adjust ? 1 : 0);
    }
  }
  if (overflow) return Error(IntegerOverflow());
  return Value(result);
}

Result<Value> FloatArithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd: return Value(a + b);
    case Operator::kSubtract: return Value(a - b);
    case Operator::kMultiply: return Value(a * b);
    case Operator::kPower:
      if (a == 0 && b < 0) return Error(InvalidArgumentError("0 to a negative power"));
      if (a < 0 && std::trunc(b) != b) return Error(InvalidArgumentError("a complex number; these are not supported"));
      return Value(std::pow(a, b));
    default: break;
  }
  if (b == 0) return Error(InvalidArgumentError("division by zero"));
  if (op == Operator::kDivide) return Value(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (op == Operator::kModulo) return Value(rest == 0 ? std::copysign(0.0, b) : rest);
  return Value(std::round((a - rest) / b));
}

Result<Value> Repeat(Machine& machine, const Value& what, int64_t times) {
  const auto n = static_cast<size_t>(std::max<int64_t>(0, times));
  if (what.IsText()) {
    const size_t size = what.text().size();
    if (size == 0 || n == 0) return Value(TaintedText());
    SURETY_RETURN_IF_ERROR(machine.CheckTextSize(size));
    if (n > static_cast<size_t>(machine.max_text_bytes()) / size) {
      return Error(machine.CheckTextSize(std::numeric_limits<int64_t>::max()));
    }
    machine.budget().SpendBytes(n * size);
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    TaintedText out;
    for (size_t i = 0; i < n; ++i) out.Append(what.text());
    return machine.MakeText(std::move(out));
  }
  const std::vector<Value>& items = what.list().items;
  if (!items.empty() && n > static_cast<size_t>(std::max<int64_t>(0, machine.budget().left())) / items.size()) {
    machine.budget().Spend(std::numeric_limits<int64_t>::max() / 2);
    return Error(machine.CheckBudget());
  }
  std::vector<Value> out;
  for (size_t i = 0; i < n && !items.empty(); ++i) out.insert(out.end(), items.begin(), items.end());
  return machine.MakeList(std::move(out), what.list().form);
}

bool IsListOrTuple(const Value& value) {
  return value.IsList() && (value.list().form == ListObject::Form::kList ||
                            value.list().form == ListObject::Form::kTuple);
}

}  // namespace

Status UndefinedError(const Value& value) {
  const auto& name = value.undefined().name;
  return InvalidArgumentError(name == nullptr ? "this value is undefined" : Quoted(*name) + " is undefined");
}

Status CheckKey(const Value& key) {
  if (key.IsList() && key.list().form == ListObject::Form::kTuple) {
    for (const Value& item : key.list().items) SURETY_RETURN_IF_ERROR(CheckKey(item));
    return OkStatus();
  }
  if (!key.IsList() && !key.IsDict()) return OkStatus();
  if (key.IsList() && key.list().form == ListObject::Form::kRange) return OkStatus();
  return InvalidArgumentError("a value of type " + std::string(key.TypeName()) + " cannot be the key of a dict");
}

Result<Value> Arithmetic(Machine& machine, Operator op, const Value& a, const Value& b) {
  if (a.IsInteger() && b.IsInteger()) return IntegerArithmetic(op, a.integer(), b.integer());
  if (a.IsNumber() && b.IsNumber()) return FloatArithmetic(op, a.number(), b.number());
  if (op == Operator::kAdd && a.IsText() && b.IsText()) {
    SURETY_RETURN_IF_ERROR(machine.CheckTextSize(a.text().size() + b.text().size()));
    TaintedText out = a.text();
    out.Append(TaintedText(b.text()));
    return machine.MakeText(std::move(out));
  }
  if (op == Operator::kAdd && IsListOrTuple(a) && IsListOrTuple(b) && a.list().form == b.list().form) {
    machine.budget().Spend(static_cast<int64_t>(a.list().items.size() + b.list().items.size()));
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    std::vector<Value> items = a.list().items;
    items.insert(items.end(), b.list().items.begin(), b.list().items.end());
    return machine.MakeList(std::move(items), a.list().form);
  }
  if (op == Operator::kMultiply && b.IsInteger() && (a.IsText() || IsListOrTuple(a))) {
    return Repeat(machine, a, b.integer());
  }
  if (op == Operator::kMultiply && a.IsInteger() && (b.IsText() || IsListOrTuple(b))) {
    return Repeat(machine, b, a.integer());
  }
  if (op == Operator::kModulo && a.IsText()) return FormatPercent(machine, a.text(), b);
  return Error(NoOperation(SymbolOf(op), a, b));
}

Result<Value> Negate(const Value& a, bool negative) {
  if (a.IsUndefined()) return Error(UndefinedError(a));
  if (!a.IsNumber()) {
    return Error(InvalidArgumentError("a sign is not possible before " + std::string(a.TypeName())));
  }
  if (a.Is<double>()) return Value(negative ? -a.number() : a.number());
  if (!negative) return Value(a.integer());
  return IntegerArithmetic(Operator::kSubtract, 0, a.integer());
}

Result<int> Order(Machine& machine, const Value& a, const Value& b) {
  machine.budget().Spend(1);
  if (a.IsInteger() && b.IsInteger()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  if (a.IsNumber() && b.IsNumber()) return a.number() < b.number() ? -1 : a.number() > b.number() ? 1 : 0;
  if (a.IsText() && b.IsText()) {
    machine.budget().SpendBytes(std::min(a.text().size(), b.text().size()));
    const int order = a.text().text().compare(b.text().text());  // bytes of UTF-8 order as code points do
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (IsListOrTuple(a) && IsListOrTuple(b) && a.list().form == b.list().form) {
    const auto& x = a.list().items;
    const auto& y = b.list().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (Equals(x[i], y[i], machine.budget())) continue;
      SURETY_RETURN_IF_ERROR(machine.CheckBudget());
      return Order(machine, x[i], y[i]);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  return Error(NoOperation("<", a, b));
}

Result<bool> Contains(Machine& machine, const Value& container, const Value& item) {
  if (container.IsText()) {
    if (!item.IsText()) return Error(NoOperation("in", item, container));
    machine.budget().SpendBytes(container.text().size());
    return container.text().text().find(item.text().text()) != std::string::npos;
  }
  if (container.IsList()) {
    for (const Value& member : container.list().items) {
      if (Equals(member, item, machine.budget())) return true;
      if (machine.budget().Exhausted()) return Error(machine.CheckBudget());
    }
    if (container.list().failure != nullptr) return Error(*container.list().failure);
    return false;
  }
  if (container.IsDict()) {
    SURETY_RETURN_IF_ERROR(CheckKey(item));
    return container.dict().Find(item, machine.budget()) != nullptr;
  }
  if (container.IsUndefined()) return false;
  return Error(InvalidArgumentError("'in' is not possible on a value of type " + std::string(container.TypeName())));
}

Result<bool> Compare(Machine& machine, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual: return Equals(a, b, machine.budget());
    case Operator::kNotEqual: return !Equals(a, b, machine.budget());
    case Operator::kIn: return Contains(machine, b, a);
    case Operator::kNotIn: {
      SURETY_ASSIGN_OR_RETURN(const bool contains, Contains(machine, b, a));
      return !contains;
    }
    default: break;
  }
  if ((a.Is<double>() && std::isnan(a.number())) || (b.Is<double>() && std::isnan(b.number()))) {
    if (a.IsNumber() && b.IsNumber()) return false;
  }
  auto order = Order(machine, a, b);
  if (!order) return Error(a.IsNumber() || a.IsText() ? NoOperation(SymbolOf(op), a, b) : order.error());
  switch (op) {
    case Operator::kLess: return *order < 0;
    case Operator::kLessEqual: return *order <= 0;
    case Operator::kGreater: return *order > 0;
    default: return *order >= 0;
  }
}

Result<std::vector<Value>> Iterate(Machine& machine, const Value& value) {
  std::vector<Value> items;
  if (value.IsUndefined()) return items;
  if (value.IsList()) {
    machine.budget().Spend(static_cast<int64_t>(value.list().items.size()));
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    if (value.list().failure != nullptr) return Error(*value.list().failure);
    return value.list().items;
  }
  if (value.IsDict()) {
    machine.budget().Spend(static_cast<int64_t>(value.dict().entries.size()));
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    for (const auto& entry : value.dict().entries) items.push_back(entry.first);
    return items;
  }
  if (value.IsText()) {
    const TaintedText& text = value.text();
    machine.budget().Spend(static_cast<int64_t>(text.size()));
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    for (size_t i = 0; i < text.size();) {
      const size_t size = CharacterAt(text.text(), i).size;
      items.emplace_back(text.Substring(i, size));
      i += size;
    }
    return items;
  }
  return Error(InvalidArgumentError("cannot loop over a value of type " + std::string(value.TypeName())));
}

// Depth of a message's members under the list of messages.
constexpr int kMessageMemberDepth = 2;

// The words that chat formats know as roles. Only these: a template may make a control token of one, as Phi does with
// '<|' + message['role'] + '|>'.
bool IsKnownRole(const boost::json::value& value) {
  static constexpr std::string_view kRoles[] = {"system",   "user", "assistant", "tool",  "developer",
                                                "function", "ipython", "environment", "model", "observation"};
  return value.is_string() && std::ranges::find(kRoles, std::string_view(value.get_string())) != std::end(kRoles);
}

Result<Value> FromJson(Machine& machine, const boost::json::value& json, int depth) {
  if (depth > kMaxValueDepth) {
    return Error(ResourceExhaustedError("the values for the template are nested deeper than " +
                                        std::to_string(kMaxValueDepth)));
  }
  switch (json.kind()) {
    case boost::json::kind::null: return Value(None{});
    case boost::json::kind::bool_: return Value(json.get_bool());
    case boost::json::kind::int64: return Value(int64_t{json.get_int64()});
    case boost::json::kind::uint64:
      if (json.get_uint64() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Error(IntegerOverflow());
      }
      return Value(static_cast<int64_t>(json.get_uint64()));
    case boost::json::kind::double_: return Value(json.get_double());
    case boost::json::kind::string: return Value::Text(std::string_view(json.get_string()), false);
    case boost::json::kind::array: {
      auto list = std::make_shared<ListObject>();
      for (const auto& element : json.get_array()) {
        SURETY_ASSIGN_OR_RETURN(Value item, FromJson(machine, element, depth + 1));
        list->depth = std::max(list->depth, 1 + item.Depth());
        list->items.push_back(std::move(item));
      }
      return Value(ListPtr(std::move(list)));
    }
    case boost::json::kind::object: {
      auto dict = std::make_shared<DictObject>();
      for (const auto& member : json.get_object()) {
        SURETY_ASSIGN_OR_RETURN(Value item, FromJson(machine, member.value(), depth + 1));
        if (depth + 1 == kMessageMemberDepth && member.key() == "role" && IsKnownRole(member.value())) {
          item = Value::Text(std::string_view(member.value().get_string()), true);
        }
        dict->Set(Value::Text(std::string_view(member.key()), false), std::move(item), machine.budget());
      }
      return Value(DictPtr(std::move(dict)));
    }
  }
  return Value();
}

}  // namespace surety::model::chat
