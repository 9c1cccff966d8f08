// What a governed backend decided about a request, as far as its caller may know it. Cache keys are not part of it:
// they would tell a stranger what somebody else asked.
//
// Threads: a value; shared as const.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace surety::api {

// What became of the answer. kStreamed: its pieces left as they were made; kHeld: the whole passed its checks first;
// kTemplate: a ready-made text; kReview: it waits for a person; kRefused: a check or the policy forbids it.
enum class Outcome : uint8_t { kNone, kStreamed, kHeld, kTemplate, kReview, kRefused };
std::string_view NameOf(Outcome outcome);  // "streamed", ...

struct Decision {
  std::string id;               // "dec_...": of the audit row
  std::string route;
  std::string policy_version;
  std::string cache = "bypass:off";  // hit, miss, bypass:REASON
  Outcome outcome = Outcome::kNone;
  bool draft = false;           // streamed to an internal reader before it was checked
  std::string verifier;         // the one that held it back; empty: none did
  std::string review_ticket;
  double cost = 0;              // in the policy's currency; known with the last event
  int attempts = 0;             // generations begun for it
  double retry_after_s = 0;     // over a budget: when there is room again; 0: not known, or waiting does not help
};

}  // namespace surety::api
