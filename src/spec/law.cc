#include "spec/law.h"

#include "base/check.h"

namespace surety::spec {

double ProbabilityOf(Law law, int32_t token) {
  for (const auto& [id, probability] : law) {
    if (id == token) return probability;
  }
  return 0;
}

int32_t DrawFrom(Law law, double u) {
  double total = 0;
  for (const auto& entry : law) total += entry.second;
  const double point = u * total;
  double cumulative = 0;
  int32_t last = -1;
  for (const auto& [token, probability] : law) {
    if (!(probability > 0)) continue;
    last = token;
    cumulative += probability;
    if (point < cumulative) return token;
  }
  SURETY_CHECK_MSG(last >= 0, "a law without mass");
  return last;
}

}  // namespace surety::spec
