#include "model/chat/function_spec.h"

#include <algorithm>

#include "base/nearest_name.h"
#include "model/chat/lexer.h"
#include "model/chat/operators.h"

namespace surety::model::chat {
namespace {

const FunctionSpec* FindIn(std::span<const FunctionSpec> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const FunctionSpec& f) { return f.name == name; });
  return found == table.end() ? nullptr : &*found;
}

Status Unknown(std::string_view what, std::string_view name, std::initializer_list<std::span<const FunctionSpec>> all) {
  std::vector<std::string> known;
  for (const auto& table : all) {
    for (const FunctionSpec& function : table) known.emplace_back(function.name);
  }
  const std::string nearest = NearestName(name, known);
  return InvalidArgumentError("unknown " + std::string(what) + " '" + std::string(name) + "'" +
                              (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

size_t ParameterIndex(const FunctionSpec& spec, std::string_view name) {
  const size_t n = spec.MaxPositional();
  for (size_t i = 0; i < n; ++i) {
    if (spec.parameters[i] == name) return i;
  }
  return kMaxParameters;
}

}  // namespace

size_t FunctionSpec::MaxPositional() const {
  return static_cast<size_t>(std::find(parameters.begin(), parameters.end(), std::string_view()) - parameters.begin());
}

Status CheckCall(const FunctionSpec& spec, size_t n_positional, std::span<const std::string_view> names) {
  if (spec.variadic) return OkStatus();
  const auto wrong = [&](const std::string& what) {
    return InvalidArgumentError(Quoted(spec.name) + " " + what);
  };
  if (n_positional > spec.MaxPositional()) {
    return wrong("takes at most " + std::to_string(spec.MaxPositional()) + " arguments");
  }
  std::array<bool, kMaxParameters> given{};
  std::fill_n(given.begin(), n_positional, true);
  for (std::string_view name : names) {
    const size_t i = ParameterIndex(spec, name);
    if (i == kMaxParameters) return wrong("has no argument '" + std::string(name) + "'");
    if (given[i]) return wrong("got argument '" + std::string(name) + "' twice");
    given[i] = true;
  }
  for (size_t i = 0; i < spec.required; ++i) {
    if (!given[i]) return wrong("needs the argument '" + std::string(spec.parameters[i]) + "'");
  }
  return OkStatus();
}

Result<BoundArgs> Bind(const FunctionSpec& spec, const CallArgs& args) {
  std::vector<std::string_view> names;
  for (const auto& named : args.named) names.push_back(named.first);
  SURETY_RETURN_IF_ERROR(CheckCall(spec, args.positional.size(), names));
  BoundArgs bound;
  bound.all = &args;
  if (spec.variadic) return bound;
  for (size_t i = 0; i < args.positional.size(); ++i) bound.at[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) bound.at[ParameterIndex(spec, name)] = &value;
  return bound;
}

Result<int64_t> BoundArgs::Integer(size_t i, int64_t fallback) const {
  if (!Has(i)) return fallback;
  if (at[i]->IsUndefined()) return Error(UndefinedError(*at[i]));
  if (at[i]->IsInteger()) return at[i]->integer();
  return Error(InvalidArgumentError("argument " + std::to_string(i + 1) + " must be an integer, not " +
                                    std::string(at[i]->TypeName())));
}

Result<TaintedText> BoundArgs::Text(size_t i, std::string_view fallback) const {
  if (!Has(i)) return TaintedText(fallback, true);
  if (at[i]->IsUndefined()) return Error(UndefinedError(*at[i]));
  if (at[i]->IsText()) return at[i]->text();
  return Error(InvalidArgumentError("argument " + std::to_string(i + 1) + " must be a string, not " +
                                    std::string(at[i]->TypeName())));
}

const FunctionSpec* FindFilter(std::string_view name) {
  for (const auto& table : {TextFilters(), NumberFilters(), SequenceFilters(), SelectionFilters()}) {
    if (const FunctionSpec* found = FindIn(table, name)) return found;
  }
  return nullptr;
}

const FunctionSpec* FindTest(std::string_view name) { return FindIn(Tests(), name); }

const FunctionSpec* FindMethod(const Value& self, std::string_view name) {
  if (self.IsText()) return FindIn(TextMethods(), name);
  if (self.IsDict()) return FindIn(DictMethods(), name);
  if (!self.IsList()) return nullptr;
  const auto form = self.list().form;
  if (form == ListObject::Form::kView || form == ListObject::Form::kIterator) return nullptr;
  if (form != ListObject::Form::kList && name == "copy") return nullptr;
  return FindIn(ListMethods(), name);
}

bool IsUnsupportedMethod(const Value& self, std::string_view name) {
  static constexpr std::array<std::string_view, 16> kText = {
      "casefold", "encode", "expandtabs", "format_map", "isascii", "isdecimal", "isidentifier", "isnumeric",
      "isprintable", "ljust", "maketrans", "rjust", "swapcase", "translate", "zfill", "istitle"};
  static constexpr std::array<std::string_view, 8> kList = {"append", "clear", "extend", "insert",
                                                            "pop",    "remove", "reverse", "sort"};
  static constexpr std::array<std::string_view, 6> kDict = {"clear", "fromkeys", "pop", "popitem", "setdefault",
                                                            "update"};
  const auto has = [&](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (self.IsText()) return has(kText);
  if (self.IsDict()) return has(kDict);
  return self.IsList() && self.list().form == ListObject::Form::kList && has(kList);
}

Status UnknownFilter(std::string_view name) {
  return Unknown("filter", name, {TextFilters(), NumberFilters(), SequenceFilters(), SelectionFilters()});
}
Status UnknownTest(std::string_view name) { return Unknown("test", name, {Tests()}); }

}  // namespace surety::model::chat
