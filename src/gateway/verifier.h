// Checks of a complete answer before it is released. Each is a pure function of the answer and its evidence, but kHttp,
// which asks a service and takes nothing but a well-formed verdict for one.
//
// Threads: Check may be called from any thread, many at a time. Errors: never by status: a verifier that cannot tell
// says Verdict::kError, and its spec says what follows.
// Invariants: (1) a verdict is kPass only if the whole answer was looked at. (2) No verifier is sampled or skipped.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/request.h"
#include "base/clock.h"
#include "base/status.h"
#include "gateway/evidence.h"
#include "gateway/policy.h"

namespace surety::gateway {

struct AnswerText {
  std::string text;
  std::string reasoning;                       // where the model gives it apart
  struct Call {
    std::string name, arguments;
  };
  std::vector<Call> calls;                     // tool calls are part of the answer, and checked with it
};

struct Finding {
  std::string what;                            // for the reviewer and the audit: "absent quote", ...
  std::string where;                           // "text", "reasoning", "calls[0].arguments"
  size_t offset = 0, length = 0;               // bytes of that field
};

struct Verdict {
  enum class Outcome : uint8_t { kPass, kFail, kError };
  std::string verifier, version;               // version: of code and of its table or list
  Outcome outcome = Outcome::kError;
  std::string reason;                          // one line; empty if passed
  std::vector<Finding> findings;
  int64_t duration_ns = 0;
};
std::string_view NameOf(Verdict::Outcome outcome);

class Verifier {
 public:
  virtual ~Verifier() = default;
  virtual const VerifierSpec& spec() const = 0;
  virtual std::string version() const = 0;
  // `deadline_ns`: monotonic, of `clock` it was made with; 0: none. One that is late gives up and says kError.
  virtual Verdict Check(const AnswerText& answer, const Evidence& evidence, int64_t deadline_ns) const = 0;
  // From any thread: calls to services that are under way are given up (kError), and later ones too.
  virtual void Stop() {}
};

// kInvalidArgument naming the verifier and what is wrong with its spec, kNotFound for its files (paths are relative to
// `directory`).
Result<std::unique_ptr<Verifier>> MakeVerifier(const VerifierSpec& spec, const std::string& directory,
                                               const Clock& clock);

// What follows from the verdicts of one answer.
struct Judgement {
  enum class Action : uint8_t { kRelease, kRepair, kReview, kBlock };  // ordered by strictness; the strictest wins
  Action action = Action::kRelease;
  std::string verifier;                        // the one that decided
  std::string reason;
  std::vector<Verdict> verdicts;               // one a verifier, in the order of the route
};
std::string_view NameOf(Judgement::Action action);

// Runs all verifiers of a route at the same time on threads of its own; one that is late, throws or answers with
// something else than a verdict is kError. A late one goes on by itself and holds nobody up.
// `open_allowed`: the route's risk is low; else open_on_error is not looked at.
class VerifierSet {
 public:
  static Result<std::unique_ptr<VerifierSet>> Make(const Policy& policy, const std::string& directory,
                                                   const Clock& clock);
  virtual ~VerifierSet() = default;
  // `names`: of the policy's verifiers. `answer` and `evidence` are shared: a late verifier still reads them.
  // `deadline_ns`: monotonic, of all together; a verifier whose own deadline is later is cut off by it.
  virtual Judgement JudgeUntil(const std::vector<std::string>& names, std::shared_ptr<const AnswerText> answer,
                               std::shared_ptr<const Evidence> evidence, bool open_allowed, int64_t deadline_ns) = 0;
  // With the verifiers' own deadlines alone.
  Judgement Judge(const std::vector<std::string>& names, std::shared_ptr<const AnswerText> answer,
                  std::shared_ptr<const Evidence> evidence, bool open_allowed) {
    return JudgeUntil(names, std::move(answer), std::move(evidence), open_allowed, std::numeric_limits<int64_t>::max());
  }
  // "citations@1, promises@1:ab12...": for cache keys and audit rows.
  virtual std::string Versions(const std::vector<std::string>& names) const = 0;
};

}  // namespace surety::gateway
