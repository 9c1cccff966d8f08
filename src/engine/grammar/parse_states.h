// The states that reading a text through a grammar can be in, made deterministic as they are met: each is a set of
// (automaton state, stack) pairs, a stack being a shared, never changed list of return addresses. Equal stacks and
// equal sets are one object, so that a state met again costs a table look-up.
//
// Threads: one. Owns: states are shared pointers; a holder's state outlives BeginWalk. Invariants: (1) a state that is
// not dead can be completed, unless kMaxDepth ends all ways to do so. (2) memory is bounded: sets by kMaxItems, stacks
// by kMaxDepth, the table by kMaxWork within one walk and by BeginWalk between walks; so is a walk's time. (3) what
// does not fit in a bound is dead, and cut() says that there was such a thing. Source: Earley 1970, with the item's
// origin replaced by the list of its return addresses; Leo 1991 for calls in final position, which leave no return
// address.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/grammar/grammar.h"

namespace surety::engine {

struct ParseFrame;
using ParseFramePtr = std::shared_ptr<const ParseFrame>;

// Where a rule's end leads to: (state, the frame that state belongs to), sorted.
struct ParseFrame {
  std::vector<std::pair<int32_t, ParseFramePtr>> returns;
  int32_t depth = 0;  // 0: the root's frame, whose end is the end of the text
};

struct ParseState {
  struct Item {
    int32_t state;
    ParseFramePtr frame;
    bool operator==(const Item&) const = default;
    bool operator<(const Item& o) const { return state != o.state ? state < o.state : frame < o.frame; }
  };
  std::vector<Item> items;  // sorted; those that read a byte
  bool complete = false;    // the text may end here
  bool dead() const { return items.empty() && !complete; }
};
using ParseStatePtr = std::shared_ptr<const ParseState>;

class ParseStates {
 public:
  using Id = int32_t;
  // Which bound was met: stacks too deep, too many ways to read one text, too much work in one walk.
  enum class Cut : uint8_t { kNone, kDepth, kItems, kWork };
  static constexpr int kMaxItems = 2048;
  static constexpr int kMaxDepth = 512;
  static constexpr size_t kTrimStates = 16 << 10;
  static constexpr size_t kTrimItems = 1 << 18;
  static constexpr size_t kMaxWork = 1 << 19;  // items looked at

  explicit ParseStates(GrammarPtr grammar);

  const Grammar& grammar() const { return *grammar_; }
  const ParseStatePtr& start() const { return start_; }
  const ParseStatePtr& state(Id id) const { return states_[static_cast<size_t>(id)]; }
  bool dead(Id id) const { return id == kDeadId; }
  // Ids are good until the next BeginWalk that says true.
  Id IdOf(const ParseStatePtr& state);
  Id Step(Id from, uint8_t byte) {
    const size_t at = static_cast<size_t>(from) * n_classes_ + static_cast<size_t>(grammar_->byte_class(byte));
    const Id known = steps_[at];
    return known != kUnknown ? known : ComputeStep(from, byte, at);
  }
  // The state inside a rule alone: complete means that the rule's end was reached.
  Id Alone(int32_t automaton_state);
  // What follows the end of the rule that `frame` is of.
  Id AfterEnd(const ParseFramePtr& frame);

  // Before a number of steps that belong together. Forgets what nobody holds if the tables have grown; true if ids are
  // no longer good.
  bool BeginWalk();
  uint64_t generation() const { return generation_; }
  Cut cut() const { return worst_cut_; }  // since ids were last forgotten
  size_t n_states() const { return states_.size(); }

  static constexpr Id kDeadId = 0;

 private:
  static constexpr Id kUnknown = -1;
  // An item, or a return address. `building`: the frame is the one with this index in building_.
  struct Work {
    int32_t state;
    ParseFramePtr frame;  // null while it is being built
    int32_t building = -1;
    bool operator==(const Work&) const = default;
  };
  struct WorkHash {
    size_t operator()(const Work& w) const;
  };
  struct Building {
    int32_t rule;
    std::vector<Work> returns;
    int32_t depth = 0;
    ParseFramePtr done;
  };
  struct FrameHash {
    size_t operator()(const ParseFramePtr& f) const;
  };
  struct FrameEqual {
    bool operator()(const ParseFramePtr& a, const ParseFramePtr& b) const { return a->returns == b->returns; }
  };
  struct StateHash {
    size_t operator()(const ParseStatePtr& s) const;
  };
  struct StateEqual {
    bool operator()(const ParseStatePtr& a, const ParseStatePtr& b) const {
      return a->items == b->items && a->complete == b->complete;
    }
  };

  void Clear();
  Id ComputeStep(Id from, uint8_t byte, size_t at);
  void Add(Work work);
  void AddCalls(const Work& from);
  void Met(Cut cut);
  ParseStatePtr Finish();
  ParseFramePtr Intern(ParseFrame frame);

  GrammarPtr grammar_;
  size_t n_classes_;
  ParseFramePtr root_frame_;
  ParseStatePtr start_;
  std::vector<ParseStatePtr> states_;
  std::vector<Id> steps_;  // by state and class of byte
  std::unordered_map<ParseStatePtr, Id, StateHash, StateEqual> ids_;
  std::unordered_set<ParseFramePtr, FrameHash, FrameEqual> frames_;
  size_t total_items_ = 0, walk_work_ = 0;
  uint64_t generation_ = 0;
  Cut worst_cut_ = Cut::kNone;

  // Scratch of one closure.
  std::vector<Work> work_;
  std::unordered_set<Work, WorkHash> seen_;
  std::vector<Building> building_;
  std::unordered_map<int32_t, int32_t> building_of_rule_;
  bool complete_ = false;
  bool too_many_ = false;
};

}  // namespace surety::engine
