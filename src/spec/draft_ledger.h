// Whether a drafter that takes steps of its own has paid, by what came of it rather than by estimates: the time that
// its tokens saved less what drafting and verifying them took, in plain steps.
//
// The balance starts at 0 and is kept below a ceiling, so that a good past hides a bad present for a short while only.
// Where it falls through the floor the drafter rests, each time for twice as many steps as before, until it has
// earned its keep again. So what it can cost is bounded: kFloor plain steps in the kFirstRest steps that follow at
// first, in kLongestRest at last.
//
// Threads: one. Source: our own; the balance is a CUSUM statistic (Page 1954).
#pragma once

#include <algorithm>

namespace surety::spec {

class DraftLedger {
 public:
  static constexpr double kFloor = -3, kCeiling = 3;
  static constexpr double kWorst = -2;  // of one step; what took longer was held up by something else
  static constexpr int kFirstRest = 64, kLongestRest = 2048;

  // Once for each step that might ask the drafter: whether it rests.
  bool Rests() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  // It was asked in a step: `gain`, in plain steps of the same sequences.
  void Note(double gain) {
    balance_ = std::min(balance_ + std::max(gain, kWorst), kCeiling);
    if (balance_ == kCeiling) rest_ = kFirstRest;
    if (balance_ >= kFloor) return;
    left_ = rest_;
    rest_ = std::min(2 * rest_, kLongestRest);
    balance_ = 0;
  }
  double balance() const { return balance_; }

 private:
  double balance_ = 0;
  int rest_ = kFirstRest;  // the next one's length
  int left_ = 0;           // of this one
};

}  // namespace surety::spec
