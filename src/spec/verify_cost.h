// What a decode step costs by its number of rows, measured: the table that says whether a drafted row pays.
//
// The time of a step is kept for each number of rows that ran; between them it is interpolated, beyond them it goes on
// with the last slope. Figures of steps long ago fade, so a context that grows or a machine that slows moves the table.
//
// Units: nanoseconds of a whole step, rows. Threads: one.
#pragma once

#include <array>
#include <cstdint>

namespace surety::spec {

class VerifyCost {
 public:
  static constexpr int kMaxRows = 128;  // steps of more rows are not kept

  void Observe(int rows, int64_t nanos);
  // Expected time; 0 before anything was observed. Never less for more rows.
  double Of(int rows) const;

 private:
  // Until measured, a further row is taken to cost this share of a step of one row. Too low a guess is tried once and
  // corrected; one that is too high would never be tried.
  static constexpr double kGuessedSlope = 0.05;

  std::array<double, kMaxRows + 1> nanos_{};  // 0: never seen
};

}  // namespace surety::spec
