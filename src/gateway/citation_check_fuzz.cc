// An answer against a passage, both any bytes: what counts as found stands in the passage, and a quotation cut out of
// the passage itself is never called absent for its form.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "gateway/answer_views.h"
#include "gateway/citation_check.h"
#include "gateway/verifier_kinds.h"

namespace surety::gateway {
namespace {

void OneCitation(std::string_view text) {
  // The first half is the passage, the second the answer.
  Evidence evidence;
  evidence.as_of_ns = 0;
  for (const char* id : {"fees", "terms"}) {
    Passage& passage = evidence.passages.emplace_back();
    passage.document = id;
    passage.chunk = "3";
    passage.version = "1";
    passage.text = text.substr(0, text.size() / (id[0] == 'f' ? 2 : 3));
  }
  const std::string answer(text.substr(text.size() / 2));
  PassageSet passages(evidence);
  for (const Citation& citation : FindCitations(answer)) {
    SURETY_CHECK(citation.length > 0 && citation.offset + citation.length <= answer.size());
    SURETY_CHECK(citation.quoted_from <= citation.offset);
    const QuoteFinding found = passages.Check(citation, 4);
    SURETY_CHECK((found.verdict == QuoteVerdict::kFound) == found.reason.empty());
    if (found.verdict != QuoteVerdict::kFound) continue;
    SURETY_CHECK(found.passage != nullptr && found.offset + found.length <= found.passage->text.size());
    SURETY_CHECK(found.length > 0);
    NumberSet numbers;
    passages.AddNumbers(found, numbers);
  }
  static const auto verifier = [] {
    VerifierSpec spec;
    spec.name = "citations";
    spec.kind = VerifierSpec::Kind::kCitations;
    auto made = MakeCitationVerifier(spec);
    SURETY_CHECK(made.has_value());
    return *std::move(made);
  }();
  AnswerText whole;
  whole.text = answer;
  const Verdict verdict = verifier->Check(whole, evidence, 0);
  SURETY_CHECK((verdict.outcome == Verdict::Outcome::kPass) == verdict.findings.empty());
  for (const Finding& finding : verdict.findings) SURETY_CHECK(finding.offset + finding.length <= answer.size());
}

}  // namespace
}  // namespace surety::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::gateway::OneCitation(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
