// Instruction counts of the passes over a row of logits.
#include <algorithm>
#include <vector>

#include "kernels/cpu/logits_scan.h"
#include "kernels/cpu/testing/counted_cases.h"

namespace surety::kernels::cpu::testing {
namespace {

constexpr int64_t kVocabulary = 16384;

struct Logits {
  std::vector<float> logits = CountedNumbers(kVocabulary);
  std::vector<float> maxima = std::vector<float>(256);
  std::vector<int32_t> indices = std::vector<int32_t>(kVocabulary);
  std::vector<double> weights = std::vector<double>(kVocabulary);
  int64_t found = 0;
  float top;

  Logits() {
    for (float& x : logits) x *= 10.0f;
    top = *std::max_element(logits.begin(), logits.end());
  }

  // As sampling walks through them.
  void Race() {
    const RaceWords words = {0x123456789abcdef1, 0xfedcba987654321};
    for (int64_t i = 0; (i = NextInRace(logits, i, top, 0.05, 0x1p-6, words)) < kVocabulary; ++i) ++found;
  }
};

}  // namespace

void AddLogitsScanCases(CountedCases& cases) {
  Logits& l = cases.Keep<Logits>();
  cases.Add("logits/all_finite/16384", kVocabulary, "element", [&] { l.found += AllFinite(l.logits); });
  cases.Add("logits/arg_max/16384", kVocabulary, "element", [&] { l.found += ArgMax(l.logits); });
  cases.Add("logits/column_maxima/16384", kVocabulary, "element", [&] { ColumnMaxima(l.logits, l.maxima); });
  cases.Add("logits/indices_from/16384", kVocabulary, "element",
            [&] { l.found += IndicesFrom(l.logits, 9.8f, l.indices); });
  cases.Add("logits/exp_weights/16384", kVocabulary, "element",
            [&] { ExpWeights(l.logits, l.top, 0.1, l.weights.data()); });
  cases.Add("logits/next_in_race/16384", kVocabulary, "element", [&] { l.Race(); });
}

}  // namespace surety::kernels::cpu::testing
