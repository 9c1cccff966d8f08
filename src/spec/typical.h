// Typical acceptance of draft trees. LOSSY: it favours drafts and cuts the tail, so what comes out does not have the
// target's law (total variation up to 1 at a position). Only for callers who asked for a lossy rule; rejection.h and
// coupling.h are the exact ones.
//
// A draft token x is accepted below a node with the target's law p where p(x) > min(epsilon, delta exp(-H)), with the
// entropy H = -sum p ln(p + 1e-5). The longest path of accepted tokens wins, of equally long ones the likelier; the
// caller draws the token after it from the target's law there. A one-hot p accepts its token alone, as greedy does.
//
// Threads: any (no state). Source: Cai et al. 2024 (Medusa), section 2.3.1, and its reference implementation for the
// 1e-5 and the two defaults.
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "spec/draft_tree.h"
#include "spec/law.h"

namespace surety::spec {

struct LossyTypicalOptions {
  double epsilon = 0.3;
  double delta = 0.09;
};

double LossyTypicalThreshold(Law p, const LossyTypicalOptions& options = {});
bool LossyTypicalAccepts(Law p, int32_t token, const LossyTypicalOptions& options = {});

// The last node of the winning path, 0 if nothing is accepted. law_of(node) is asked once for each accepted node that
// has children, in ascending order; its view needs to be valid until the next call.
int LossyTypicalPath(const DraftTree& tree, FunctionRef<Law(int node)> law_of, const LossyTypicalOptions& options = {});

}  // namespace surety::spec
