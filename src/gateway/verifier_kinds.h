// The kinds of verifiers (verifier.h), one maker a kind.
//
// Threads, errors: as verifier.h says. `version` of each: that of its code, then eight digits of the digest of what it
// was given, so that another list or table is another version.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "gateway/evidence.h"
#include "gateway/verifier.h"

namespace surety::gateway {

using MadeVerifier = Result<std::unique_ptr<Verifier>>;

// Sentences with a number, fee, right or obligation have a citation that is found; numbers come from what is cited,
// from tools or from facts. Looks at `text` alone.
MadeVerifier MakeCitationVerifier(const VerifierSpec& spec, const Clock& clock);
// Numbers of the text and of calls' arguments come from passages, tools or facts; no citations needed.
MadeVerifier MakeNumberVerifier(const VerifierSpec& spec, const Clock& clock);
MadeVerifier MakePhraseVerifier(const VerifierSpec& spec, const Clock& clock);
MadeVerifier MakePiiVerifier(const VerifierSpec& spec, const Clock& clock);
MadeVerifier MakeSchemaVerifier(const VerifierSpec& spec, const Clock& clock);
MadeVerifier MakeTableVerifier(const VerifierSpec& spec, const std::string& directory, const Clock& clock);
MadeVerifier MakeHttpVerifier(const VerifierSpec& spec, const std::string& directory, const Clock& clock);

// What all kinds share.
class SpecVerifier : public Verifier {
 public:
  const VerifierSpec& spec() const override { return spec_; }
  std::string version() const override { return version_; }

 protected:
  SpecVerifier(VerifierSpec spec, std::string version, const Clock& clock)
      : clock_(clock), spec_(std::move(spec)), version_(std::move(version)) {}

  // kPass without findings, else kFail with the first finding and their number as the reason.
  Verdict VerdictOf(std::vector<Finding> findings) const;
  Verdict ErrorVerdict(std::string reason) const;
  // Asked once a step of the outermost loops.
  bool Late(int64_t deadline_ns) const { return deadline_ns > 0 && clock_.NowNanos() >= deadline_ns; }
  Verdict LateVerdict() const { return ErrorVerdict("late: given up at its deadline"); }

  const Clock& clock_;

 private:
  VerifierSpec spec_;
  std::string version_;
};

// Each finding once for what, where and offset, and no more than a reviewer can use.
class FindingList {
 public:
  static constexpr size_t kMostFindings = 200;
  bool full() const { return findings_.size() >= kMostFindings; }
  void Add(Finding finding);
  std::vector<Finding> Take() { return std::move(findings_); }

 private:
  std::set<std::tuple<std::string, std::string, size_t>> seen_;
  std::vector<Finding> findings_;
};

// "1:0123abcd": of a kind's code and of what it was given.
std::string VerifierVersion(int code, std::string_view given);
Status SpecError(const VerifierSpec& spec, std::string message);
// Passage with this key (document:chunk@version); null: none in this evidence.
const Passage* FindPassage(const Evidence& evidence, std::string_view key);
// The text with commas in place of each name of a passage of this evidence in a citation: [terms:2@v1.final] holds no
// number, code or address. What only looks like a citation, and what it quotes, stays as it is.
std::string WithoutKnownKeys(std::string text, const Evidence& evidence);

}  // namespace surety::gateway
