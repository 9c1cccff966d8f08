// What this machine can do at most, measured: the roofs that benchmark figures are held against.
//
// Units: bytes, floating-point operations and integer operations a second; a multiply-add counts as two operations.
// Threads: one caller; uses the executor's workers.
// Source: the roofline model of Williams, Waterman, Patterson, CACM 2009.
#pragma once

#include <string>

#include "base/executor.h"

namespace surety::cli {

struct Roofs {
  double read_bytes_per_s = 0;   // all workers, each its share of read_bytes over and over
  double fp32_flop_per_s = 0;    // fused multiply-adds in registers
  double int8_op_per_s = 0;      // 8-bit products summed in 32 bits, the best instruction the processor has
  double barrier_seconds = 0;    // from one barrier of all workers to the next, the median; 0: one worker has none
  std::string fp32_instruction;  // "avx2 fma", ...
  std::string int8_instruction;  // "avx2 maddubs", "avx512 vpdpbusd", ...

  void RaiseTo(const Roofs& other);  // keeps the better of each
};

// All workers reading this many bytes over and over, bytes a second; 0 where there is no memory for them.
double MeasureReadRate(Executor& executor, int64_t size_bytes, bool quick);

// About a second, less if `quick` (tests). `read_bytes`: what a decode step reads of the weights, since some of that
// may stay in a large cache from one step to the next.
Roofs MeasureRoofs(Executor& executor, int64_t read_bytes, bool quick);

}  // namespace surety::cli
