// Any bytes as GBNF: it must end in a grammar or a message, and what a compiled grammar allows must be what it accepts.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engine/grammar/matcher.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace surety::engine;
  GrammarLimits limits;
  limits.max_states = 5000;
  limits.max_edges = 50'000;
  const auto grammar = CompileGbnf(std::string_view(reinterpret_cast<const char*>(data), size), limits);
  if (!grammar) {
    SURETY_CHECK(grammar.error().message().starts_with("grammar "));
    return 0;
  }
  static const auto trie = [] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"ab", "abc", "  ", "\n\n", "root", "\"a", "1.5", "\xC3\xA9"}) tokens.emplace_back(text);
    return std::make_shared<const TokenTrie>(std::move(tokens), std::vector<int32_t>{});
  }();
  auto session = GrammarSession::Make(*grammar, trie);
  if (!session) return 0;
  GrammarMatcher matcher(*session);
  std::vector<uint64_t> mask(trie->mask_words());
  for (int step = 0; step < 12 && matcher.FillMask(mask).ok(); ++step) {
    int32_t next = -1;
    for (int32_t t = 0; t < trie->vocab_size(); ++t) {
      GrammarMatcher fork = matcher;
      const bool allowed = (mask[static_cast<size_t>(t) / 64] >> (t % 64) & 1) != 0;
      SURETY_CHECK(fork.AcceptToken(t) == allowed);
      if (allowed && (next < 0 || (t * 7 + step) % 3 == 0)) next = t;
    }
    if (next < 0) break;
    SURETY_CHECK(matcher.AcceptToken(next));
  }
  return 0;
}
