// The values a template computes with: Python's None, bool, int, float, str, list, tuple, dict, and what Jinja adds.
//
// Owns: strings, lists and dicts are immutable and shared; namespaces and macro scopes belong to the Machine of one
// rendering and a value only points at them, so no cycle of ownership can arise.
// Invariants: (1) a list's or dict's depth is one more than its deepest member's and never exceeds kMaxValueDepth, so
// that destruction and printing recurse no deeper; (2) the keys of a dict are distinct under Python's ==.
// Threads: a value belongs to one rendering, except constants of a parsed template, which are only read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "model/chat/tainted_text.h"

namespace surety::model::chat {

struct DictObject;
struct ListObject;
struct CallableObject;
struct LoopObject;
struct NamespaceObject;

struct Undefined {
  std::shared_ptr<const std::string> name;  // what was looked up, for messages; may be null
};
struct None {};

using TextPtr = std::shared_ptr<const TaintedText>;
using ListPtr = std::shared_ptr<const ListObject>;
using DictPtr = std::shared_ptr<const DictObject>;
using CallablePtr = std::shared_ptr<const CallableObject>;
using LoopPtr = std::shared_ptr<LoopObject>;

inline constexpr int kMaxValueDepth = 100;

// Steps that a rendering may still take. Work on data is paid for as it is done; whoever evaluates the next node of the
// template sees that nothing is left. Spend never fails, so that comparisons can use it; loops stop when Exhausted.
class Budget {
 public:
  explicit Budget(int64_t steps) : left_(steps) {}
  void Spend(int64_t steps) { left_ -= steps; }
  void SpendBytes(size_t bytes) { left_ -= 1 + static_cast<int64_t>(bytes / 64); }
  bool Exhausted() const { return left_ < 0; }
  int64_t left() const { return left_; }

 private:
  int64_t left_;
};

class Value {
 public:
  Value() = default;  // undefined
  Value(Undefined u) : data_(std::move(u)) {}        // NOLINT: implicit by design, as all below
  Value(None n) : data_(n) {}                        // NOLINT
  Value(bool b) : data_(b) {}                        // NOLINT
  Value(int64_t i) : data_(i) {}                     // NOLINT
  Value(double d) : data_(d) {}                      // NOLINT
  Value(TextPtr t) : data_(std::move(t)) {}          // NOLINT
  Value(TaintedText t) : data_(std::make_shared<const TaintedText>(std::move(t))) {}  // NOLINT
  Value(ListPtr l) : data_(std::move(l)) {}          // NOLINT
  Value(DictPtr d) : data_(std::move(d)) {}          // NOLINT
  Value(NamespaceObject* n) : data_(n) {}            // NOLINT
  Value(CallablePtr c) : data_(std::move(c)) {}      // NOLINT
  Value(LoopPtr l) : data_(std::move(l)) {}          // NOLINT
  Value(const char*) = delete;  // would convert to bool

  static Value Text(std::string_view text, bool trusted) { return Value(TaintedText(text, trusted)); }
  static Value UndefinedNamed(std::string_view name) {
    return Value(Undefined{std::make_shared<const std::string>(name)});
  }

  template <typename T>
  bool Is() const { return std::holds_alternative<T>(data_); }
  bool IsUndefined() const { return Is<Undefined>(); }
  bool IsNone() const { return Is<None>(); }
  bool IsText() const { return Is<TextPtr>(); }
  bool IsList() const { return Is<ListPtr>(); }
  bool IsDict() const { return Is<DictPtr>(); }
  bool IsInteger() const { return Is<bool>() || Is<int64_t>(); }  // bool is an int in Python
  bool IsNumber() const { return IsInteger() || Is<double>(); }

  // Preconditions: the value is of that kind.
  const TaintedText& text() const { return *std::get<TextPtr>(data_); }
  const TextPtr& text_ptr() const { return std::get<TextPtr>(data_); }
  const ListObject& list() const { return *std::get<ListPtr>(data_); }
  const ListPtr& list_ptr() const { return std::get<ListPtr>(data_); }
  const DictObject& dict() const { return *std::get<DictPtr>(data_); }
  const CallableObject& callable() const { return *std::get<CallablePtr>(data_); }
  LoopObject& loop() const { return *std::get<LoopPtr>(data_); }
  NamespaceObject* name_space() const { return std::get<NamespaceObject*>(data_); }
  const Undefined& undefined() const { return std::get<Undefined>(data_); }
  int64_t integer() const { return Is<bool>() ? (std::get<bool>(data_) ? 1 : 0) : std::get<int64_t>(data_); }
  double number() const { return Is<double>() ? std::get<double>(data_) : static_cast<double>(integer()); }
  const void* identity() const;  // equal for the same object, null for scalars

  bool Truth() const;
  int Depth() const;              // 0 for scalars
  std::string_view TypeName() const;  // as Python calls it, for messages

 private:
  std::variant<Undefined, None, bool, int64_t, double, TextPtr, ListPtr, DictPtr, NamespaceObject*, CallablePtr,
               LoopPtr>
      data_;
};

struct ListObject {
  // What Python would have: the forms differ in printing, in type tests and in whether they have a length.
  enum class Form : uint8_t { kList, kTuple, kRange, kView, kIterator };
  std::vector<Value> items;
  Form form = Form::kList;
  std::string label;  // "range(0, 3)", or the type name of a view
  int depth = 1;
  // A lazy filter failed behind the last item: whoever asks for more gets this.
  std::shared_ptr<const Status> failure;
};

struct DictObject {
  std::vector<std::pair<Value, Value>> entries;  // in order of insertion
  int depth = 1;

  const Value* Find(const Value& key, Budget& budget) const;
  const Value* Find(std::string_view key) const;
  // Adds or replaces (keeping the place of the first), as Python does.
  void Set(Value key, Value value, Budget& budget);

 private:
  size_t IndexOf(const Value& key, Budget& budget) const;
  std::unordered_map<std::string_view, size_t> index_;  // text keys; the views lie in the keys' shared texts
};

struct NamespaceObject {
  std::vector<std::pair<std::string, Value>> entries;
  const Value* Find(std::string_view name) const;
  void Set(std::string_view name, Value value);
};

struct Macro;
struct FunctionSpec;
class Scope;

enum class Global : uint8_t { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow };

struct CallableObject {
  enum class Kind : uint8_t { kMacro, kGlobal, kMethod, kCycle };
  Kind kind = Kind::kMacro;
  const Macro* macro = nullptr;  // kMacro; lives with the template
  Scope* scope = nullptr;        // kMacro: where it was defined; lives with the Machine
  Global global = Global::kRange;
  const FunctionSpec* method = nullptr;  // kMethod
  Value self;                            // kMethod, kCycle
};

struct LoopObject {
  ListPtr items;
  size_t index = 0;
  int depth = 1;
};

// Python's ==. Recurses to the values' depth; false once the budget is exhausted.
bool Equals(const Value& a, const Value& b, Budget& budget);

}  // namespace surety::model::chat
