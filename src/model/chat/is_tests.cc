// The tests of "x is name".
#include <algorithm>

#include "model/chat/function_spec.h"
#include "model/chat/operators.h"
#include "model/chat/printing.h"
#include "model/chat/text_ops.h"

namespace surety::model::chat {
namespace {

using Form = ListObject::Form;

template <bool (*kHolds)(const Value&)>
Result<Value> OfValue(Machine&, const Value& self, const BoundArgs&) {
  return Value(kHolds(self));
}

bool IsDefined(const Value& v) { return !v.IsUndefined(); }
bool IsUndefinedValue(const Value& v) { return v.IsUndefined(); }
bool IsNoneValue(const Value& v) { return v.IsNone(); }
bool IsString(const Value& v) { return v.IsText(); }
bool IsNumberValue(const Value& v) { return v.IsNumber(); }
bool IsInteger(const Value& v) { return v.Is<int64_t>(); }
bool IsFloat(const Value& v) { return v.Is<double>(); }
bool IsBoolean(const Value& v) { return v.Is<bool>(); }
bool IsMapping(const Value& v) { return v.IsDict(); }
bool IsTrue(const Value& v) { return v.Is<bool>() && v.Truth(); }
bool IsFalse(const Value& v) { return v.Is<bool>() && !v.Truth(); }
bool IsCallable(const Value& v) { return v.Is<CallablePtr>() || v.IsUndefined(); }
bool IsIterable(const Value& v) {
  return v.IsUndefined() || v.IsText() || v.IsList() || v.IsDict() || v.Is<LoopPtr>();
}
bool IsSequence(const Value& v) {
  if (v.IsList()) return v.list().form != Form::kView && v.list().form != Form::kIterator;
  return v.IsUndefined() || v.IsText() || v.IsDict();
}

template <Operator kOp>
Result<Value> ByOperator(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const bool holds, Compare(machine, kOp, self, args[0]));
  return Value(holds);
}

Result<Value> SameAs(Machine& machine, const Value& self, const BoundArgs& args) {
  const Value& other = args[0];
  if (self.identity() != nullptr || other.identity() != nullptr) return Value(self.identity() == other.identity());
  return Value(self.TypeName() == other.TypeName() && Equals(self, other, machine.budget()));
}

Result<Value> DivisibleBy(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const Value rest, Arithmetic(machine, Operator::kModulo, self, args[0]));
  return Value(rest.IsNumber() && !rest.Truth());
}

Result<Value> Parity(Machine& machine, const Value& self, int64_t wanted) {
  SURETY_ASSIGN_OR_RETURN(const Value rest, Arithmetic(machine, Operator::kModulo, self, Value(int64_t{2})));
  return Value(rest.IsNumber() && rest.number() == static_cast<double>(wanted));
}
Result<Value> Even(Machine& machine, const Value& self, const BoundArgs&) { return Parity(machine, self, 0); }
Result<Value> Odd(Machine& machine, const Value& self, const BoundArgs&) { return Parity(machine, self, 1); }

// At least one letter that has a case, and none of the other case.
Result<Value> AllInCase(Machine& machine, const Value& self, bool (*wanted)(uint32_t), bool (*unwanted)(uint32_t)) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText text, ToText(machine, self));
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const Character c = CharacterAt(text.text(), i);
    if (unwanted(c.code)) return Value(false);
    any = any || wanted(c.code);
    i += c.size;
  }
  return Value(any);
}
Result<Value> InLowerCase(Machine& machine, const Value& self, const BoundArgs&) {
  return AllInCase(machine, self, IsLowerCase, IsUpperCase);
}
Result<Value> InUpperCase(Machine& machine, const Value& self, const BoundArgs&) {
  return AllInCase(machine, self, IsUpperCase, IsLowerCase);
}

Result<Value> FilterExists(Machine&, const Value& self, const BoundArgs&) {
  return Value(self.IsText() && FindFilter(self.text().text()) != nullptr);
}
Result<Value> TestExists(Machine&, const Value& self, const BoundArgs&) {
  return Value(self.IsText() && FindTest(self.text().text()) != nullptr);
}

constexpr FunctionSpec kTests[] = {
    {"defined", OfValue<IsDefined>},
    {"undefined", OfValue<IsUndefinedValue>},
    {"none", OfValue<IsNoneValue>},
    {"string", OfValue<IsString>},
    {"number", OfValue<IsNumberValue>},
    {"integer", OfValue<IsInteger>},
    {"float", OfValue<IsFloat>},
    {"boolean", OfValue<IsBoolean>},
    {"mapping", OfValue<IsMapping>},
    {"true", OfValue<IsTrue>},
    {"false", OfValue<IsFalse>},
    {"callable", OfValue<IsCallable>},
    {"iterable", OfValue<IsIterable>},
    {"sequence", OfValue<IsSequence>},
    {"sameas", SameAs, 1, {"other"}},
    {"divisibleby", DivisibleBy, 1, {"num"}},
    {"even", Even},
    {"odd", Odd},
    {"lower", InLowerCase},
    {"upper", InUpperCase},
    {"filter", FilterExists},
    {"test", TestExists},
    {"in", ByOperator<Operator::kIn>, 1, {"seq"}},
    {"==", ByOperator<Operator::kEqual>, 1, {"b"}},
    {"eq", ByOperator<Operator::kEqual>, 1, {"b"}},
    {"equalto", ByOperator<Operator::kEqual>, 1, {"b"}},
    {"!=", ByOperator<Operator::kNotEqual>, 1, {"b"}},
    {"ne", ByOperator<Operator::kNotEqual>, 1, {"b"}},
    {">", ByOperator<Operator::kGreater>, 1, {"b"}},
    {"gt", ByOperator<Operator::kGreater>, 1, {"b"}},
    {"greaterthan", ByOperator<Operator::kGreater>, 1, {"b"}},
    {">=", ByOperator<Operator::kGreaterEqual>, 1, {"b"}},
    {"ge", ByOperator<Operator::kGreaterEqual>, 1, {"b"}},
    {"<", ByOperator<Operator::kLess>, 1, {"b"}},
    {"lt", ByOperator<Operator::kLess>, 1, {"b"}},
    {"lessthan", ByOperator<Operator::kLess>, 1, {"b"}},
    {"<=", ByOperator<Operator::kLessEqual>, 1, {"b"}},
    {"le", ByOperator<Operator::kLessEqual>, 1, {"b"}},
};

}  // namespace

std::span<const FunctionSpec> Tests() { return kTests; }

}  // namespace surety::model::chat
