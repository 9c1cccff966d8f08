// Which requests reach which route, over all values that a policy's conditions can tell apart.
//
// Values that no condition tells apart are one class, so the space is finite and mostly small: it is then walked whole,
// and what is said about it is exact. Signals count as independent of each other, and nothing is assumed about what
// customers write; so a route is only called unreachable if no values at all lead to it. A larger space is judged by
// conditions alone, never too narrowly: `exhaustive` is false then.
// Threads: a value.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gateway/policy.h"

namespace surety::gateway {

struct RouteReach {
  enum class Kind : uint8_t { kReached, kNever, kUndecided };
  Kind kind = Kind::kNever;
  std::array<bool, 3> risks{};           // levels at which a request can enter here
  std::set<std::string> intents;         // labels of the signal `intent` with which it can
  std::string example;                   // of what leads here; or of why nothing does
};

// What stands between an answer and its reader: nothing that looks at it (a template, a draft that is streamed, a route
// without verifiers), verifiers, or a person (or nothing leaves).
enum class Control : uint8_t { kOpen, kVerified, kPerson };
Control ControlOf(const RouteSpec& route);

// A signal that is made by words, so that whoever writes them chooses its value, leads to a route of lower control than
// the same request without those words takes.
struct ControlDrop {
  std::string signal, without, with;     // its values
  size_t from = 0, to = 0;               // routes
  std::string example;                   // the rest of the request
};

struct RouteSpace {
  std::vector<RouteReach> routes;        // as in the policy
  std::vector<ControlDrop> drops;        // one for each signal and pair of routes
  bool exhaustive = true;
  uint64_t n_cells = 0;                  // combinations of classes
};

// `max_cells`: a space up to that size is walked.
RouteSpace SpaceOf(const Policy& policy, uint64_t max_cells = 1 << 20);

}  // namespace surety::gateway
