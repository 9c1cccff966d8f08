// Attributes, items and slices.
#include <algorithm>
#include <array>

#include "model/chat/operators.h"
#include "model/chat/unicode.h"

namespace surety::model::chat {
namespace {

Result<Value> LoopAttribute(const Value& object, std::string_view name) {
  const LoopObject& loop = object.loop();
  const auto& items = loop.items->items;
  const auto index = static_cast<int64_t>(loop.index);
  const auto n = static_cast<int64_t>(items.size());
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(n - index);
  if (name == "revindex0") return Value(n - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index == n - 1);
  if (name == "length") return Value(n);
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem") return index > 0 ? items[loop.index - 1] : Value::UndefinedNamed("loop.previtem");
  if (name == "nextitem") return index + 1 < n ? items[loop.index + 1] : Value::UndefinedNamed("loop.nextitem");
  if (name == "cycle") {
    auto cycle = std::make_shared<CallableObject>();
    cycle->kind = CallableObject::Kind::kCycle;
    cycle->self = object;
    return Value(CallablePtr(std::move(cycle)));
  }
  if (name == "changed") return Error(InvalidArgumentError("loop.changed is not supported"));
  return Value::UndefinedNamed(name);
}

Result<Value> MacroAttribute(const Value& object, std::string_view name) {
  const CallableObject& callable = object.callable();
  if (callable.kind == CallableObject::Kind::kMacro && name == "name") {
    return Value::Text(callable.macro->name, true);
  }
  return Value::UndefinedNamed(name);
}

// The item at a position that may be negative; null if there is none.
const Value* ItemAt(const std::vector<Value>& items, int64_t index) {
  const auto n = static_cast<int64_t>(items.size());
  if (index < 0) index += n;
  return index >= 0 && index < n ? &items[static_cast<size_t>(index)] : nullptr;
}

Result<Value> CharacterItem(Machine& machine, const TaintedText& text, int64_t index) {
  machine.budget().SpendBytes(text.size());
  if (IsAscii(text.text())) {
    const auto n = static_cast<int64_t>(text.size());
    if (index < 0) index += n;
    if (index < 0 || index >= n) return Value::UndefinedNamed("character " + std::to_string(index));
    return Value(text.Substring(static_cast<size_t>(index), 1));
  }
  const std::vector<size_t> offsets = CharacterOffsets(text.text());
  const auto n = static_cast<int64_t>(offsets.size()) - 1;
  if (index < 0) index += n;
  if (index < 0 || index >= n) return Value::UndefinedNamed("character " + std::to_string(index));
  const size_t begin = offsets[static_cast<size_t>(index)];
  return Value(text.Substring(begin, offsets[static_cast<size_t>(index) + 1] - begin));
}

// Python's slice over n elements: the first index, the step and how many.
struct Range {
  int64_t start, step, count;
};

Result<Range> ResolveSlice(int64_t n, const Value* start, const Value* stop, const Value* step) {
  const auto read = [](const Value* bound, int64_t fallback) -> Result<int64_t> {
    if (bound == nullptr || bound->IsNone()) return fallback;
    if (bound->IsUndefined()) return Error(UndefinedError(*bound));
    if (bound->IsInteger()) return bound->integer();
    return Error(InvalidArgumentError("a slice takes integers, not " + std::string(bound->TypeName())));
  };
  SURETY_ASSIGN_OR_RETURN(int64_t stride, read(step, 1));
  if (stride == 0) return Error(InvalidArgumentError("a slice's step must not be 0"));
  stride = std::clamp<int64_t>(stride, -n - 1, n + 1);
  if (stride == 0) return Range{0, 1, 0};  // n is 0 only with n + 1 = 1, so this is for completeness
  const int64_t low = stride > 0 ? 0 : -1;
  const int64_t high = stride > 0 ? n : n - 1;
  const auto place = [&](int64_t i) {
    if (i < 0) i = i < -n ? -1 - n : i + n;
    return std::clamp(i, low, high);
  };
  SURETY_ASSIGN_OR_RETURN(const int64_t given_start, read(start, 0));
  SURETY_ASSIGN_OR_RETURN(const int64_t given_stop, read(stop, 0));
  const bool has_start = start != nullptr && !start->IsNone();
  const bool has_stop = stop != nullptr && !stop->IsNone();
  const int64_t from = has_start ? place(given_start) : stride > 0 ? low : high;
  const int64_t to = has_stop ? place(given_stop) : stride > 0 ? high : low;
  const int64_t span = stride > 0 ? to - from : from - to;
  const int64_t stride_size = stride > 0 ? stride : -stride;
  return Range{from, stride, span <= 0 ? 0 : (span + stride_size - 1) / stride_size};
}

Result<Value> TextSlice(Machine& machine, const TaintedText& text, const Value* start, const Value* stop,
                        const Value* step) {
  machine.budget().SpendBytes(text.size());
  const bool ascii = IsAscii(text.text());
  std::vector<size_t> offsets;
  if (!ascii) offsets = CharacterOffsets(text.text());
  const auto n = static_cast<int64_t>(ascii ? text.size() : offsets.size() - 1);
  const auto offset = [&](int64_t i) { return ascii ? static_cast<size_t>(i) : offsets[static_cast<size_t>(i)]; };
  SURETY_ASSIGN_OR_RETURN(const Range range, ResolveSlice(n, start, stop, step));
  if (range.count == 0) return Value(TaintedText());
  if (range.step == 1) {
    const size_t begin = offset(range.start);
    return machine.MakeText(text.Substring(begin, offset(range.start + range.count) - begin));
  }
  machine.budget().Spend(range.count / 8);
  TaintedText out;
  for (int64_t i = 0; i < range.count; ++i) {
    const int64_t at = range.start + i * range.step;
    out.AppendRange(text, offset(at), offset(at + 1) - offset(at));
  }
  return machine.MakeText(std::move(out));
}

}  // namespace

Result<Value> GetAttribute(Machine& machine, const Value& object, std::string_view name) {
  if (object.IsUndefined()) return Error(UndefinedError(object));
  if (object.Is<NamespaceObject*>()) {
    const NamespaceObject& space = *object.name_space();
    machine.budget().Spend(static_cast<int64_t>(space.entries.size()) / 8);
    const Value* value = space.Find(name);
    return value != nullptr ? *value : Value::UndefinedNamed(name);
  }
  if (object.Is<LoopPtr>()) return LoopAttribute(object, name);
  if (object.Is<CallablePtr>()) return MacroAttribute(object, name);
  // As in Python, a method hides a dict's key of the same name: message.items is the method, message['items'] the key.
  if (const FunctionSpec* method = FindMethod(object, name)) {
    auto bound = std::make_shared<CallableObject>();
    bound->kind = CallableObject::Kind::kMethod;
    bound->method = method;
    bound->self = object;
    return Value(CallablePtr(std::move(bound)));
  }
  if (IsUnsupportedMethod(object, name)) {
    return Error(InvalidArgumentError(Quoted(name) + " of a " + std::string(object.TypeName()) +
                                      " is not available: methods that change a value, and a few others, are not"));
  }
  if (object.IsDict()) {
    const Value* value = object.dict().Find(name);
    if (value != nullptr) return *value;
  }
  return Value::UndefinedNamed(name);
}

Result<Value> GetItem(Machine& machine, const Value& object, const Value& key) {
  if (object.IsUndefined()) return Error(UndefinedError(object));
  if (object.IsDict()) {
    if (CheckKey(key).ok()) {
      const Value* value = object.dict().Find(key, machine.budget());
      if (value != nullptr) return *value;
    }
  } else if (key.IsInteger() && object.IsText()) {
    return CharacterItem(machine, object.text(), key.integer());
  } else if (key.IsInteger() && object.IsList() && object.list().form != ListObject::Form::kView &&
             object.list().form != ListObject::Form::kIterator) {
    const Value* item = ItemAt(object.list().items, key.integer());
    return item != nullptr ? *item : Value::UndefinedNamed("item " + std::to_string(key.integer()));
  }
  if (!key.IsText()) return Value::UndefinedNamed("item");
  const std::string& name = key.text().text();
  if (name.starts_with("__")) {
    return Error(InvalidArgumentError("attribute '" + name + "' is not allowed: templates see values, not objects"));
  }
  return GetAttribute(machine, object, name);
}

Result<Value> GetSlice(Machine& machine, const Value& object, const Value* start, const Value* stop,
                       const Value* step) {
  if (object.IsUndefined()) return Error(UndefinedError(object));
  if (object.IsText()) return TextSlice(machine, object.text(), start, stop, step);
  if (!object.IsList() || object.list().form == ListObject::Form::kView ||
      object.list().form == ListObject::Form::kIterator) {
    return Value::UndefinedNamed("slice of a " + std::string(object.TypeName()));
  }
  const auto& items = object.list().items;
  SURETY_ASSIGN_OR_RETURN(const Range range, ResolveSlice(static_cast<int64_t>(items.size()), start, stop, step));
  machine.budget().Spend(range.count);
  SURETY_RETURN_IF_ERROR(machine.CheckBudget());
  std::vector<Value> out;
  out.reserve(static_cast<size_t>(range.count));
  for (int64_t i = 0; i < range.count; ++i) out.push_back(items[static_cast<size_t>(range.start + i * range.step)]);
  const bool tuple = object.list().form == ListObject::Form::kTuple;
  return machine.MakeList(std::move(out), tuple ? ListObject::Form::kTuple : ListObject::Form::kList);
}

}  // namespace surety::model::chat
