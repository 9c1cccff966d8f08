#include "model/chat/value.h"

#include <algorithm>
#include <cmath>

namespace surety::model::chat {

const void* Value::identity() const {
  if (const auto* t = std::get_if<TextPtr>(&data_)) return t->get();
  if (const auto* l = std::get_if<ListPtr>(&data_)) return l->get();
  if (const auto* d = std::get_if<DictPtr>(&data_)) return d->get();
  if (const auto* c = std::get_if<CallablePtr>(&data_)) return c->get();
  if (const auto* p = std::get_if<LoopPtr>(&data_)) return p->get();
  if (const auto* n = std::get_if<NamespaceObject*>(&data_)) return *n;
  return nullptr;
}

bool Value::Truth() const {
  if (IsUndefined() || IsNone()) return false;
  if (IsInteger()) return integer() != 0;
  if (Is<double>()) return number() != 0;
  if (IsText()) return !text().empty();
  if (IsList()) return list().form == ListObject::Form::kIterator || !list().items.empty();
  if (IsDict()) return !dict().entries.empty();
  if (Is<LoopPtr>()) return !loop().items->items.empty();
  return true;
}

int Value::Depth() const {
  if (IsList()) return list().depth;
  if (IsDict()) return dict().depth;
  if (Is<CallablePtr>()) return 1 + callable().self.Depth();
  if (Is<LoopPtr>()) return 1 + loop().items->depth;
  return 0;
}

std::string_view Value::TypeName() const {
  if (IsUndefined()) return "undefined";
  if (IsNone()) return "none";
  if (Is<bool>()) return "bool";
  if (Is<int64_t>()) return "int";
  if (Is<double>()) return "float";
  if (IsText()) return "string";
  if (IsDict()) return "dict";
  if (Is<NamespaceObject*>()) return "namespace";
  if (Is<LoopPtr>()) return "loop";
  if (Is<CallablePtr>()) return "function";
  switch (list().form) {
    case ListObject::Form::kList: return "list";
    case ListObject::Form::kTuple: return "tuple";
    case ListObject::Form::kRange: return "range";
    case ListObject::Form::kView: return list().label;
    case ListObject::Form::kIterator: return "iterator (use the list filter)";
  }
  return "list";
}

namespace {

bool NumbersEqual(const Value& a, const Value& b) {
  if (a.IsInteger() && b.IsInteger()) return a.integer() == b.integer();
  if (a.Is<double>() && b.Is<double>()) return a.number() == b.number();
  // Exact, as Python compares: an int above 2^53 may not equal the float next to it.
  const double d = a.Is<double>() ? a.number() : b.number();
  const int64_t i = a.Is<double>() ? b.integer() : a.integer();
  return d >= -0x1p63 && d < 0x1p63 && std::trunc(d) == d && static_cast<int64_t>(d) == i;
}

bool DictsEqual(const DictObject& a, const DictObject& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = b.Find(entry.first, budget);
    return other != nullptr && Equals(entry.second, *other, budget);
  });
}

}  // namespace

bool Equals(const Value& a, const Value& b, Budget& budget) {
  budget.Spend(1);
  if (budget.Exhausted()) return false;
  if (a.IsNumber() && b.IsNumber()) return NumbersEqual(a, b);
  if (a.IsText() && b.IsText()) {
    budget.SpendBytes(std::min(a.text().size(), b.text().size()));
    return a.text().text() == b.text().text();
  }
  if (a.IsUndefined() || b.IsUndefined()) return a.IsUndefined() && b.IsUndefined();
  if (a.IsNone() || b.IsNone()) return a.IsNone() && b.IsNone();
  if (a.IsList() && b.IsList()) {
    using Form = ListObject::Form;
    if (a.list().form != b.list().form || a.list().form == Form::kIterator) return a.identity() == b.identity();
    return std::equal(a.list().items.begin(), a.list().items.end(), b.list().items.begin(), b.list().items.end(),
                      [&](const Value& x, const Value& y) { return Equals(x, y, budget); });
  }
  if (a.IsDict() && b.IsDict()) return a.identity() == b.identity() || DictsEqual(a.dict(), b.dict(), budget);
  return a.identity() != nullptr && a.identity() == b.identity();
}

size_t DictObject::IndexOf(const Value& key, Budget& budget) const {
  if (key.IsText()) {
    const auto found = index_.find(key.text().text());
    return found == index_.end() ? entries.size() : found->second;
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].first.IsText() && Equals(entries[i].first, key, budget)) return i;
  }
  return entries.size();
}

const Value* DictObject::Find(const Value& key, Budget& budget) const {
  const size_t i = IndexOf(key, budget);
  return i < entries.size() ? &entries[i].second : nullptr;
}

const Value* DictObject::Find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries[found->second].second;
}

void DictObject::Set(Value key, Value value, Budget& budget) {
  depth = std::max({depth, 1 + key.Depth(), 1 + value.Depth()});
  const size_t i = IndexOf(key, budget);
  if (i < entries.size()) {
    entries[i].second = std::move(value);
    return;
  }
  if (key.IsText()) index_.emplace(key.text().text(), i);
  entries.emplace_back(std::move(key), std::move(value));
}

const Value* NamespaceObject::Find(std::string_view name) const {
  for (const auto& [key, value] : entries) {
    if (key == name) return &value;
  }
  return nullptr;
}

void NamespaceObject::Set(std::string_view name, Value value) {
  for (auto& [key, old] : entries) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  entries.emplace_back(std::string(name), std::move(value));
}

}  // namespace surety::model::chat
