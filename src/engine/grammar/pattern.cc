// Patterns to deterministic automata: Thompson's construction with anchors as edges that hold at one place only, then
// the subset construction over ranges of code points.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/grammar/char_dfa.h"
#include "engine/grammar/pattern_parser.h"

namespace surety::engine {
namespace {

constexpr size_t kMaxNfaStates = 50'000;

class PatternCompiler {
 public:
  explicit PatternCompiler(GrammarBuilder& budget) : budget_(budget) {}

  Result<CharDfa> Run(const PatternNode& pattern) {
    // Anything, the pattern, anything.
    const int start = NewState(), begin = NewState();
    end_ = NewState();
    Set(start, CharSet::All(), start);
    Empty(start, begin);
    Build(pattern, begin, end_);
    Set(end_, CharSet::All(), end_);
    if (states_.size() >= kMaxNfaStates) {
      return Error(
          InvalidArgumentError("the pattern is too large: more than " + std::to_string(kMaxNfaStates) + " states"));
    }
    CharDfa dfa = Determine(start);
    if (!budget_.ok()) return Error(budget_.status());
    return dfa;
  }

 private:
  enum class Place : uint8_t { kAny, kBegin, kEnd };  // where an empty edge may be taken
  struct EmptyEdge {
    Place place;
    int to;
  };
  struct State {
    std::vector<EmptyEdge> empty;
    std::vector<std::pair<const CharSet*, int>> sets;
  };

  // The last state is handed out again and again once there are too many.
  int NewState() {
    if (states_.size() < kMaxNfaStates) states_.emplace_back();
    return static_cast<int>(states_.size() - 1);
  }
  void Empty(int from, int to, Place place = Place::kAny) {
    states_[static_cast<size_t>(from)].empty.push_back({place, to});
  }
  void Set(int from, const CharSet& set, int to) {
    sets_.push_back(std::make_unique<CharSet>(set));
    states_[static_cast<size_t>(from)].sets.emplace_back(sets_.back().get(), to);
  }

  void Build(const PatternNode& node, int from, int to) {
    if (states_.size() >= kMaxNfaStates) return;
    switch (node.kind) {
      case PatternNode::Kind::kSet:
        states_[static_cast<size_t>(from)].sets.emplace_back(&node.set, to);
        return;
      case PatternNode::Kind::kBegin:
        return Empty(from, to, Place::kBegin);
      case PatternNode::Kind::kEnd:
        return Empty(from, to, Place::kEnd);
      case PatternNode::Kind::kChoice:
        for (const PatternNode& part : node.parts) {
          const int begin = NewState();
          Empty(from, begin);
          Build(part, begin, to);
        }
        return;
      case PatternNode::Kind::kSequence:
        for (const PatternNode& part : node.parts) {
          const int next = NewState();
          Build(part, from, next);
          from = next;
        }
        return Empty(from, to);
      case PatternNode::Kind::kRepeat:
        return BuildRepeat(node, from, to);
    }
  }

  void BuildRepeat(const PatternNode& node, int from, int to) {
    for (int i = 0; (i < node.least || i < node.most) && states_.size() < kMaxNfaStates; ++i) {
      if (i >= node.least) Empty(from, to);
      const int begin = NewState(), next = NewState();
      Empty(from, begin);
      Build(node.parts[0], begin, next);
      from = next;
    }
    if (node.most < 0) {
      const int loop = NewState();
      Empty(from, loop);
      const int begin = NewState();
      Empty(loop, begin);
      Build(node.parts[0], begin, loop);
      from = loop;
    }
    Empty(from, to);
  }

  // Sorted; all that empty edges lead to, those of `place` included.
  std::vector<int> Closure(std::vector<int> work, bool at_begin, bool at_end) {
    std::vector<int> set;
    ++mark_;
    marks_.resize(states_.size());
    for (const int s : work) marks_[static_cast<size_t>(s)] = mark_;
    while (!work.empty()) {
      const int s = work.back();
      work.pop_back();
      set.push_back(s);
      for (const EmptyEdge& edge : states_[static_cast<size_t>(s)].empty) {
        const bool open = edge.place == Place::kAny || (edge.place == Place::kBegin ? at_begin : at_end);
        if (!open || marks_[static_cast<size_t>(edge.to)] == mark_) continue;
        marks_[static_cast<size_t>(edge.to)] = mark_;
        work.push_back(edge.to);
      }
    }
    std::sort(set.begin(), set.end());
    return set;
  }

  CharDfa Determine(int start) {
    CharDfa dfa;
    // The start apart: '^' holds there and nowhere else.
    std::map<std::pair<bool, std::vector<int>>, int32_t> ids;
    std::vector<const std::pair<bool, std::vector<int>>*> work;
    const auto id = [&](bool at_begin, std::vector<int> set) {
      const auto [found, is_new] = ids.try_emplace({at_begin, std::move(set)}, static_cast<int32_t>(work.size()));
      if (is_new) {
        work.push_back(&found->first);
        budget_.NewState();
      }
      return found->second;
    };
    id(true, Closure({start}, true, false));
    for (size_t i = 0; i < work.size() && budget_.ok(); ++i) {
      budget_.CheckTime();
      const auto& [at_begin, set] = *work[i];
      CharDfa::State state;
      const std::vector<int> at_end = Closure(set, at_begin, true);
      state.accepts = std::binary_search(at_end.begin(), at_end.end(), end_);
      // Borders of the ranges, each with the targets that begin or end there.
      std::map<char32_t, std::pair<std::vector<int>, std::vector<int>>> borders;
      for (const int s : set) {
        for (const auto& [chars, to] : states_[static_cast<size_t>(s)].sets) {
          for (const auto& [first, last] : chars->ranges()) {
            borders[first].first.push_back(to);
            borders[last + 1].second.push_back(to);
          }
        }
      }
      std::map<int, int> open;  // target, how often
      for (auto at = borders.begin(); at != borders.end() && budget_.ok(); ++at) {
        for (const int to : at->second.first) ++open[to];
        for (const int to : at->second.second) {
          if (--open[to] == 0) open.erase(to);
        }
        if (open.empty()) continue;
        std::vector<int> targets;
        for (const auto& [to, n] : open) targets.push_back(to);
        const int32_t target = id(false, Closure(std::move(targets), false, false));
        const char32_t last = std::next(at)->first - 1;
        if (!state.edges.empty() && state.edges.back().target == target && state.edges.back().last + 1 == at->first) {
          state.edges.back().last = last;
        } else {
          state.edges.push_back({at->first, last, target});
        }
      }
      dfa.states.push_back(std::move(state));
    }
    return dfa;
  }

  GrammarBuilder& budget_;
  std::vector<State> states_;
  std::vector<std::unique_ptr<CharSet>> sets_;
  std::vector<uint64_t> marks_;
  uint64_t mark_ = 0;
  int end_ = 0;
};

}  // namespace

Result<CharDfa> CompilePattern(std::string_view pattern, GrammarBuilder& budget) {
  SURETY_ASSIGN_OR_RETURN(const PatternNode node, ParsePattern(pattern, budget.limits().max_depth));
  return PatternCompiler(budget).Run(node);
}

}  // namespace surety::engine
