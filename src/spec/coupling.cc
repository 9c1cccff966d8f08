#include "spec/coupling.h"

#include "base/check.h"
#include "base/random.h"

namespace surety::spec {
namespace {

RandomKey RaceStream(const RaceKey& key) {
  return {.seed = key.seed, .position = key.position, .purpose = RandomPurpose::kRace, .lane = key.lane};
}

}  // namespace

RaceNoise::RaceNoise(const RaceKey& key)
    : first_(RandomBits(RaceStream(key), 0)), second_(RandomBits(RaceStream(key), 1)) {}

// Most tokens are out by their gap alone: a token can beat the best time only if gap < best * p. With the mass M seen
// so far the best time is about 1 / M, so the logarithm is taken about 1 + ln(1 / p(first)) times whatever the order,
// and looking for the largest p first would cost more than it saves.
int32_t RaceWinner(Law p, const RaceKey& key) {
  const RaceNoise noise(key);
  RaceLead lead;
  for (const auto& [token, probability] : p) lead.Try(token, probability, noise);
  SURETY_CHECK_MSG(lead.winner() >= 0, "a law without mass");
  return lead.winner();
}

int RaceLeaders(Law p, const RaceKey& key, std::span<int32_t> out) {
  SURETY_CHECK(out.size() <= DraftTree::kMaxNodes);
  if (out.empty()) return 0;
  const RaceNoise noise(key);
  double times[DraftTree::kMaxNodes];  // of out[0 .. n), ascending
  double limit = RaceLead::kNever;
  size_t n = 0;
  for (const auto& [token, probability] : p) {
    const double gap = noise.Gap(token);
    if (!(gap < limit * probability)) continue;
    const double time = -std::log1p(-gap) / probability;
    size_t place = n;
    while (place > 0 && (times[place - 1] > time || (times[place - 1] == time && out[place - 1] > token))) --place;
    if (place == out.size()) continue;
    if (n < out.size()) ++n;
    for (size_t i = n - 1; i > place; --i) {
      times[i] = times[i - 1];
      out[i] = out[i - 1];
    }
    times[place] = time;
    out[place] = token;
    if (n == out.size()) limit = times[n - 1] * RaceLead::kBoundSlack;
  }
  return static_cast<int>(n);
}

int WalkCoupled(const DraftTree& tree, RaceKey key, FunctionRef<Law(int node)> law_of,
                FunctionRef<bool(int32_t token, int node)> emit) {
  int node = 0;
  for (;; ++key.position) {
    const int32_t token = RaceWinner(law_of(node), key);
    const int child = tree.FindChild(node, token);
    const bool go_on = emit(token, child);
    if (child < 0) return node;
    node = child;
    if (!go_on) return node;
  }
}

}  // namespace surety::spec
