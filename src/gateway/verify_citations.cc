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
  explicit CitationVerifier(const VerifierSpec& spec)
      : SpecVerifier(spec, VerifierVersion(1, fmt::format("min_quote {}", spec.min_quote))) {}

  Verdict Check(const AnswerText& answer, const Evidence& evidence, int64_t) const override {
    std::vector<Finding> findings;
    const std::vector<Citation> citations = FindCitations(answer.text);
    PassageSet passages(evidence);
    std::vector<QuoteFinding> quotes;
    for (const Citation& citation : citations) {
      quotes.push_back(passages.Check(citation, spec().min_quote));
      const QuoteFinding& quote = quotes.back();
      if (quote.verdict == QuoteVerdict::kFound) continue;
      findings.push_back({fmt::format("{} quote: {}", NameOf(quote.verdict), quote.reason), "text", citation.offset,
                          citation.length});
    }
    NumberSet known;
    known.AddToolsAndFacts(evidence);
    const std::string plain = WithoutCitations(answer.text, citations);
    const std::vector<NumberMention> numbers = FindNumbers(plain);
    size_t next = 0;
    for (const Sentence& sentence : SplitSentences(answer.text, citations)) {
      const size_t first = next;
      while (next < numbers.size() && numbers[next].offset < sentence.end) ++next;
      CheckSentence({plain, sentence, std::span(numbers).subspan(first, next - first), quotes}, passages, known,
                    findings);
    }
    return VerdictOf(std::move(findings));
  }

 private:
  struct Claims {
    const std::string& plain;
    const Sentence& sentence;
    std::span<const NumberMention> numbers;
    const std::vector<QuoteFinding>& quotes;
  };

  static void CheckSentence(const Claims& claims, PassageSet& passages, const NumberSet& known,
                            std::vector<Finding>& findings) {
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
      findings.push_back({article + claim + " without a citation that is found", "text", sentence.begin, length});
    }
    for (const NumberMention& number : numbers) {
      if (cited.Supports(number) || known.Supports(number)) continue;
      findings.push_back({"a number that no cited words, tool or fact bears out", "text", number.offset,
                          number.length});
    }
  }
};

}  // namespace

MadeVerifier MakeCitationVerifier(const VerifierSpec& spec) {
  if (spec.min_quote < 1 || spec.min_quote > 200) return Error(SpecError(spec, "min_quote must be 1 to 200"));
  return std::make_unique<CitationVerifier>(spec);
}

}  // namespace surety::gateway
