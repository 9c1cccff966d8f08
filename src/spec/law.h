// A law over tokens as the sampler gives it: (token, probability), after every transform of the request.
//
// Invariants: (1) tokens are distinct and lie in [0, V). (2) probabilities are >= 0, finite, and sum to 1 within
// rounding. (3) the order means nothing; a token that is not listed has probability 0.
// Threads: any (no state). Owns: nothing; a law is a view and is valid as its owner says.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace surety::spec {

using Law = std::span<const std::pair<int32_t, double>>;

// 0 for a token that is not listed. Looks at each entry until it is found.
double ProbabilityOf(Law law, int32_t token);

// The token at u of the cumulative law, 0 < u < 1. A token of probability 0 is never drawn. The law need not be
// normalised; it must have an entry above 0.
int32_t DrawFrom(Law law, double u);

}  // namespace surety::spec
