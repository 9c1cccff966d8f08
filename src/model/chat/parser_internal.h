// The parser's two halves: expressions and, built on them, statements. Recursive descent with a counted depth.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/chat/parser.h"

namespace surety::model::chat {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  const Token& now() const { return tokens_[next_]; }
  const Token& ahead() const { return tokens_[next_ + 1 < tokens_.size() ? next_ + 1 : next_]; }
  Token Take() { return next_ + 1 < tokens_.size() ? std::move(tokens_[next_++]) : tokens_[next_]; }
  bool SkipOperator(std::string_view op);
  bool SkipName(std::string_view name);
  Status ExpectOperator(std::string_view op);
  Result<std::string> ExpectName();

 private:
  std::vector<Token> tokens_;
  size_t next_ = 0;
};

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, const TemplateLimits& limits) : tokens_(tokens), limits_(limits) {}

  Result<ExprPtr> Expression();            // with "a if b else c"
  Result<ExprPtr> OrExpression();          // without
  // Expressions with commas between them: one, or a tuple. `end` is a word that ends it.
  Result<ExprPtr> TupleOrOne(bool with_ternary, std::string_view end = {});
  Result<ExprPtr> FilterChain(ExprPtr input);  // "| name(args) | ..."
  Result<ExprPtr> FilterCall(ExprPtr input);   // "name(args)"
  Result<Target> ParseTarget(bool with_namespace);

  int Intern(std::string_view name);
  std::vector<std::string> TakeNames() { return std::move(names_); }

  // Macros whose body is being read, so that a use of caller, varargs or kwargs is noted.
  std::vector<Macro*>& open_macros() { return open_macros_; }
  // Counts nesting while it lives.
  class Nested {
   public:
    explicit Nested(int& depth) : depth_(++depth) {}
    ~Nested() { --depth_; }

   private:
    int& depth_;
  };
  Status CheckDepth(int depth, Position at) const;

 private:
  using Rule = Result<ExprPtr> (ExpressionParser::*)();
  Result<ExprPtr> AndExpression();
  Result<ExprPtr> NotExpression();
  Result<ExprPtr> Comparison();
  Result<ExprPtr> Sum();
  Result<ExprPtr> Concatenation();
  Result<ExprPtr> Product();
  Result<ExprPtr> Power();
  Result<ExprPtr> UnaryWithFilters();
  Result<ExprPtr> Unary();
  Result<ExprPtr> Primary();
  Result<ExprPtr> Literal(Token token);
  Result<ExprPtr> ListLiteral();
  Result<ExprPtr> DictLiteral();
  Result<ExprPtr> Postfix(ExprPtr node);
  Result<ExprPtr> Attribute(ExprPtr node);
  Result<ExprPtr> Subscript(ExprPtr node);
  Result<ExprPtr> Call(ExprPtr node);
  Result<ExprPtr> Test(ExprPtr node);
  Result<Target> OneTarget(bool with_namespace);
  Result<ExprPtr> Joined(Expr::Kind kind, std::string_view word, Rule part);
  Result<ExprPtr> Chain(std::initializer_list<std::pair<std::string_view, Operator>> ops, Rule part);
  Status Arguments(Expr& call);
  Status CheckArguments(const Expr& call) const;
  Result<ExprPtr> Finish(ExprPtr node) const;  // sets the depth and checks it

  TokenStream& tokens_;
  const TemplateLimits& limits_;
  int depth_ = 0;
  std::unordered_map<std::string, int> ids_;
  std::vector<std::string> names_;
  std::vector<Macro*> open_macros_;
};

inline ExprPtr MakeExpr(Expr::Kind kind, Position at) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->at = at;
  return node;
}

}  // namespace surety::model::chat
