// Filters on lists, dicts and what else can be looped over.
#include <algorithm>

#include "model/chat/function_spec.h"
#include "model/chat/operators.h"
#include "model/chat/printing.h"
#include "model/chat/selection.h"
#include "model/chat/text_ops.h"

namespace surety::model::chat {
namespace {

using Form = ListObject::Form;

Result<Value> Length(Machine& machine, const Value& self, const BoundArgs&) {
  if (self.IsUndefined()) return Value(int64_t{0});
  if (self.IsText()) {
    machine.budget().SpendBytes(self.text().size());
    return Value(CharacterCount(self.text().text()));
  }
  if (self.IsList() && self.list().form != Form::kIterator) {
    return Value(static_cast<int64_t>(self.list().items.size()));
  }
  if (self.IsDict()) return Value(static_cast<int64_t>(self.dict().entries.size()));
  if (self.Is<LoopPtr>()) return Value(static_cast<int64_t>(self.loop().items->items.size()));
  return Error(InvalidArgumentError("a value of type " + std::string(self.TypeName()) + " has no length"));
}

Result<Value> First(Machine& machine, const Value& self, const BoundArgs&) {
  if (self.IsList() && !self.list().items.empty()) return self.list().items.front();
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(machine, self));
  return items.empty() ? Value::UndefinedNamed("the first of an empty sequence") : items.front();
}

Result<Value> Last(Machine& machine, const Value& self, const BoundArgs&) {
  if (self.IsList() && self.list().form == Form::kIterator) {
    return Error(InvalidArgumentError("last needs a sequence; put '| list' before it"));
  }
  if (self.IsList() && !self.list().items.empty()) return self.list().items.back();
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(machine, self));
  return items.empty() ? Value::UndefinedNamed("the last of an empty sequence") : items.back();
}

Result<Value> JoinFilter(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(machine, self));
  TaintedText separator;
  if (args.Has(0)) {
    SURETY_ASSIGN_OR_RETURN(separator, ToText(machine, args[0]));
  }
  SURETY_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(args.at[1]));
  if (!path.empty()) {
    for (Value& item : items) {
      SURETY_ASSIGN_OR_RETURN(item, path.Get(machine, item));
    }
  }
  SURETY_ASSIGN_OR_RETURN(TaintedText text, Join(machine, separator, items));
  return machine.MakeText(std::move(text));
}

Result<Value> List(Machine& machine, const Value& self, const BoundArgs&) {
  SURETY_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(machine, self));
  return machine.MakeList(std::move(items));
}

Result<std::vector<Value>> Pairs(Machine& machine, const DictObject& dict) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict.entries) {
    SURETY_ASSIGN_OR_RETURN(Value pair, machine.MakeList({key, value}, Form::kTuple));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Result<Value> Items(Machine& machine, const Value& self, const BoundArgs&) {
  if (self.IsUndefined()) return machine.MakeList({}, Form::kIterator);
  if (!self.IsDict()) {
    return Error(InvalidArgumentError("items works on dicts, not on " + std::string(self.TypeName())));
  }
  SURETY_ASSIGN_OR_RETURN(std::vector<Value> pairs, Pairs(machine, self.dict()));
  return machine.MakeList(std::move(pairs), Form::kIterator);
}

// Sorts (stably, as Python) by the keys, which stand in the same order as the items.
Result<std::vector<Value>> SortedBy(Machine& machine, const std::vector<Value>& items, const std::vector<Value>& keys,
                                    bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  Status status;
  const auto before = [&](size_t a, size_t b) {
    if (!status.ok()) return false;
    auto result = Order(machine, keys[a], keys[b]);
    if (!result) status = result.error();
    if (machine.budget().Exhausted()) status = machine.CheckBudget();
    return result && *result < 0;
  };
  if (reverse) {  // equal items keep their order, so not simply the reverse of the sorted list
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return before(b, a); });
  } else {
    std::stable_sort(order.begin(), order.end(), before);
  }
  SURETY_RETURN_IF_ERROR(status);
  std::vector<Value> out;
  for (size_t i : order) out.push_back(items[i]);
  return out;
}

Result<std::vector<Value>> KeysOf(Machine& machine, const std::vector<Value>& items, const AttributePath& path,
                                  bool case_sensitive) {
  std::vector<Value> keys;
  for (const Value& item : items) {
    SURETY_ASSIGN_OR_RETURN(Value key, SortKey(machine, path, item, case_sensitive));
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<Value> Sort(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(machine, self));
  SURETY_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(args.at[2]));
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> keys, KeysOf(machine, items, path, args.Truth(1, false)));
  SURETY_ASSIGN_OR_RETURN(std::vector<Value> sorted, SortedBy(machine, items, keys, args.Truth(0, false)));
  return machine.MakeList(std::move(sorted));
}

Result<Value> DictSort(Machine& machine, const Value& self, const BoundArgs& args) {
  if (!self.IsDict()) return Error(InvalidArgumentError("dictsort works on dicts"));
  SURETY_ASSIGN_OR_RETURN(const TaintedText by, args.Text(1, "key"));
  if (by.text() != "key" && by.text() != "value") {
    return Error(InvalidArgumentError("dictsort: by is 'key' or 'value'"));
  }
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> pairs, Pairs(machine, self.dict()));
  const Value place(int64_t{by.text() == "key" ? 0 : 1});
  SURETY_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(&place));
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> keys, KeysOf(machine, pairs, path, args.Truth(0, false)));
  SURETY_ASSIGN_OR_RETURN(std::vector<Value> sorted, SortedBy(machine, pairs, keys, args.Truth(2, false)));
  return machine.MakeList(std::move(sorted));
}

Result<Value> Unique(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(machine, self));
  SURETY_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(args.at[1]));
  DictObject seen;
  std::vector<Value> out;
  for (const Value& item : items) {
    SURETY_ASSIGN_OR_RETURN(Value key, SortKey(machine, path, item, args.Truth(0, false)));
    SURETY_RETURN_IF_ERROR(CheckKey(key));
    const bool is_new = seen.Find(key, machine.budget()) == nullptr;
    SURETY_RETURN_IF_ERROR(machine.CheckBudget());
    if (!is_new) continue;
    seen.Set(std::move(key), Value(true), machine.budget());
    out.push_back(item);
  }
  return machine.MakeList(std::move(out), Form::kIterator);
}

Result<Value> Reverse(Machine& machine, const Value& self, const BoundArgs&) {
  SURETY_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(machine, self));
  std::reverse(items.begin(), items.end());
  if (self.IsText()) {
    SURETY_ASSIGN_OR_RETURN(TaintedText text, Join(machine, TaintedText(), items));
    return machine.MakeText(std::move(text));
  }
  return machine.MakeList(std::move(items), Form::kIterator);
}

Result<Value> Batch(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(machine, self));
  SURETY_ASSIGN_OR_RETURN(const int64_t n, args.Integer(0, 1));
  if (n < 1 || n > 100'000) return Error(InvalidArgumentError("batch: from 1 to 100000 items a line"));
  std::vector<Value> out;
  for (size_t begin = 0; begin < items.size(); begin += static_cast<size_t>(n)) {
    const size_t end = std::min(items.size(), begin + static_cast<size_t>(n));
    std::vector<Value> line(items.begin() + static_cast<std::ptrdiff_t>(begin),
                            items.begin() + static_cast<std::ptrdiff_t>(end));
    if (args.Has(1) && !args[1].IsNone()) line.resize(static_cast<size_t>(n), args[1]);
    SURETY_ASSIGN_OR_RETURN(Value list, machine.MakeList(std::move(line)));
    out.push_back(std::move(list));
  }
  return machine.MakeList(std::move(out), Form::kIterator);
}

Result<Value> SliceFilter(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(machine, self));
  SURETY_ASSIGN_OR_RETURN(const int64_t n, args.Integer(0, 1));
  if (n < 1 || n > 100'000) return Error(InvalidArgumentError("slice: from 1 to 100000 slices"));
  const int64_t each = static_cast<int64_t>(items.size()) / n;
  const int64_t longer = static_cast<int64_t>(items.size()) % n;
  std::vector<Value> out;
  auto next = items.begin();
  for (int64_t i = 0; i < n; ++i) {
    const auto end = next + each + (i < longer ? 1 : 0);
    std::vector<Value> part(next, end);
    if (args.Has(1) && !args[1].IsNone() && i >= longer) part.push_back(args[1]);
    next = end;
    SURETY_ASSIGN_OR_RETURN(Value list, machine.MakeList(std::move(part)));
    out.push_back(std::move(list));
  }
  return machine.MakeList(std::move(out), Form::kIterator);
}

Result<Value> Extreme(Machine& machine, const Value& self, const BoundArgs& args, bool largest) {
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(machine, self));
  if (items.empty()) return Value::UndefinedNamed("the extreme of an empty sequence");
  SURETY_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(args.at[1]));
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> keys, KeysOf(machine, items, path, args.Truth(0, false)));
  size_t best = 0;
  for (size_t i = 1; i < keys.size(); ++i) {
    SURETY_ASSIGN_OR_RETURN(const int order, Order(machine, keys[i], keys[best]));
    if (largest ? order > 0 : order < 0) best = i;
  }
  return items[best];
}
Result<Value> Min(Machine& machine, const Value& self, const BoundArgs& args) {
  return Extreme(machine, self, args, false);
}
Result<Value> Max(Machine& machine, const Value& self, const BoundArgs& args) {
  return Extreme(machine, self, args, true);
}

Result<Value> Sum(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(machine, self));
  SURETY_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(args.at[0]));
  Value total = args.Has(1) ? args[1] : Value(int64_t{0});
  if (total.IsText()) return Error(InvalidArgumentError("sum does not join strings; use join"));
  for (const Value& item : items) {
    SURETY_ASSIGN_OR_RETURN(const Value value, path.Get(machine, item));
    SURETY_ASSIGN_OR_RETURN(total, Arithmetic(machine, Operator::kAdd, total, value));
  }
  return total;
}

constexpr FunctionSpec kSequenceFilters[] = {
    {"length", Length},
    {"count", Length},
    {"first", First},
    {"last", Last},
    {"join", JoinFilter, 0, {"d", "attribute"}},
    {"list", List},
    {"items", Items},
    {"sort", Sort, 0, {"reverse", "case_sensitive", "attribute"}},
    {"dictsort", DictSort, 0, {"case_sensitive", "by", "reverse"}},
    {"unique", Unique, 0, {"case_sensitive", "attribute"}},
    {"reverse", Reverse},
    {"batch", Batch, 1, {"linecount", "fill_with"}},
    {"slice", SliceFilter, 1, {"slices", "fill_with"}},
    {"min", Min, 0, {"case_sensitive", "attribute"}},
    {"max", Max, 0, {"case_sensitive", "attribute"}},
    {"sum", Sum, 0, {"attribute", "start"}},
};

}  // namespace

std::span<const FunctionSpec> SequenceFilters() { return kSequenceFilters; }

}  // namespace surety::model::chat
