#include "gateway/citation_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include <re2/re2.h>

#include "gateway/text_folding.h"

namespace surety::gateway {
namespace {

constexpr size_t kMaxQuoteBytes = 8192;  // longer ones are malformed, so that no text is slow
constexpr char kCitationMark = '\x01', kQuotedMark = '\x02';

bool CiteIsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

struct QuoteMarks {
  std::string_view open, close;
};
constexpr std::array<QuoteMarks, 3> kQuoteMarks = {{{"\"", "\""}, {"\u201C", "\u201D"}, {"\u00AB", "\u00BB"}}};

// A quotation that ends directly before `citation`, not reaching back over `floor`.
void ReadQuoteBefore(std::string_view text, size_t floor, Citation& citation) {
  size_t end = citation.offset;
  while (end > floor && CiteIsSpace(text[end - 1])) --end;
  const std::string_view before = text.substr(0, end);
  for (const auto& [open, close] : kQuoteMarks) {
    if (end < floor + open.size() + close.size() || !before.ends_with(close)) continue;
    const size_t inner_end = end - close.size();
    const size_t found = text.substr(floor, inner_end - floor).rfind(open);
    if (found == std::string_view::npos) continue;
    const size_t begin = floor + found;
    citation.quoted_from = begin;
    citation.quote = std::string(text.substr(begin + open.size(), inner_end - begin - open.size()));
    return;
  }
}

// Reads what follows a citation's name. A search for a closing mark that found none is gone on with where it stopped
// and not begun anew, and so is one over white space: all of them together read the text once.
class CitationEnds {
 public:
  explicit CitationEnds(std::string_view text) : text_(text) {}

  bool Finish(size_t at, Citation& citation) {
    at = SpaceEnd(at);
    size_t begin = 0, end = 0;
    for (size_t mark = 0; mark < kQuoteMarks.size(); ++mark) {
      const auto& [open, close] = kQuoteMarks[mark];
      if (!text_.substr(at).starts_with(open)) continue;
      begin = at + open.size();
      end = QuoteEnd(mark, begin);
      if (end == std::string_view::npos) return false;
      at = SpaceEnd(end + close.size());
      break;
    }
    if (at >= text_.size() || text_[at] != ']') return false;
    for (size_t i = begin; i < end; ++i) {
      if (Escapes(i)) ++i;
      citation.quote += text_[i];
    }
    citation.length = at + 1 - citation.offset;
    return true;
  }

 private:
  bool Escapes(size_t at) const {
    return text_[at] == '\\' && at + 1 < text_.size() && (text_[at + 1] == '"' || text_[at + 1] == '\\');
  }

  size_t SpaceEnd(size_t at) {
    if (at >= space_begin_ && at <= space_end_) return space_end_;
    space_begin_ = at;
    while (at < text_.size() && CiteIsSpace(text_[at])) ++at;
    return space_end_ = at;
  }

  // Where the quotation that begins at `begin` has its closing mark; npos: not within the longest quote.
  size_t QuoteEnd(size_t mark, size_t begin) {
    Search& search = searches_[mark];
    // What an earlier search read and did not find it need not be read again: it took the same steps from here on.
    size_t at = begin >= search.begin && begin <= search.end ? search.end : begin;
    if (at == begin) search.begin = begin;
    const std::string_view close = kQuoteMarks[mark].close;
    const size_t last = std::min(text_.size(), begin + kMaxQuoteBytes);
    for (; at < last && !text_.substr(at).starts_with(close); ++at) {
      if (Escapes(at)) ++at;
    }
    search.end = at;
    return at < last ? at : std::string_view::npos;
  }

  struct Search {
    size_t begin = 1, end = 0;   // read without a closing mark; none yet
  };
  std::string_view text_;
  std::array<Search, kQuoteMarks.size()> searches_;
  size_t space_begin_ = 1, space_end_ = 0;
};

bool IsAbbreviation(std::string_view text, size_t point) {
  size_t begin = point;
  while (begin > 0 && ((text[begin - 1] | 0x20) >= 'a' && (text[begin - 1] | 0x20) <= 'z')) --begin;
  const std::string_view word = text.substr(begin, point - begin);
  if (word.size() == 1 && begin > 0 && text[begin - 1] == '.') return true;            // e.g., U.S.
  static constexpr std::array<std::string_view, 16> kAbbreviations = {
      "Mr", "Mrs", "Ms", "Dr", "No", "Nos", "Art", "Sec", "Inc", "Ltd", "Corp", "approx", "vs", "cf", "Jan", "Sept"};
  return std::ranges::find(kAbbreviations, word) != kAbbreviations.end();
}

bool BeginsBlock(std::string_view line) {
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  if (line.empty()) return true;
  static constexpr std::array<std::string_view, 7> kMarks = {"- ", "* ", "+ ", "#", "|", ">", "\u2022"};
  if (std::ranges::any_of(kMarks, [&](std::string_view mark) { return line.starts_with(mark); })) return true;
  const size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  return digits > 0 && digits <= 3 && digits + 1 < line.size() && (line[digits] == '.' || line[digits] == ')') &&
         line[digits + 1] == ' ';
}

// Ends of sentences are looked for in a copy in which citations and cited quotations are one mark a byte.
class SentenceSplitter {
 public:
  SentenceSplitter(std::string_view text, const std::vector<Citation>& citations)
      : marked_(text), citations_(citations) {
    // The text's own bytes of these values are no marks.
    std::ranges::replace_if(marked_, [](char c) { return c == kCitationMark || c == kQuotedMark; }, ' ');
    for (const Citation& citation : citations) {
      if (citation.quoted_from < citation.offset) {
        Fill(citation.quoted_from, citation.offset, kQuotedMark);
        const size_t last = text.find_last_not_of(" \t\r\n\"\u201D\u00BB", citation.offset - 1);
        quote_ends_.push_back(last != std::string_view::npos && std::string_view(".!?").find(text[last]) < 3);
      } else {
        quote_ends_.push_back(false);
      }
      Fill(citation.offset, citation.offset + citation.length, kCitationMark);
    }
  }

  std::vector<Sentence> Run() {
    size_t begin = 0;
    for (size_t at = 0; at < marked_.size();) {
      const size_t end = EndAt(at);
      if (end == 0) {
        ++at;
        continue;
      }
      Add(begin, end);
      begin = at = end;
    }
    Add(begin, marked_.size());
    return std::move(sentences_);
  }

 private:
  void Fill(size_t from, size_t to, char mark) { std::fill(marked_.begin() + from, marked_.begin() + to, mark); }

  // Where the sentence ends that has its last character at `at`; 0: it does not end here.
  size_t EndAt(size_t at) {
    const std::string_view rest = std::string_view(marked_).substr(at);
    if (rest[0] == '\n') return BeginsBlock(rest.substr(1, rest.substr(1).find('\n'))) ? AfterCitations(at + 1) : 0;
    if (rest.starts_with("\u3002") || rest.starts_with("\uFF01") || rest.starts_with("\uFF1F")) {
      return AfterCitations(at + 3);
    }
    if (rest[0] == kCitationMark && (rest.size() == 1 || rest[1] != kCitationMark)) {
      const auto after = std::ranges::upper_bound(citations_, at, {}, &Citation::offset);
      const bool whole = quote_ends_[static_cast<size_t>(after - citations_.begin()) - 1];
      return whole && (rest.size() == 1 || CiteIsSpace(rest[1])) ? AfterCitations(at + 1) : 0;
    }
    if (rest[0] != '.' && rest[0] != '!' && rest[0] != '?') return 0;
    size_t end = MarksEnd(at + 1);
    for (const std::string_view close : {"\u201D", "\u2019", "\u00BB"}) {
      if (marked_.compare(end, close.size(), close) == 0) end += close.size();
    }
    if (end < marked_.size() && !CiteIsSpace(marked_[end]) && marked_[end] != kCitationMark) return 0;
    if (rest[0] == '.' && end == at + 1 && IsAbbreviation(marked_, at)) return 0;
    return AfterCitations(end);
  }

  // Of the run of marks in which `at` stands; it has one end, from wherever in it that is asked.
  size_t MarksEnd(size_t at) {
    if (at >= marks_begin_ && at <= marks_end_) return marks_end_;
    marks_begin_ = at;
    while (at < marked_.size() && std::string_view(".!?\"')]*_`").find(marked_[at]) != std::string_view::npos) ++at;
    return marks_end_ = at;
  }

  // Citations that follow belong to the sentence before them, unless an empty line parts them.
  size_t AfterCitations(size_t end) const {
    for (;;) {
      size_t next = end;
      size_t lines = 0;
      while (lines < 2 && next < marked_.size() && CiteIsSpace(marked_[next])) lines += marked_[next++] == '\n' ? 1 : 0;
      if (next >= marked_.size() || marked_[next] != kCitationMark || lines > 1) return std::max<size_t>(end, 1);
      while (next < marked_.size() && marked_[next] == kCitationMark) ++next;
      end = next;
      while (end < marked_.size() && (marked_[end] == '.' || marked_[end] == ',')) ++end;
    }
  }

  void Add(size_t begin, size_t end) {
    while (begin < end && CiteIsSpace(marked_[begin])) ++begin;
    while (end > begin && CiteIsSpace(marked_[end - 1])) --end;
    if (begin >= end) return;
    Sentence sentence{begin, end, {}};
    for (; next_citation_ < citations_.size() && citations_[next_citation_].offset < end; ++next_citation_) {
      sentence.citations.push_back(next_citation_);
    }
    sentences_.push_back(std::move(sentence));
  }

  std::string marked_;
  const std::vector<Citation>& citations_;
  std::vector<bool> quote_ends_;  // a quotation of the second form that ends a sentence
  size_t next_citation_ = 0;
  size_t marks_begin_ = 1, marks_end_ = 0;
  std::vector<Sentence> sentences_;
};

}  // namespace

std::vector<Citation> FindCitations(std::string_view text) {
  static const re2::RE2 opening(R"(\[([^\s\[\]"@]+:[^\s\[\]"@]+@[^\s\[\]"]+))");
  std::vector<Citation> citations;
  CitationEnds ends(text);
  size_t floor = 0;
  for (size_t at = text.find('['); at != std::string_view::npos; at = text.find('[', at + 1)) {
    re2::StringPiece rest(text.data() + at, text.size() - at);
    Citation citation;
    if (!RE2::Consume(&rest, opening, &citation.key)) continue;
    citation.offset = citation.quoted_from = at;
    const size_t key_end = at + 1 + citation.key.size();
    if (!ends.Finish(key_end, citation)) {
      citation.malformed = true;
      citation.length = key_end - at;
      citation.quote.clear();
    } else if (citation.length == citation.key.size() + 2) {
      ReadQuoteBefore(text, floor, citation);
    }
    at = floor = citation.offset + citation.length;
    --at;
    citations.push_back(std::move(citation));
  }
  return citations;
}

std::vector<Sentence> SplitSentences(std::string_view text, const std::vector<Citation>& citations) {
  return SentenceSplitter(text, citations).Run();
}

std::string WithoutCitations(std::string_view text, const std::vector<Citation>& citations) {
  std::string plain(text);
  for (const Citation& citation : citations) {
    std::fill(plain.begin() + citation.offset, plain.begin() + citation.offset + citation.length, ' ');
  }
  return plain;
}

std::string ClaimIn(std::string_view sentence) {
  static const re2::RE2 obligation(
      R"(\b(must|shall|required?|requires|requirements?|obliged|obligations?|obligated|mandatory|prohibit(?:s|ed)?|)"
      R"(forbidden|deadlines?|(?:have|has|need|needs) to|(?:not|never) (?:allowed|permitted)|may not|cannot|can not|)"
      R"(liable|liability|penalt(?:y|ies)|overdue)\b)");
  static const re2::RE2 right(
      R"(\b(rights|entitle(?:d|s|ment)|eligible|eligibility|qualif(?:y|ies|ied)|waive(?:d|s|r|rs)?|)"
      R"(allowed|permitted|(?:you|customers?|consumers?|clients?|members?|applicants?|they|we|the bank) (?:may|can)|)"
      R"((?:able|free) to (?:dispute|cancel|withdraw|appeal|claim))\b)");
  // Not "right away", "right now", "that is right".
  static const re2::RE2 a_right(R"(\bright (?:to|of|under|against)\b)");
  static const re2::RE2 fee(
      R"(\b(fees?|charge(?:s|d)?|costs?|prices?|interest|refund(?:s|ed|able)?|rates?|free of charge|surcharges?|)"
      R"(commissions?|premiums?|payable|discount(?:s|ed)?)\b)");
  const std::string folded = FoldText(sentence, Folding::kPhrase).text;
  if (RE2::PartialMatch(folded, obligation)) return "obligation";
  if (RE2::PartialMatch(folded, right) || RE2::PartialMatch(folded, a_right)) return "right";
  const bool title = folded.starts_with("#") || folded.ends_with(":");
  return !title && RE2::PartialMatch(folded, fee) ? "fee" : "";
}

}  // namespace surety::gateway
