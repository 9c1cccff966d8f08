#include "http/model_registry.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "base/worker_pool.h"
#include "http/testing/openai_rig.h"

namespace surety::http {
namespace {

using testing::FakeBackend;

std::shared_ptr<FakeBackend> Model(bool generates) {
  auto backend = std::make_shared<FakeBackend>();
  backend->description_.generates = generates;
  return backend;
}

TEST(ModelRegistryTest, FindsByNameAliasAndDefault) {
  ModelRegistry registry;
  const auto embedder = Model(false), writer = Model(true);
  ASSERT_TRUE(registry.Add("e", embedder).ok());
  EXPECT_EQ(registry.default_model(), "e");
  ASSERT_TRUE(registry.Add("w", writer).ok());
  EXPECT_EQ(registry.default_model(), "w");  // one that writes is what people mean
  ASSERT_TRUE(registry.AddAlias("gpt", "w").ok());
  EXPECT_EQ(registry.Find("gpt")->backend, writer);
  EXPECT_EQ(registry.Find("gpt")->name, "w");
  EXPECT_EQ(registry.Find("")->backend, writer);
  EXPECT_EQ(registry.Find("e")->backend, embedder);
  ASSERT_TRUE(registry.SetDefault("e").ok());
  EXPECT_EQ(registry.Find("")->backend, embedder);
}

TEST(ModelRegistryTest, UnknownNamesSayWhatIsKnown) {
  ModelRegistry registry;
  EXPECT_EQ(registry.Find("x").error().message(), "no model is loaded");
  ASSERT_TRUE(registry.Add("llama", Model(true)).ok());
  ASSERT_TRUE(registry.AddAlias("other", "llama").ok());
  const Status status = registry.Find("lama").error();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("did you mean 'llama'"), std::string::npos);
  EXPECT_NE(status.message().find("Known: llama, other"), std::string::npos);
}

TEST(ModelRegistryTest, ANameMeansOneModel) {
  ModelRegistry registry;
  ASSERT_TRUE(registry.Add("a", Model(true)).ok());
  ASSERT_TRUE(registry.AddAlias("b", "a").ok());
  EXPECT_EQ(registry.Add("a", Model(true)).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(registry.Add("b", Model(true)).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(registry.AddAlias("a", "a").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(registry.AddAlias("c", "b").code(), StatusCode::kNotFound);  // of names, not of aliases
  EXPECT_EQ(registry.Add("", Model(true)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(registry.Add("n", nullptr).code(), StatusCode::kInvalidArgument);
}

TEST(ModelRegistryTest, RemovalTakesAliasesAndMovesTheDefault) {
  ModelRegistry registry;
  const auto first = Model(true), second = Model(true);
  ASSERT_TRUE(registry.Add("a", first).ok());
  ASSERT_TRUE(registry.Add("b", second).ok());
  ASSERT_TRUE(registry.AddAlias("x", "a").ok());
  EXPECT_EQ(*registry.Remove("a"), first);
  EXPECT_FALSE(registry.Find("x"));
  EXPECT_EQ(registry.Find("")->name, "b");
  EXPECT_EQ(registry.List().size(), 1u);
  EXPECT_FALSE(registry.Remove("a"));
  EXPECT_TRUE(registry.Remove("b"));
  EXPECT_EQ(registry.default_model(), "");
}

TEST(ModelRegistryTest, IsSafeFromManyThreads) {
  ModelRegistry registry;
  ASSERT_TRUE(registry.Add("stays", Model(true)).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&registry, t] {
      const std::string name = "m" + std::to_string(t);
      for (int i = 0; i < 200; ++i) {
        ASSERT_TRUE(registry.Add(name, Model(true)).ok());
        ASSERT_TRUE(registry.Find("stays"));
        ASSERT_GE(registry.List().size(), 2u);
        ASSERT_TRUE(registry.Remove(name));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registry.List().size(), 1u);
}

TEST(WorkerPoolTest, RunsEveryAcceptedTaskOnceAndRefusesBeyondItsBound) {
  std::atomic<int> ran = 0;
  int accepted = 0;
  {
    std::mutex gate;
    gate.lock();
    WorkerPool pool(2, 5);
    for (int i = 0; i < 50; ++i) {
      accepted += pool.Post([&] {
        const std::lock_guard lock(gate);
        ++ran;
      });
    }
    EXPECT_GE(accepted, 5);
    EXPECT_LE(accepted, 7);  // the two that are being run wait no more
    gate.unlock();
  }
  EXPECT_EQ(ran, accepted);
}

}  // namespace
}  // namespace surety::http
