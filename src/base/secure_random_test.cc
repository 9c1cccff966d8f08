#include "base/secure_random.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace surety {
namespace {

using Nonce = std::array<uint8_t, 12>;

Nonce DrawNonce() {
  Nonce nonce = {};
  EXPECT_TRUE(SecureRandom(nonce));
  return nonce;
}

TEST(SecureRandomTest, NothingIsGivenOutTwice) {
  std::mutex mutex;
  std::set<Nonce> all;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<Nonce> own;
      for (int i = 0; i < 5000; ++i) own.push_back(DrawNonce());
      const std::lock_guard lock(mutex);
      all.insert(own.begin(), own.end());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(all.size(), 20'000u);
  int64_t ones = 0;
  for (const Nonce& nonce : all) {
    for (const uint8_t byte : nonce) ones += std::popcount(byte);
  }
  EXPECT_NEAR(static_cast<double>(ones), 20'000 * 48.0, 6 * 693.0);   // six standard deviations of 1.92 million bits
}

TEST(SecureRandomTest, OfAnySize) {
  for (const size_t size : {0u, 1u, 127u, 128u, 129u, 512u, 513u, 4096u}) {
    std::vector<uint8_t> first(size), second(size);
    EXPECT_TRUE(SecureRandom(first));
    EXPECT_TRUE(SecureRandom(second));
    if (size >= 16) {
      EXPECT_NE(first, second);
    }
  }
}

// The store has bytes left when the process forks: a child that went on with them would draw what its parent draws.
TEST(SecureRandomTest, AForkedChildDrawsItsOwn) {
  (void)DrawNonce();
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Nonce nonce = {};
    const bool drawn = SecureRandom(nonce) && write(ends[1], nonce.data(), nonce.size()) == ssize_t(nonce.size());
    _exit(drawn ? 0 : 1);
  }
  Nonce of_child = {};
  EXPECT_EQ(read(ends[0], of_child.data(), of_child.size()), ssize_t(of_child.size()));
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_NE(DrawNonce(), of_child);
  for (const int end : ends) close(end);
}

}  // namespace
}  // namespace surety
