// A parsed template: statements and expressions as trees.
//
// Owns: a node owns its children. The trees are immutable after parsing and may be evaluated on many threads.
// Invariant: no expression is nested deeper than TemplateLimits::max_depth, no statement either, so that recursion over
// a tree is bounded. Chains of one precedence (a + b - c) are one node, not a tree as deep as they are long.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/chat/lexer.h"
#include "model/chat/value.h"

namespace surety::model::chat {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Body = std::vector<std::unique_ptr<Stmt>>;

enum class Operator : uint8_t {
  kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower,  // chains
  kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn,  // comparisons
};

struct Expr {
  enum class Kind : uint8_t {
    kConstant,   // value
    kName,       // id
    kList, kTuple,  // args
    kDict,       // args: key, value, key, value ...
    kNot, kNegate, kPlus,  // args[0]
    kAnd, kOr, kConcat,    // args
    kChain,      // args and ops, from left to right
    kCompare,    // args and ops, a < b < c as Python
    kTernary,    // args: condition, then, else (may be null)
    kAttribute,  // args[0].name
    kIndex,      // args[0][args[1]]
    kSlice,      // args: object, start, stop, step (the last three may be null)
    kCall,       // args[0](rest, keywords)
    kFilter,     // args[0] | function (rest, keywords); args[0] is null for a filter on a block's text
    kTest,       // args[0] is function (rest, keywords)
  };
  Kind kind = Kind::kConstant;
  Position at;
  int depth = 1;
  int id = -1;
  const FunctionSpec* function = nullptr;
  Value value;
  std::string name;
  std::vector<ExprPtr> args;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  std::vector<Operator> ops;
};

// What an assignment or a loop writes to: a name, a namespace's attribute or several of them.
struct Target {
  Position at;
  int id = -1;            // of the name, or of the namespace
  std::string attribute;  // empty for a plain name
  bool is_tuple = false;
  std::vector<Target> items;
};

// A macro, or the body of a call block.
struct Macro {
  struct Parameter {
    int id;
    std::string name;
    ExprPtr fallback;  // null: undefined if not given
  };
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct Stmt {
  enum class Kind : uint8_t {
    kText,         // value
    kOutput,       // expr
    kIf,           // branches, otherwise
    kFor,          // id (of "loop"), target, expr, condition (may be null), body, otherwise
    kSet,          // target, expr
    kSetBlock,     // target, expr (a filter chain, may be null), body
    kMacro,        // id, macro
    kCallBlock,    // expr (a call), macro (the body)
    kFilterBlock,  // expr (a filter chain), body
    kWith,         // assignments, body
    kScope,        // body: a generation block
    kBreak, kContinue,
  };
  Kind kind = Kind::kText;
  Position at;
  int id = -1;
  Value value;
  Target target;
  ExprPtr expr, condition;
  std::vector<std::pair<ExprPtr, Body>> branches;
  std::vector<std::pair<Target, ExprPtr>> assignments;
  Body body, otherwise;
  std::unique_ptr<Macro> macro;
};

struct Template {
  Body body;
  std::vector<std::string> names;  // a name's id is its place here
};

}  // namespace surety::model::chat
