// Expressions of invariants, and what they say of tools' results.
//
//   expression = and-term { "or" and-term }        and-term = not-term { "and" not-term }
//   not-term   = [ "not" ] ( "(" expression ")" | operand [ OP operand ] )
//   operand    = TOOL "." field { "." field } | number | true | false | word | "text"
//   OP         = == | != | < | <= | > | >=
//
// Values: a path is the field's value; a literal is a number if it is one of JSON, else true, false or a text. Texts
// are compared byte by byte, case and all, numbers as numbers. A number and a text are never equal, whatever they look
// like, and neither is before the other: == is false, != true, an order is unknown. A missing tool, a missing or null
// field, a list or an object is unknown, and so is every comparison with it. A path alone is true or false where its
// value is, else unknown. and, or, not follow Kleene: unknown counts only where it could change the outcome.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <compare>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "base/nearest_name.h"
#include "gateway/tools.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

enum class Truth : uint8_t { kFalse, kUnknown, kTrue };

struct ConflictNode {
  enum class Kind : uint8_t { kAnd, kOr, kNot, kCompare, kPath, kLiteral };
  Kind kind = Kind::kLiteral;
  std::string op;                          // kCompare
  std::vector<std::string> path;           // kPath: tool, field, ...
  json::value literal;
  std::vector<std::unique_ptr<ConflictNode>> parts;
};
using Node = std::unique_ptr<ConflictNode>;

struct ConflictToken {
  enum class Kind : uint8_t { kEnd, kWord, kText, kSymbol };
  Kind kind = Kind::kEnd;
  std::string text;
};

bool ConflictWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == '+' || (c & 0x80) != 0;
}

Result<std::vector<ConflictToken>> ConflictTokens(std::string_view text) {
  std::vector<ConflictToken> tokens;
  size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == ' ' || c == '\t') {
      ++at;
    } else if (c == '"') {
      const size_t end = text.find('"', at + 1);
      if (end == std::string_view::npos) return Error(InvalidArgumentError("a quote that does not end"));
      tokens.push_back({ConflictToken::Kind::kText, std::string(text.substr(at + 1, end - at - 1))});
      at = end + 1;
    } else if (c == '(' || c == ')') {
      tokens.push_back({ConflictToken::Kind::kSymbol, std::string(1, c)});
      ++at;
    } else if (std::string_view("=!<>").find(c) != std::string_view::npos) {
      const bool two = at + 1 < text.size() && text[at + 1] == '=';
      if (!two && (c == '=' || c == '!')) {
        return Error(InvalidArgumentError("'" + std::string(1, c) + "' is no comparison; write == or !="));
      }
      tokens.push_back({ConflictToken::Kind::kSymbol, std::string(text.substr(at, two ? 2 : 1))});
      at += two ? 2 : 1;
    } else if (ConflictWordChar(c)) {
      size_t end = at;
      while (end < text.size() && ConflictWordChar(text[end])) ++end;
      tokens.push_back({ConflictToken::Kind::kWord, std::string(text.substr(at, end - at))});
      at = end;
    } else {
      return Error(InvalidArgumentError("the character '" + std::string(1, c) + "' means nothing here"));
    }
  }
  tokens.emplace_back();
  return tokens;
}

bool IsConflictNumber(std::string_view text) {
  boost::system::error_code ec;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), ec);
  return !ec && value.is_number() && std::isfinite(value.to_number<double>());
}

class ConflictParser {
 public:
  explicit ConflictParser(std::vector<ConflictToken> tokens) : tokens_(std::move(tokens)) {}

  Result<Node> Parse() {
    SURETY_ASSIGN_OR_RETURN(Node node, Or(0));
    if (Next().kind != ConflictToken::Kind::kEnd) {
      return Error(InvalidArgumentError("'" + Next().text + "' is too much"));
    }
    return node;
  }

 private:
  static constexpr int kMaxDepth = 32;

  const ConflictToken& Next() const { return tokens_[at_]; }
  bool TakeWord(std::string_view word) {
    if (Next().kind != ConflictToken::Kind::kWord || Next().text != word) return false;
    ++at_;
    return true;
  }
  bool TakeSymbol(std::string_view symbol) {
    if (Next().kind != ConflictToken::Kind::kSymbol || Next().text != symbol) return false;
    ++at_;
    return true;
  }

  static Node Join(ConflictNode::Kind kind, Node a, Node b) {
    auto node = std::make_unique<ConflictNode>();
    node->kind = kind;
    node->parts.push_back(std::move(a));
    if (b != nullptr) node->parts.push_back(std::move(b));
    return node;
  }

  Result<Node> Or(int depth) {
    if (depth > kMaxDepth) return Error(InvalidArgumentError("more than 32 brackets inside each other"));
    SURETY_ASSIGN_OR_RETURN(Node node, And(depth));
    while (TakeWord("or")) {
      SURETY_ASSIGN_OR_RETURN(Node other, And(depth));
      node = Join(ConflictNode::Kind::kOr, std::move(node), std::move(other));
    }
    return node;
  }

  Result<Node> And(int depth) {
    SURETY_ASSIGN_OR_RETURN(Node node, Not(depth));
    while (TakeWord("and")) {
      SURETY_ASSIGN_OR_RETURN(Node other, Not(depth));
      node = Join(ConflictNode::Kind::kAnd, std::move(node), std::move(other));
    }
    return node;
  }

  Result<Node> Not(int depth) {
    if (TakeWord("not")) {
      if (depth > kMaxDepth) return Error(InvalidArgumentError("more than 32 'not' in a row"));
      SURETY_ASSIGN_OR_RETURN(Node inner, Not(depth + 1));
      return Join(ConflictNode::Kind::kNot, std::move(inner), nullptr);
    }
    if (TakeSymbol("(")) {
      SURETY_ASSIGN_OR_RETURN(Node inner, Or(depth + 1));
      if (!TakeSymbol(")")) return Error(InvalidArgumentError("'(' without ')'"));
      return inner;
    }
    SURETY_ASSIGN_OR_RETURN(Node left, Operand());
    for (const char* op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!TakeSymbol(op)) continue;
      SURETY_ASSIGN_OR_RETURN(Node right, Operand());
      if (left->kind != ConflictNode::Kind::kPath && right->kind != ConflictNode::Kind::kPath) {
        return Error(InvalidArgumentError("a comparison of two fixed values; one side must be TOOL.field"));
      }
      Node node = Join(ConflictNode::Kind::kCompare, std::move(left), std::move(right));
      node->op = op;
      return node;
    }
    if (left->kind != ConflictNode::Kind::kPath) {
      return Error(InvalidArgumentError("a fixed value alone; write TOOL.field, or TOOL.field == value"));
    }
    return left;
  }

  Result<Node> Operand() {
    const ConflictToken token = Next();
    auto node = std::make_unique<ConflictNode>();
    if (token.kind == ConflictToken::Kind::kText) {
      node->literal = json::string(token.text);
    } else if (token.kind != ConflictToken::Kind::kWord || token.text == "and" || token.text == "or" ||
               token.text == "not") {
      return Error(InvalidArgumentError(token.kind == ConflictToken::Kind::kEnd
                                            ? "something is missing at the end"
                                            : "'" + token.text + "' stands where a value should"));
    } else if (token.text == "true" || token.text == "false") {
      node->literal = token.text == "true";
    } else if (IsConflictNumber(token.text)) {
      node->literal = json::parse(token.text);
    } else if (token.text.find('.') != std::string::npos) {
      SURETY_RETURN_IF_ERROR(SplitPath(token.text, *node));
    } else {
      node->literal = json::string(token.text);
    }
    ++at_;
    return node;
  }

  static Status SplitPath(const std::string& text, ConflictNode& node) {
    node.kind = ConflictNode::Kind::kPath;
    size_t begin = 0;
    while (begin <= text.size()) {
      const size_t end = std::min(text.find('.', begin), text.size());
      if (end == begin) return InvalidArgumentError("'" + text + "' has an empty part; write TOOL.field");
      node.path.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    if (text.back() == '.') return InvalidArgumentError("'" + text + "' has an empty part; write TOOL.field");
    return OkStatus();
  }

  const std::vector<ConflictToken> tokens_;
  size_t at_ = 0;
};

Result<Node> ParseInvariant(std::string_view expression) {
  SURETY_ASSIGN_OR_RETURN(std::vector<ConflictToken> tokens, ConflictTokens(expression));
  return ConflictParser(std::move(tokens)).Parse();
}

void PathsOf(const ConflictNode& node, std::vector<std::vector<std::string>>& paths) {
  if (node.kind == ConflictNode::Kind::kPath) paths.push_back(node.path);
  for (const Node& part : node.parts) PathsOf(*part, paths);
}

using ResultsByTool = std::map<std::string, const ToolResult*, std::less<>>;

// The value of a path; null: unknown.
const json::value* ValueAt(const std::vector<std::string>& path, const ResultsByTool& results) {
  const auto found = results.find(path[0]);
  if (found == results.end() || !found->second->status.ok()) return nullptr;
  const json::value* value = &found->second->value;
  for (size_t i = 1; i < path.size(); ++i) {
    const json::object* object = value->if_object();
    value = object == nullptr ? nullptr : object->if_contains(path[i]);
    if (value == nullptr) return nullptr;
  }
  return value->is_null() || value->is_object() || value->is_array() ? nullptr : value;
}

// Exact: a long double holds every whole number of 64 bits and every double.
std::partial_ordering CompareNumbers(const json::value& a, const json::value& b) {
  static_assert(std::numeric_limits<long double>::digits >= 64);
  const auto exact = [](const json::value& value) -> long double {
    if (value.is_int64()) return static_cast<long double>(value.get_int64());
    if (value.is_uint64()) return static_cast<long double>(value.get_uint64());
    return static_cast<long double>(value.get_double());
  };
  return exact(a) <=> exact(b);
}

Truth TruthOf(bool holds) { return holds ? Truth::kTrue : Truth::kFalse; }

Truth CompareValues(const json::value& a, const json::value& b, std::string_view op) {
  std::partial_ordering order = std::partial_ordering::unordered;
  bool ordered = true;
  if (a.is_number() && b.is_number()) {
    order = CompareNumbers(a, b);
  } else if (a.is_string() && b.is_string()) {
    order = std::string_view(a.get_string()) <=> std::string_view(b.get_string());
  } else if (a.is_bool() && b.is_bool()) {
    ordered = false;
    order = a.get_bool() == b.get_bool() ? std::partial_ordering::equivalent : std::partial_ordering::unordered;
  } else {
    ordered = false;
  }
  if (op == "==") return TruthOf(order == 0);
  if (op == "!=") return TruthOf(order != 0);
  if (!ordered) return Truth::kUnknown;
  if (op == "<") return TruthOf(order < 0);
  if (op == "<=") return TruthOf(order <= 0);
  if (op == ">") return TruthOf(order > 0);
  return TruthOf(order >= 0);
}

Truth Evaluate(const ConflictNode& node, const ResultsByTool& results) {
  const auto operand = [&](const ConflictNode& part) {
    return part.kind == ConflictNode::Kind::kPath ? ValueAt(part.path, results) : &part.literal;
  };
  switch (node.kind) {
    case ConflictNode::Kind::kAnd:
      return std::min(Evaluate(*node.parts[0], results), Evaluate(*node.parts[1], results));
    case ConflictNode::Kind::kOr:
      return std::max(Evaluate(*node.parts[0], results), Evaluate(*node.parts[1], results));
    case ConflictNode::Kind::kNot:
      return static_cast<Truth>(2 - static_cast<int>(Evaluate(*node.parts[0], results)));
    case ConflictNode::Kind::kCompare: {
      const json::value *a = operand(*node.parts[0]), *b = operand(*node.parts[1]);
      return a == nullptr || b == nullptr ? Truth::kUnknown : CompareValues(*a, *b, node.op);
    }
    case ConflictNode::Kind::kPath: {
      const json::value* value = ValueAt(node.path, results);
      return value != nullptr && value->is_bool() ? TruthOf(value->get_bool()) : Truth::kUnknown;
    }
    case ConflictNode::Kind::kLiteral: break;
  }
  return Truth::kUnknown;
}

std::string InstantText(int64_t ns) {
  const auto point = std::chrono::sys_time<std::chrono::seconds>(std::chrono::seconds(ns / 1'000'000'000));
  const auto day = std::chrono::floor<std::chrono::days>(point);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(point - day);
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text.data();
}

std::string EvidenceLine(const std::vector<std::string>& path, const ResultsByTool& results) {
  std::string name = path[0];
  for (size_t i = 1; i < path.size(); ++i) name += "." + path[i];
  const auto found = results.find(path[0]);
  if (found == results.end()) return name + " is missing (" + path[0] + " was not asked)";
  const ToolResult& result = *found->second;
  if (!result.status.ok()) return name + " is missing (" + result.status.ToString() + ")";
  const std::string when = " (observed " + InstantText(result.observed_at_ns) + ")";
  const json::value* value = ValueAt(path, results);
  return value == nullptr ? name + " is missing" + when : name + " = " + CanonicalJson(*value) + when;
}

}  // namespace

Result<std::vector<Conflict>> FindConflicts(const std::vector<InvariantSpec>& invariants,
                                            const std::vector<ToolResult>& results) {
  ResultsByTool by_tool;
  for (const ToolResult& result : results) by_tool[result.tool] = &result;
  std::vector<Conflict> conflicts;
  for (const InvariantSpec& invariant : invariants) {
    const auto parse = [&](const std::string& expression) -> Result<Node> {
      Result<Node> node = ParseInvariant(expression);
      if (node) return node;
      return Error(node.error().WithContext("invariant '" + invariant.name + "': '" + expression + "'"));
    };
    std::vector<std::vector<std::string>> paths;
    Truth applies = Truth::kTrue;
    if (!invariant.when.empty()) {  // none: always
      SURETY_ASSIGN_OR_RETURN(const Node when, parse(invariant.when));
      PathsOf(*when, paths);
      applies = Evaluate(*when, by_tool);
      if (applies == Truth::kFalse) continue;
    }
    SURETY_ASSIGN_OR_RETURN(const Node require, parse(invariant.require));
    // Where it is unknown whether it applies, it is unknown whether it is kept, unless it is kept anyhow.
    if (Evaluate(*require, by_tool) == Truth::kTrue) continue;
    PathsOf(*require, paths);
    Conflict conflict{invariant.name, invariant.when, invariant.require, {}};
    std::set<std::vector<std::string>> seen;
    for (const std::vector<std::string>& path : paths) {
      if (seen.insert(path).second) conflict.violated_by.push_back(EvidenceLine(path, by_tool));
    }
    conflicts.push_back(std::move(conflict));
  }
  return conflicts;
}

Result<std::set<std::string>> ToolsOfInvariant(std::string_view expression) {
  const Result<Node> node = ParseInvariant(expression);
  if (!node) return Error(node.error().WithContext("'" + std::string(expression) + "'"));
  std::vector<std::vector<std::string>> paths;
  PathsOf(**node, paths);
  std::set<std::string> tools;
  for (const std::vector<std::string>& path : paths) tools.insert(path[0]);
  return tools;
}

Status CheckInvariantExpression(std::string_view expression, const std::map<std::string, ToolSpec>& tools) {
  const Result<Node> node = ParseInvariant(expression);
  if (!node) return node.error().WithContext("'" + std::string(expression) + "'");
  std::vector<std::vector<std::string>> paths;
  PathsOf(**node, paths);
  std::vector<std::string> names;
  for (const auto& [name, spec] : tools) names.push_back(name);
  for (const std::vector<std::string>& path : paths) {
    if (tools.contains(path[0])) continue;
    const std::string nearest = NearestName(path[0], names);
    return InvalidArgumentError("'" + std::string(expression) + "': there is no tool '" + path[0] + "'" +
                                (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }
  return OkStatus();
}

}  // namespace surety::gateway
