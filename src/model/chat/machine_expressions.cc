// Machine: the evaluation of expressions and calls.
#include <algorithm>

#include "model/chat/machine.h"
#include "model/chat/operators.h"
#include "model/chat/printing.h"
#include "model/chat/time_format.h"

namespace surety::model::chat {
namespace {

// range() of transformers' sandbox refuses more.
constexpr int64_t kMaxRange = 100'000;

// The result of an operation that does not know its place in the template.
template <typename T>
Result<T> At(const Expr& expr, Result<T> result) {
  if (!result) return Error(Located(expr.at, result.error()));
  return result;
}

Result<Value> MakeRange(Machine& machine, const CallArgs& args) {
  int64_t bounds[3] = {0, 0, 1};
  const auto& given = args.positional;
  if (given.empty() || given.size() > 3 || !args.named.empty()) {
    return Error(InvalidArgumentError("range takes one to three integers"));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].IsInteger()) {
      return Error(InvalidArgumentError("range takes integers, not " + std::string(given[i].TypeName())));
    }
    bounds[given.size() == 1 ? 1 : i] = given[i].integer();
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) return Error(InvalidArgumentError("range: the step must not be 0"));
  const auto wide = [](int64_t x) { return static_cast<__int128>(x); };
  const __int128 span = step > 0 ? wide(stop) - start : wide(start) - stop;
  const __int128 stride = step > 0 ? wide(step) : -wide(step);
  const __int128 n = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (n > kMaxRange) {
    return Error(ResourceExhaustedError("range: more than " + std::to_string(kMaxRange) + " numbers"));
  }
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < static_cast<int64_t>(n); ++i) items.emplace_back(start + i * step);
  std::string label = "range(" + std::to_string(start) + ", " + std::to_string(stop);
  if (step != 1) label += ", " + std::to_string(step);
  return machine.MakeList(std::move(items), ListObject::Form::kRange, label + ")");
}

// dict(mapping or pairs, name=value ...).
Result<std::shared_ptr<DictObject>> BuildDict(Machine& machine, const CallArgs& args) {
  auto dict = std::make_shared<DictObject>();
  if (args.positional.size() > 1) return Error(InvalidArgumentError("at most one positional argument is possible"));
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.IsDict()) {
      *dict = source.dict();
      machine.budget().Spend(static_cast<int64_t>(dict->entries.size()));
    } else {
      SURETY_ASSIGN_OR_RETURN(const std::vector<Value> pairs, Iterate(machine, source));
      for (const Value& pair : pairs) {
        SURETY_ASSIGN_OR_RETURN(const std::vector<Value> parts, Iterate(machine, pair));
        if (parts.size() != 2) return Error(InvalidArgumentError("a dict is made of pairs"));
        SURETY_RETURN_IF_ERROR(CheckKey(parts[0]));
        machine.budget().Spend(1);
        SURETY_RETURN_IF_ERROR(machine.CheckBudget());
        dict->Set(parts[0], parts[1], machine.budget());
      }
    }
  }
  for (const auto& [name, value] : args.named) dict->Set(Value::Text(name, true), value, machine.budget());
  return dict;
}

}  // namespace

Result<Value> Machine::EvaluateKind(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::kConstant: return expr.value;
    case Expr::Kind::kName: return Lookup(expr.id);
    case Expr::Kind::kList:
    case Expr::Kind::kTuple:
    case Expr::Kind::kDict: return Collection(expr);
    case Expr::Kind::kNot: {
      SURETY_ASSIGN_OR_RETURN(const Value value, Evaluate(*expr.args[0]));
      return Value(!value.Truth());
    }
    case Expr::Kind::kNegate:
    case Expr::Kind::kPlus: {
      SURETY_ASSIGN_OR_RETURN(const Value value, Evaluate(*expr.args[0]));
      return At(expr, Negate(value, expr.kind == Expr::Kind::kNegate));
    }
    case Expr::Kind::kAnd:
    case Expr::Kind::kOr: return AndOr(expr);
    case Expr::Kind::kConcat: return Concatenate(expr);
    case Expr::Kind::kChain: return Chain(expr);
    case Expr::Kind::kCompare: return Comparison(expr);
    case Expr::Kind::kTernary: return Ternary(expr);
    case Expr::Kind::kAttribute: {
      SURETY_ASSIGN_OR_RETURN(const Value object, Evaluate(*expr.args[0]));
      return At(expr, GetAttribute(*this, object, expr.name));
    }
    case Expr::Kind::kIndex: {
      SURETY_ASSIGN_OR_RETURN(const Value object, Evaluate(*expr.args[0]));
      SURETY_ASSIGN_OR_RETURN(const Value key, Evaluate(*expr.args[1]));
      return At(expr, GetItem(*this, object, key));
    }
    case Expr::Kind::kSlice: return Slice(expr);
    case Expr::Kind::kCall: return Call(expr, nullptr);
    case Expr::Kind::kFilter:
    case Expr::Kind::kTest: return FilterOrTest(expr, nullptr);
  }
  return Value();
}

Result<Value> Machine::Collection(const Expr& expr) {
  if (expr.kind != Expr::Kind::kDict) {
    std::vector<Value> items;
    items.reserve(expr.args.size());
    for (const ExprPtr& arg : expr.args) {
      SURETY_ASSIGN_OR_RETURN(Value item, Evaluate(*arg));
      items.push_back(std::move(item));
    }
    const auto form = expr.kind == Expr::Kind::kTuple ? ListObject::Form::kTuple : ListObject::Form::kList;
    return At(expr, MakeList(std::move(items), form));
  }
  auto dict = std::make_shared<DictObject>();
  for (size_t i = 0; i < expr.args.size(); i += 2) {
    SURETY_ASSIGN_OR_RETURN(Value key, Evaluate(*expr.args[i]));
    if (const Status usable = CheckKey(key); !usable.ok()) return Error(Located(expr.at, usable));
    SURETY_ASSIGN_OR_RETURN(Value value, Evaluate(*expr.args[i + 1]));
    dict->Set(std::move(key), std::move(value), budget_);
  }
  return At(expr, MakeDict(std::move(dict)));
}

Result<Value> Machine::AndOr(const Expr& expr) {
  const bool stop_at = expr.kind == Expr::Kind::kOr;
  for (size_t i = 0; i + 1 < expr.args.size(); ++i) {
    SURETY_ASSIGN_OR_RETURN(Value value, Evaluate(*expr.args[i]));
    if (value.Truth() == stop_at) return value;
  }
  return Evaluate(*expr.args.back());
}

Result<Value> Machine::Concatenate(const Expr& expr) {
  TaintedText out;
  for (const ExprPtr& arg : expr.args) {
    SURETY_ASSIGN_OR_RETURN(const Value value, Evaluate(*arg));
    if (value.IsText()) {
      out.Append(value.text());
    } else {
      auto text = ToText(*this, value);
      if (!text) return Error(Located(arg->at, text.error()));
      out.Append(*text);
    }
    if (const Status fits = CheckTextSize(out.size()); !fits.ok()) return Error(Located(expr.at, fits));
  }
  return At(expr, MakeText(std::move(out)));
}

Result<Value> Machine::Chain(const Expr& expr) {
  SURETY_ASSIGN_OR_RETURN(Value left, Evaluate(*expr.args[0]));
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    SURETY_ASSIGN_OR_RETURN(const Value right, Evaluate(*expr.args[i + 1]));
    auto result = Arithmetic(*this, expr.ops[i], left, right);
    if (!result) return Error(Located(expr.args[i + 1]->at, result.error()));
    left = *std::move(result);
  }
  return left;
}

Result<Value> Machine::Comparison(const Expr& expr) {
  SURETY_ASSIGN_OR_RETURN(Value left, Evaluate(*expr.args[0]));
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    SURETY_ASSIGN_OR_RETURN(Value right, Evaluate(*expr.args[i + 1]));
    SURETY_ASSIGN_OR_RETURN(const bool holds, At(expr, Compare(*this, expr.ops[i], left, right)));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Machine::Ternary(const Expr& expr) {
  SURETY_ASSIGN_OR_RETURN(const Value condition, Evaluate(*expr.args[0]));
  if (condition.Truth()) return Evaluate(*expr.args[1]);
  if (expr.args[2] != nullptr) return Evaluate(*expr.args[2]);
  return Value::UndefinedNamed("the value of an if without else");
}

Result<Value> Machine::Slice(const Expr& expr) {
  SURETY_ASSIGN_OR_RETURN(const Value object, Evaluate(*expr.args[0]));
  Value bounds[3];
  const Value* given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (expr.args[i + 1] == nullptr) continue;
    SURETY_ASSIGN_OR_RETURN(bounds[i], Evaluate(*expr.args[i + 1]));
    given[i] = &bounds[i];
  }
  return At(expr, GetSlice(*this, object, given[0], given[1], given[2]));
}

Result<CallArgs> Machine::Arguments(const Expr& expr) {
  CallArgs args;
  for (size_t i = 1; i < expr.args.size(); ++i) {
    SURETY_ASSIGN_OR_RETURN(Value value, Evaluate(*expr.args[i]));
    args.positional.push_back(std::move(value));
  }
  for (const auto& [name, arg] : expr.keywords) {
    SURETY_ASSIGN_OR_RETURN(Value value, Evaluate(*arg));
    args.named.emplace_back(name, std::move(value));
  }
  return args;
}

Result<Value> Machine::FilterOrTest(const Expr& expr, const Value* input) {
  Value self;
  if (expr.args[0] == nullptr) {
    self = *input;
  } else if (input != nullptr) {
    SURETY_ASSIGN_OR_RETURN(self, FilterOrTest(*expr.args[0], input));
  } else {
    SURETY_ASSIGN_OR_RETURN(self, Evaluate(*expr.args[0]));
  }
  SURETY_ASSIGN_OR_RETURN(const CallArgs args, Arguments(expr));
  SURETY_ASSIGN_OR_RETURN(const BoundArgs bound, At(expr, Bind(*expr.function, args)));
  return At(expr, expr.function->call(*this, self, bound));
}

Result<Value> Machine::Call(const Expr& expr, CallablePtr caller) {
  const Expr& callee = *expr.args[0];
  if (callee.kind != Expr::Kind::kAttribute) {
    SURETY_ASSIGN_OR_RETURN(const Value function, Evaluate(callee));
    SURETY_ASSIGN_OR_RETURN(CallArgs args, Arguments(expr));
    return CallFunction(expr, function, std::move(args), std::move(caller));
  }
  SURETY_ASSIGN_OR_RETURN(const Value object, Evaluate(*callee.args[0]));
  if (const FunctionSpec* method = FindMethod(object, callee.name)) {
    SURETY_ASSIGN_OR_RETURN(const CallArgs args, Arguments(expr));
    SURETY_ASSIGN_OR_RETURN(const BoundArgs bound, At(callee, Bind(*method, args)));
    return At(callee, method->call(*this, object, bound));
  }
  SURETY_ASSIGN_OR_RETURN(const Value function, At(callee, GetAttribute(*this, object, callee.name)));
  SURETY_ASSIGN_OR_RETURN(CallArgs args, Arguments(expr));
  return CallFunction(expr, function, std::move(args), std::move(caller));
}

Result<Value> Machine::CallFunction(const Expr& expr, const Value& function, CallArgs args, CallablePtr caller) {
  if (function.IsUndefined()) return Error(Located(expr.at, UndefinedError(function)));
  if (!function.Is<CallablePtr>()) {
    return Error(ErrorAt(expr.at, "a value of type " + std::string(function.TypeName()) + " cannot be called"));
  }
  const CallableObject& callable = function.callable();
  switch (callable.kind) {
    case CallableObject::Kind::kMacro: return CallMacro(expr, callable, std::move(args), std::move(caller));
    case CallableObject::Kind::kGlobal:
      if (callable.global == Global::kRaiseException) {
        // The template's own message reaches the client as it is.
        if (args.positional.size() != 1) return Error(ErrorAt(expr.at, "raise_exception takes one message"));
        SURETY_ASSIGN_OR_RETURN(const TaintedText message, At(expr, ToText(*this, args.positional[0])));
        return Error(InvalidArgumentError(message.text()));
      }
      return At(expr, CallGlobal(callable.global, args));
    case CallableObject::Kind::kMethod: {
      SURETY_ASSIGN_OR_RETURN(const BoundArgs bound, At(expr, Bind(*callable.method, args)));
      return At(expr, callable.method->call(*this, callable.self, bound));
    }
    case CallableObject::Kind::kCycle:
      if (args.positional.empty()) return Error(ErrorAt(expr.at, "loop.cycle needs at least one argument"));
      return args.positional[callable.self.loop().index % args.positional.size()];
  }
  return Value();
}

Result<Value> Machine::CallGlobal(Global global, const CallArgs& args) {
  switch (global) {
    case Global::kRange: return MakeRange(*this, args);
    case Global::kDict: {
      SURETY_ASSIGN_OR_RETURN(std::shared_ptr<DictObject> dict, BuildDict(*this, args));
      return MakeDict(std::move(dict));
    }
    case Global::kNamespace: {
      SURETY_ASSIGN_OR_RETURN(const std::shared_ptr<DictObject> dict, BuildDict(*this, args));
      NamespaceObject* space = NewNamespace();
      for (const auto& [key, value] : dict->entries) {
        if (!key.IsText()) return Error(InvalidArgumentError("a namespace's names are strings"));
        space->Set(key.text().text(), value);
        budget_.Spend(1 + static_cast<int64_t>(space->entries.size()) / 8);
        SURETY_RETURN_IF_ERROR(CheckBudget());
      }
      return Value(space);
    }
    case Global::kStrftimeNow: {
      if (args.positional.size() != 1 || !args.positional[0].IsText()) {
        return Error(InvalidArgumentError("strftime_now takes one format string"));
      }
      const TaintedText& format = args.positional[0].text();
      SURETY_ASSIGN_OR_RETURN(const std::string text, FormatUtcTime(input_.now_unix_seconds, format.text()));
      return MakeText(TaintedText(text, format.AllTrusted()));
    }
    case Global::kRaiseException: break;
  }
  return Value();
}

Status Machine::BindParameters(const Macro& macro, CallArgs& args, const CallablePtr& caller) {
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Macro::Parameter& parameter = macro.parameters[i];
    const auto named = std::find_if(args.named.begin(), args.named.end(),
                                    [&](const auto& arg) { return arg.first == parameter.name; });
    if (i < args.positional.size()) {
      if (named != args.named.end()) {
        return InvalidArgumentError("macro '" + macro.name + "' got two values for '" + parameter.name + "'");
      }
      scope_->Set(parameter.id, args.positional[i]);
    } else if (named != args.named.end()) {
      scope_->Set(parameter.id, named->second);
      args.named.erase(named);
    } else if (parameter.fallback != nullptr) {
      SURETY_ASSIGN_OR_RETURN(Value fallback, Evaluate(*parameter.fallback));
      scope_->Set(parameter.id, std::move(fallback));
    } else {
      scope_->Set(parameter.id, Value::UndefinedNamed(parameter.name));
    }
  }
  const auto set_special = [&](std::string_view name, Value value) {
    const auto at = std::find(parsed_.names.begin(), parsed_.names.end(), name);
    if (at != parsed_.names.end()) scope_->Set(static_cast<int>(at - parsed_.names.begin()), std::move(value));
  };
  const size_t n_bound = std::min(args.positional.size(), macro.parameters.size());
  if (macro.uses_varargs) {
    std::vector<Value> rest(args.positional.begin() + static_cast<std::ptrdiff_t>(n_bound), args.positional.end());
    SURETY_ASSIGN_OR_RETURN(Value varargs, MakeList(std::move(rest), ListObject::Form::kTuple));
    set_special("varargs", std::move(varargs));
  } else if (args.positional.size() > n_bound) {
    return InvalidArgumentError("macro '" + macro.name + "' takes at most " +
                                std::to_string(macro.parameters.size()) + " positional arguments");
  }
  if (macro.uses_kwargs) {
    auto dict = std::make_shared<DictObject>();
    for (auto& [name, value] : args.named) dict->Set(Value::Text(name, true), std::move(value), budget_);
    SURETY_ASSIGN_OR_RETURN(Value kwargs, MakeDict(std::move(dict)));
    set_special("kwargs", std::move(kwargs));
  } else if (!args.named.empty()) {
    return InvalidArgumentError("macro '" + macro.name + "' has no parameter '" + args.named.front().first + "'");
  }
  if (macro.uses_caller) {
    set_special("caller", caller != nullptr ? Value(caller) : Value::UndefinedNamed("caller"));
  } else if (caller != nullptr) {
    return InvalidArgumentError("macro '" + macro.name + "' does not use caller, so it cannot be used with 'call'");
  }
  return OkStatus();
}

Result<Value> Machine::CallMacro(const Expr& expr, const CallableObject& function, CallArgs args,
                                 CallablePtr caller) {
  if (macro_depth_ >= limits_.max_depth) {
    return Error(ResourceExhaustedError(ErrorAt(expr.at, "macros call each other deeper than max_depth = " +
                                                             std::to_string(limits_.max_depth))
                                            .message()));
  }
  ++macro_depth_;
  auto scope = std::make_unique<Scope>(function.scope);
  Scope* const outer = std::exchange(scope_, scope.get());
  const Status bound = BindParameters(*function.macro, args, caller);
  scope_ = outer;
  TaintedText text;
  Result<Flow> flow = Flow::kNext;
  if (bound.ok()) flow = InScope(std::move(scope), function.macro->body, &text);
  --macro_depth_;
  if (!bound.ok()) {
    // A default's own error has its place already.
    return Error(bound.message().starts_with("line ") ? bound : Located(expr.at, bound));
  }
  if (!flow) return Error(flow.error());
  return At(expr, MakeText(std::move(text)));
}

}  // namespace surety::model::chat
