// The requests of the soak test: each a function of (seed, index), so that equal seeds give an equal sequence whatever
// the threads do.
//
// Threads: any (no state). Owns: nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/request.h"
#include "base/random.h"

namespace surety::engine::testing {

// A stream of draws that belongs to one request.
class SoakDraws {
 public:
  SoakDraws(uint64_t seed, uint64_t index, uint32_t lane = 0) : key_{seed, index, RandomPurpose::kTest, lane} {}
  uint64_t Bits() { return RandomBits(key_, next_++); }
  int Below(int n) { return static_cast<int>(Bits() % static_cast<uint64_t>(n)); }  // 0 .. n-1, n > 0
  bool Percent(int percent) { return Below(100) < percent; }

 private:
  RandomKey key_;
  uint32_t next_ = 0;
};

// When the caller goes away.
enum class SoakCancel : uint8_t {
  kNever,
  kAtOnce,      // right after Submit: mostly before the first step
  kAfterTime,   // `micros` after Submit: waiting, in the prompt, in the answer or after the end
  kAtEvent,     // at its `event`-th event, from the sink
  kAfterEnd,    // at its last event, from the sink
  kTwice,       // at once, and again after a while
};

struct SoakRequest {
  api::GenerationRequest request;
  SoakCancel cancel = SoakCancel::kNever;
  int event = 0;
  int micros = 0;
  bool lonely = false;   // its scope is used by no other request: nothing may be cached for it
  int known = -1;        // >= 0: one of the kSoakKnown requests whose answers are computed beforehand
};

inline constexpr int kSoakContext = 128;   // of the models in testdata
inline constexpr int kSoakPlaces = 6;      // max_sequences; more choices than that are refused
inline constexpr int kSoakKnown = 12;

struct SoakVocabulary {
  int size = 512;
  bool has_tools = false;   // the model's template has a form for tool calls
};

// One in a hundred is wrong in some way and must be refused with a reason.
SoakRequest MakeSoakRequest(uint64_t seed, uint64_t index, const SoakVocabulary& vocabulary);
// The known-th request whose answer does not depend on when it is asked: no time limit, nobody leaves.
api::GenerationRequest MakeKnownRequest(uint64_t seed, int known, const SoakVocabulary& vocabulary);
// All scopes that requests which are not lonely have, with all salts.
std::vector<api::Scope> SoakScopes();
// For comparing two sequences of requests.
std::string DescribeSoakRequest(const SoakRequest& soak);

// A model file with a chat template that names a form for tool calls: the one at `from`, with a comment in its
// template. Errors: kFailedPrecondition, if the file has no template; as the file system's.
Status WriteModelWithTools(const std::string& from, const std::string& to);

}  // namespace surety::engine::testing
