#include "gateway/verifier.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/hash.h"
#include "gateway/citation_text.h"
#include "gateway/verifier_kinds.h"

namespace surety::gateway {

std::string_view NameOf(Verdict::Outcome outcome) {
  switch (outcome) {
    case Verdict::Outcome::kPass: return "pass";
    case Verdict::Outcome::kFail: return "fail";
    case Verdict::Outcome::kError: return "error";
  }
  return "unknown";
}

std::string_view NameOf(Judgement::Action action) {
  switch (action) {
    case Judgement::Action::kRelease: return "release";
    case Judgement::Action::kRepair: return "repair";
    case Judgement::Action::kReview: return "review";
    case Judgement::Action::kBlock: return "block";
  }
  return "unknown";
}

Verdict SpecVerifier::VerdictOf(std::vector<Finding> findings) const {
  Verdict verdict;
  verdict.verifier = spec_.name;
  verdict.version = version_;
  verdict.outcome = findings.empty() ? Verdict::Outcome::kPass : Verdict::Outcome::kFail;
  if (!findings.empty()) {
    verdict.reason = findings[0].what + " in " + findings[0].where;
    if (findings.size() > 1) verdict.reason += fmt::format(" and {} more", findings.size() - 1);
  }
  verdict.findings = std::move(findings);
  return verdict;
}

Verdict SpecVerifier::ErrorVerdict(std::string reason) const {
  Verdict verdict;
  verdict.verifier = spec_.name;
  verdict.version = version_;
  verdict.reason = std::move(reason);
  return verdict;
}

std::string VerifierVersion(int code, std::string_view given) {
  const Sha256Digest digest = Sha256Of(std::as_bytes(std::span(given)));
  return fmt::format("{}:{}", code, HexOf(std::span(digest).first(4)));
}

Status SpecError(const VerifierSpec& spec, std::string message) {
  return InvalidArgumentError("verifier '" + spec.name + "': " + message);
}

const Passage* FindPassage(const Evidence& evidence, std::string_view key) {
  for (const Passage& passage : evidence.passages) {
    if (passage.document + ":" + passage.chunk + "@" + passage.version == key) return &passage;
  }
  return nullptr;
}

void FindingList::Add(Finding finding) {
  if (full() || !seen_.emplace(finding.what, finding.where, finding.offset).second) return;
  findings_.push_back(std::move(finding));
}

std::string WithoutKnownKeys(std::string text, const Evidence& evidence) {
  for (const Citation& citation : FindCitations(text)) {
    if (FindPassage(evidence, citation.key) == nullptr) continue;
    std::fill_n(text.begin() + static_cast<ptrdiff_t>(citation.offset) + 1, citation.key.size(), ',');
  }
  return text;
}

Result<std::unique_ptr<Verifier>> MakeVerifier(const VerifierSpec& spec, const std::string& directory,
                                               const Clock& clock) {
  if (spec.name.empty()) return Error(InvalidArgumentError("a verifier needs a name"));
  if (spec.deadline_ns <= 0) return Error(SpecError(spec, "deadline must be positive"));
  switch (spec.kind) {
    case VerifierSpec::Kind::kCitations: return MakeCitationVerifier(spec, clock);
    case VerifierSpec::Kind::kNumbers: return MakeNumberVerifier(spec, clock);
    case VerifierSpec::Kind::kPhrases: return MakePhraseVerifier(spec, clock);
    case VerifierSpec::Kind::kPii: return MakePiiVerifier(spec, clock);
    case VerifierSpec::Kind::kSchema: return MakeSchemaVerifier(spec, clock);
    case VerifierSpec::Kind::kTable: return MakeTableVerifier(spec, directory, clock);
    case VerifierSpec::Kind::kHttp: return MakeHttpVerifier(spec, directory, clock);
  }
  return Error(SpecError(spec, "unknown kind"));
}

}  // namespace surety::gateway
