#include "gateway/number_units.h"

#include <algorithm>
#include <string>
#include <utility>

#include <re2/re2.h>

namespace surety::gateway {
namespace {

constexpr size_t kOwedBefore = 80, kOwedAfter = 40;   // bytes

const re2::RE2& OwedWords() {
  static const re2::RE2 words(
      R"(\b(?:overdrawn|overdraft of|negative|minus|owe|owes|owed|owing|below zero|in the red|debts?|deficit|)"
      R"(shortfall|arrears)\b)");
  return words;
}

// An outflow that is named directly before its amount: "charged $35", "debited by 35 euros".
const re2::RE2& OutflowBefore() {
  static const re2::RE2 words(R"(\b(?:charged|debited|deducted|withdrew|withdrawn)\b[^.,;:!?]{0,24}$)");
  return words;
}

const re2::RE2& OwedDenied() {
  static const re2::RE2 words(
      R"((?:\b(?:not|never|no|nor|without)|n't|n\x{2019}t)\s(?:[a-z]+\s){0,2})"
      R"((?:overdrawn|overdraft|negative|owe|owes|owed|owing|below|in the red|debts?|deficit|shortfall|arrears)\b)");
  return words;
}

bool EndsSentenceAt(std::string_view text, size_t at) {
  if (text[at] == '\n' || text[at] == ';') return true;
  const bool mark = text[at] == '.' || text[at] == '!' || text[at] == '?';
  return mark && (at + 1 == text.size() || text[at + 1] == ' ' || text[at + 1] == '\n');
}

}  // namespace

std::optional<ScaleWord> ReadScaleWord(std::string_view rest) {
  static const re2::RE2 word(
      R"(^([\s-]?)(hundred|thousands?|grand|lakhs?|lacs?|crores?|millions?|billions?|trillions?|)"
      R"(k|m|b|t|mil|mill|mio|mn|mm|bn|tn|cr)\b)");
  static constexpr std::pair<std::string_view, int> kPlaces[] = {
      {"hundred", 2}, {"thousand", 3}, {"grand", 3}, {"k", 3}, {"lakh", 5}, {"lac", 5}, {"million", 6}, {"m", 6},
      {"mil", 6}, {"mill", 6}, {"mio", 6}, {"mn", 6}, {"mm", 6}, {"crore", 7}, {"cr", 7}, {"billion", 9}, {"b", 9},
      {"bn", 9}, {"trillion", 12}, {"t", 12}, {"tn", 12}};
  re2::StringPiece space, found;
  if (!re2::RE2::PartialMatch(re2::StringPiece(rest.data(), std::min<size_t>(rest.size(), 16)), word, &space, &found)) {
    return std::nullopt;
  }
  std::string_view name(found.data(), found.size());
  if (name.size() > 2 && name.ends_with('s')) name.remove_suffix(1);
  const auto* places = std::ranges::find(kPlaces, name, &std::pair<std::string_view, int>::first);
  const bool is_short = name.size() <= 2 || name == "mil" || name == "mill" || name == "mio";
  return ScaleWord{places->second, space.size() + found.size(), is_short, name == "grand"};
}

bool EndsWithMinusWord(std::string_view left) {
  static const re2::RE2 word(R"(\b(?:minus|negative)\s?$)");
  const std::string_view near = left.substr(left.size() - std::min<size_t>(left.size(), 16));
  return re2::RE2::PartialMatch(re2::StringPiece(near.data(), near.size()), word);
}

bool HasOwedWords(std::string_view text) {
  static const re2::RE2 outflow(R"(\b(?:charged|debited|deducted|withdrew|withdrawn)\b)");
  const re2::StringPiece piece(text.data(), text.size());
  return re2::RE2::PartialMatch(piece, OwedWords()) || re2::RE2::PartialMatch(piece, outflow);
}

bool SaysOwed(std::string_view text, size_t begin, size_t end) {
  size_t from = begin, to = end;
  while (from > 0 && begin - from < kOwedBefore && !EndsSentenceAt(text, from - 1)) --from;
  while (to < text.size() && to - end < kOwedAfter && !EndsSentenceAt(text, to)) ++to;
  const re2::StringPiece near(text.data() + from, to - from), before(text.data() + from, begin - from);
  if (re2::RE2::PartialMatch(near, OwedDenied())) return false;
  return re2::RE2::PartialMatch(near, OwedWords()) || re2::RE2::PartialMatch(before, OutflowBefore());
}

}  // namespace surety::gateway
