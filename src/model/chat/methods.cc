// Methods of strings, lists and dicts.
#include <algorithm>

#include "model/chat/format.h"
#include "model/chat/function_spec.h"
#include "model/chat/operators.h"
#include "model/chat/text_ops.h"

namespace surety::model::chat {
namespace {

using Form = ListObject::Form;

template <Side kSide>
Result<Value> StripMethod(Machine& machine, const Value& self, const BoundArgs& args) {
  if (!args.Has(0) || args[0].IsNone()) return machine.MakeText(Strip(self.text(), nullptr, kSide));
  SURETY_ASSIGN_OR_RETURN(const TaintedText characters, args.Text(0, ""));
  machine.budget().SpendBytes(self.text().size() * characters.size());
  return machine.MakeText(Strip(self.text(), &characters, kSide));
}

template <bool kFromRight>
Result<Value> SplitMethod(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const int64_t max_splits, args.Integer(1, -1));
  TaintedText separator;
  const bool at_space = !args.Has(0) || args[0].IsNone();
  if (!at_space) {
    SURETY_ASSIGN_OR_RETURN(separator, args.Text(0, ""));
  }
  SURETY_ASSIGN_OR_RETURN(std::vector<Value> parts,
                          Split(machine, self.text(), at_space ? nullptr : &separator, max_splits, kFromRight));
  return machine.MakeList(std::move(parts));
}

Result<Value> SplitLinesMethod(Machine& machine, const Value& self, const BoundArgs& args) {
  machine.budget().Spend(static_cast<int64_t>(self.text().size()) / 8);
  SURETY_RETURN_IF_ERROR(machine.CheckBudget());
  return machine.MakeList(SplitLines(self.text(), args.Truth(0, false)));
}

template <Case kCase>
Result<Value> CaseMethod(Machine& machine, const Value& self, const BoundArgs&) {
  return machine.MakeText(InCase(self.text(), kCase));
}
Result<Value> CapitalizeMethod(Machine& machine, const Value& self, const BoundArgs&) {
  return machine.MakeText(Capitalize(self.text()));
}
Result<Value> ToTitle(Machine& machine, const Value& self, const BoundArgs&) {
  return machine.MakeText(TitleMethod(self.text()));
}
Result<Value> CenterMethod(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const int64_t width, args.Integer(0, 0));
  SURETY_ASSIGN_OR_RETURN(TaintedText text, Center(machine, self.text(), width));
  return machine.MakeText(std::move(text));
}

// startswith and endswith, which take a string or a tuple of strings.
template <bool kStart>
Result<Value> Affix(Machine& machine, const Value& self, const BoundArgs& args) {
  const std::string& text = self.text().text();
  const auto matches = [&](const Value& affix) -> Result<bool> {
    if (!affix.IsText()) return Error(InvalidArgumentError("startswith and endswith take a string or a tuple of them"));
    machine.budget().SpendBytes(affix.text().size());
    return kStart ? text.starts_with(affix.text().text()) : text.ends_with(affix.text().text());
  };
  if (!args[0].IsList() || args[0].list().form != Form::kTuple) {
    SURETY_ASSIGN_OR_RETURN(const bool found, matches(args[0]));
    return Value(found);
  }
  for (const Value& affix : args[0].list().items) {
    SURETY_ASSIGN_OR_RETURN(const bool found, matches(affix));
    if (found) return Value(true);
  }
  return Value(false);
}

template <bool kPrefix>
Result<Value> RemoveAffix(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText affix, args.Text(0, ""));
  const TaintedText& text = self.text();
  const bool found = kPrefix ? text.text().starts_with(affix.text()) : text.text().ends_with(affix.text());
  if (!found) return self;
  return machine.MakeText(text.Substring(kPrefix ? affix.size() : 0, text.size() - affix.size()));
}

Result<Value> ReplaceMethod(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText from, args.Text(0, ""));
  SURETY_ASSIGN_OR_RETURN(const TaintedText to, args.Text(1, ""));
  SURETY_ASSIGN_OR_RETURN(const int64_t count, args.Integer(2, -1));
  SURETY_ASSIGN_OR_RETURN(TaintedText out, Replace(machine, self.text(), from, to, count));
  return machine.MakeText(std::move(out));
}

// Where `wanted` stands, counted in characters; -1 if nowhere.
Result<int64_t> FindText(Machine& machine, const Value& self, const BoundArgs& args, bool from_right) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText wanted, args.Text(0, ""));
  const Value* start = args.at[1];
  const Value* stop = args.at[2];
  SURETY_ASSIGN_OR_RETURN(const Value part, GetSlice(machine, self, start, stop, nullptr));
  const std::string& text = part.text().text();
  const size_t found = from_right ? text.rfind(wanted.text()) : text.find(wanted.text());
  if (found == std::string::npos) return -1;
  int64_t skipped = 0;
  if (start != nullptr && start->IsInteger()) {
    const int64_t n = CharacterCount(self.text().text());
    skipped = start->integer() < 0 ? std::max<int64_t>(0, start->integer() + n) : start->integer();
    if (skipped > n) return -1;
  }
  return skipped + CharacterCount(std::string_view(text).substr(0, found));
}

template <bool kFromRight>
Result<Value> Find(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const int64_t place, FindText(machine, self, args, kFromRight));
  return Value(place);
}
template <bool kFromRight>
Result<Value> IndexOfText(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const int64_t place, FindText(machine, self, args, kFromRight));
  if (place < 0) return Error(InvalidArgumentError("index: the text was not found"));
  return Value(place);
}

Result<Value> CountText(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText wanted, args.Text(0, ""));
  const std::string& text = self.text().text();
  machine.budget().SpendBytes(text.size());
  if (wanted.empty()) return Value(CharacterCount(text) + 1);
  int64_t n = 0;
  for (size_t at = 0; (at = text.find(wanted.text(), at)) != std::string::npos; at += wanted.size()) ++n;
  return Value(n);
}

Result<Value> JoinMethod(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(machine, args[0]));
  if (args[0].IsUndefined()) return Value(TaintedText());
  for (const Value& item : items) {
    if (!item.IsText()) {
      return Error(InvalidArgumentError("join: an item is no string but " + std::string(item.TypeName())));
    }
  }
  SURETY_ASSIGN_OR_RETURN(TaintedText text, Join(machine, self.text(), items));
  return machine.MakeText(std::move(text));
}

Result<Value> Partition(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_ASSIGN_OR_RETURN(const TaintedText separator, args.Text(0, ""));
  if (separator.empty()) return Error(InvalidArgumentError("partition: the separator is empty"));
  const TaintedText& text = self.text();
  const size_t at = text.text().find(separator.text());
  if (at == std::string::npos) {
    return machine.MakeList({self, Value(TaintedText()), Value(TaintedText())}, Form::kTuple);
  }
  const size_t after = at + separator.size();
  return machine.MakeList({Value(text.Substring(0, at)), Value(text.Substring(at, separator.size())),
                           Value(text.Substring(after, text.size() - after))},
                          Form::kTuple);
}

// Is every character so, and is there one?
template <bool (*kHolds)(uint32_t)>
Result<Value> AllAre(Machine& machine, const Value& self, const BoundArgs&) {
  const std::string& text = self.text().text();
  machine.budget().SpendBytes(text.size());
  for (size_t i = 0; i < text.size();) {
    const Character c = CharacterAt(text, i);
    if (!kHolds(c.code)) return Value(false);
    i += c.size;
  }
  return Value(!text.empty());
}
bool IsLetterOrDigit(uint32_t code) { return IsAlphabetic(code) || IsDecimalDigit(code); }

template <bool kUpper>
Result<Value> CasedMethod(Machine& machine, const Value& self, const BoundArgs& args) {
  return FindTest(kUpper ? "upper" : "lower")->call(machine, self, args);
}

// --- lists and dicts

Result<Value> CountItems(Machine& machine, const Value& self, const BoundArgs& args) {
  int64_t n = 0;
  for (const Value& item : self.list().items) n += Equals(item, args[0], machine.budget()) ? 1 : 0;
  return Value(n);
}

Result<Value> IndexOfItem(Machine& machine, const Value& self, const BoundArgs& args) {
  const auto& items = self.list().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (Equals(items[i], args[0], machine.budget())) return Value(static_cast<int64_t>(i));
  }
  return Error(InvalidArgumentError("index: the item is not in the list"));
}

Result<Value> Copy(Machine&, const Value& self, const BoundArgs&) { return self; }

Result<Value> Keys(Machine& machine, const Value& self, const BoundArgs&) {
  std::vector<Value> keys;
  for (const auto& entry : self.dict().entries) keys.push_back(entry.first);
  return machine.MakeList(std::move(keys), Form::kView, "dict_keys");
}
Result<Value> Values(Machine& machine, const Value& self, const BoundArgs&) {
  std::vector<Value> values;
  for (const auto& entry : self.dict().entries) values.push_back(entry.second);
  return machine.MakeList(std::move(values), Form::kView, "dict_values");
}
Result<Value> ItemsMethod(Machine& machine, const Value& self, const BoundArgs&) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict().entries) {
    SURETY_ASSIGN_OR_RETURN(Value pair, machine.MakeList({key, value}, Form::kTuple));
    pairs.push_back(std::move(pair));
  }
  return machine.MakeList(std::move(pairs), Form::kView, "dict_items");
}
Result<Value> Get(Machine& machine, const Value& self, const BoundArgs& args) {
  SURETY_RETURN_IF_ERROR(CheckKey(args[0]));
  const Value* value = self.dict().Find(args[0], machine.budget());
  if (value != nullptr) return *value;
  return args.Has(1) ? args[1] : Value(None{});
}

constexpr FunctionSpec kTextMethods[] = {
    {"strip", StripMethod<Side::kBoth>, 0, {"chars"}},
    {"lstrip", StripMethod<Side::kLeft>, 0, {"chars"}},
    {"rstrip", StripMethod<Side::kRight>, 0, {"chars"}},
    {"split", SplitMethod<false>, 0, {"sep", "maxsplit"}},
    {"rsplit", SplitMethod<true>, 0, {"sep", "maxsplit"}},
    {"splitlines", SplitLinesMethod, 0, {"keepends"}},
    {"startswith", Affix<true>, 1, {"prefix"}},
    {"endswith", Affix<false>, 1, {"suffix"}},
    {"removeprefix", RemoveAffix<true>, 1, {"prefix"}},
    {"removesuffix", RemoveAffix<false>, 1, {"suffix"}},
    {"replace", ReplaceMethod, 2, {"old", "new", "count"}},
    {"upper", CaseMethod<Case::kUpper>},
    {"lower", CaseMethod<Case::kLower>},
    {"title", ToTitle},
    {"capitalize", CapitalizeMethod},
    {"center", CenterMethod, 1, {"width"}},
    {"find", Find<false>, 1, {"sub", "start", "end"}},
    {"rfind", Find<true>, 1, {"sub", "start", "end"}},
    {"index", IndexOfText<false>, 1, {"sub", "start", "end"}},
    {"rindex", IndexOfText<true>, 1, {"sub", "start", "end"}},
    {"count", CountText, 1, {"sub"}},
    {"join", JoinMethod, 1, {"iterable"}},
    {"partition", Partition, 1, {"sep"}},
    {"format", FormatBraces, 0, {}, true},
    {"isdigit", AllAre<IsDecimalDigit>},
    {"isalpha", AllAre<IsAlphabetic>},
    {"isalnum", AllAre<IsLetterOrDigit>},
    {"isspace", AllAre<IsSpaceCharacter>},
    {"isupper", CasedMethod<true>},
    {"islower", CasedMethod<false>},
};

constexpr FunctionSpec kListMethods[] = {
    {"count", CountItems, 1, {"value"}},
    {"index", IndexOfItem, 1, {"value"}},
    {"copy", Copy},
};

constexpr FunctionSpec kDictMethods[] = {
    {"items", ItemsMethod}, {"keys", Keys}, {"values", Values}, {"get", Get, 1, {"key", "default"}}, {"copy", Copy},
};

}  // namespace

std::span<const FunctionSpec> TextMethods() { return kTextMethods; }
std::span<const FunctionSpec> ListMethods() { return kListMethods; }
std::span<const FunctionSpec> DictMethods() { return kDictMethods; }

}  // namespace surety::model::chat
