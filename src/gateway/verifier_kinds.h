// The kinds of verifiers (verifier.h), one maker a kind.
//
// Threads, errors: as verifier.h says. `version` of each: that of its code, then eight digits of the digest of what it
// was given, so that another list or table is another version.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "gateway/evidence.h"
#include "gateway/verifier.h"

namespace surety::gateway {

using MadeVerifier = Result<std::unique_ptr<Verifier>>;

// Sentences with a number, fee, right or obligation have a citation that is found; numbers come from what is cited,
// from tools or from facts. Looks at `text` alone.
MadeVerifier MakeCitationVerifier(const VerifierSpec& spec);
// Numbers of the text and of calls' arguments come from passages, tools or facts; no citations needed.
MadeVerifier MakeNumberVerifier(const VerifierSpec& spec);
MadeVerifier MakePhraseVerifier(const VerifierSpec& spec);
MadeVerifier MakePiiVerifier(const VerifierSpec& spec);
MadeVerifier MakeSchemaVerifier(const VerifierSpec& spec);
MadeVerifier MakeTableVerifier(const VerifierSpec& spec, const std::string& directory);
MadeVerifier MakeHttpVerifier(const VerifierSpec& spec, const Clock& clock);

// What all kinds share.
class SpecVerifier : public Verifier {
 public:
  const VerifierSpec& spec() const override { return spec_; }
  std::string version() const override { return version_; }

 protected:
  SpecVerifier(VerifierSpec spec, std::string version) : spec_(std::move(spec)), version_(std::move(version)) {}

  // kPass without findings, else kFail with the first finding and their number as the reason.
  Verdict VerdictOf(std::vector<Finding> findings) const;
  Verdict ErrorVerdict(std::string reason) const;

 private:
  VerifierSpec spec_;
  std::string version_;
};

// "1:0123abcd": of a kind's code and of what it was given.
std::string VerifierVersion(int code, std::string_view given);
Status SpecError(const VerifierSpec& spec, std::string message);
// Passage with this key (document:chunk@version); null: none in this evidence.
const Passage* FindPassage(const Evidence& evidence, std::string_view key);

}  // namespace surety::gateway
