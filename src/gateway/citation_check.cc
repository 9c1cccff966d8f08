#include "gateway/citation_check.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "gateway/verifier_kinds.h"

namespace surety::gateway {
namespace {

constexpr size_t kMaxStitchedBytes = 4096;  // a longer quote that is not found is absent, so that no text is slow
constexpr size_t kKeptTextBytes = 512 << 10;  // of each generation; a reading takes some twenty times its text

// Readings in two generations: when the young one is full, the old one goes, with what was not asked for since.
class KeptReadings {
 public:
  std::shared_ptr<const PassageReading> Find(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (const auto found = young_.find(text); found != young_.end()) return found->second;
    const auto found = old_.find(text);
    if (found == old_.end()) return nullptr;
    auto reading = found->second;
    Put(text, reading);
    return reading;
  }
  void Add(const std::string& text, std::shared_ptr<const PassageReading> reading) {
    const std::lock_guard lock(mutex_);
    Put(text, std::move(reading));
  }

 private:
  using Readings = std::unordered_map<std::string, std::shared_ptr<const PassageReading>>;

  void Put(const std::string& text, std::shared_ptr<const PassageReading> reading) {
    if (text.size() > kKeptTextBytes / 8 || !young_.emplace(text, std::move(reading)).second) return;
    young_bytes_ += text.size();
    if (young_bytes_ < kKeptTextBytes) return;
    old_ = std::exchange(young_, {});
    young_bytes_ = 0;
  }

  std::mutex mutex_;
  Readings young_, old_;
  size_t young_bytes_ = 0;
};

std::string_view QuoteTrimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> QuoteWords(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// The piece [at, at + n) neither begins nor ends within a word.
bool AtWordBorders(std::string_view text, size_t at, size_t n) {
  const bool cut_before = at > 0 && IsWordCharacter(CharacterAt(text, at).first) &&
                          IsWordCharacter(CharacterBefore(text, at));
  const bool cut_after = at + n < text.size() && IsWordCharacter(CharacterBefore(text, at + n)) &&
                         IsWordCharacter(CharacterAt(text, at + n).first);
  return !cut_before && !cut_after;
}

}  // namespace

std::shared_ptr<const PassageReading> ReadingOf(const std::string& passage_text) {
  static KeptReadings kept;
  if (auto reading = kept.Find(passage_text)) return reading;
  auto reading = std::make_shared<const PassageReading>(
      PassageReading{FoldText(passage_text, Folding::kQuote), FindNumbers(passage_text)});
  kept.Add(passage_text, reading);
  return reading;
}

std::string_view NameOf(QuoteVerdict verdict) {
  switch (verdict) {
    case QuoteVerdict::kFound: return "found";
    case QuoteVerdict::kWrongChunk: return "wrong-chunk";
    case QuoteVerdict::kStitched: return "stitched";
    case QuoteVerdict::kAbsent: return "absent";
  }
  return "unknown";
}

PassageSet::PassageSet(const Evidence& evidence) : evidence_(evidence) {
  for (const Passage& passage : evidence.passages) {
    passages_.push_back({&passage, ReadingOf(passage.text)});
  }
}

bool PassageSet::Holds(const Folded& folded, std::string_view quote, QuoteFinding* found) {
  const std::string_view text = folded.reading->folded.text;
  for (size_t at = text.find(quote); at != std::string_view::npos; at = text.find(quote, at + 1)) {
    if (!AtWordBorders(text, at, quote.size())) continue;
    const auto [offset, length] = folded.reading->folded.OriginOf(at, at + quote.size());
    // A quote of "$3" out of "$3.50" says something else than its source.
    const bool cuts_number = std::ranges::any_of(folded.reading->numbers, [&](const NumberMention& n) {
      const bool apart = n.offset + n.length <= offset || n.offset >= offset + length;
      const bool inside = n.offset >= offset && n.offset + n.length <= offset + length;
      return !apart && !inside;
    });
    if (cuts_number) continue;
    found->verdict = QuoteVerdict::kFound;
    found->passage = folded.passage;
    found->offset = offset;
    found->length = length;
    return true;
  }
  return false;
}

bool PassageSet::IsStitched(std::string_view quote) const {
  if (quote.size() > kMaxStitchedBytes) return false;
  std::vector<std::string_view> words = QuoteWords(quote);
  std::erase_if(words, [](std::string_view word) { return word == "..." || word == "[...]"; });
  size_t pieces = 0;
  for (size_t first = 0; first < words.size(); ++pieces) {
    std::string piece;
    size_t taken = 0;
    for (size_t last = first; last < words.size(); ++last) {  // the longest piece that some passage holds
      std::string_view word = words[last];
      if (word.ends_with("...")) word.remove_suffix(3);
      piece += (piece.empty() ? "" : " ") + std::string(word);
      const bool held = std::ranges::any_of(passages_, [&](const Folded& folded) {
        return folded.reading->folded.text.find(piece) != std::string::npos;
      });
      if (!held) break;
      taken = last + 1 - first;
    }
    if (taken < 2) return false;
    first += taken;
  }
  return pieces >= 2;
}

QuoteFinding PassageSet::Check(const Citation& citation, int min_quote) {
  QuoteFinding finding;
  if (citation.malformed) {
    finding.reason = "a citation that does not end; its form is [document:chunk@version \"quote\"]";
    return finding;
  }
  const std::string folded_quote = FoldText(citation.quote, Folding::kQuote).text;
  const std::string_view quote = QuoteTrimmed(folded_quote);
  if (quote.empty()) {
    finding.reason = "a citation without a quote";
    return finding;
  }
  if (CharacterCount(quote) < static_cast<size_t>(std::max(min_quote, 0))) {
    finding.reason = fmt::format("a quote of {} characters; at least {} are needed", CharacterCount(quote), min_quote);
    return finding;
  }
  const Passage* cited = FindPassage(evidence_, citation.key);
  std::string_view shorter = quote;
  if (std::string_view(".,;:!?").find(shorter.back()) != std::string_view::npos) shorter.remove_suffix(1);
  QuoteFinding elsewhere;
  for (const Folded& folded : passages_) {
    QuoteFinding& target = folded.passage == cited ? finding : elsewhere;
    if (target.verdict == QuoteVerdict::kFound) continue;
    if (!Holds(folded, quote, &target) && !shorter.empty()) Holds(folded, shorter, &target);
  }
  if (finding.verdict == QuoteVerdict::kFound) {
    if (cited->validity.Contains(evidence_.as_of_ns)) return finding;
    return {QuoteVerdict::kAbsent, "a quote from a passage that is not in force", cited, 0, 0};
  }
  finding.passage = cited;
  if (elsewhere.verdict == QuoteVerdict::kFound) {
    finding.verdict = QuoteVerdict::kWrongChunk;
    finding.reason = "a quote that stands in another passage";
  } else if (IsStitched(quote)) {
    finding.verdict = QuoteVerdict::kStitched;
    finding.reason = "a quote made of pieces that do not stand together";
  } else {
    finding.reason = cited == nullptr ? "a passage that is not evidence of this request" : "a quote that is not in it";
  }
  return finding;
}

void PassageSet::AddNumbers(const QuoteFinding& found, NumberSet& numbers) {
  const auto folded = std::ranges::find(passages_, found.passage, &Folded::passage);
  if (found.verdict != QuoteVerdict::kFound || folded == passages_.end()) return;
  for (const NumberMention& mention : folded->reading->numbers) {
    if (mention.offset >= found.offset && mention.offset + mention.length <= found.offset + found.length) {
      numbers.Add(mention);
    }
  }
}

}  // namespace surety::gateway
