// Filters that apply a filter, a test or an attribute to each item: map, select, reject, selectattr, rejectattr.
#include <algorithm>

#include "model/chat/function_spec.h"
#include "model/chat/operators.h"
#include "model/chat/selection.h"
#include "model/chat/text_ops.h"

namespace surety::model::chat {

Result<AttributePath> AttributePath::Make(const Value* attribute) {
  AttributePath path;
  if (attribute == nullptr || attribute->IsNone()) return path;
  if (attribute->IsInteger()) {
    path.parts_.push_back(*attribute);
    return path;
  }
  if (!attribute->IsText()) return Error(InvalidArgumentError("an attribute is a string or an integer"));
  const TaintedText& text = attribute->text();
  if (text.text().find(',') != std::string::npos) {
    return Error(InvalidArgumentError("several attributes in one string are not supported"));
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.text().find('.', begin), text.size());
    const std::string part = text.text().substr(begin, end - begin);
    const bool digits = !part.empty() && part.size() < 10 &&
                        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    path.parts_.push_back(digits ? Value(int64_t{std::stoi(part)}) : Value::Text(part, true));
    begin = end + 1;
  }
  return path;
}

Result<Value> AttributePath::Get(Machine& machine, const Value& item, const Value* fallback) const {
  Value value = item;
  for (const Value& part : parts_) {
    SURETY_ASSIGN_OR_RETURN(value, GetItem(machine, value, part));
    if (value.IsUndefined() && fallback != nullptr && !fallback->IsNone()) value = *fallback;
  }
  return value;
}

Result<Value> SortKey(Machine& machine, const AttributePath& path, const Value& item, bool case_sensitive) {
  SURETY_ASSIGN_OR_RETURN(Value key, path.Get(machine, item));
  if (case_sensitive || !key.IsText()) return key;
  machine.budget().SpendBytes(key.text().size());
  return Value(InCase(key.text(), Case::kLower));
}

namespace {

const Value* Named(const CallArgs& args, std::string_view name) {
  for (const auto& [key, value] : args.named) {
    if (key == name) return &value;
  }
  return nullptr;
}

// The call's arguments without the first `n` positional ones.
CallArgs Without(const CallArgs& args, size_t n) {
  CallArgs rest = args;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(n));
  return rest;
}

Result<Value> MapByAttribute(Machine& machine, const std::vector<Value>& items, const CallArgs& args) {
  for (const auto& [name, value] : args.named) {
    if (name != "attribute" && name != "default") {
      return Error(InvalidArgumentError("map has no argument '" + name + "'"));
    }
  }
  SURETY_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(Named(args, "attribute")));
  std::vector<Value> out;
  for (const Value& item : items) {
    auto value = path.Get(machine, item, Named(args, "default"));
    if (!value) return machine.MakeIterator(std::move(out), value.error());
    out.push_back(*std::move(value));
  }
  return machine.MakeIterator(std::move(out), OkStatus());
}

Result<Value> Map(Machine& machine, const Value& self, const BoundArgs& args) {
  const CallArgs& all = *args.all;
  if (!self.Truth()) return machine.MakeList({}, ListObject::Form::kIterator);  // whatever it is, even none
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(machine, self));
  if (all.positional.empty() && Named(all, "attribute") != nullptr) return MapByAttribute(machine, items, all);
  if (all.positional.empty() || !all.positional[0].IsText()) {
    return Error(InvalidArgumentError("map needs the name of a filter, or attribute="));
  }
  const std::string& name = all.positional[0].text().text();
  const FunctionSpec* filter = FindFilter(name);
  if (filter == nullptr) return Error(UnknownFilter(name));
  const CallArgs rest = Without(all, 1);
  SURETY_ASSIGN_OR_RETURN(const BoundArgs bound, Bind(*filter, rest));
  std::vector<Value> out;
  for (const Value& item : items) {
    machine.budget().Spend(1);
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    auto value = filter->call(machine, item, bound);
    if (!value) return machine.MakeIterator(std::move(out), value.error());
    out.push_back(*std::move(value));
  }
  return machine.MakeIterator(std::move(out), OkStatus());
}

// Keeps the items for which the test of the attribute (or of the item) equals `wanted`; without a test, their truth.
Result<Value> Selected(Machine& machine, const Value& self, const CallArgs& args, bool by_attribute, bool wanted) {
  if (!self.Truth()) return machine.MakeList({}, ListObject::Form::kIterator);
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(machine, self));
  AttributePath path;
  if (by_attribute) {
    if (args.positional.empty()) return Error(InvalidArgumentError("the name of the attribute is missing"));
    SURETY_ASSIGN_OR_RETURN(path, AttributePath::Make(&args.positional[0]));
  }
  const size_t place = by_attribute ? 1 : 0;
  const FunctionSpec* test = nullptr;
  CallArgs rest;
  BoundArgs bound;
  if (args.positional.size() > place) {
    const Value& name = args.positional[place];
    test = name.IsText() ? FindTest(name.text().text()) : nullptr;
    if (test == nullptr) return Error(UnknownTest(name.IsText() ? name.text().text() : name.TypeName()));
    rest = Without(args, place + 1);
    SURETY_ASSIGN_OR_RETURN(bound, Bind(*test, rest));
  }
  std::vector<Value> out;
  for (const Value& item : items) {
    machine.budget().Spend(1);
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    auto value = path.Get(machine, item);
    if (value && test != nullptr) value = test->call(machine, *value, bound);
    if (!value) return machine.MakeIterator(std::move(out), value.error());
    if (value->Truth() == wanted) out.push_back(item);
  }
  return machine.MakeIterator(std::move(out), OkStatus());
}

Result<Value> Select(Machine& machine, const Value& self, const BoundArgs& args) {
  return Selected(machine, self, *args.all, false, true);
}
Result<Value> Reject(Machine& machine, const Value& self, const BoundArgs& args) {
  return Selected(machine, self, *args.all, false, false);
}
Result<Value> SelectAttribute(Machine& machine, const Value& self, const BoundArgs& args) {
  return Selected(machine, self, *args.all, true, true);
}
Result<Value> RejectAttribute(Machine& machine, const Value& self, const BoundArgs& args) {
  return Selected(machine, self, *args.all, true, false);
}

constexpr FunctionSpec kSelectionFilters[] = {
    {"map", Map, 0, {}, true},
    {"select", Select, 0, {}, true},
    {"reject", Reject, 0, {}, true},
    {"selectattr", SelectAttribute, 0, {}, true},
    {"rejectattr", RejectAttribute, 0, {}, true},
};

}  // namespace

std::span<const FunctionSpec> SelectionFilters() { return kSelectionFilters; }

}  // namespace surety::model::chat
