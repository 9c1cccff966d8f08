// The order of waiting requests: fair between tenants, bounded overtaking within one.
#include "engine/wait_queue.h"

#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/local_model.h"

namespace surety::engine {
namespace {

constexpr int64_t kMs = 1'000'000;

class WaitQueueTest : public ::testing::Test {
 protected:
  WaitQueueTest() {
    const std::string path = std::string(SURETY_TESTDATA) + "/gguf/tiny-llama-q8_0.gguf";
    model_ = *LocalModel::Open(FileSystem::Real(), {.path = path, .n_threads = 1},
                               [](const model::LoadProgress&) { return true; });
    pool_ = *kv::PagePool::Make(model_->config().KvLayoutFor(KvType::kF16, 16), 4);
  }

  Sequence* Add(const std::string& tenant, int64_t urgency) {
    auto state = std::make_unique<RequestState>();
    state->prepared.id = ++last_id_;
    state->prepared.request.scope.tenant = tenant;
    state->prepared.prompt = {1};
    state->urgency = urgency;
    sequences_.push_back(std::make_unique<Sequence>(*state, 0, std::vector<int32_t>{1}, model_->tokenizer(), *pool_));
    states_.push_back(std::move(state));
    queue_.Push(sequences_.back().get());
    return sequences_.back().get();
  }

  // Serves the front and charges `rows` for it; the tenant's name.
  std::string Serve(double rows) {
    Sequence* front = queue_.Front();
    queue_.Pop(front);
    queue_.Charge(front->state->tenant(), rows);
    return front->state->tenant();
  }

  std::unique_ptr<LocalModel> model_;
  std::unique_ptr<kv::PagePool> pool_;
  std::vector<std::unique_ptr<RequestState>> states_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  uint64_t last_id_ = 0;
  WaitQueue queue_;
};

TEST_F(WaitQueueTest, WithinATenantTheSmallestUrgencyIsFirstAndTiesGoByArrival) {
  Sequence* c = Add("a", 30);
  Sequence* a = Add("a", 10);
  Sequence* b = Add("a", 10);
  EXPECT_EQ(queue_.Front(), a);
  queue_.Pop(a);
  EXPECT_EQ(queue_.Front(), b);
  queue_.Remove(b);
  EXPECT_EQ(queue_.Front(), c);
  queue_.Remove(c);
  queue_.Remove(c);
  EXPECT_EQ(queue_.Front(), nullptr);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(WaitQueueTest, WorkIsSharedByWeightHoweverManyRequestsATenantSends) {
  queue_.SetWeight("heavy", 3);
  std::map<std::string, double> work;
  for (int i = 0; i < 2000; ++i) Add("heavy", i);
  for (int i = 0; i < 600; ++i) Add("light", i);
  for (int i = 0; i < 4000; ++i) Add("flood", i);
  for (int i = 0; i < 1000; ++i) {
    const double rows = 50 + static_cast<double>(RandomBits({1, static_cast<uint64_t>(i), RandomPurpose::kTest}) % 100);
    work[Serve(rows)] += rows;
  }
  const double total = work["heavy"] + work["light"] + work["flood"];
  EXPECT_NEAR(work["heavy"] / total, 0.6, 0.01);
  EXPECT_NEAR(work["light"] / total, 0.2, 0.01);
  EXPECT_NEAR(work["flood"] / total, 0.2, 0.01);
}

TEST_F(WaitQueueTest, IdleTimeIsNotSavedUp) {
  for (int i = 0; i < 100; ++i) Add("busy", i);
  for (int i = 0; i < 50; ++i) Serve(1000);
  for (int i = 0; i < 20; ++i) Add("late", i);
  // The newcomer gets its half from now on, not everything until it has caught up.
  std::map<std::string, int> served;
  for (int i = 0; i < 20; ++i) ++served[Serve(1000)];
  EXPECT_NEAR(served["late"], 10, 1);
}

TEST_F(WaitQueueTest, ATenantWaitsForAtMostOneRequestOfEachOther) {
  for (int t = 0; t < 20; ++t) {
    for (int i = 0; i < 50; ++i) Add("tenant" + std::to_string(t), i);
  }
  for (int i = 0; i < 200; ++i) Serve(10 + i % 7);
  Add("newcomer", 1'000'000);
  int before = 0;
  while (Serve(10) != "newcomer") ++before;
  EXPECT_LE(before, 20);
}

TEST_F(WaitQueueTest, RefundsCount) {
  for (int i = 0; i < 10; ++i) Add("a", i);
  for (int i = 0; i < 10; ++i) Add("b", i);
  EXPECT_EQ(Serve(1000), "a");
  queue_.Charge("a", -990);  // ended early
  EXPECT_EQ(Serve(100), "b");
  EXPECT_EQ(Serve(10), "a");
}

TEST(UrgencyTest, BoundsOvertakingByPriorityAndDeadline) {
  const auto urgency = WaitQueue::Urgency;
  const int64_t step = WaitQueue::kPriorityStepNs;
  // A long prompt is passed by a short one only if that comes before the long one could have been read.
  EXPECT_LT(urgency(500 * kMs, 10 * kMs, 0, 0), urgency(0, 1000 * kMs, 0, 0));
  EXPECT_GT(urgency(1001 * kMs, 0, 0, 0), urgency(0, 1000 * kMs, 0, 0));
  // One step of priority is worth kPriorityStepNs of waiting, so what is unimportant is not starved.
  EXPECT_LT(urgency(step - 1, 0, 0, 0), urgency(0, 0, 1, 0));
  EXPECT_GT(urgency(step + 1, 0, 0, 0), urgency(0, 0, 1, 0));
  // A deadline moves a request forward to the last moment at which it can start, never back.
  EXPECT_EQ(urgency(0, 100 * kMs, 5, 400 * kMs), 300 * kMs);
  EXPECT_EQ(urgency(0, 100 * kMs, 0, 100'000 * kMs), 100 * kMs);
}

}  // namespace
}  // namespace surety::engine
