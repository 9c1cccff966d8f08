// Draws of the load generator: a stream of random numbers with the laws that arrivals and lengths follow, and lengths
// as the command line writes them.
//
// Every draw is a function of (seed, position, lane, how many draws before), so a workload is the same on any machine.
// Threads: one stream, one thread.
// Source: gamma by Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables", ACM TOMS 26 (2000); normal by
// Box and Muller (1958).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/random.h"
#include "base/status.h"

namespace surety::cli {

// Disjoint streams of one seed. Part of what makes a run repeatable: append, never renumber.
enum class LoadLane : uint32_t {
  kArrivals = 1,
  kLengths = 2,
  kUserText = 3,
  kSystemText = 4,
  kBlockText = 5,  // position: the block's id in the trace
  kSystemChoice = 6,
  kThinkTime = 7,
  kGridSpread = 8,
  kResample = 9,
};

class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t position, LoadLane lane)
      : key_{seed, position, RandomPurpose::kWorkload, static_cast<uint32_t>(lane)} {}

  double Uniform() { return RandomUniform(key_, next_++); }  // in (0, 1)
  double Exponential();                                      // mean 1
  double Normal();                                           // mean 0, variance 1
  double Gamma(double shape);                                // shape > 0, scale 1: mean and variance are the shape
  uint64_t Below(uint64_t n);                                // 0 .. n-1, n > 0

 private:
  RandomKey key_;
  uint32_t next_ = 0;
};

// "128" (fixed), "uniform:64:512", "lognormal:MEAN:SIGMA" (mean of the values, deviation of their logarithm),
// "exponential:MEAN".
class Distribution {
 public:
  // Values are clipped to [least, most]. Errors: kInvalidArgument saying what would be right.
  static Result<Distribution> Parse(std::string_view text, double least, double most);

  double Draw(RandomStream& stream) const;

 private:
  enum class Law { kFixed, kUniform, kLognormal, kExponential };
  Law law_ = Law::kFixed;
  double first_ = 0, second_ = 0;
  double least_ = 0, most_ = 0;
};

}  // namespace surety::cli
