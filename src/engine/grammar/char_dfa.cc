#include "engine/grammar/char_dfa.h"

#include <algorithm>
#include <map>

#include "model/tokenizer/unicode.h"

namespace surety::engine {

bool CharDfa::Accepts(std::string_view utf8) const {
  size_t state = 0;
  for (size_t at = 0; at < utf8.size();) {
    char32_t c = 0;
    const int length = model::DecodeUtf8(utf8, at, c);
    if (length <= 0) return false;
    at += static_cast<size_t>(length);
    const auto& edges = states[state].edges;
    const auto edge =
        std::find_if(edges.begin(), edges.end(), [c](const Edge& e) { return e.first <= c && c <= e.last; });
    if (edge == edges.end()) return false;
    state = static_cast<size_t>(edge->target);
  }
  return states[state].accepts;
}

CharDfa Intersect(const CharDfa& a, const CharDfa& b, GrammarBuilder& budget) {
  CharDfa both;
  std::map<std::pair<int32_t, int32_t>, int32_t> ids;
  std::vector<std::pair<int32_t, int32_t>> work;
  const auto id = [&](int32_t x, int32_t y) {
    const auto [found, is_new] = ids.try_emplace({x, y}, static_cast<int32_t>(work.size()));
    if (is_new) {
      work.emplace_back(x, y);
      budget.NewState();  // what this will become, and more
    }
    return found->second;
  };
  id(0, 0);
  for (size_t i = 0; i < work.size() && budget.ok(); ++i) {
    const auto& x = a.states[static_cast<size_t>(work[i].first)];
    const auto& y = b.states[static_cast<size_t>(work[i].second)];
    CharDfa::State state;
    state.accepts = x.accepts && y.accepts;
    for (size_t p = 0, q = 0; p < x.edges.size() && q < y.edges.size();) {
      const auto& e = x.edges[p];
      const auto& f = y.edges[q];
      const char32_t first = std::max(e.first, f.first), last = std::min(e.last, f.last);
      const bool e_ends = e.last <= f.last;
      if (first <= last) state.edges.push_back({first, last, id(e.target, f.target)});
      e_ends ? ++p : ++q;
    }
    both.states.push_back(std::move(state));
  }
  return both;
}

CharDfa LengthDfa(int64_t least, int64_t most, GrammarBuilder& budget) {
  CharDfa dfa;
  const int64_t last = most < 0 ? least : most;
  for (int64_t i = 0; i <= last && budget.ok(); ++i) {
    budget.NewState();
    CharDfa::State state;
    state.accepts = i >= least;
    const int64_t next = i < last ? i + 1 : most < 0 ? i : -1;
    if (next >= 0) state.edges.push_back({0, CharSet::kLast, static_cast<int32_t>(next)});
    dfa.states.push_back(std::move(state));
  }
  if (dfa.states.empty()) dfa.states.emplace_back();
  return dfa;
}

CharDfa NoneOf(const std::vector<std::string>& texts, GrammarBuilder& budget) {
  CharDfa dfa;
  std::vector<std::map<char32_t, int32_t>> children(2);
  std::vector<bool> named(2, false);
  constexpr int32_t kOther = 1;  // has left all of the texts
  for (const std::string& text : texts) {
    size_t state = 0;
    for (size_t at = 0; at < text.size() && budget.ok();) {
      char32_t c = 0;
      at += static_cast<size_t>(std::max(1, model::DecodeUtf8(text, at, c)));
      const auto [found, is_new] = children[state].try_emplace(c, static_cast<int32_t>(children.size()));
      state = static_cast<size_t>(found->second);
      if (!is_new) continue;
      children.emplace_back();
      named.push_back(false);
      budget.NewState();
    }
    named[state] = true;
  }
  for (size_t s = 0; s < children.size(); ++s) {
    CharDfa::State state;
    state.accepts = !named[s];
    char32_t next = 0;
    for (const auto& [c, target] : children[s]) {
      if (c > next) state.edges.push_back({next, c - 1, kOther});
      state.edges.push_back({c, c, target});
      next = c + 1;
    }
    if (next <= CharSet::kLast) state.edges.push_back({next, CharSet::kLast, kOther});
    dfa.states.push_back(std::move(state));
  }
  return dfa;
}

}  // namespace surety::engine
