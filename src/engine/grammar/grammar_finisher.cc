#include "engine/grammar/grammar_finisher.h"

#include <algorithm>
#include <array>

namespace surety::engine {
namespace {

size_t Index(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

bool GrammarFinisher::nullable(int32_t rule) const {
  const int32_t start = builder_.rules_[Index(rule)].start;
  return start >= 0 && ends_[Index(start)] != 0;
}

// Backwards from the rules' ends, through empty moves and through calls of rules already found nullable.
void GrammarFinisher::FindNullable() {
  const size_t n_states = builder_.states_.size();
  std::vector<std::vector<int32_t>> empty_into(n_states), call_into(n_states);
  std::vector<std::vector<std::pair<int32_t, int32_t>>> calls_of(builder_.rules_.size());  // (from, to)
  for (size_t s = 0; s < n_states; ++s) {
    for (const auto& edge : builder_.states_[s]) {
      if (edge.kind == GrammarBuilder::Edge::Kind::kEmpty)
        empty_into[Index(edge.to)].push_back(static_cast<int32_t>(s));
      if (edge.kind != GrammarBuilder::Edge::Kind::kCall) continue;
      calls_of[Index(edge.rule)].emplace_back(static_cast<int32_t>(s), edge.to);
    }
  }
  std::vector<std::vector<int32_t>> rules_at(n_states);  // rules that start there
  ends_.assign(n_states, 0);
  is_end_.assign(n_states, 0);
  std::vector<int32_t> work;
  const auto mark = [&](int32_t state) {
    if (ends_[Index(state)] == 0) {
      ends_[Index(state)] = 1;
      work.push_back(state);
    }
  };
  for (size_t r = 0; r < builder_.rules_.size(); ++r) {
    const auto& rule = builder_.rules_[r];
    if (rule.start < 0) continue;
    rules_at[Index(rule.start)].push_back(static_cast<int32_t>(r));
    is_end_[Index(rule.end)] = 1;
  }
  for (size_t s = 0; s < n_states; ++s) {
    if (is_end_[s] != 0) mark(static_cast<int32_t>(s));
  }
  while (!work.empty()) {
    const int32_t state = work.back();
    work.pop_back();
    for (const int32_t from : empty_into[Index(state)]) mark(from);
    for (const int32_t from : call_into[Index(state)]) mark(from);
    for (const int32_t rule : rules_at[Index(state)]) {
      for (const auto& [from, to] : calls_of[Index(rule)]) {
        if (ends_[Index(to)] != 0) mark(from);
        call_into[Index(to)].push_back(from);
      }
    }
  }
}

// What can be read from `state`, through empty moves and calls that may be empty.
void GrammarFinisher::Close(int32_t state, std::vector<int32_t>& reached) {
  Closed& closed = closed_[Index(state)];
  std::vector<int32_t> work = {state};
  visited_[Index(state)] = ++closure_;
  const auto visit = [&](int32_t to) {
    if (visited_[Index(to)] == closure_) return;
    visited_[Index(to)] = closure_;
    work.push_back(to);
  };
  const auto reach = [&](int32_t to) {
    if (closed_[Index(to)].reached) return;
    closed_[Index(to)].reached = true;
    reached.push_back(to);
  };
  while (!work.empty()) {
    const int32_t at = work.back();
    work.pop_back();
    closed.final = closed.final || is_end_[Index(at)] != 0;
    for (const auto& edge : edges(at)) {
      switch (edge.kind) {
        case GrammarBuilder::Edge::Kind::kEmpty:
          visit(edge.to);
          break;
        case GrammarBuilder::Edge::Kind::kBytes:
          closed.bytes.push_back({edge.first, edge.last, edge.to});
          reach(edge.to);
          break;
        case GrammarBuilder::Edge::Kind::kCall:
          if (builder_.rules_[Index(edge.rule)].start < 0) break;
          closed.calls.push_back({edge.rule, edge.to});
          reach(edge.to);
          reach(builder_.rules_[Index(edge.rule)].start);
          if (nullable(edge.rule)) visit(edge.to);
          break;
      }
    }
  }
  const auto tidy = [](auto& list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    list.shrink_to_fit();
  };
  tidy(closed.bytes);
  tidy(closed.calls);
  n_edges_ += static_cast<int>(closed.bytes.size() + closed.calls.size());
  if (n_edges_ > builder_.limits_.max_edges) builder_.Refuse("edges", builder_.limits_.max_edges);
}

void GrammarFinisher::CloseAll(int32_t root) {
  closed_.assign(builder_.states_.size(), {});
  visited_.assign(builder_.states_.size(), 0);
  const int32_t start = builder_.rules_[Index(root)].start;
  std::vector<int32_t> reached = {start};
  closed_[Index(start)].reached = true;
  for (size_t done = 0; done < reached.size() && builder_.ok(); ++done) {
    if (done % 256 == 0) builder_.CheckTime();
    Close(reached[done], reached);
  }
}

// A state is useful if its rule's end can be reached from it; edges to others are dropped.
void GrammarFinisher::FindUseful() {
  const size_t n_states = closed_.size();
  std::vector<std::vector<int32_t>> bytes_into(n_states);
  std::vector<std::vector<std::pair<int32_t, int32_t>>> waits(n_states);  // (from, the other state it needs)
  std::vector<int32_t> work;
  const auto mark = [&](int32_t state) {
    if (!closed_[Index(state)].useful) {
      closed_[Index(state)].useful = true;
      work.push_back(state);
    }
  };
  for (size_t s = 0; s < n_states; ++s) {
    const auto from = static_cast<int32_t>(s);
    for (const auto& edge : closed_[s].bytes) bytes_into[Index(edge.target)].push_back(from);
    for (const auto& call : closed_[s].calls) {
      const int32_t start = builder_.rules_[Index(call.rule)].start;
      waits[Index(start)].emplace_back(from, call.target);
      waits[Index(call.target)].emplace_back(from, start);
    }
  }
  for (size_t s = 0; s < n_states; ++s) {
    if (closed_[s].final) mark(static_cast<int32_t>(s));
  }
  while (!work.empty()) {
    const int32_t state = work.back();
    work.pop_back();
    for (const int32_t from : bytes_into[Index(state)]) mark(from);
    for (const auto& [from, other] : waits[Index(state)]) {
      if (closed_[Index(other)].useful) mark(from);
    }
  }
  for (Closed& closed : closed_) {
    std::erase_if(closed.bytes, [&](const auto& edge) { return !closed_[Index(edge.target)].useful; });
    std::erase_if(closed.calls, [&](const auto& call) {
      return !closed_[Index(call.target)].useful || !closed_[Index(builder_.rules_[Index(call.rule)].start)].useful;
    });
  }
}

// Depth first over the calls that a rule makes before its first byte; a rule met again on the way is a left recursion.
Status GrammarFinisher::OrderLeftCalls(int32_t root, std::vector<int32_t>& left_order) {
  enum : char { kNew, kOpen, kDone };
  std::vector<char> colour(builder_.rules_.size(), kNew);
  left_order.assign(builder_.rules_.size(), 0);
  auto next_order = static_cast<int32_t>(builder_.rules_.size());
  std::vector<int32_t> roots = {root};
  for (const Closed& closed : closed_) {
    if (!closed.reached) continue;
    for (const auto& call : closed.calls) roots.push_back(call.rule);
  }
  std::vector<std::pair<int32_t, size_t>> path;  // rule, next call
  for (const int32_t from : roots) {
    if (colour[Index(from)] != kNew) continue;
    path.emplace_back(from, 0);
    colour[Index(from)] = kOpen;
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      const auto& calls = closed_[Index(builder_.rules_[Index(rule)].start)].calls;
      if (next == calls.size()) {
        colour[Index(rule)] = kDone;
        left_order[Index(rule)] = --next_order;
        path.pop_back();
        continue;
      }
      const int32_t to = calls[next++].rule;
      if (colour[Index(to)] == kOpen) {
        std::string cycle;
        const auto first = std::find_if(path.begin(), path.end(), [&](const auto& p) { return p.first == to; });
        for (auto at = first; at != path.end() && cycle.size() < 400; ++at) cycle += builder_.name(at->first) + " -> ";
        return InvalidArgumentError("left recursion: " + cycle + builder_.name(to) +
                                    "; a rule must read something before it comes back to itself");
      }
      if (colour[Index(to)] == kNew) {
        colour[Index(to)] = kOpen;
        path.emplace_back(to, 0);
      }
    }
  }
  return OkStatus();
}

void GrammarFinisher::Number(int32_t root, const std::vector<int32_t>& left_order, Grammar& grammar) {
  std::vector<int32_t> state_number(closed_.size(), -1), rule_number(builder_.rules_.size(), -1);
  std::vector<int32_t> states, rules;
  const auto state = [&](int32_t s) {
    if (state_number[Index(s)] < 0) {
      state_number[Index(s)] = static_cast<int32_t>(states.size());
      states.push_back(s);
    }
    return state_number[Index(s)];
  };
  const auto rule = [&](int32_t r) {
    if (rule_number[Index(r)] < 0) {
      rule_number[Index(r)] = static_cast<int32_t>(rules.size());
      rules.push_back(r);
      const auto& source = builder_.rules_[Index(r)];
      grammar.rules_.push_back({source.name, state(source.start), left_order[Index(r)]});
    }
    return rule_number[Index(r)];
  };
  rule(root);
  for (size_t i = 0; i < states.size(); ++i) {
    const Closed& closed = closed_[Index(states[i])];
    Grammar::State out;
    out.final = closed.final;
    out.bytes_begin = static_cast<int32_t>(grammar.byte_edges_.size());
    for (const auto& edge : closed.bytes) grammar.byte_edges_.push_back({edge.first, edge.last, state(edge.target)});
    out.bytes_end = static_cast<int32_t>(grammar.byte_edges_.size());
    out.calls_begin = static_cast<int32_t>(grammar.call_edges_.size());
    for (const auto& call : closed.calls) grammar.call_edges_.push_back({rule(call.rule), state(call.target)});
    out.calls_end = static_cast<int32_t>(grammar.call_edges_.size());
    grammar.states_.push_back(out);
  }
}

void GrammarFinisher::ClassifyBytes(Grammar& grammar) {
  std::array<bool, 257> border{};
  border[0] = true;
  for (const auto& edge : grammar.byte_edges_) {
    border[edge.first] = true;
    border[size_t{edge.last} + 1] = true;
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (border[static_cast<size_t>(byte)]) grammar.class_example_.push_back(static_cast<uint8_t>(byte));
    grammar.byte_class_[static_cast<size_t>(byte)] = static_cast<uint8_t>(grammar.class_example_.size() - 1);
  }
}

Result<GrammarPtr> GrammarFinisher::Run(int32_t root) {
  FindNullable();
  CloseAll(root);
  if (!builder_.ok()) return Error(builder_.status());
  FindUseful();
  if (!closed_[Index(builder_.rules_[Index(root)].start)].useful) {
    return Error(InvalidArgumentError("no finite text matches '" + builder_.name(root) + "'"));
  }
  std::vector<int32_t> left_order;
  SURETY_RETURN_IF_ERROR(OrderLeftCalls(root, left_order));
  auto grammar = std::make_shared<Grammar>();
  Number(root, left_order, *grammar);
  ClassifyBytes(*grammar);
  return grammar;
}

}  // namespace surety::engine
