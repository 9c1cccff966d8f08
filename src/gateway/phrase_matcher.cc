#include "gateway/phrase_matcher.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace surety::gateway {
namespace {

constexpr size_t kMaxBetweenWords = 4;

using Symbol = PhraseText::Symbol;

std::u32string_view LettersFor(char32_t c) {
  switch (c) {
    case U'0': return U"o";
    case U'1': return U"il";
    case U'3': return U"e";
    case U'4': case U'@': return U"a";
    case U'5': case U'$': return U"s";
    case U'7': return U"t";
    case U'!': return U"i";
    case U'|': return U"il";
    default: return {};
  }
}

bool SymbolIs(const Symbol& symbol, char32_t wanted) {
  return symbol.c == wanted || LettersFor(symbol.c).find(wanted) != std::u32string_view::npos;
}

bool EndsSentence(char32_t c) { return c == U'.' || c == U'!' || c == U'?'; }

// Letters beside letters, and digits beside digits, belong to one word.
bool OneWord(const Symbol& before, const Symbol& after) {
  return before.word && after.word && before.letter == after.letter && !after.gap_before;
}

// The symbol after a word that begins at `at`. `spaced`: with something between its letters.
std::optional<size_t> WordEnd(const std::vector<Symbol>& symbols, const std::u32string& word, size_t at, bool spaced) {
  bool any_letter = false;
  for (size_t i = 0; i < word.size(); ++i) {
    if (i > 0 && spaced) {
      if (at >= symbols.size() || symbols[at].word) return std::nullopt;
      ++at;
      if (at < symbols.size() && symbols[at].c == U' ') ++at;
    } else if (i > 0 && at + 1 < symbols.size() && symbols[at].c == U'-') {
      at += symbols[at + 1].c == U' ' ? 2 : 1;
    }
    if (at >= symbols.size() || !SymbolIs(symbols[at], word[i])) return std::nullopt;
    any_letter |= symbols[at].letter;
    ++at;
  }
  if (!any_letter && std::ranges::any_of(word, IsLetter)) return std::nullopt;
  return at;
}

// One phrase in one text. What once did not match from a place on does not match there later either, so each word is
// tried once a place, in however many ways the words before it can be spaced.
class MatchAttempt {
 public:
  MatchAttempt(const std::vector<Symbol>& symbols, const std::vector<std::u32string>& words)
      : symbols_(symbols), words_(words) {}

  // The symbol after the phrase that begins at `at`.
  std::optional<size_t> From(size_t at) { return Words(0, at); }

 private:
  std::optional<size_t> Words(size_t index, size_t at) {
    const uint64_t place = uint64_t{at} * words_.size() + index;
    if (index > 0 && failed_.contains(place)) return std::nullopt;
    const auto end = WordsAnew(index, at);
    if (!end && index > 0) failed_.insert(place);
    return end;
  }

  std::optional<size_t> WordsAnew(size_t index, size_t at) {
    for (const bool spaced : {false, true}) {
      const auto end = WordEnd(symbols_, words_[index], at, spaced);
      if (!end || (spaced && words_[index].size() < 2)) continue;
      if (index + 1 == words_.size()) {
        if (*end == symbols_.size() || !OneWord(symbols_[*end - 1], symbols_[*end])) return end;
        continue;
      }
      const size_t from = AfterFootnote(*end);
      if (const auto found = Words(index + 1, *end)) return found;
      for (size_t next = from; next <= from + kMaxBetweenWords && next < symbols_.size(); ++next) {
        if (next > from && (symbols_[next - 1].word || EndsSentence(symbols_[next - 1].c))) break;
        if (const auto found = Words(index + 1, next)) return found;
      }
    }
    return std::nullopt;
  }

  // A mark of one or two digits that stands directly at a word of letters.
  size_t AfterFootnote(size_t at) const {
    size_t end = at;
    while (symbols_[at - 1].letter && end < symbols_.size() && symbols_[end].word && !symbols_[end].letter) ++end;
    return end > at + 2 ? at : end;
  }

  const std::vector<Symbol>& symbols_;
  const std::vector<std::u32string>& words_;
  std::unordered_set<uint64_t> failed_;   // word and place, but of the first word, which is tried once a place anyhow
};

struct AsciiKind {
  bool letter = false, word = false;
};
using AsciiKinds = std::array<AsciiKind, 128>;

const AsciiKinds& KindsOfAscii() {
  static const AsciiKinds kinds = [] {
    AsciiKinds made;
    for (char32_t c = 0; c < made.size(); ++c) made[c] = {IsLetter(c), IsWordCharacter(c)};
    return made;
  }();
  return kinds;
}

}  // namespace

PhraseText::PhraseText(const FoldedText& folded) : size_bytes_(folded.text.size()) {
  const AsciiKinds& ascii = KindsOfAscii();
  symbols_.reserve(folded.text.size());
  for (size_t at = 0; at < folded.text.size();) {
    const auto byte = static_cast<unsigned char>(folded.text[at]);
    if (byte < ascii.size()) {
      symbols_.push_back({byte, at, ascii[byte].letter, ascii[byte].word, folded.GapBefore(at)});
      ++at;
      continue;
    }
    const auto [c, n] = CharacterAt(folded.text, at);
    symbols_.push_back({c, at, IsLetter(c), IsWordCharacter(c), folded.GapBefore(at)});
    at += n;
  }
}

Result<PhraseMatcher> PhraseMatcher::Make(std::span<const std::string> phrases) {
  PhraseMatcher matcher;
  for (const std::string& text : phrases) {
    Phrase phrase;
    bool in_word = false;
    const PhraseText folded(FoldText(text, Folding::kPhrase));
    for (const Symbol& symbol : folded.symbols()) {
      if (symbol.word) {
        if (!in_word) phrase.words.emplace_back();
        phrase.words.back() += symbol.c;
      }
      in_word = symbol.word;
    }
    if (phrase.words.empty()) return Error(InvalidArgumentError("phrase '" + text + "' holds no letter and no digit"));
    const char32_t first = phrase.words[0][0];
    matcher.by_first_[first].push_back(matcher.phrases_.size());
    if (first < matcher.ascii_first_.size()) matcher.ascii_first_.set(first);
    matcher.phrases_.push_back(std::move(phrase));
  }
  return matcher;
}

std::vector<PhraseMatch> PhraseMatcher::Find(const PhraseText& text) const {
  std::vector<PhraseMatch> matches;
  const std::vector<Symbol>& symbols = text.symbols();
  std::unordered_map<size_t, MatchAttempt> attempts;   // by phrase
  const auto try_all = [&](char32_t first, size_t at) {
    if (first < ascii_first_.size() && !ascii_first_[first]) return;
    const auto starting = by_first_.find(first);
    if (starting == by_first_.end()) return;
    for (const size_t index : starting->second) {
      const std::vector<std::u32string>& words = phrases_[index].words;
      if (!WordEnd(symbols, words[0], at, false) && !WordEnd(symbols, words[0], at, true)) continue;
      const auto end = attempts.try_emplace(index, symbols, words).first->second.From(at);
      if (!end) continue;
      matches.push_back({index, symbols[at].at, *end < symbols.size() ? symbols[*end].at : text.size_bytes()});
    }
  };
  for (size_t at = 0; at < symbols.size(); ++at) {
    if (at > 0 && OneWord(symbols[at - 1], symbols[at])) continue;
    try_all(symbols[at].c, at);
    for (const char32_t letter : LettersFor(symbols[at].c)) try_all(letter, at);
  }
  return matches;
}

}  // namespace surety::gateway
