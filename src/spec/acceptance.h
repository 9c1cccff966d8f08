// How often proposals turn out right: one fading average a class of proposals, shared by all sequences, and one set a
// sequence that begins as the shared one and moves faster.
//
// Threads: one. Owns: nothing. Units: probabilities, conditional: given that all tokens before were right.
#pragma once

#include <algorithm>
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

// The same for the children of a node by their rank among siblings, 0 for the first. `right` of a child: the token at
// its place is the child's, whether or not it is an earlier sibling's turn first.
class RankedAcceptance {
 public:
  static constexpr int kRanks = 4;  // later ones count as the last

  // What is believed of a later rank before anything was tried: this share of what is left by those before it.
  static constexpr double kLaterShare = 0.3;
  explicit RankedAcceptance(const std::array<double, AcceptanceTable::kClasses>& prior) {
    std::array<double, AcceptanceTable::kClasses> left{}, values = prior;
    for (size_t i = 0; i < left.size(); ++i) left[i] = 1 - prior[i];
    for (AcceptanceTable& table : tables_) {
      table = AcceptanceTable(values);
      for (size_t i = 0; i < left.size(); ++i) {
        values[i] = std::min(values[i], kLaterShare * left[i]);
        left[i] -= values[i];
      }
    }
  }
  double Of(int rank, int a_class) const { return tables_[Index(rank)].Of(a_class); }
  void Note(int rank, int a_class, bool right, double weight) { tables_[Index(rank)].Note(a_class, right, weight); }

 private:
  static size_t Index(int rank) { return static_cast<size_t>(std::min(rank, kRanks - 1)); }
  std::array<AcceptanceTable, kRanks> tables_ = {AcceptanceTable({}), AcceptanceTable({}), AcceptanceTable({}),
                                                 AcceptanceTable({})};
};

inline constexpr double kSharedTrialWeight = 1.0 / 64;
inline constexpr double kOwnTrialWeight = 1.0 / 8;

}  // namespace surety::spec
