#include "spec/typical.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace surety::spec {

double LossyTypicalThreshold(Law p, const LossyTypicalOptions& options) {
  double entropy = 0;
  for (const auto& entry : p) entropy -= entry.second * std::log(entry.second + 1e-5);
  return std::min(options.epsilon, options.delta * std::exp(-entropy));
}

bool LossyTypicalAccepts(Law p, int32_t token, const LossyTypicalOptions& options) {
  return ProbabilityOf(p, token) > LossyTypicalThreshold(p, options);
}

int LossyTypicalPath(const DraftTree& tree, FunctionRef<Law(int node)> law_of, const LossyTypicalOptions& options) {
  std::array<double, DraftTree::kMaxNodes> log_likelihood;  // of the path to an accepted node
  uint64_t accepted = 1;
  log_likelihood[0] = 0;
  int best = 0;
  // Parents come before children, so ascending order visits a node after it was decided.
  for (int n = 0; n < tree.size(); ++n) {
    if ((accepted >> n & 1) == 0) continue;
    const double reached = log_likelihood[static_cast<size_t>(n)];
    const int deeper = tree.depth(n) - tree.depth(best);
    if (deeper > 0 || (deeper == 0 && reached > log_likelihood[static_cast<size_t>(best)])) best = n;
    if (tree.children(n).empty()) continue;
    const Law p = law_of(n);
    const double threshold = LossyTypicalThreshold(p, options);
    for (const int child : tree.children(n)) {
      const double probability = ProbabilityOf(p, tree.token(child));
      if (!(probability > threshold)) continue;
      accepted |= uint64_t{1} << child;
      log_likelihood[static_cast<size_t>(child)] = reached + std::log(probability);
    }
  }
  return best;
}

}  // namespace surety::spec
