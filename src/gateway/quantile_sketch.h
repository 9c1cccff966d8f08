// Quantiles of positive values in little memory: counts in bins whose borders grow by 2 per cent.
//
// Error bound: the quantile q of n values is the ceil(q n)-th smallest; what is answered lies within 1 per cent of it
// for values from kLeast to kMost. Values below kLeast (zero included) are answered as 0, values above kMost as kMost.
// A sketch takes 5 KB once it has a value. Source: DDSketch (Masson, Rim, Lee 2019) has the same bins.
//
// Threads: a value.
#pragma once

#include <cstdint>
#include <vector>

namespace surety::gateway {

class QuantileSketch {
 public:
  static constexpr double kLeast = 1e-6, kMost = 1e5;   // a microsecond and a day, in seconds

  void Add(double value);
  void Merge(const QuantileSketch& other);
  void Clear();
  int64_t n() const { return n_; }
  // 0 < q <= 1; 0 of nothing.
  double Quantile(double q) const;

 private:
  int64_t n_ = 0;
  std::vector<uint32_t> bins_;
};

}  // namespace surety::gateway
