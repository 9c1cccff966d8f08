#include "model/chat/parser.h"

#include <algorithm>
#include <array>

#include "base/nearest_name.h"
#include "model/chat/parser_internal.h"

namespace surety::model::chat {
namespace {

class StatementParser {
 public:
  StatementParser(std::vector<Token> tokens, const TemplateLimits& limits)
      : tokens_(std::move(tokens)), expressions_(tokens_, limits) {}

  Result<Template> Run() {
    Template result;
    SURETY_ASSIGN_OR_RETURN(result.body, ParseBody({}, {}));
    result.names = expressions_.TakeNames();
    return result;
  }

 private:
  using StmtPtr = std::unique_ptr<Stmt>;
  using Words = std::initializer_list<std::string_view>;

  static StmtPtr Make(Stmt::Kind kind, Position at) {
    auto node = std::make_unique<Stmt>();
    node->kind = kind;
    node->at = at;
    return node;
  }

  // Statements up to a tag that begins with one of `ends`; that word is then the next token. At top level `ends` is
  // empty and the end of the template ends it. `opener` is for the message when the end is missing.
  Result<Body> ParseBody(Words ends, const Token& opener) {
    const ExpressionParser::Nested nested(depth_);
    SURETY_RETURN_IF_ERROR(expressions_.CheckDepth(depth_, tokens_.now().at));
    Body body;
    while (tokens_.now().kind != Token::Kind::kEnd) {
      Token token = tokens_.Take();
      if (token.kind == Token::Kind::kData) {
        body.push_back(Make(Stmt::Kind::kText, token.at));
        body.back()->value = Value::Text(token.text, true);
      } else if (token.kind == Token::Kind::kOutputBegin) {
        body.push_back(Make(Stmt::Kind::kOutput, token.at));
        SURETY_ASSIGN_OR_RETURN(body.back()->expr, expressions_.TupleOrOne(true));
        SURETY_RETURN_IF_ERROR(Expect(Token::Kind::kOutputEnd, "'}}'"));
      } else {
        const Token& word = tokens_.now();
        if (word.kind != Token::Kind::kName) {
          return Error(ErrorAt(word.at, "expected the name of a statement, found " + Describe(word)));
        }
        if (std::find(ends.begin(), ends.end(), word.text) != ends.end()) return body;
        SURETY_ASSIGN_OR_RETURN(StmtPtr statement, Statement());
        body.push_back(std::move(statement));
      }
    }
    if (ends.size() == 0) return body;
    return Error(ErrorAt(opener.at, "'" + opener.text + "' has no '" + std::string(*(ends.end() - 1)) + "'"));
  }

  Status Expect(Token::Kind kind, std::string_view what) {
    if (tokens_.now().kind != kind) {
      return ErrorAt(tokens_.now().at, "expected " + std::string(what) + ", found " + Describe(tokens_.now()));
    }
    tokens_.Take();
    return OkStatus();
  }
  Status EndOfTag() { return Expect(Token::Kind::kBlockEnd, "'%}'"); }

  // The rest of a tag, the body, and the tag that ends it.
  Result<Body> BodyUntil(std::string_view end, const Token& opener) {
    SURETY_RETURN_IF_ERROR(EndOfTag());
    SURETY_ASSIGN_OR_RETURN(Body body, ParseBody({end}, opener));
    tokens_.Take();
    SURETY_RETURN_IF_ERROR(EndOfTag());
    return body;
  }

  Result<StmtPtr> Statement() {
    struct Known {
      std::string_view word;
      Result<StmtPtr> (StatementParser::*parse)(Token);
    };
    static constexpr std::array<Known, 11> kStatements = {
        {{"if", &StatementParser::If}, {"for", &StatementParser::For}, {"set", &StatementParser::Set},
         {"macro", &StatementParser::ParseMacro}, {"call", &StatementParser::CallBlock},
         {"filter", &StatementParser::FilterBlock}, {"with", &StatementParser::With},
         {"generation", &StatementParser::Generation}, {"break", &StatementParser::Jump},
         {"continue", &StatementParser::Jump}, {"print", &StatementParser::Print}}};
    Token word = tokens_.Take();
    for (const Known& known : kStatements) {
      if (known.word == word.text) return (this->*known.parse)(std::move(word));
    }
    static constexpr std::array<std::string_view, 7> kInheritance = {"block", "extends", "include", "import", "from",
                                                                     "autoescape", "do"};
    if (std::find(kInheritance.begin(), kInheritance.end(), word.text) != kInheritance.end()) {
      return Error(ErrorAt(word.at, "statement '" + word.text + "' is not supported in a chat template"));
    }
    std::vector<std::string> names;
    for (const Known& known : kStatements) names.emplace_back(known.word);
    for (const char* end : {"endif", "endfor", "else", "elif", "endset", "endmacro"}) names.emplace_back(end);
    const std::string nearest = NearestName(word.text, names);
    return Error(ErrorAt(word.at, nearest == word.text
                                      ? "'" + word.text + "' without its beginning"
                                      : "unknown statement '" + word.text + "'" +
                                            (nearest.empty() ? "" : "; did you mean '" + nearest + "'?")));
  }

  Result<StmtPtr> If(Token opener) {
    StmtPtr node = Make(Stmt::Kind::kIf, opener.at);
    while (true) {
      SURETY_ASSIGN_OR_RETURN(ExprPtr condition, expressions_.TupleOrOne(false));
      SURETY_RETURN_IF_ERROR(EndOfTag());
      SURETY_ASSIGN_OR_RETURN(Body body, ParseBody({"elif", "else", "endif"}, opener));
      node->branches.emplace_back(std::move(condition), std::move(body));
      const Token word = tokens_.Take();
      if (word.text == "elif") continue;
      if (word.text == "else") {
        SURETY_RETURN_IF_ERROR(EndOfTag());
        SURETY_ASSIGN_OR_RETURN(node->otherwise, ParseBody({"endif"}, opener));
        tokens_.Take();
      }
      SURETY_RETURN_IF_ERROR(EndOfTag());
      return node;
    }
  }

  Result<StmtPtr> For(Token opener) {
    StmtPtr node = Make(Stmt::Kind::kFor, opener.at);
    node->id = expressions_.Intern("loop");
    SURETY_ASSIGN_OR_RETURN(node->target, expressions_.ParseTarget(false));
    if (!tokens_.SkipName("in")) {
      return Error(ErrorAt(tokens_.now().at, "expected 'in', found " + Describe(tokens_.now())));
    }
    SURETY_ASSIGN_OR_RETURN(node->expr, expressions_.TupleOrOne(false, "recursive"));
    if (tokens_.SkipName("if")) {
      SURETY_ASSIGN_OR_RETURN(node->condition, expressions_.Expression());
    }
    if (tokens_.now().IsName("recursive")) {
      return Error(ErrorAt(tokens_.now().at, "recursive loops are not supported; use a macro that calls itself"));
    }
    SURETY_RETURN_IF_ERROR(EndOfTag());
    ++loops_;
    auto body = ParseBody({"else", "endfor"}, opener);
    --loops_;
    SURETY_ASSIGN_OR_RETURN(node->body, std::move(body));
    if (tokens_.Take().text == "else") {
      SURETY_RETURN_IF_ERROR(EndOfTag());
      SURETY_ASSIGN_OR_RETURN(node->otherwise, ParseBody({"endfor"}, opener));
      tokens_.Take();
    }
    SURETY_RETURN_IF_ERROR(EndOfTag());
    return node;
  }

  Result<StmtPtr> Set(Token opener) {
    StmtPtr node = Make(Stmt::Kind::kSet, opener.at);
    SURETY_ASSIGN_OR_RETURN(node->target, expressions_.ParseTarget(true));
    if (tokens_.SkipOperator("=")) {
      SURETY_ASSIGN_OR_RETURN(node->expr, expressions_.TupleOrOne(true));
      SURETY_RETURN_IF_ERROR(EndOfTag());
      return node;
    }
    node->kind = Stmt::Kind::kSetBlock;
    SURETY_ASSIGN_OR_RETURN(node->expr, expressions_.FilterChain(nullptr));
    SURETY_ASSIGN_OR_RETURN(node->body, BodyUntil("endset", opener));
    return node;
  }

  Status Signature(Macro& macro) {
    SURETY_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
    while (!tokens_.now().IsOperator(")")) {
      if (!macro.parameters.empty()) SURETY_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      const Position at = tokens_.now().at;
      Macro::Parameter parameter;
      SURETY_ASSIGN_OR_RETURN(parameter.name, tokens_.ExpectName());
      parameter.id = expressions_.Intern(parameter.name);
      if (tokens_.SkipOperator("=")) {
        SURETY_ASSIGN_OR_RETURN(parameter.fallback, expressions_.Expression());
      } else if (!macro.parameters.empty() && macro.parameters.back().fallback != nullptr) {
        return ErrorAt(at, "a parameter without a default follows one with a default");
      }
      macro.parameters.push_back(std::move(parameter));
    }
    return tokens_.ExpectOperator(")");
  }

  Result<Body> MacroBody(Macro& macro, std::string_view end, const Token& opener) {
    expressions_.open_macros().push_back(&macro);
    const int loops = std::exchange(loops_, 0);
    auto body = BodyUntil(end, opener);
    loops_ = loops;
    expressions_.open_macros().pop_back();
    return body;
  }

  Result<StmtPtr> ParseMacro(Token opener) {
    StmtPtr node = Make(Stmt::Kind::kMacro, opener.at);
    node->macro = std::make_unique<Macro>();
    SURETY_ASSIGN_OR_RETURN(node->macro->name, tokens_.ExpectName());
    node->id = expressions_.Intern(node->macro->name);
    SURETY_RETURN_IF_ERROR(Signature(*node->macro));
    SURETY_ASSIGN_OR_RETURN(node->macro->body, MacroBody(*node->macro, "endmacro", opener));
    return node;
  }

  Result<StmtPtr> CallBlock(Token opener) {
    StmtPtr node = Make(Stmt::Kind::kCallBlock, opener.at);
    node->macro = std::make_unique<Macro>();
    node->macro->name = "caller";
    if (tokens_.now().IsOperator("(")) SURETY_RETURN_IF_ERROR(Signature(*node->macro));
    SURETY_ASSIGN_OR_RETURN(node->expr, expressions_.Expression());
    if (node->expr->kind != Expr::Kind::kCall) return Error(ErrorAt(opener.at, "'call' needs a call of a macro"));
    SURETY_ASSIGN_OR_RETURN(node->macro->body, MacroBody(*node->macro, "endcall", opener));
    return node;
  }

  Result<StmtPtr> FilterBlock(Token opener) {
    StmtPtr node = Make(Stmt::Kind::kFilterBlock, opener.at);
    SURETY_ASSIGN_OR_RETURN(ExprPtr first, expressions_.FilterCall(nullptr));
    SURETY_ASSIGN_OR_RETURN(node->expr, expressions_.FilterChain(std::move(first)));
    SURETY_ASSIGN_OR_RETURN(node->body, BodyUntil("endfilter", opener));
    return node;
  }

  Result<StmtPtr> With(Token opener) {
    StmtPtr node = Make(Stmt::Kind::kWith, opener.at);
    while (tokens_.now().kind != Token::Kind::kBlockEnd) {
      if (!node->assignments.empty()) SURETY_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      Target target;
      target.at = tokens_.now().at;
      SURETY_ASSIGN_OR_RETURN(const std::string name, tokens_.ExpectName());
      target.id = expressions_.Intern(name);
      SURETY_RETURN_IF_ERROR(tokens_.ExpectOperator("="));
      SURETY_ASSIGN_OR_RETURN(ExprPtr value, expressions_.Expression());
      node->assignments.emplace_back(std::move(target), std::move(value));
    }
    SURETY_ASSIGN_OR_RETURN(node->body, BodyUntil("endwith", opener));
    return node;
  }

  // transformers' mark around an assistant's answer: a scope that prints its body.
  Result<StmtPtr> Generation(Token opener) {
    StmtPtr node = Make(Stmt::Kind::kScope, opener.at);
    const int loops = std::exchange(loops_, 0);
    auto body = BodyUntil("endgeneration", opener);
    loops_ = loops;
    SURETY_ASSIGN_OR_RETURN(node->body, std::move(body));
    return node;
  }

  Result<StmtPtr> Jump(Token opener) {
    if (loops_ == 0) return Error(ErrorAt(opener.at, "'" + opener.text + "' outside a loop"));
    StmtPtr node = Make(opener.text == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue, opener.at);
    SURETY_RETURN_IF_ERROR(EndOfTag());
    return node;
  }

  Result<StmtPtr> Print(Token opener) {
    StmtPtr node = Make(Stmt::Kind::kOutput, opener.at);
    SURETY_ASSIGN_OR_RETURN(node->expr, expressions_.Expression());
    SURETY_RETURN_IF_ERROR(EndOfTag());
    return node;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;  // how many loops a break could leave
};

}  // namespace

Result<Template> ParseTemplate(std::string_view source, const TemplateLimits& limits) {
  SURETY_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenise(source, limits.max_source_bytes));
  return StatementParser(std::move(tokens), limits).Run();
}

}  // namespace surety::model::chat
