// The last stage of compiling: empty moves removed, what leads nowhere pruned, left recursion refused, states numbered.
// Threads: one. Errors: as GrammarBuilder::Finish.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/grammar/grammar_builder.h"

namespace surety::engine {

class GrammarFinisher {
 public:
  explicit GrammarFinisher(GrammarBuilder& builder) : builder_(builder) {}
  Result<GrammarPtr> Run(int32_t root);

 private:
  struct Closed {
    std::vector<Grammar::ByteEdge> bytes;
    std::vector<Grammar::CallEdge> calls;
    bool final = false;
    bool reached = false;
    bool useful = false;
  };
  bool nullable(int32_t rule) const;
  void FindNullable();
  void Close(int32_t state, std::vector<int32_t>& reached);
  void CloseAll(int32_t root);
  void FindUseful();
  Status OrderLeftCalls(int32_t root, std::vector<int32_t>& left_order);
  void Number(int32_t root, const std::vector<int32_t>& left_order, Grammar& grammar);
  static void ClassifyBytes(Grammar& grammar);
  const std::vector<GrammarBuilder::Edge>& edges(int32_t s) const { return builder_.states_[static_cast<size_t>(s)]; }

  GrammarBuilder& builder_;
  std::vector<char> ends_;  // by state: the rule's end can be reached without a byte
  std::vector<char> is_end_;
  std::vector<Closed> closed_;
  std::vector<int> visited_;  // by state: the last closure that met it
  int closure_ = 0;
  int n_edges_ = 0;
};

}  // namespace surety::engine
