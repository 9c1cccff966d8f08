// How a VerifierSet runs, and one made of given verifiers (tests put failing ones in; Make goes the same way).
//
// Threads: workers take checks in order; calls to services (kHttp) have workers of their own, so that a slow service
// does not hold up the others. A check that begins after its deadline is not run. While all workers are held up by late
// checks, others are kError at their own deadlines. Owns: the verifiers. Destroyed: calls to services are given up,
// running checks are waited for, waiting ones are dropped; nobody may be in Judge then.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "gateway/verifier.h"

namespace surety::gateway {

struct VerifierSetOptions {
  int threads = 4;
  int service_threads = 32;    // started if there is a verifier of kHttp
  size_t max_waiting = 4096;   // checks; one that finds no room is kError at once
  // Where answer and passages have fewer bytes, kinds that take no longer than texts are long run on the thread of the
  // one who asks: handing four checks of some microseconds each to others costs more than they do. One that is late
  // there is kError as well, but its caller has waited for it.
  size_t here_bytes = 0;
};

std::unique_ptr<VerifierSet> MakeVerifierSet(std::vector<std::unique_ptr<Verifier>> verifiers, const Clock& clock,
                                             const VerifierSetOptions& options = {});

}  // namespace surety::gateway
