// How often proposals turn out right: one fading average a class of proposals, shared by all sequences, and one set a
// sequence that begins as the shared one and moves faster.
//
// Threads: one. Owns: nothing. Units: probabilities, conditional: given that all tokens before were right.
#pragma once

#include <array>
#include <cstddef>

namespace surety::spec {

class AcceptanceTable {
 public:
  static constexpr int kClasses = 8;
  explicit AcceptanceTable(const std::array<double, kClasses>& prior) : values_(prior) {}

  double Of(int a_class) const { return values_[static_cast<size_t>(a_class)]; }
  // A proposal of the class was tried: right or wrong. `weight`: of this trial against all before.
  void Note(int a_class, bool right, double weight) {
    double& value = values_[static_cast<size_t>(a_class)];
    value += weight * ((right ? 1.0 : 0.0) - value);
  }

 private:
  std::array<double, kClasses> values_;
};

inline constexpr double kSharedTrialWeight = 1.0 / 64;
inline constexpr double kOwnTrialWeight = 1.0 / 8;

}  // namespace surety::spec
