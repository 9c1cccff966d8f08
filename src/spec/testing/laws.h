// Random laws, a small language whose laws depend on all tokens before, and the statistics to hold samples against it.
//
// Threads: one caller an object. Source: the chi-square tail of whole degrees of freedom by the recurrence of the
// incomplete gamma function, Abramowitz and Stegun 6.5.21 and 26.4.4 - 26.4.5.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "spec/law.h"

namespace surety::spec::testing {

using Entries = std::vector<std::pair<int32_t, double>>;

// A law over [0, vocab) in random order. spread 0 is uniform; 1 is mild, 8 very peaked. A third of the zeros are listed
// with probability 0, the others are left out.
Entries RandomLaw(int vocab, uint64_t seed, uint64_t stream, double spread, double zero_share);
Entries OneHot(int32_t token);
std::vector<double> Dense(Law law, int vocab);
double TotalVariation(std::span<const double> a, std::span<const double> b);

// P[chi-square with df degrees of freedom > x].
double ChiSquareTail(double x, int df);
// The p-value of counts under probabilities. Neighbouring cells are put together until they expect 10: Pearson's sum
// has the law of chi-square only then. 0 where a cell of probability 0 was seen.
double FitPValue(std::span<const int64_t> counts, std::span<const double> probabilities);

// What laws of one position may look like.
struct LanguageShape {
  int vocab = 4;    // at most 7
  int length = 2;   // tokens of a text
  double spread = 2;
  double zero_share = 0;
  bool greedy = false;  // p is one-hot
  double nearness = 0;  // above 0: q is p, each entry changed by about this factor
};

// Laws p and q after each context. A context is a number: its tokens + 1 as octal digits, the first token foremost; 0
// is the empty one.
class Language {
 public:
  Language(const LanguageShape& shape, uint64_t seed);

  static uint32_t Next(uint32_t context, int32_t token) { return context * 8 + static_cast<uint32_t>(token) + 1; }
  const Entries& p(uint32_t context) const { return p_[context]; }
  const Entries& q(uint32_t context) const { return q_[context]; }
  const LanguageShape& shape() const { return shape_; }

  // Weight for each context of up to length tokens -> law of the texts of length tokens, going on with p.
  std::vector<double> Complete(std::vector<double> weights) const;
  std::vector<double> Nothing() const { return std::vector<double>(n_contexts_); }
  // The law of texts.
  std::vector<double> Truth() const;

 private:
  LanguageShape shape_;
  size_t n_contexts_;  // one past the largest context of length tokens
  std::vector<Entries> p_, q_;  // of the contexts below length tokens
};

}  // namespace surety::spec::testing
