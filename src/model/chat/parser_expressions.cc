#include <algorithm>
#include <array>

#include "model/chat/function_spec.h"
#include "model/chat/parser_internal.h"

namespace surety::model::chat {

bool TokenStream::SkipOperator(std::string_view op) {
  if (!now().IsOperator(op)) return false;
  Take();
  return true;
}

bool TokenStream::SkipName(std::string_view name) {
  if (!now().IsName(name)) return false;
  Take();
  return true;
}

Status TokenStream::ExpectOperator(std::string_view op) {
  if (SkipOperator(op)) return OkStatus();
  return ErrorAt(now().at, "expected '" + std::string(op) + "', found " + Describe(now()));
}

Result<std::string> TokenStream::ExpectName() {
  if (now().kind != Token::Kind::kName) return Error(ErrorAt(now().at, "expected a name, found " + Describe(now())));
  return Take().text;
}

int ExpressionParser::Intern(std::string_view name) {
  const auto [it, is_new] = ids_.emplace(std::string(name), static_cast<int>(names_.size()));
  if (is_new) names_.emplace_back(name);
  return it->second;
}

Status ExpressionParser::CheckDepth(int depth, Position at) const {
  if (depth <= limits_.max_depth) return OkStatus();
  return ResourceExhaustedError(ErrorAt(at, "nested deeper than max_depth = " + std::to_string(limits_.max_depth))
                                    .message());
}

Result<ExprPtr> ExpressionParser::Finish(ExprPtr node) const {
  for (const ExprPtr& arg : node->args) {
    if (arg != nullptr) node->depth = std::max(node->depth, arg->depth + 1);
  }
  for (const auto& [name, arg] : node->keywords) node->depth = std::max(node->depth, arg->depth + 1);
  SURETY_RETURN_IF_ERROR(CheckDepth(node->depth, node->at));
  return node;
}

Result<ExprPtr> ExpressionParser::Expression() {
  const Nested nested(depth_);
  SURETY_RETURN_IF_ERROR(CheckDepth(depth_, tokens_.now().at));
  SURETY_ASSIGN_OR_RETURN(ExprPtr node, OrExpression());
  while (tokens_.now().IsName("if")) {
    ExprPtr ternary = MakeExpr(Expr::Kind::kTernary, tokens_.Take().at);
    SURETY_ASSIGN_OR_RETURN(ExprPtr condition, OrExpression());
    ExprPtr otherwise;
    if (tokens_.SkipName("else")) {
      SURETY_ASSIGN_OR_RETURN(otherwise, Expression());
    }
    ternary->args.push_back(std::move(condition));
    ternary->args.push_back(std::move(node));
    ternary->args.push_back(std::move(otherwise));
    SURETY_ASSIGN_OR_RETURN(node, Finish(std::move(ternary)));
  }
  return node;
}

Result<ExprPtr> ExpressionParser::Joined(Expr::Kind kind, std::string_view word, Rule part) {
  SURETY_ASSIGN_OR_RETURN(ExprPtr first, (this->*part)());
  const auto comes = [&] {
    return kind == Expr::Kind::kConcat ? tokens_.now().IsOperator(word) : tokens_.now().IsName(word);
  };
  if (!comes()) return first;
  ExprPtr node = MakeExpr(kind, tokens_.now().at);
  node->args.push_back(std::move(first));
  while (comes()) {
    tokens_.Take();
    SURETY_ASSIGN_OR_RETURN(ExprPtr next, (this->*part)());
    node->args.push_back(std::move(next));
  }
  return Finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::Chain(std::initializer_list<std::pair<std::string_view, Operator>> ops, Rule part) {
  SURETY_ASSIGN_OR_RETURN(ExprPtr first, (this->*part)());
  ExprPtr node;
  while (true) {
    const auto op = std::find_if(ops.begin(), ops.end(),
                                 [&](const auto& candidate) { return tokens_.now().IsOperator(candidate.first); });
    if (op == ops.end()) break;
    if (node == nullptr) {
      node = MakeExpr(Expr::Kind::kChain, tokens_.now().at);
      node->args.push_back(std::move(first));
    }
    tokens_.Take();
    SURETY_ASSIGN_OR_RETURN(ExprPtr next, (this->*part)());
    node->args.push_back(std::move(next));
    node->ops.push_back(op->second);
  }
  if (node == nullptr) return first;
  return Finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::OrExpression() {
  return Joined(Expr::Kind::kOr, "or", &ExpressionParser::AndExpression);
}
Result<ExprPtr> ExpressionParser::AndExpression() {
  return Joined(Expr::Kind::kAnd, "and", &ExpressionParser::NotExpression);
}

Result<ExprPtr> ExpressionParser::NotExpression() {
  if (!tokens_.now().IsName("not")) return Comparison();
  const Nested nested(depth_);
  SURETY_RETURN_IF_ERROR(CheckDepth(depth_, tokens_.now().at));
  ExprPtr node = MakeExpr(Expr::Kind::kNot, tokens_.Take().at);
  SURETY_ASSIGN_OR_RETURN(ExprPtr operand, NotExpression());
  node->args.push_back(std::move(operand));
  return Finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::Comparison() {
  static constexpr std::array<std::pair<std::string_view, Operator>, 6> kComparisons = {
      {{"==", Operator::kEqual}, {"!=", Operator::kNotEqual}, {"<", Operator::kLess}, {"<=", Operator::kLessEqual},
       {">", Operator::kGreater}, {">=", Operator::kGreaterEqual}}};
  SURETY_ASSIGN_OR_RETURN(ExprPtr first, Sum());
  ExprPtr node = MakeExpr(Expr::Kind::kCompare, tokens_.now().at);
  while (true) {
    const auto op = std::find_if(kComparisons.begin(), kComparisons.end(),
                                 [&](const auto& candidate) { return tokens_.now().IsOperator(candidate.first); });
    if (op != kComparisons.end()) {
      tokens_.Take();
      node->ops.push_back(op->second);
    } else if (tokens_.SkipName("in")) {
      node->ops.push_back(Operator::kIn);
    } else if (tokens_.now().IsName("not") && tokens_.ahead().IsName("in")) {
      tokens_.Take();
      tokens_.Take();
      node->ops.push_back(Operator::kNotIn);
    } else {
      break;
    }
    if (node->args.empty()) node->args.push_back(std::move(first));
    SURETY_ASSIGN_OR_RETURN(ExprPtr next, Sum());
    node->args.push_back(std::move(next));
  }
  if (node->ops.empty()) return first;
  return Finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::Sum() {
  return Chain({{"+", Operator::kAdd}, {"-", Operator::kSubtract}}, &ExpressionParser::Concatenation);
}
Result<ExprPtr> ExpressionParser::Concatenation() {
  return Joined(Expr::Kind::kConcat, "~", &ExpressionParser::Product);
}
Result<ExprPtr> ExpressionParser::Product() {
  return Chain({{"*", Operator::kMultiply}, {"/", Operator::kDivide}, {"//", Operator::kFloorDivide},
                {"%", Operator::kModulo}},
               &ExpressionParser::Power);
}
Result<ExprPtr> ExpressionParser::Power() {
  return Chain({{"**", Operator::kPower}}, &ExpressionParser::UnaryWithFilters);
}

Result<ExprPtr> ExpressionParser::UnaryWithFilters() {
  SURETY_ASSIGN_OR_RETURN(ExprPtr node, Unary());
  while (true) {
    if (tokens_.now().IsOperator("|")) {
      SURETY_ASSIGN_OR_RETURN(node, FilterChain(std::move(node)));
    } else if (tokens_.now().IsName("is")) {
      SURETY_ASSIGN_OR_RETURN(node, Test(std::move(node)));
    } else if (tokens_.now().IsOperator("(")) {
      SURETY_ASSIGN_OR_RETURN(node, Call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> ExpressionParser::Unary() {
  const bool minus = tokens_.now().IsOperator("-");
  if (!minus && !tokens_.now().IsOperator("+")) {
    SURETY_ASSIGN_OR_RETURN(ExprPtr primary, Primary());
    return Postfix(std::move(primary));
  }
  const Nested nested(depth_);
  SURETY_RETURN_IF_ERROR(CheckDepth(depth_, tokens_.now().at));
  ExprPtr node = MakeExpr(minus ? Expr::Kind::kNegate : Expr::Kind::kPlus, tokens_.Take().at);
  SURETY_ASSIGN_OR_RETURN(ExprPtr operand, Unary());
  node->args.push_back(std::move(operand));
  SURETY_ASSIGN_OR_RETURN(node, Finish(std::move(node)));
  return Postfix(std::move(node));
}

Result<ExprPtr> ExpressionParser::Literal(Token token) {
  ExprPtr node = MakeExpr(Expr::Kind::kConstant, token.at);
  switch (token.kind) {
    case Token::Kind::kInteger: node->value = Value(token.integer); break;
    case Token::Kind::kFloat: node->value = Value(token.number); break;
    case Token::Kind::kText: {
      std::string text = std::move(token.text);
      while (tokens_.now().kind == Token::Kind::kText) text += tokens_.Take().text;
      node->value = Value::Text(text, true);
      break;
    }
    default: {
      const std::string& name = token.text;
      if (name == "true" || name == "True") {
        node->value = Value(true);
      } else if (name == "false" || name == "False") {
        node->value = Value(false);
      } else if (name == "none" || name == "None") {
        node->value = Value(None{});
      } else {
        node->kind = Expr::Kind::kName;
        node->id = Intern(name);
        node->name = name;
        for (Macro* macro : open_macros_) {
          macro->uses_caller |= name == "caller";
          macro->uses_varargs |= name == "varargs";
          macro->uses_kwargs |= name == "kwargs";
        }
      }
    }
  }
  return node;
}

Result<ExprPtr> ExpressionParser::Primary() {
  const Token& now = tokens_.now();
  switch (now.kind) {
    case Token::Kind::kName:
    case Token::Kind::kText:
    case Token::Kind::kInteger:
    case Token::Kind::kFloat: return Literal(tokens_.Take());
    default: break;
  }
  if (now.IsOperator("[")) return ListLiteral();
  if (now.IsOperator("{")) return DictLiteral();
  if (!now.IsOperator("(")) return Error(ErrorAt(now.at, "expected an expression, found " + Describe(now)));
  const Position at = tokens_.Take().at;
  if (tokens_.SkipOperator(")")) return MakeExpr(Expr::Kind::kTuple, at);
  SURETY_ASSIGN_OR_RETURN(ExprPtr node, TupleOrOne(true));
  SURETY_RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
  return node;
}

Result<ExprPtr> ExpressionParser::TupleOrOne(bool with_ternary, std::string_view end) {
  const auto at_end = [&] {
    const Token& now = tokens_.now();
    return now.kind == Token::Kind::kBlockEnd || now.kind == Token::Kind::kOutputEnd || now.IsOperator(")") ||
           (!end.empty() && now.IsName(end));
  };
  const Position at = tokens_.now().at;
  if (at_end()) return Error(ErrorAt(at, "expected an expression, found " + Describe(tokens_.now())));
  SURETY_ASSIGN_OR_RETURN(ExprPtr first, with_ternary ? Expression() : OrExpression());
  if (!tokens_.now().IsOperator(",")) return first;
  ExprPtr node = MakeExpr(Expr::Kind::kTuple, at);
  node->args.push_back(std::move(first));
  while (tokens_.SkipOperator(",")) {
    if (at_end()) break;
    SURETY_ASSIGN_OR_RETURN(ExprPtr next, with_ternary ? Expression() : OrExpression());
    node->args.push_back(std::move(next));
  }
  return Finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::ListLiteral() {
  ExprPtr node = MakeExpr(Expr::Kind::kList, tokens_.Take().at);
  while (!tokens_.now().IsOperator("]")) {
    if (!node->args.empty()) {
      SURETY_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (tokens_.now().IsOperator("]")) break;
    }
    SURETY_ASSIGN_OR_RETURN(ExprPtr item, Expression());
    node->args.push_back(std::move(item));
  }
  tokens_.Take();
  return Finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::DictLiteral() {
  ExprPtr node = MakeExpr(Expr::Kind::kDict, tokens_.Take().at);
  while (!tokens_.now().IsOperator("}")) {
    if (!node->args.empty()) {
      SURETY_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (tokens_.now().IsOperator("}")) break;
    }
    SURETY_ASSIGN_OR_RETURN(ExprPtr key, Expression());
    SURETY_RETURN_IF_ERROR(tokens_.ExpectOperator(":"));
    SURETY_ASSIGN_OR_RETURN(ExprPtr value, Expression());
    node->args.push_back(std::move(key));
    node->args.push_back(std::move(value));
  }
  tokens_.Take();
  return Finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::Postfix(ExprPtr node) {
  while (true) {
    if (tokens_.now().IsOperator(".")) {
      SURETY_ASSIGN_OR_RETURN(node, Attribute(std::move(node)));
    } else if (tokens_.now().IsOperator("[")) {
      SURETY_ASSIGN_OR_RETURN(node, Subscript(std::move(node)));
    } else if (tokens_.now().IsOperator("(")) {
      SURETY_ASSIGN_OR_RETURN(node, Call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> ExpressionParser::Attribute(ExprPtr object) {
  const Position at = tokens_.Take().at;
  Token name = tokens_.Take();
  ExprPtr node;
  if (name.kind == Token::Kind::kInteger) {
    node = MakeExpr(Expr::Kind::kIndex, at);
    node->args.push_back(std::move(object));
    SURETY_ASSIGN_OR_RETURN(ExprPtr index, Literal(std::move(name)));
    node->args.push_back(std::move(index));
    return Finish(std::move(node));
  }
  if (name.kind != Token::Kind::kName) {
    return Error(ErrorAt(name.at, "expected a name after '.', found " + Describe(name)));
  }
  if (name.text.starts_with("__")) {
    return Error(ErrorAt(name.at, "attribute '" + name.text + "' is not allowed: templates see values, not objects"));
  }
  node = MakeExpr(Expr::Kind::kAttribute, at);
  node->args.push_back(std::move(object));
  node->name = std::move(name.text);
  return Finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::Subscript(ExprPtr object) {
  const Position at = tokens_.Take().at;
  ExprPtr node = MakeExpr(Expr::Kind::kIndex, at);
  node->args.push_back(std::move(object));
  ExprPtr start;
  if (!tokens_.now().IsOperator(":")) {
    SURETY_ASSIGN_OR_RETURN(start, Expression());
  }
  if (!tokens_.now().IsOperator(":")) {
    node->args.push_back(std::move(start));
  } else {
    node->kind = Expr::Kind::kSlice;
    node->args.push_back(std::move(start));
    while (node->args.size() < 4) {
      ExprPtr part;
      if (tokens_.SkipOperator(":") && !tokens_.now().IsOperator(":") && !tokens_.now().IsOperator("]")) {
        SURETY_ASSIGN_OR_RETURN(part, Expression());
      }
      node->args.push_back(std::move(part));
    }
  }
  if (tokens_.now().IsOperator(",")) {
    return Error(ErrorAt(tokens_.now().at, "only one index or slice is supported between brackets"));
  }
  SURETY_RETURN_IF_ERROR(tokens_.ExpectOperator("]"));
  return Finish(std::move(node));
}

Status ExpressionParser::Arguments(Expr& call) {
  SURETY_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
  bool first = true;
  while (!tokens_.now().IsOperator(")")) {
    if (!first) {
      SURETY_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (tokens_.now().IsOperator(")")) break;
    }
    first = false;
    const Position at = tokens_.now().at;
    if (tokens_.now().IsOperator("*") || tokens_.now().IsOperator("**")) {
      return ErrorAt(at, "'*' and '**' in the arguments of a call are not supported");
    }
    if (tokens_.now().kind == Token::Kind::kName && tokens_.ahead().IsOperator("=")) {
      std::string name = tokens_.Take().text;
      tokens_.Take();
      for (const auto& keyword : call.keywords) {
        if (keyword.first == name) return ErrorAt(at, "argument '" + name + "' is given twice");
      }
      SURETY_ASSIGN_OR_RETURN(ExprPtr value, Expression());
      call.keywords.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call.keywords.empty()) return ErrorAt(at, "a positional argument must not follow a named one");
      SURETY_ASSIGN_OR_RETURN(ExprPtr value, Expression());
      call.args.push_back(std::move(value));
    }
  }
  return tokens_.ExpectOperator(")");
}

Result<ExprPtr> ExpressionParser::Call(ExprPtr function) {
  ExprPtr node = MakeExpr(Expr::Kind::kCall, tokens_.now().at);
  node->args.push_back(std::move(function));
  SURETY_RETURN_IF_ERROR(Arguments(*node));
  return Finish(std::move(node));
}

// A call of a filter or test must fit it; so must the filter or test that map, select and their like are given by name.
Status ExpressionParser::CheckArguments(const Expr& call) const {
  std::vector<std::string_view> names;
  for (const auto& keyword : call.keywords) names.push_back(keyword.first);
  if (const Status fits = CheckCall(*call.function, call.args.size() - 1, names); !fits.ok()) {
    return ErrorAt(call.at, fits.message());
  }
  if (call.kind != Expr::Kind::kFilter) return OkStatus();
  const bool is_map = call.name == "map";
  const bool by_attribute = call.name == "selectattr" || call.name == "rejectattr";
  if (!is_map && !by_attribute && call.name != "select" && call.name != "reject") return OkStatus();
  const size_t place = by_attribute ? 2 : 1;
  if (call.args.size() <= place || call.args[place]->kind != Expr::Kind::kConstant) return OkStatus();
  const Value& inner = call.args[place]->value;
  if (!inner.IsText()) return OkStatus();
  const std::string& name = inner.text().text();
  if (is_map && FindFilter(name) == nullptr) return ErrorAt(call.at, UnknownFilter(name).message());
  if (!is_map && FindTest(name) == nullptr) return ErrorAt(call.at, UnknownTest(name).message());
  return OkStatus();
}

Result<ExprPtr> ExpressionParser::FilterCall(ExprPtr input) {
  ExprPtr node = MakeExpr(Expr::Kind::kFilter, tokens_.now().at);
  SURETY_ASSIGN_OR_RETURN(node->name, tokens_.ExpectName());
  node->function = FindFilter(node->name);
  if (node->function == nullptr) return Error(ErrorAt(node->at, UnknownFilter(node->name).message()));
  node->args.push_back(std::move(input));
  if (tokens_.now().IsOperator("(")) SURETY_RETURN_IF_ERROR(Arguments(*node));
  SURETY_RETURN_IF_ERROR(CheckArguments(*node));
  return Finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::FilterChain(ExprPtr input) {
  while (tokens_.SkipOperator("|")) {
    SURETY_ASSIGN_OR_RETURN(input, FilterCall(std::move(input)));
  }
  return input;
}

Result<ExprPtr> ExpressionParser::Test(ExprPtr input) {
  const Position at = tokens_.Take().at;
  const bool negated = tokens_.SkipName("not");
  ExprPtr node = MakeExpr(Expr::Kind::kTest, tokens_.now().at);
  SURETY_ASSIGN_OR_RETURN(node->name, tokens_.ExpectName());
  node->function = FindTest(node->name);
  if (node->function == nullptr) return Error(ErrorAt(node->at, UnknownTest(node->name).message()));
  node->args.push_back(std::move(input));
  const Token& now = tokens_.now();
  const bool ends = now.IsName("else") || now.IsName("or") || now.IsName("and");
  if (now.IsOperator("(")) {
    SURETY_RETURN_IF_ERROR(Arguments(*node));
  } else if (now.IsName("is")) {
    return Error(ErrorAt(now.at, "tests cannot be chained with 'is'; use 'and'"));
  } else if (!ends && (now.kind == Token::Kind::kName || now.kind == Token::Kind::kText ||
                       now.kind == Token::Kind::kInteger || now.kind == Token::Kind::kFloat || now.IsOperator("[") ||
                       now.IsOperator("{"))) {
    SURETY_ASSIGN_OR_RETURN(ExprPtr primary, Primary());
    SURETY_ASSIGN_OR_RETURN(ExprPtr argument, Postfix(std::move(primary)));
    node->args.push_back(std::move(argument));
  }
  SURETY_RETURN_IF_ERROR(CheckArguments(*node));
  SURETY_ASSIGN_OR_RETURN(node, Finish(std::move(node)));
  if (!negated) return node;
  ExprPtr inverse = MakeExpr(Expr::Kind::kNot, at);
  inverse->args.push_back(std::move(node));
  return Finish(std::move(inverse));
}

Result<Target> ExpressionParser::OneTarget(bool with_namespace) {
  Target target;
  target.at = tokens_.now().at;
  if (tokens_.SkipOperator("(")) {
    const Nested nested(depth_);
    SURETY_RETURN_IF_ERROR(CheckDepth(depth_, target.at));
    SURETY_ASSIGN_OR_RETURN(target, ParseTarget(with_namespace));
    SURETY_RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
    return target;
  }
  SURETY_ASSIGN_OR_RETURN(const std::string name, tokens_.ExpectName());
  static constexpr std::array<std::string_view, 6> kReserved = {"true", "false", "none", "True", "False", "None"};
  if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
    return Error(ErrorAt(target.at, "'" + name + "' cannot be assigned to"));
  }
  target.id = Intern(name);
  if (with_namespace && tokens_.SkipOperator(".")) {
    const Position at = tokens_.now().at;
    SURETY_ASSIGN_OR_RETURN(target.attribute, tokens_.ExpectName());
    if (target.attribute.starts_with("__")) {
      return Error(ErrorAt(at, "attribute '" + target.attribute + "' is not allowed"));
    }
  }
  return target;
}

Result<Target> ExpressionParser::ParseTarget(bool with_namespace) {
  SURETY_ASSIGN_OR_RETURN(Target first, OneTarget(with_namespace));
  if (!tokens_.now().IsOperator(",")) return first;
  Target tuple;
  tuple.at = first.at;
  tuple.is_tuple = true;
  tuple.items.push_back(std::move(first));
  while (tokens_.SkipOperator(",")) {
    if (tokens_.now().kind != Token::Kind::kName && !tokens_.now().IsOperator("(")) break;
    if (tokens_.now().IsName("in")) break;
    SURETY_ASSIGN_OR_RETURN(Target next, OneTarget(with_namespace));
    tuple.items.push_back(std::move(next));
  }
  return tuple;
}

}  // namespace surety::model::chat
