#include "spec/draft_policy.h"

#include <algorithm>
#include <queue>

namespace surety::spec {
namespace {

struct NextDraft {
  double probability;  // that the token and all before it hold
  size_t offer;
  bool operator<(const NextDraft& other) const {
    return probability != other.probability ? probability < other.probability : offer > other.offer;
  }
};

}  // namespace

double ChooseDrafts(std::span<DraftOffer> offers, int n_rows, int n_yields, int most,
                    FunctionRef<double(int rows)> cost) {
  std::priority_queue<NextDraft> next;
  for (size_t i = 0; i < offers.size(); ++i) {
    offers[i].n_chosen = 0;
    if (!offers[i].acceptance.empty()) next.push({offers[i].acceptance[0], i});
  }
  const double alone = cost(n_rows);
  double best_rate = alone > 0 ? n_yields / alone : 0;
  double expected = 0, best_expected = 0;
  std::vector<size_t> order;  // whose token each added row is
  size_t best = 0;
  while (!next.empty() && static_cast<int>(order.size()) < most) {
    const NextDraft draft = next.top();
    next.pop();
    order.push_back(draft.offer);
    expected += draft.probability;
    DraftOffer& offer = offers[draft.offer];
    const int depth = ++offer.n_chosen;
    if (depth < static_cast<int>(offer.acceptance.size())) {
      next.push({draft.probability * offer.acceptance[static_cast<size_t>(depth)], draft.offer});
    }
    const double time = cost(n_rows + static_cast<int>(order.size()));
    if (time > 0 && (n_yields + expected) / time > best_rate) {
      best_rate = (n_yields + expected) / time;
      best = order.size();
      best_expected = expected;
    }
  }
  for (size_t i = best; i < order.size(); ++i) --offers[order[i]].n_chosen;
  return best_expected;
}

}  // namespace surety::spec
