#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gateway/citation_check.h"
#include "gateway/citation_text.h"
#include "gateway/text_numbers.h"
#include "gateway/verifier_kinds.h"

namespace surety::gateway {
namespace {

class CitationVerifier : public SpecVerifier {
 public:
  CitationVerifier(const VerifierSpec& spec, const Clock& clock)
      : SpecVerifier(spec, VerifierVersion(2, fmt::format("min_quote {}", spec.min_quote)), clock) {}

  Verdict Check(const AnswerText& answer, const Evidence& evidence, int64_t deadline_ns) const override {
    FindingList findings;
    const std::vector<Citation> citations = FindCitations(answer.text);
    PassageSet passages(evidence);
    std::vector<QuoteFinding> quotes;
    for (const Citation& citation : citations) {
      if (Late(deadline_ns)) return LateVerdict();
      if (findings.full()) return VerdictOf(findings.Take());
      quotes.push_back(passages.Check(citation, spec().min_quote));
      const QuoteFinding& quote = quotes.back();
      if (quote.verdict == QuoteVerdict::kFound) continue;
      findings.Add({fmt::format("{} quote: {}", NameOf(quote.verdict), quote.reason), "text", citation.offset,
                          citation.length});
    }
    NumberSet known;
    known.AddToolsAndFacts(evidence);
    const std::string plain = WithoutCitations(answer.text, citations);
    const std::vector<NumberMention> numbers = NumbersAsShown(plain);
    size_t next = 0;
    for (const Sentence& sentence : SplitSentences(answer.text, citations)) {
      if (Late(deadline_ns)) return LateVerdict();
      const size_t first = next;
      while (next < numbers.size() && numbers[next].offset < sentence.end) ++next;
      CheckSentence({plain, sentence, std::span(numbers).subspan(first, next - first), quotes}, passages, known,
                    findings);
    }
    return VerdictOf(findings.Take());
  }

 private:
  struct Claims {
    const std::string& plain;
    const Sentence& sentence;
    std::span<const NumberMention> numbers;
    const std::vector<QuoteFinding>& quotes;
  };

  // As they stand, and where HTML is rendered: 1<b>2</b> is 12.
  static std::vector<NumberMention> NumbersAsShown(std::string_view plain) {
    std::vector<NumberMention> numbers = FindNumbers(plain);
    if (plain.find_first_of("<&") == std::string_view::npos) return numbers;
    for (NumberMention& number : FindNumbers(plain, /*html=*/true)) numbers.push_back(std::move(number));
    std::ranges::stable_sort(numbers, {}, &NumberMention::offset);
    return numbers;
  }

  static void CheckSentence(const Claims& claims, PassageSet& passages, const NumberSet& known,
                            FindingList& findings) {
    const auto& [plain, sentence, numbers, quotes] = claims;
    const size_t length = sentence.end - sentence.begin;
    const std::string claim =
        numbers.empty() ? ClaimIn(std::string_view(plain).substr(sentence.begin, length)) : "number";
    if (claim.empty()) return;
    NumberSet cited;
    bool found = false;
    for (const size_t i : sentence.citations) {
      found |= quotes[i].verdict == QuoteVerdict::kFound;
      passages.AddNumbers(quotes[i], cited);
    }
    if (!found) {
      const std::string article = claim == "obligation" ? "an " : "a ";
      findings.Add({article + claim + " without a citation that is found", "text", sentence.begin, length});
    }
    for (const NumberMention& number : numbers) {
      if (cited.Supports(number) || known.Supports(number)) continue;
      findings.Add({"a number that no cited words, tool or fact bears out", "text", number.offset,
                          number.length});
    }
  }
};

}  // namespace

MadeVerifier MakeCitationVerifier(const VerifierSpec& spec, const Clock& clock) {
  if (spec.min_quote < 1 || spec.min_quote > 200) return Error(SpecError(spec, "min_quote must be 1 to 200"));
  return std::make_unique<CitationVerifier>(spec, clock);
}

}  // namespace surety::gateway
