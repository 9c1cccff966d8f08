// One rendering of a template: its variables, its output and its limits.
//
// Owns: the namespaces and scopes that values point at; they live as long as the Machine.
// Threads: one.
// Errors: kInvalidArgument with the place in the template; kResourceExhausted naming the limit.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/chat/ast.h"
#include "model/chat/function_spec.h"
#include "model/chat/template.h"
#include "model/chat/value.h"

namespace surety::model::chat {

// Variables by id. A read goes outwards to the first scope that has the name; a write stays here.
class Scope {
 public:
  explicit Scope(Scope* parent) : parent_(parent) {}
  const Value* Find(int id) const;
  void Set(int id, Value value);
  // A macro was defined here and may be called after the scope's end.
  void Capture() { captured_ = true; }
  bool captured() const { return captured_; }

 private:
  Scope* parent_;
  bool captured_ = false;
  std::vector<std::pair<int, Value>> variables_;
};

class Machine {
 public:
  Machine(const Template& parsed, const TemplateInput& input, const TemplateLimits& limits);

  Result<TaintedText> Run();

  Budget& budget() { return budget_; }
  const TemplateInput& input() const { return input_; }
  int64_t max_text_bytes() const { return limits_.max_output_bytes; }
  // Is anything left of the steps?
  Status CheckBudget() const;
  // Would a text of so many bytes be too long?
  Status CheckTextSize(size_t size_bytes) const;

  // Values within the limits on size and depth. Paid for in steps.
  Result<Value> MakeText(TaintedText text);
  Result<Value> MakeList(std::vector<Value> items, ListObject::Form form = ListObject::Form::kList,
                         std::string label = {});
  // A lazy filter's items up to an error, which only those meet who go on to it; the error itself if there are none.
  Result<Value> MakeIterator(std::vector<Value> items, const Status& failure);
  Result<Value> MakeDict(std::shared_ptr<DictObject> dict);
  NamespaceObject* NewNamespace();

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Frame;  // counts recursion

  // statements
  Result<Flow> Execute(const Body& body);
  Result<Flow> Execute(const Stmt& statement);
  Result<Flow> If(const Stmt& statement);
  Result<Flow> For(const Stmt& statement);
  Result<Flow> OneTurn(const Stmt& statement, const std::shared_ptr<LoopObject>& loop);
  Result<std::vector<Value>> LoopItems(const Stmt& statement);
  Result<Flow> Captured(const Stmt& statement);  // set block, filter block
  Result<Flow> Scoped(const Stmt& statement);    // with, generation
  Status CallBlock(const Stmt& statement);
  Status Print(const Expr& expr);
  Status Assign(const Target& target, const Value& value);

  // expressions
  Result<Value> Evaluate(const Expr& expr);
  Result<Value> EvaluateKind(const Expr& expr);
  Result<Value> Collection(const Expr& expr);
  Result<Value> AndOr(const Expr& expr);
  Result<Value> Concatenate(const Expr& expr);
  Result<Value> Chain(const Expr& expr);
  Result<Value> Comparison(const Expr& expr);
  Result<Value> Ternary(const Expr& expr);
  Result<Value> Slice(const Expr& expr);
  Result<Value> FilterOrTest(const Expr& expr, const Value* input);
  Result<CallArgs> Arguments(const Expr& expr);
  Value Lookup(int id);

  // calls
  Result<Value> Call(const Expr& expr, CallablePtr caller);
  Result<Value> CallFunction(const Expr& expr, const Value& function, CallArgs args, CallablePtr caller);
  Result<Value> CallMacro(const Expr& expr, const CallableObject& function, CallArgs args, CallablePtr caller);
  Status BindParameters(const Macro& macro, CallArgs& args, const CallablePtr& caller);
  Result<Value> CallGlobal(Global global, const CallArgs& args);

  // Runs `body` in a new scope below `parent`, its output apart if `out` is given.
  Result<Flow> InScope(std::unique_ptr<Scope> scope, const Body& body, TaintedText* out);
  void Retire(std::unique_ptr<Scope> scope);

  const Template& parsed_;
  const TemplateInput& input_;
  const TemplateLimits& limits_;
  Budget budget_;
  std::vector<std::optional<Value>> context_;  // by name id, converted when first read
  std::vector<std::unique_ptr<NamespaceObject>> namespaces_;
  std::vector<std::unique_ptr<Scope>> kept_scopes_;
  Scope root_{nullptr};
  Scope* scope_ = &root_;
  TaintedText* out_ = nullptr;
  int frames_ = 0;
  int macro_depth_ = 0;
};

// "line L, column C: ..." before a message that has no place yet.
inline Status Located(Position at, const Status& status) {
  return {status.code(), ErrorAt(at, status.message()).message()};
}

}  // namespace surety::model::chat
