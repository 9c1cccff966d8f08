#include "engine/grammar/grammar_builder.h"

#include <algorithm>
#include <map>

#include "engine/grammar/grammar_finisher.h"

namespace surety::engine {

GrammarBuilder::GrammarBuilder(const GrammarLimits& limits) : limits_(limits) {
  if (limits_.clock == nullptr) limits_.clock = &Clock::Real();
  deadline_ns_ = limits_.clock->NowNanos() + limits_.max_compile_ms * 1'000'000;
  states_.emplace_back();  // what a broken budget hands out
}

void GrammarBuilder::Refuse(std::string_view what, int64_t limit) {
  if (!ok()) return;
  status_ =
      InvalidArgumentError("it is too large to compile: more than " + std::to_string(limit) + " " + std::string(what));
}

void GrammarBuilder::CheckTime() {
  if (ok() && limits_.clock->NowNanos() > deadline_ns_) Refuse("milliseconds", limits_.max_compile_ms);
}

int32_t GrammarBuilder::NewRule(std::string name) {
  if (static_cast<int>(rules_.size()) >= limits_.max_rules) Refuse("rules", limits_.max_rules);
  if (!ok() && !rules_.empty()) return 0;
  rules_.push_back({std::move(name)});
  return static_cast<int32_t>(rules_.size() - 1);
}

int32_t GrammarBuilder::NewState() {
  if (static_cast<int>(states_.size()) >= limits_.max_states) Refuse("states", limits_.max_states);
  if (states_.size() % 256 == 0) CheckTime();
  if (!ok()) return 0;
  states_.emplace_back();
  return static_cast<int32_t>(states_.size() - 1);
}

void GrammarBuilder::SetRule(int32_t rule, int32_t start, int32_t end) {
  rules_[static_cast<size_t>(rule)].start = start;
  rules_[static_cast<size_t>(rule)].end = end;
}

void GrammarBuilder::Add(int32_t from, Edge edge) {
  if (++n_edges_ > limits_.max_edges) Refuse("edges", limits_.max_edges);
  if (ok()) states_[static_cast<size_t>(from)].push_back(edge);
}

void GrammarBuilder::Empty(int32_t from, int32_t to) { Add(from, {.kind = Edge::Kind::kEmpty, .to = to}); }

void GrammarBuilder::Bytes(int32_t from, uint8_t first, uint8_t last, int32_t to) {
  Add(from, {.kind = Edge::Kind::kBytes, .first = first, .last = last, .to = to});
}

void GrammarBuilder::Call(int32_t from, int32_t rule, int32_t to) {
  Add(from, {.kind = Edge::Kind::kCall, .rule = rule, .to = to});
}

void GrammarBuilder::Literal(int32_t from, std::string_view bytes, int32_t to) {
  if (bytes.empty()) return Empty(from, to);
  for (size_t i = 0; i < bytes.size() && ok(); ++i) {
    const int32_t next = i + 1 == bytes.size() ? to : NewState();
    Bytes(from, static_cast<uint8_t>(bytes[i]), static_cast<uint8_t>(bytes[i]), next);
    from = next;
  }
}

void GrammarBuilder::Chars(int32_t from, const CharSet& set, int32_t to) {
  // States before the last one, two, three bytes where these are free; shared by all sequences.
  int32_t free_tail[4] = {to, -1, -1, -1};
  const auto tail = [&](int n) {
    for (int i = 1; i <= n; ++i) {
      if (free_tail[i] >= 0) continue;
      free_tail[i] = NewState();
      Bytes(free_tail[i], 0x80, 0xBF, free_tail[i - 1]);
    }
    return free_tail[n];
  };
  std::map<std::vector<std::pair<uint8_t, uint8_t>>, int32_t> shared;  // by the bytes before it
  for (const Utf8Sequence& sequence : Utf8Sequences(set)) {
    if (!ok()) return;
    int n_free = 0;
    while (n_free < sequence.length - 1 &&
           sequence.bytes[sequence.length - 1 - n_free] == std::pair<uint8_t, uint8_t>(0x80, 0xBF)) {
      ++n_free;
    }
    int32_t at = from;
    std::vector<std::pair<uint8_t, uint8_t>> before;
    for (int i = 0; i < sequence.length - n_free; ++i) {
      const auto [first, last] = sequence.bytes[i];
      before.push_back(sequence.bytes[i]);
      if (i + 1 == sequence.length - n_free) {
        Bytes(at, first, last, tail(n_free));
        break;
      }
      auto [found, is_new] = shared.try_emplace(before, 0);
      if (is_new) {
        found->second = NewState();
        Bytes(at, first, last, found->second);
      }
      at = found->second;
    }
  }
}

void GrammarBuilder::AnyOf(int32_t from, std::vector<std::string> texts, int32_t to) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  std::map<std::pair<int32_t, char>, int32_t> children;
  for (const std::string& text : texts) {
    int32_t at = from;
    for (size_t i = 0; i + 1 < text.size() && ok(); ++i) {
      auto [found, is_new] = children.try_emplace({at, text[i]}, 0);
      if (is_new) {
        found->second = NewState();
        Bytes(at, static_cast<uint8_t>(text[i]), static_cast<uint8_t>(text[i]), found->second);
      }
      at = found->second;
    }
    Literal(at, text.empty() ? text : text.substr(text.size() - 1), to);
  }
}

Result<GrammarPtr> GrammarBuilder::Finish(int32_t root) {
  CheckTime();
  if (!ok()) return Error(status_);
  return GrammarFinisher(*this).Run(root);
}

}  // namespace surety::engine
