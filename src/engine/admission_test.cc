#include "engine/admission.h"

#include <gtest/gtest.h>

namespace surety::engine {
namespace {

constexpr int64_t kAdmissionSecond = 1'000'000'000;

void EnterMany(Admission& admission, uint64_t first, int n) {
  for (int i = 0; i < n; ++i) ASSERT_EQ(admission.Enter(first + static_cast<uint64_t>(i), "t", 0), nullptr);
}

TEST(AdmissionTest, PredictsTheWaitFromTheRateAtWhichRequestsAreTakenUp) {
  AdmissionOptions options;
  options.max_waiting = 100;
  options.max_waiting_per_tenant = 100;
  options.max_queue_wait_ns = 5'000'000'000;
  Admission admission(options);
  api::RequestId next = 1;
  int64_t now = 1;
  const auto enter = [&](int64_t timeout_ms) { return admission.Enter(next++, "t", timeout_ms); };
  for (int i = 0; i < 10; ++i) ASSERT_EQ(enter(0), nullptr);
  admission.SetPlacesFree(0);
  for (api::RequestId id = 1; id <= 8; ++id) admission.Started(id, now += 200'000'000);
  // Two wait; one is taken up every 200 ms; the next would be the third.
  EXPECT_NEAR(static_cast<double>(admission.PredictedWaitNs()), 3 * 200e6, 1e6);
  const auto impatient = enter(500);
  ASSERT_NE(impatient, nullptr);
  EXPECT_EQ(impatient->status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(impatient->param, "timeout_ms");
  for (int i = 0; i < 23; ++i) EXPECT_EQ(enter(0), nullptr) << i;
  const auto overload = enter(0);
  ASSERT_NE(overload, nullptr);
  EXPECT_EQ(overload->status.code(), StatusCode::kResourceExhausted);
  EXPECT_GT(overload->retry_after_s, 0);
  // With places free nobody waits.
  admission.SetPlacesFree(64);
  EXPECT_EQ(admission.PredictedWaitNs(), 0);
  admission.Drain();
  EXPECT_EQ(enter(0)->status.code(), StatusCode::kUnavailable);
}

TEST(AdmissionTest, ThoseThatStartTogetherShareTheTime) {
  Admission admission({.max_waiting = 1000, .max_waiting_per_tenant = 1000, .max_queue_wait_ns = 0});
  admission.SetPlacesFree(0);
  EnterMany(admission, 0, 500);
  EXPECT_EQ(admission.PredictedWaitNs(), 0);  // nothing was seen
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
