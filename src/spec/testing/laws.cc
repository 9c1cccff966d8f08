#include "spec/testing/laws.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace surety::spec::testing {
namespace {

double LawUniform(uint64_t seed, uint64_t stream, uint32_t index) {
  return RandomUniform({.seed = seed, .position = stream, .purpose = RandomPurpose::kTest}, index);
}

void NormaliseEntries(Entries& law) {
  double sum = 0;
  for (const auto& entry : law) sum += entry.second;
  for (auto& entry : law) entry.second /= sum;
}

bool IsContext(uint32_t context) {  // no digit 0 in it
  for (; context != 0; context /= 8) {
    if (context % 8 == 0) return false;
  }
  return true;
}

}  // namespace

Entries RandomLaw(int vocab, uint64_t seed, uint64_t stream, double spread, double zero_share) {
  Entries law;
  uint32_t draw = 0;
  const auto uniform = [&] { return LawUniform(seed, stream, draw++); };
  const auto sure = static_cast<int32_t>(uniform() * vocab);  // one token is always possible
  for (int32_t token = 0; token < vocab; ++token) {
    const double weight = std::exp(spread * (2 * uniform() - 1));
    const bool is_zero = uniform() < zero_share && token != sure;
    const bool is_listed = uniform() < 1.0 / 3;
    if (!is_zero || is_listed) law.emplace_back(token, is_zero ? 0.0 : weight);
  }
  for (size_t i = law.size(); i > 1; --i) std::swap(law[i - 1], law[static_cast<size_t>(uniform() * i)]);
  NormaliseEntries(law);
  return law;
}

Entries OneHot(int32_t token) { return {{token, 1.0}}; }

std::vector<double> Dense(Law law, int vocab) {
  std::vector<double> dense(static_cast<size_t>(vocab));
  for (const auto& [token, probability] : law) dense[static_cast<size_t>(token)] += probability;
  return dense;
}

double TotalVariation(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / 2;
}

double ChiSquareTail(double x, int df) {
  // Q(a + 1, y) = Q(a, y) + y^a e^-y / Gamma(a + 1), a = df / 2, y = x / 2.
  const double y = x / 2;
  double a = df % 2 == 0 ? 1.0 : 0.5;
  double tail = df % 2 == 0 ? std::exp(-y) : std::erfc(std::sqrt(y));
  for (; a < df / 2.0; ++a) tail += std::exp(a * std::log(y) - y - std::lgamma(a + 1));
  return tail;
}

double FitPValue(std::span<const int64_t> counts, std::span<const double> probabilities) {
  double total = 0;
  for (const int64_t count : counts) total += static_cast<double>(count);
  std::vector<std::pair<double, double>> cells;  // expected, seen
  double expected = 0, seen = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (probabilities[i] == 0 && counts[i] > 0) return 0;
    expected += probabilities[i] * total;
    seen += static_cast<double>(counts[i]);
    if (expected < 10) continue;
    cells.emplace_back(expected, seen);
    expected = seen = 0;
  }
  if (cells.empty()) return 1;
  cells.back().first += expected;
  cells.back().second += seen;
  double chi_square = 0;
  for (const auto& [mean, count] : cells) chi_square += (count - mean) * (count - mean) / mean;
  return cells.size() < 2 ? 1.0 : ChiSquareTail(chi_square, static_cast<int>(cells.size()) - 1);
}

Language::Language(const LanguageShape& shape, uint64_t seed) : shape_(shape) {
  size_t n_laws = 1;
  for (int i = 1; i < shape.length; ++i) n_laws = n_laws * 8;
  n_contexts_ = n_laws * 8;
  p_.resize(n_laws);
  q_.resize(n_laws);
  for (uint32_t context = 0; context < n_laws; ++context) {
    if (!IsContext(context)) continue;
    Entries& p = p_[context];
    Entries& q = q_[context];
    p = RandomLaw(shape.vocab, seed, 2 * context, shape.spread, shape.zero_share);
    q = RandomLaw(shape.vocab, seed, 2 * context + 1, shape.spread, shape.zero_share);
    if (shape.nearness > 0) {
      for (auto& [token, probability] : q) {
        const double change = 2 * LawUniform(seed, 2 * context, 1000 + static_cast<uint32_t>(token)) - 1;
        probability = ProbabilityOf(p, token) * (1 + shape.nearness * change);
      }
      NormaliseEntries(q);
    }
    if (shape.greedy) {
      p = OneHot(std::max_element(p.begin(), p.end(), [](auto& a, auto& b) { return a.second < b.second; })->first);
    }
  }
}

std::vector<double> Language::Complete(std::vector<double> weights) const {
  for (uint32_t context = 0; context < p_.size(); ++context) {  // shorter contexts are smaller numbers
    const double weight = std::exchange(weights[context], 0.0);
    if (weight == 0) continue;
    for (const auto& [token, probability] : p_[context]) weights[Next(context, token)] += weight * probability;
  }
  return weights;
}

std::vector<double> Language::Truth() const {
  std::vector<double> weights = Nothing();
  weights[0] = 1;
  return Complete(std::move(weights));
}

}  // namespace surety::spec::testing
