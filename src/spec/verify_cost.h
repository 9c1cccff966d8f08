// What a decode step costs by its number of rows, measured: the table that says whether a drafted row pays.
//
// Times are a level, which follows each step quickly (a context that grows, a machine that slows down), times a ratio
// for each number of rows, which moves slowly. Where no step was seen the ratio is guessed, or interpolated where that
// is less. Errors are made on the cheap side, which is tried and corrected; what looks dear would never be tried again:
// - a step that something else held up counts as little more than what was expected;
// - fewer rows never cost more than more rows do;
// - what was not seen for kStaleSteps steps counts as a fifth cheaper, though not as less than fewer rows that were
//   seen since. The trials to which that leads are what drafts that do not pay may cost: a few steps in kStaleSteps.
//
// Units: nanoseconds of a whole step, rows. Threads: one.
#pragma once

#include <array>
#include <cstdint>

namespace surety::spec {

class VerifyCost {
 public:
  static constexpr int kMaxRows = 128;  // steps of more rows are not kept
  static constexpr int kStaleSteps = 512;
  static constexpr double kMostOver = 1.5;       // of what was expected, that a step counts as
  static constexpr double kMostOverGuess = 3;    // the same for the first step of its kind

  void Observe(int rows, int64_t nanos);
  // Expected time; 0 before anything was observed. Never less for more rows.
  double Of(int rows) const { return level_ * RatioOf(rows); }

 private:
  // A further row is guessed to cost this share of the step without it.
  static constexpr double kGuessedSlope = 0.05;
  struct Figure {
    double ratio = 0;       // to the level; 0: none yet
    double doubt = 1;       // what it counts as, of that: below 1 it was not seen lately
    int n_seen = 0;         // since it was guessed
    int64_t last_step = 0;  // when it was last seen, or doubted
    double counts_as = 0;   // what of all this is believed
  };
  // The time of more rows over that of fewer ones that were seen, and the other way round, as guessed.
  static double GuessedMore(int rows, int more) { return 1 + kGuessedSlope * (more - rows); }
  static double GuessedShare(int rows, int more) {
    return (1 + kGuessedSlope * (rows - 1)) / (1 + kGuessedSlope * (more - 1));
  }
  double RatioOf(int rows) const;
  void DoubtStale();
  void Order();

  std::array<Figure, kMaxRows + 1> figures_{};
  double level_ = 0;
  int64_t n_steps_ = 0;
};

// What a further branch of a draft tree adds to a step: its context is read once more by attention, keys and values
// behind the last whole page are copied. Modelled as a share of a step of one row, a fixed part and one for each token
// of context (`context_share`: the bytes of its keys and values over those of the weights that a row reads), times a
// factor that follows what steps with branches took beyond their rows, and comes back to 1 while there are none.
class BranchCost {
 public:
  explicit BranchCost(double context_share) : context_share_(context_share) {}

  // Of one branch, before the factor; in steps of one row.
  double Unit(int context_tokens) const { return kFixedShare + context_share_ * context_tokens; }
  double Of(int context_tokens, double row_nanos) const { return factor_ * Unit(context_tokens) * row_nanos; }
  // A step whose branches have these units in sum took `nanos` where `expected` was expected of its rows alone.
  void Observe(double units, double row_nanos, double nanos, double expected);
  double factor() const { return factor_; }

 private:
  static constexpr double kFixedShare = 0.01;
  static constexpr double kForgetting = 1.0 / 2048;
  static constexpr double kWeight = 1.0 / 32, kLeastFactor = 0.25, kMostFactor = 64;

  double context_share_;
  double factor_ = 1;
};

}  // namespace surety::spec
