// Filters, tests and methods by name, with the names of their parameters, so that calls can be checked when a template
// is parsed.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/chat/value.h"

namespace surety::model::chat {

class Machine;

struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

inline constexpr size_t kMaxParameters = 5;

// A call's arguments by parameter. Pointers into the CallArgs.
struct BoundArgs {
  std::array<const Value*, kMaxParameters> at{};  // null where not given
  const CallArgs* all = nullptr;

  bool Has(size_t i) const { return at[i] != nullptr; }
  const Value& operator[](size_t i) const { return *at[i]; }
  // The argument as a kind, or the fallback where it is not given. Errors name the parameter's number.
  Result<int64_t> Integer(size_t i, int64_t fallback) const;
  Result<TaintedText> Text(size_t i, std::string_view fallback) const;
  bool Truth(size_t i, bool fallback) const { return Has(i) ? at[i]->Truth() : fallback; }
};

struct FunctionSpec {
  using Function = Result<Value> (*)(Machine&, const Value& self, const BoundArgs& args);
  std::string_view name;
  Function call = nullptr;
  size_t required = 0;
  std::array<std::string_view, kMaxParameters> parameters{};  // empty after the last
  bool variadic = false;  // takes any arguments and reads `all`

  size_t MaxPositional() const;
};

// Is such a call possible? The error names the function and the argument.
Status CheckCall(const FunctionSpec& spec, size_t n_positional, std::span<const std::string_view> names);
Result<BoundArgs> Bind(const FunctionSpec& spec, const CallArgs& args);

// Null if there is none.
const FunctionSpec* FindFilter(std::string_view name);
const FunctionSpec* FindTest(std::string_view name);
const FunctionSpec* FindMethod(const Value& self, std::string_view name);

// Is it an attribute that the type has in Python, but not here?
bool IsUnsupportedMethod(const Value& self, std::string_view name);

// The tables, each in one source.
std::span<const FunctionSpec> TextFilters();
std::span<const FunctionSpec> NumberFilters();
std::span<const FunctionSpec> SequenceFilters();
std::span<const FunctionSpec> SelectionFilters();
std::span<const FunctionSpec> Tests();
std::span<const FunctionSpec> TextMethods();
std::span<const FunctionSpec> ListMethods();
std::span<const FunctionSpec> DictMethods();

// "unknown filter 'uper'; did you mean 'upper'?"
Status UnknownFilter(std::string_view name);
Status UnknownTest(std::string_view name);

}  // namespace surety::model::chat
