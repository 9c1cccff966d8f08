// What a governed backend decided about a request, as far as its caller may know it. Cache keys are not part of it:
// they would tell a stranger what somebody else asked.
//
// Threads: a value; shared as const.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace surety::api {

// What became of the answer. kStreamed: its pieces left as they were made; kHeld: the whole passed its checks first;
// kTemplate: a ready-made text; kReview: it waits for a person; kRefused: a check or the policy forbids it.
enum class Outcome : uint8_t { kNone, kStreamed, kHeld, kTemplate, kReview, kRefused };
std::string_view NameOf(Outcome outcome);  // "streamed", ...

// What is done for a request that has no answer yet.
enum class Stage : uint8_t { kNone, kGathering, kGenerating, kVerifying };
std::string_view NameOf(Stage stage);  // "gathering", ...

// An objective of the route that a request took.
struct Objective {
  std::string name;             // "ttfu_p95"
  int64_t limit_ns = 0;
};

// Of the tightest budget that counts requests, or tokens, a minute.
struct RateLimit {
  int64_t limit = -1;           // below 0: there is no such budget
  int64_t remaining = 0;
  double reset_s = 0;           // until nothing of now counts any more
};

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
  Stage stage = Stage::kNone;   // with progress
  std::vector<Objective> slo;   // of the route: ttfu and total
  RateLimit requests, tokens;
};

}  // namespace surety::api
