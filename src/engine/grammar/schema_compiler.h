// How json_schema.h does it: every rule stands for a conjunction of schemas of the document. References and allOf add
// schemas to it, anyOf and oneOf give one rule a branch, properties and items give the conjunctions of the children.
// Conjunctions are remembered, so recursion ends; rules are worked off a queue, so that no document is too deep for the
// stack. Threads: one.
#pragma once

#include <boost/json.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/grammar/json_rules.h"
#include "engine/grammar/number_range.h"

namespace surety::engine {

class SchemaCompiler {
 public:
  SchemaCompiler(const boost::json::value& root, std::string where, GrammarBuilder& builder, JsonRules& rules)
      : root_(&root), where_(std::move(where)), builder_(builder), rules_(rules) {}
  Result<int32_t> Run();

 private:
  using Node = const boost::json::value*;
  using Conjunction = std::vector<Node>;  // in the order of the document
  enum Type : uint8_t {
    kNull = 1,
    kBool = 2,
    kInteger = 4,
    kFraction = 8,
    kString = 16,
    kArray = 32,
    kObject = 64,
    kAllTypes = 127
  };
  struct Place {
    int order = 0;
    Node parent = nullptr;
    std::string token;
  };
  // A conjunction with its references and allOf followed.
  struct Flat {
    std::vector<const boost::json::object*> schemas;
    Conjunction nodes;
    bool never = false;
    Node choice = nullptr;  // an anyOf or oneOf of which no branch is among the nodes
    bool exclusive = false;
  };
  struct Members {
    std::vector<std::string> names;  // declared or required, in the schemas' order
    std::set<std::string> known, required;
    bool open = false;  // further ones are admitted
  };
  struct Facts {
    uint8_t written = kAllTypes;  // types that the grammar writes
    uint8_t meant = kAllTypes;    // types that the schema admits
    std::optional<std::set<std::string>> values;
    Flat flat;
  };

  // schema_document.cc
  Status Index();
  Status At(Node node, std::string_view keyword, const std::string& what) const;
  Status CheckKeywords(Node node);
  Status CheckCycle(Node node);
  Result<Node> Resolve(Node node, std::string_view reference) const;
  Result<Flat> Flatten(const Conjunction& conjunction);
  Status FlattenOne(Node node, Flat& flat, std::vector<Node>& work);
  Node NodeOf(const boost::json::object& schema) const { return object_nodes_.at(&schema); }

  // schema_compiler.cc
  int32_t RuleFor(Conjunction conjunction);
  Status Compile(const Conjunction& conjunction, int32_t rule);
  Status CompileChoice(const Flat& flat, int32_t start, int32_t end);
  Status CompileTypes(const Flat& flat, int32_t start, int32_t end);
  Status AddConstants(const Flat& flat, int32_t start, int32_t end);
  void AddConstant(const boost::json::value& value, int32_t from, int32_t to);
  Result<bool> Admits(const Flat& flat, Node value);
  // `inferred`: with the types that keywords speak of, where no schema has a type.
  uint8_t TypesOf(const Flat& flat, bool inferred) const;
  Status CheckExclusive(Node parts);
  Result<Facts> FactsOf(Flat flat) const;
  Result<bool> Excludes(const Facts& a, const Facts& b);
  // The values that enum and const leave, in canonical text; none without such a keyword.
  std::optional<std::set<std::string>> ValuesOf(const Flat& flat) const;

  // schema_parts.cc
  Status AddObject(const Flat& flat, int32_t start, int32_t end);
  Status AddArray(const Flat& flat, int32_t start, int32_t end);
  Status AddString(const Flat& flat, int32_t start, int32_t end);
  Status AddNumber(const Flat& flat, bool whole, int32_t start, int32_t end);
  NumberRange RangeOf(const Flat& flat, bool whole) const;
  // The pattern and format automata of the schemas, joined; none if there are none.
  Result<std::optional<CharDfa>> DfaOf(const Flat& flat);
  Members MembersOf(const Flat& flat) const;
  int32_t FurtherMember(const Flat& flat, const std::vector<std::string>& names);
  int32_t Member(const std::string& name, int32_t value_rule);
  Conjunction PropertyOf(const Flat& flat, std::string_view name) const;
  Conjunction ItemOf(const Flat& flat, size_t index) const;
  Status LengthsOf(const Flat& flat, const char* least_name, const char* most_name, int64_t& least,
                   int64_t& most) const;

  Node root_;
  std::string where_;
  GrammarBuilder& builder_;
  JsonRules& rules_;
  std::unordered_map<Node, Place> places_;
  std::unordered_map<const boost::json::object*, Node> object_nodes_;
  std::set<Node> checked_;
  std::set<Node> exclusive_;  // oneOf lists of which no two parts can hold
  std::map<Conjunction, int32_t> rule_of_;
  std::vector<std::pair<Conjunction, int32_t>> queue_;
  std::map<std::pair<std::string, int32_t>, int32_t> members_;
};

// A text that is equal for equal JSON values: numbers by value, members in the order of their names.
std::string CanonicalJson(const boost::json::value& value);
// The JSON text of a value that is neither array nor object.
std::string JsonText(const boost::json::value& value);
Decimal DecimalOf(const boost::json::value& number);
// The ECMA-262 pattern of a `format`; empty for unknown ones.
std::string_view FormatPattern(std::string_view format);

}  // namespace surety::engine
