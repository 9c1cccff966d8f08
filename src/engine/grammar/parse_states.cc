#include "engine/grammar/parse_states.h"

#include <algorithm>
#include <numeric>

namespace surety::engine {
namespace {

size_t Mix(size_t hash, size_t value) { return (hash ^ value) * 0x9E3779B97F4A7C15u + (hash >> 29); }
size_t Address(const ParseFramePtr& frame) { return reinterpret_cast<size_t>(frame.get()); }

}  // namespace

size_t ParseStates::WorkHash::operator()(const Work& w) const {
  return Mix(Mix(static_cast<size_t>(w.state), Address(w.frame)), static_cast<size_t>(w.building));
}

size_t ParseStates::FrameHash::operator()(const ParseFramePtr& f) const {
  size_t hash = f->returns.size();
  for (const auto& [state, frame] : f->returns) hash = Mix(Mix(hash, static_cast<size_t>(state)), Address(frame));
  return hash;
}

size_t ParseStates::StateHash::operator()(const ParseStatePtr& s) const {
  size_t hash = s->complete ? 1 : 2;
  for (const auto& item : s->items) hash = Mix(Mix(hash, static_cast<size_t>(item.state)), Address(item.frame));
  return hash;
}

ParseStates::ParseStates(GrammarPtr grammar)
    : grammar_(std::move(grammar)),
      n_classes_(static_cast<size_t>(grammar_->n_byte_classes())),
      root_frame_(std::make_shared<ParseFrame>()) {
  Clear();
  Add({grammar_->root().start, root_frame_});
  start_ = Finish();
}

void ParseStates::Clear() {
  states_.assign(1, std::make_shared<ParseState>());
  steps_.assign(n_classes_, kDeadId);
  ids_.clear();
  frames_.clear();
  total_items_ = 0;
  worst_cut_ = Cut::kNone;
  ++generation_;
}

void ParseStates::Met(Cut cut) {
  worst_cut_ = std::max(worst_cut_, cut);
  too_many_ = too_many_ || cut == Cut::kItems;
}

bool ParseStates::BeginWalk() {
  walk_work_ = 0;
  if (states_.size() < kTrimStates && total_items_ < kTrimItems && worst_cut_ != Cut::kWork) return false;
  Clear();
  return true;
}

ParseStates::Id ParseStates::IdOf(const ParseStatePtr& state) {
  if (state->dead()) return kDeadId;
  const auto [found, is_new] = ids_.try_emplace(state, static_cast<Id>(states_.size()));
  if (is_new) {
    states_.push_back(state);
    steps_.resize(steps_.size() + n_classes_, kUnknown);
    total_items_ += state->items.size() + 1;
  }
  return found->second;
}

ParseStates::Id ParseStates::ComputeStep(Id from, uint8_t byte, size_t at) {
  if (walk_work_ > kMaxWork) {
    Met(Cut::kWork);
  } else {
    const ParseStatePtr source = states_[static_cast<size_t>(from)];
    for (const auto& item : source->items) {
      for (const auto& edge : grammar_->bytes(item.state)) {
        if (edge.first > byte) break;
        if (byte <= edge.last) Add({edge.target, item.frame});
      }
    }
  }
  const Id to = IdOf(Finish());
  steps_[at] = to;
  return to;
}

ParseStates::Id ParseStates::Alone(int32_t automaton_state) {
  auto state = std::make_shared<ParseState>();
  state->items.push_back({automaton_state, root_frame_});
  return IdOf(state);
}

ParseStates::Id ParseStates::AfterEnd(const ParseFramePtr& frame) {
  if (frame->depth == 0) complete_ = true;
  for (const auto& [state, outer] : frame->returns) Add({state, outer});
  return IdOf(Finish());
}

// Adds an item and all that follows from it without reading a byte.
void ParseStates::Add(Work first) {
  std::vector<Work>& pending = work_;
  const auto add = [&](Work work) {
    if (seen_.size() >= kMaxItems) {
      Met(Cut::kItems);
    } else if (seen_.insert(work).second) {
      pending.push_back(std::move(work));
    }
  };
  add(std::move(first));
  while (!pending.empty()) {
    const Work at = std::move(pending.back());
    pending.pop_back();
    if (at.building < 0 && grammar_->final(at.state)) {
      if (at.frame->depth == 0) complete_ = true;
      for (const auto& [state, outer] : at.frame->returns) add({state, outer});
    }
    AddCalls(at);
  }
}

// Every rule called here gets one frame, however many call it: what is common to ambiguous ways is kept once.
void ParseStates::AddCalls(const Work& from) {
  const int32_t depth =
      1 + (from.building < 0 ? from.frame->depth : building_[static_cast<size_t>(from.building)].depth);
  for (const auto& call : grammar_->calls(from.state)) {
    if (depth > kMaxDepth) {
      Met(Cut::kDepth);
      return;
    }
    const auto [found, is_new] = building_of_rule_.try_emplace(call.rule, static_cast<int32_t>(building_.size()));
    const int32_t index = found->second;
    if (is_new) building_.push_back({call.rule, {}, 0, nullptr});
    Building& frame = building_[static_cast<size_t>(index)];
    // A call in final position returns where its caller would.
    const bool last = from.building < 0 && from.frame->depth > 0 && grammar_->only_final(call.target);
    if (last) {
      for (const auto& [state, outer] : from.frame->returns) {
        frame.returns.push_back({state, outer});
        frame.depth = std::max(frame.depth, outer->depth + 1);
      }
    } else {
      frame.returns.push_back({call.target, from.frame, from.building});
      frame.depth = std::max(frame.depth, depth);
    }
    Work start{grammar_->rule(call.rule).start, nullptr, index};
    if (!is_new) continue;
    if (seen_.size() >= kMaxItems) {
      Met(Cut::kItems);
    } else if (seen_.insert(start).second) {
      work_.push_back(std::move(start));
    }
  }
}

ParseFramePtr ParseStates::Intern(ParseFrame frame) {
  std::sort(frame.returns.begin(), frame.returns.end());
  frame.returns.erase(std::unique(frame.returns.begin(), frame.returns.end()), frame.returns.end());
  return *frames_.insert(std::make_shared<ParseFrame>(std::move(frame))).first;
}

// Frames in the order of left calls, so that a frame's own returns are finished before it; then the set.
ParseStatePtr ParseStates::Finish() {
  std::vector<int32_t> order(building_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [this](int32_t a, int32_t b) {
    return grammar_->rule(building_[static_cast<size_t>(a)].rule).left_order <
           grammar_->rule(building_[static_cast<size_t>(b)].rule).left_order;
  });
  for (const int32_t index : order) {
    Building& building = building_[static_cast<size_t>(index)];
    ParseFrame frame;
    for (Work& to : building.returns) {
      auto& outer = to.building < 0 ? to.frame : building_[static_cast<size_t>(to.building)].done;
      frame.depth = std::max(frame.depth, outer->depth + 1);
      frame.returns.emplace_back(to.state, outer);
    }
    building.done = Intern(std::move(frame));
  }
  auto state = std::make_shared<ParseState>();
  for (const Work& item : seen_) {
    if (grammar_->bytes(item.state).empty()) continue;
    state->items.push_back(
        {item.state, item.building < 0 ? item.frame : building_[static_cast<size_t>(item.building)].done});
  }
  std::sort(state->items.begin(), state->items.end());
  state->items.erase(std::unique(state->items.begin(), state->items.end()), state->items.end());
  state->complete = complete_;
  if (too_many_) *state = {};  // a part of the ways would be a matter of chance
  walk_work_ += seen_.size();
  work_.clear();
  seen_.clear();
  building_.clear();
  building_of_rule_.clear();
  complete_ = false;
  too_many_ = false;
  return state;
}

}  // namespace surety::engine
