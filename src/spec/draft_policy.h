// How many drafted tokens of each sequence a step verifies.
//
// A step of R rows takes T(R) and yields one token a sequence plus one for each draft that holds. Drafts are added
// one row at a time, always the one that holds most probably, while that raises the expected tokens per time of the
// whole step: a draft that would slow the other sequences down by more than it gains is not verified. Rows are added
// in groups where one alone does not pay, since T has steps: the best end over all lengths is taken.
//
// Threads: one. Errors: none. Under the coupled rule the choice cannot change any text, so it may look at everything.
// Source: the marginal-value rule of section 4.10 of the design; Leviathan, Kalman, Matias 2023 for the expectation.
#pragma once

#include <span>
#include <vector>

#include "base/function_ref.h"

namespace surety::spec {

// A sequence's draft as the policy sees it.
struct DraftOffer {
  std::span<const double> acceptance;  // of each token, given that those before it hold
  int n_chosen = 0;                    // the answer: how many tokens of it are verified
};

// `n_rows`: rows that the step has anyway; `n_yields`: tokens it yields anyway; `cost(rows)`: the time of a step.
// Fills n_chosen, in sum at most `most`. Returns the expected number of further tokens.
double ChooseDrafts(std::span<DraftOffer> offers, int n_rows, int n_yields, int most,
                    FunctionRef<double(int rows)> cost);

}  // namespace surety::spec
