#include "model/chat/machine.h"

#include <algorithm>
#include <array>

#include "model/chat/operators.h"
#include "model/chat/printing.h"

namespace surety::model::chat {
namespace {

constexpr std::array<std::pair<std::string_view, Global>, 5> kGlobals = {
    {{"range", Global::kRange}, {"namespace", Global::kNamespace}, {"dict", Global::kDict},
     {"raise_exception", Global::kRaiseException}, {"strftime_now", Global::kStrftimeNow}}};

// Nested evaluations for each level of max_depth: an expression or statement takes one, a macro's call several.
constexpr int kFramesPerLevel = 10;

}  // namespace

class Machine::Frame {
 public:
  explicit Frame(Machine& machine) : machine_(machine) { ++machine_.frames_; }
  ~Frame() { --machine_.frames_; }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  bool TooDeep() const { return machine_.frames_ > kFramesPerLevel * machine_.limits_.max_depth; }

 private:
  Machine& machine_;
};

const Value* Scope::Find(int id) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
    for (const auto& [name, value] : scope->variables_) {
      if (name == id) return &value;
    }
  }
  return nullptr;
}

void Scope::Set(int id, Value value) {
  for (auto& [name, old] : variables_) {
    if (name == id) {
      old = std::move(value);
      return;
    }
  }
  variables_.emplace_back(id, std::move(value));
}

Machine::Machine(const Template& parsed, const TemplateInput& input, const TemplateLimits& limits)
    : parsed_(parsed), input_(input), limits_(limits), budget_(limits.max_steps), context_(parsed.names.size()) {}

Result<TaintedText> Machine::Run() {
  for (size_t id = 0; id < parsed_.names.size(); ++id) {
    const std::string& name = parsed_.names[id];
    if (name == "bos_token") {
      context_[id] = Value::Text(input_.bos_token, true);
    } else if (name == "eos_token") {
      context_[id] = Value::Text(input_.eos_token, true);
    } else if (const auto* json = input_.values.if_contains(name)) {
      SURETY_ASSIGN_OR_RETURN(context_[id], FromJson(*this, *json));
    } else if (name == "tools" || name == "documents") {
      context_[id] = Value(None{});  // transformers always passes these three
    } else if (name == "add_generation_prompt") {
      context_[id] = Value(false);
    }
  }
  TaintedText out;
  out_ = &out;
  SURETY_RETURN_IF_ERROR(CheckBudget());
  if (auto flow = Execute(parsed_.body); !flow) return Error(flow.error());
  SURETY_RETURN_IF_ERROR(CheckBudget());
  return out;
}

Status Machine::CheckBudget() const {
  if (!budget_.Exhausted()) return OkStatus();
  return ResourceExhaustedError("the template took more than max_steps = " + std::to_string(limits_.max_steps) +
                                " steps");
}

Status Machine::CheckTextSize(size_t size_bytes) const {
  if (static_cast<int64_t>(size_bytes) <= limits_.max_output_bytes) return OkStatus();
  return ResourceExhaustedError("a text of the template is longer than max_output_bytes = " +
                                std::to_string(limits_.max_output_bytes));
}

Result<Value> Machine::MakeText(TaintedText text) {
  budget_.SpendBytes(text.size());
  SURETY_RETURN_IF_ERROR(CheckTextSize(text.size()));
  return Value(std::move(text));
}

Result<Value> Machine::MakeList(std::vector<Value> items, ListObject::Form form, std::string label) {
  budget_.Spend(static_cast<int64_t>(items.size()));
  SURETY_RETURN_IF_ERROR(CheckBudget());
  auto list = std::make_shared<ListObject>();
  for (const Value& item : items) list->depth = std::max(list->depth, 1 + item.Depth());
  if (list->depth > kMaxValueDepth) {
    return Error(ResourceExhaustedError("lists are nested deeper than " + std::to_string(kMaxValueDepth)));
  }
  list->items = std::move(items);
  list->form = form;
  list->label = std::move(label);
  return Value(ListPtr(std::move(list)));
}

Result<Value> Machine::MakeIterator(std::vector<Value> items, const Status& failure) {
  if (!failure.ok() && items.empty()) return Error(failure);
  SURETY_ASSIGN_OR_RETURN(const Value whole, MakeList(std::move(items), ListObject::Form::kIterator));
  if (failure.ok()) return whole;
  auto list = std::make_shared<ListObject>(whole.list());
  list->failure = std::make_shared<const Status>(failure);
  return Value(ListPtr(std::move(list)));
}

Result<Value> Machine::MakeDict(std::shared_ptr<DictObject> dict) {
  budget_.Spend(static_cast<int64_t>(dict->entries.size()));
  SURETY_RETURN_IF_ERROR(CheckBudget());
  if (dict->depth > kMaxValueDepth) {
    return Error(ResourceExhaustedError("dicts are nested deeper than " + std::to_string(kMaxValueDepth)));
  }
  return Value(DictPtr(std::move(dict)));
}

NamespaceObject* Machine::NewNamespace() {
  namespaces_.push_back(std::make_unique<NamespaceObject>());
  return namespaces_.back().get();
}

Value Machine::Lookup(int id) {
  if (const Value* value = scope_->Find(id)) return *value;
  const auto index = static_cast<size_t>(id);
  if (context_[index].has_value()) return *context_[index];
  const std::string& name = parsed_.names[index];
  for (const auto& [word, global] : kGlobals) {
    if (word != name) continue;
    auto function = std::make_shared<CallableObject>();
    function->kind = CallableObject::Kind::kGlobal;
    function->global = global;
    return Value(CallablePtr(std::move(function)));
  }
  return Value::UndefinedNamed(name);
}

void Machine::Retire(std::unique_ptr<Scope> scope) {
  if (scope->captured()) kept_scopes_.push_back(std::move(scope));
}

Result<Machine::Flow> Machine::InScope(std::unique_ptr<Scope> scope, const Body& body, TaintedText* out) {
  Scope* const outer = std::exchange(scope_, scope.get());
  TaintedText* const outer_out = std::exchange(out_, out != nullptr ? out : out_);
  auto flow = Execute(body);
  out_ = outer_out;
  scope_ = outer;
  Retire(std::move(scope));
  return flow;
}

Result<Machine::Flow> Machine::Execute(const Body& body) {
  const Frame frame(*this);
  if (frame.TooDeep()) return Error(ResourceExhaustedError("the template's macros call each other too deep"));
  for (const auto& statement : body) {
    budget_.Spend(1);
    SURETY_RETURN_IF_ERROR(CheckBudget());
    SURETY_ASSIGN_OR_RETURN(const Flow flow, Execute(*statement));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Machine::Flow> Machine::Execute(const Stmt& statement) {
  switch (statement.kind) {
    case Stmt::Kind::kText:
      out_->Append(statement.value.text());
      budget_.SpendBytes(statement.value.text().size());
      SURETY_RETURN_IF_ERROR(CheckTextSize(out_->size()));
      return Flow::kNext;
    case Stmt::Kind::kOutput: SURETY_RETURN_IF_ERROR(Print(*statement.expr)); return Flow::kNext;
    case Stmt::Kind::kIf: return If(statement);
    case Stmt::Kind::kFor: return For(statement);
    case Stmt::Kind::kSet: {
      SURETY_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expr));
      SURETY_RETURN_IF_ERROR(Assign(statement.target, value));
      return Flow::kNext;
    }
    case Stmt::Kind::kSetBlock:
    case Stmt::Kind::kFilterBlock: return Captured(statement);
    case Stmt::Kind::kMacro: {
      auto function = std::make_shared<CallableObject>();
      function->macro = statement.macro.get();
      function->scope = scope_;
      scope_->Capture();
      scope_->Set(statement.id, Value(CallablePtr(std::move(function))));
      return Flow::kNext;
    }
    case Stmt::Kind::kCallBlock: SURETY_RETURN_IF_ERROR(CallBlock(statement)); return Flow::kNext;
    case Stmt::Kind::kWith:
    case Stmt::Kind::kScope: return Scoped(statement);
    case Stmt::Kind::kBreak: return Flow::kBreak;
    case Stmt::Kind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

Status Machine::Print(const Expr& expr) {
  SURETY_ASSIGN_OR_RETURN(const Value value, Evaluate(expr));
  if (value.IsText()) {
    budget_.SpendBytes(value.text().size());
    out_->Append(value.text());
  } else {
    auto text = ToText(*this, value);
    if (!text) return Located(expr.at, text.error());
    out_->Append(*text);
  }
  return CheckTextSize(out_->size());
}

Result<Machine::Flow> Machine::If(const Stmt& statement) {
  for (const auto& [condition, body] : statement.branches) {
    SURETY_ASSIGN_OR_RETURN(const Value value, Evaluate(*condition));
    if (value.Truth()) return Execute(body);
  }
  return Execute(statement.otherwise);
}

Status Machine::Assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    auto items = Iterate(*this, value);
    if (!items) return Located(target.at, items.error());
    if (items->size() != target.items.size()) {
      return ErrorAt(target.at, "cannot unpack " + std::to_string(items->size()) + " values into " +
                                    std::to_string(target.items.size()) + " names");
    }
    for (size_t i = 0; i < items->size(); ++i) SURETY_RETURN_IF_ERROR(Assign(target.items[i], (*items)[i]));
    return OkStatus();
  }
  if (target.attribute.empty()) {
    scope_->Set(target.id, value);
    return OkStatus();
  }
  const Value space = Lookup(target.id);
  if (!space.Is<NamespaceObject*>()) {
    return ErrorAt(target.at, Quoted(parsed_.names[static_cast<size_t>(target.id)]) +
                                  " is no namespace; only a namespace's attributes can be set");
  }
  budget_.Spend(static_cast<int64_t>(space.name_space()->entries.size()) / 8);
  space.name_space()->Set(target.attribute, value);
  return OkStatus();
}

Result<std::vector<Value>> Machine::LoopItems(const Stmt& statement) {
  SURETY_ASSIGN_OR_RETURN(const Value iterable, Evaluate(*statement.expr));
  auto items = Iterate(*this, iterable);
  if (!items) return Error(Located(statement.expr->at, items.error()));
  if (statement.condition == nullptr) return *std::move(items);
  std::vector<Value> kept;
  auto scope = std::make_unique<Scope>(scope_);
  Scope* const outer = std::exchange(scope_, scope.get());
  Status status;
  for (Value& item : *items) {
    status = Assign(statement.target, item);
    if (!status.ok()) break;
    auto condition = Evaluate(*statement.condition);
    if (!condition) {
      status = condition.error();
      break;
    }
    if (condition->Truth()) kept.push_back(std::move(item));
  }
  scope_ = outer;
  Retire(std::move(scope));
  SURETY_RETURN_IF_ERROR(status);
  return kept;
}

Result<Machine::Flow> Machine::OneTurn(const Stmt& statement, const std::shared_ptr<LoopObject>& loop) {
  auto scope = std::make_unique<Scope>(scope_);
  Scope* const outer = std::exchange(scope_, scope.get());
  const Status assigned = Assign(statement.target, loop->items->items[loop->index]);
  scope_ = outer;
  SURETY_RETURN_IF_ERROR(assigned);
  scope->Set(statement.id, Value(loop));
  return InScope(std::move(scope), statement.body, nullptr);
}

Result<Machine::Flow> Machine::For(const Stmt& statement) {
  SURETY_ASSIGN_OR_RETURN(std::vector<Value> items, LoopItems(statement));
  if (items.empty()) return InScope(std::make_unique<Scope>(scope_), statement.otherwise, nullptr);
  auto list = MakeList(std::move(items));
  if (!list) return Error(Located(statement.at, list.error()));
  const size_t n = list->list().items.size();
  auto loop = std::make_shared<LoopObject>();
  loop->items = list->list_ptr();
  for (size_t i = 0; i < n; ++i) {
    loop->index = i;  // one object for the whole loop, as in Jinja, even if the body kept it
    SURETY_ASSIGN_OR_RETURN(const Flow flow, OneTurn(statement, loop));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Result<Machine::Flow> Machine::Captured(const Stmt& statement) {
  TaintedText text;
  SURETY_ASSIGN_OR_RETURN(const Flow flow, InScope(std::make_unique<Scope>(scope_), statement.body, &text));
  if (flow != Flow::kNext) return flow;
  Value value(std::move(text));
  if (statement.expr != nullptr) {
    SURETY_ASSIGN_OR_RETURN(value, FilterOrTest(*statement.expr, &value));
  }
  if (statement.kind == Stmt::Kind::kSetBlock) {
    SURETY_RETURN_IF_ERROR(Assign(statement.target, value));
    return Flow::kNext;
  }
  auto printed = ToText(*this, value);
  if (!printed) return Error(Located(statement.at, printed.error()));
  out_->Append(*printed);
  SURETY_RETURN_IF_ERROR(CheckTextSize(out_->size()));
  return Flow::kNext;
}

Result<Machine::Flow> Machine::Scoped(const Stmt& statement) {
  auto scope = std::make_unique<Scope>(scope_);
  for (const auto& [target, expr] : statement.assignments) {
    SURETY_ASSIGN_OR_RETURN(Value value, Evaluate(*expr));
    scope->Set(target.id, std::move(value));
  }
  return InScope(std::move(scope), statement.body, nullptr);
}

Status Machine::CallBlock(const Stmt& statement) {
  auto caller = std::make_shared<CallableObject>();
  caller->macro = statement.macro.get();
  caller->scope = scope_;
  scope_->Capture();
  SURETY_ASSIGN_OR_RETURN(const Value value, Call(*statement.expr, std::move(caller)));
  auto text = ToText(*this, value);
  if (!text) return Located(statement.at, text.error());
  out_->Append(*text);
  return CheckTextSize(out_->size());
}

Result<Value> Machine::Evaluate(const Expr& expr) {
  const Frame frame(*this);
  if (frame.TooDeep()) return Error(ResourceExhaustedError("the template's macros call each other too deep"));
  budget_.Spend(1);
  SURETY_RETURN_IF_ERROR(CheckBudget());
  return EvaluateKind(expr);
}

}  // namespace surety::model::chat
