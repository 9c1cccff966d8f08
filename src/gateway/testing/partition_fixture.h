// Circumstances, partitions and a clock by hand, for tests. Threads: the clock: any; else values.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "gateway/partition.h"

namespace surety::gateway {

// Sanitizers make a draw ten times slower, and find what they look for in few.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kPartitionDrawsOver = 20;
#else
inline constexpr int kPartitionDrawsOver = 1;
#endif

class PartitionTestClock final : public Clock {
 public:
  int64_t NowNanos() const override { return mono_ns; }
  int64_t WallNanos() const override { return wall_ns; }
  void SleepNanos(int64_t nanos) override { Advance(nanos); }
  void Advance(int64_t nanos) {
    mono_ns += nanos;
    wall_ns += nanos;
  }

  std::atomic<int64_t> mono_ns = 5'000'000'000;
  std::atomic<int64_t> wall_ns = 1'800'000'000'000'000'000;  // 15 January 2027, 08:00 UTC
};

inline Circumstances SomeCircumstances() {
  Circumstances c;
  c.text = {"bank-a", std::nullopt, "US-NY", "cards", "2026.11.2", "en", "retail", "2026-11-15"};
  c.permissions = {"balances.read", "fees.read"};
  return c;
}

inline std::optional<std::string>& TextOf(Circumstances& c, Dimension d) { return c.text[static_cast<size_t>(d)]; }

inline Partition PartitionOf(const Circumstances& raw) {
  auto canonical = Canonical(raw);
  SURETY_CHECK_MSG(canonical.has_value(), canonical.error().message());
  auto partition = Partition::Make(*canonical);
  SURETY_CHECK_MSG(partition.has_value(), partition.error().message());
  return *std::move(partition);
}

// SomeCircumstances with dimension i changed; i < 0: none.
inline Partition SiblingPartition(int i) {
  Circumstances c = SomeCircumstances();
  if (i == static_cast<int>(Dimension::kPermissions)) {
    c.permissions->pop_back();
  } else if (i == static_cast<int>(Dimension::kEffectiveDate)) {
    c.text[static_cast<size_t>(i)] = "2026-11-16";
  } else if (i >= 0) {
    c.text[static_cast<size_t>(i)]->push_back('x');
  }
  return PartitionOf(c);
}

inline constexpr int kBasisFields = 13;
inline std::string& BasisField(AnswerBasis& b, int i) {
  std::string* const fields[kBasisFields] = {
      &b.route,    &b.policy_digest,      &b.model_revision, &b.prompt_template, &b.decoding, &b.tools,
      &b.verifiers, &b.retrieval_snapshot, &b.audience,       &b.channel,         &b.subject,  &b.conversation,
      &b.risk};
  return *fields[i];
}

inline AnswerBasis SomeBasis() {
  AnswerBasis basis;
  for (int i = 0; i < kBasisFields; ++i) BasisField(basis, i) = "value " + std::to_string(i);
  return basis;
}

}  // namespace surety::gateway
