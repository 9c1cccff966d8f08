#include "base/thread_pool.h"

#include <atomic>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace surety {
namespace {

// 1, fewer and more workers than any machine of the tests has processors; with and without spinning.
class ThreadPoolTest : public ::testing::TestWithParam<std::tuple<int, int64_t>> {
 protected:
  ThreadPoolOptions Options() const { return {std::get<0>(GetParam()), false, std::get<1>(GetParam())}; }
};

TEST_P(ThreadPoolTest, RunsEachWorkerOnceAndSeesWhatTheyWrote) {
  const auto pool = MakeThreadPool(Options());
  ASSERT_EQ(pool->n_workers(), Options().n_workers);
  std::vector<int> calls(static_cast<size_t>(pool->n_workers()), 0);  // not atomic: Run must order the writes
  for (int job = 1; job <= 200; ++job) {
    pool->Run([&](int worker) { calls[static_cast<size_t>(worker)] += 1; });
    for (int n : calls) ASSERT_EQ(n, job);
  }
}

TEST_P(ThreadPoolTest, BarrierSeparatesThePhases) {
  const auto pool = MakeThreadPool(Options());
  const int n = pool->n_workers();
  std::vector<int> left(static_cast<size_t>(n)), right(static_cast<size_t>(n));
  std::atomic<int> wrong{0};
  for (int job = 0; job < 20; ++job) {
    pool->Run([&](int worker) {
      for (int phase = 0; phase < 10; ++phase) {
        // Each reads its neighbour's value of the phase before; without a barrier it would meet older or newer ones.
        const auto neighbour = static_cast<size_t>((worker + 1) % n);
        left[static_cast<size_t>(worker)] = job * 10 + phase;
        pool->Barrier(worker);
        right[static_cast<size_t>(worker)] = left[neighbour];
        pool->Barrier(worker);
        if (right[static_cast<size_t>(worker)] != job * 10 + phase) wrong.fetch_add(1);
      }
    });
  }
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(ThreadPoolTest, ParallelForTakesEachTaskOnce) {
  const auto pool = MakeThreadPool(Options());
  for (int64_t n_tasks : {0, 1, 2, 3, 100, 1000}) {
    std::vector<int> done(static_cast<size_t>(n_tasks), 0);
    ParallelFor(*pool, n_tasks, [&](int64_t task, int worker) {
      ASSERT_GE(worker, 0);
      ASSERT_LT(worker, pool->n_workers());
      done[static_cast<size_t>(task)] += 1;
    });
    EXPECT_EQ(std::accumulate(done.begin(), done.end(), 0), n_tasks);
    for (int n : done) EXPECT_EQ(n, 1);
  }
}

TEST_P(ThreadPoolTest, StopsWhetherItEverRanOrNot) {
  for (int i = 0; i < 20; ++i) {
    const auto pool = MakeThreadPool(Options());
    if (i % 2 == 0) pool->Run([](int) {});
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 9), ::testing::Values(0, 100'000)));

TEST(ShareTest, SharesCoverTheRangeWithoutOverlap) {
  for (int64_t n : {0, 1, 7, 64, 1000}) {
    for (int workers : {1, 2, 3, 16}) {
      for (int64_t grain : {1, 4, 64}) {
        int64_t next = 0;
        for (int w = 0; w < workers; ++w) {
          const Share share = ShareOf(n, w, workers, grain);
          EXPECT_EQ(share.begin, next);
          EXPECT_LE(share.begin, share.end);
          EXPECT_TRUE(share.end == n || share.end % grain == 0);
          next = share.end;
        }
        EXPECT_EQ(next, n);
      }
    }
  }
}

TEST(ThreadPoolOptionsTest, NoCountMeansTheUsableProcessors) {
  EXPECT_GE(UsableProcessorCount(), 1);
  EXPECT_EQ(MakeThreadPool({})->n_workers(), UsableProcessorCount());
}

}  // namespace
}  // namespace surety
