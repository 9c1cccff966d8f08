#include "engine/admission.h"

#include <gtest/gtest.h>

namespace surety::engine {
namespace {

constexpr int64_t kAdmissionSecond = 1'000'000'000;

void EnterMany(Admission& admission, uint64_t first, int n) {
  for (int i = 0; i < n; ++i) ASSERT_EQ(admission.Enter(first + static_cast<uint64_t>(i), "t", 0), nullptr);
}

TEST(AdmissionTest, PredictsFromTheRateAtWhichAQueueIsTakenUp) {
  Admission admission({.max_waiting = 1000, .max_waiting_per_tenant = 1000, .max_queue_wait_ns = 0});
  admission.SetPlacesFree(0);
  EnterMany(admission, 0, 200);
  EXPECT_EQ(admission.PredictedWaitNs(), 0);  // nothing was seen
  for (uint64_t id = 0; id < 100; ++id) admission.Started(id, static_cast<int64_t>(id + 1) * kAdmissionSecond / 2);
  EXPECT_NEAR(static_cast<double>(admission.PredictedWaitNs()), 101 * 0.5 * kAdmissionSecond, 1e6);
}

TEST(AdmissionTest, ThoseThatStartTogetherShareTheTime) {
  Admission admission({.max_waiting = 1000, .max_waiting_per_tenant = 1000, .max_queue_wait_ns = 0});
  admission.SetPlacesFree(0);
  EnterMany(admission, 0, 500);
  for (uint64_t id = 0; id < 400; ++id) admission.Started(id, static_cast<int64_t>(id / 4 + 1) * kAdmissionSecond);
  // Four a second: a new one has 101 ahead of it or beside it.
  EXPECT_NEAR(static_cast<double>(admission.PredictedWaitNs()), 101 * 0.25 * kAdmissionSecond, 6e9);
}

TEST(AdmissionTest, WithoutAHistoryTheEngineIsAsked) {
  Admission admission({.max_waiting = 1000, .max_waiting_per_tenant = 1000, .max_queue_wait_ns = 2 * kAdmissionSecond});
  admission.SetPlacesFree(0);
  admission.SetExpectedInterval(kAdmissionSecond / 2);
  EnterMany(admission, 0, 4);
  const auto refusal = admission.Enter(4, "t", 0);  // it would wait 2.5 s
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->status.code(), StatusCode::kResourceExhausted);
  EXPECT_NEAR(refusal->retry_after_s, 0.5, 1e-6);
  admission.SetExpectedInterval(0);  // nothing runs: no reason to forget it
  EXPECT_EQ(admission.PredictedWaitNs(), 5 * kAdmissionSecond / 2);
  // What is seen outweighs it.
  for (uint64_t id = 0; id < 3; ++id) admission.Started(id, static_cast<int64_t>(id + 1) * kAdmissionSecond / 100);
  for (uint64_t id = 3; id < 60; ++id) {
    EnterMany(admission, id + 2, 1);
    admission.Started(id == 3 ? 3 : id + 1, static_cast<int64_t>(id + 1) * kAdmissionSecond / 100);
  }
  EXPECT_LT(admission.PredictedWaitNs(), kAdmissionSecond / 2);
}

}  // namespace
}  // namespace surety::engine
