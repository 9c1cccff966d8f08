// The cases of the instruction counts: calls of kernels on fixed inputs, on one thread (docs/testing.md).
//
// Threads: one. Owns: what its cases work on.
// Invariants: a case has run once before it is counted, so that nothing is resolved or allocated for the first time.
// Its count depends on nothing but the code: not on the other cases, the machine's caches, time or chance.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/executor.h"

namespace surety::kernels::cpu::testing {

struct CountedCase {
  std::string name;       // "matmul/Q4_0/8x128x1536"
  int64_t n_units;        // what a call does so many of
  std::string_view unit;  // "product" (a multiplication and an addition), "element"
  std::function<void()> call;
  bool every_isa;  // false: the same code on every instruction set
};

class CountedCases {
 public:
  // An object that cases work on.
  template <typename T, typename... Args>
  T& Keep(Args&&... args) {
    auto kept = std::make_unique<Kept<T>>(std::forward<Args>(args)...);
    T& object = kept->object;
    kept_.push_back(std::move(kept));
    return object;
  }

  void Add(std::string name, int64_t n_units, std::string_view unit, std::function<void()> call) {
    all_.push_back({std::move(name), n_units, unit, std::move(call), true});
  }
  void AddPlain(std::string name, int64_t n_units, std::string_view unit, std::function<void()> call) {
    all_.push_back({std::move(name), n_units, unit, std::move(call), false});
  }

  const std::vector<CountedCase>& all() const { return all_; }
  Executor& executor() { return executor_; }

 private:
  struct KeptBase {
    virtual ~KeptBase() = default;
  };
  template <typename T>
  struct Kept final : KeptBase {
    template <typename... Args>
    explicit Kept(Args&&... args) : object(std::forward<Args>(args)...) {}
    T object;
  };

  std::vector<CountedCase> all_;
  std::vector<std::unique_ptr<KeptBase>> kept_;
  SerialExecutor executor_;
};

// n numbers about as activations are: mostly small, one of 1,024 far out, so that one block of 32 in 32 is an outlier
// (quantized_x.h).
inline std::vector<float> CountedNumbers(int64_t n) {
  std::vector<float> numbers(static_cast<size_t>(n));
  uint64_t state = 12345;
  for (size_t i = 0; i < numbers.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    numbers[i] = static_cast<float>(static_cast<int64_t>(state >> 40) - (int64_t{1} << 23)) * 0x1p-23f;
    if (i % 1024 == 500) numbers[i] = 30.0f;
  }
  return numbers;
}

// By file: <name>_counts.cc.
void AddMatMulCases(CountedCases& cases);
void AddAttentionCases(CountedCases& cases);
void AddKvCases(CountedCases& cases);
void AddElementwiseCases(CountedCases& cases);
void AddLogitsScanCases(CountedCases& cases);

}  // namespace surety::kernels::cpu::testing
