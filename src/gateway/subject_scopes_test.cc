#include "gateway/subject_scopes.h"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include <gtest/gtest.h>

namespace surety::gateway {
namespace {

api::Scope ScopeWithSalt(const std::string& salt, const std::string& region = "") {
  api::Scope scope;
  scope.tenant = "acme";
  scope.region = region;
  scope.salt = salt;
  return scope;
}

TEST(SubjectScopesTest, KnowsEachSubjectsScopesOnce) {
  SubjectScopes scopes(100, true);
  scopes.Note("acme", "anna", ScopeWithSalt("1"));
  scopes.Note("acme", "anna", ScopeWithSalt("1"));
  scopes.Note("acme", "anna", ScopeWithSalt("2"));
  scopes.Note("acme", "bert", ScopeWithSalt("3"));
  EXPECT_EQ(scopes.Take("acme", "anna").scopes.size(), 2u);
  EXPECT_EQ(scopes.Take("acme", "anna").scopes.size(), 0u);
  EXPECT_EQ(scopes.Take("acme", "bert").scopes.size(), 1u);
  EXPECT_EQ(scopes.Take("bank", "anna").scopes.size(), 0u);
}

TEST(SubjectScopesTest, SaysWhenItDoesNotKnowEverything) {
  SubjectScopes restarted(100, false);
  EXPECT_FALSE(restarted.Take("acme", "anna").complete);
  SubjectScopes full(1, true);
  full.Note("acme", "anna", ScopeWithSalt("1"));
  full.Note("acme", "anna", ScopeWithSalt("1"));  // known: no more of them than before
  EXPECT_TRUE(full.Take("acme", "bert").complete);
  full.Note("acme", "bert", ScopeWithSalt("1"));
  EXPECT_FALSE(full.Take("acme", "bert").complete);
}

// One caller with many salts is no burden on the others, and forgetting families is no less than forgetting scopes.
TEST(SubjectScopesTest, OneSubjectsManyScopesAreItsOwnMatter) {
  SubjectScopes scopes(10'000, true);
  scopes.Note("acme", "bert", ScopeWithSalt("b"));
  for (int i = 0; i < 100'000; ++i) scopes.Note("acme", "anna", ScopeWithSalt(std::to_string(i)));
  const auto anna = scopes.Take("acme", "anna");
  EXPECT_TRUE(anna.complete);
  ASSERT_EQ(anna.scopes.size(), 1u);
  EXPECT_EQ(anna.scopes[0], ScopeWithSalt(""));
  for (int i = 0; i < 1000; ++i) scopes.Note("acme", "anna", ScopeWithSalt("1", std::to_string(i)));
  EXPECT_FALSE(scopes.Take("acme", "anna").complete);
  const auto bert = scopes.Take("acme", "bert");
  EXPECT_TRUE(bert.complete);
  EXPECT_EQ(bert.scopes.size(), 1u);
  scopes.Note("acme", "anna", ScopeWithSalt("1"));  // after an erasure she begins anew
  EXPECT_TRUE(scopes.Take("acme", "anna").complete);
}

TEST(SubjectScopesTest, WhatCouldNotBeForgottenIsPutBack) {
  SubjectScopes scopes(100, true);
  scopes.Note("acme", "anna", ScopeWithSalt("1"));
  const auto known = scopes.Take("acme", "anna");
  scopes.Note("acme", "anna", ScopeWithSalt("2"));
  scopes.PutBack("acme", "anna", known);
  EXPECT_EQ(scopes.Take("acme", "anna").scopes.size(), 2u);
  scopes.PutBack("acme", "anna", {.scopes = {}, .complete = false});
  EXPECT_FALSE(scopes.Take("acme", "anna").complete);
}

TEST(SubjectScopesTest, WhatCameBeforeAnErasureKeepsNothing) {
  SubjectScopes scopes(100, true);
  const auto anna = scopes.Arrive("anna"), unknown = scopes.Arrive("anna"), bert = scopes.Arrive("bert");
  const auto elsewhere = scopes.Arrive("anna");
  scopes.Identify(*anna, "acme");
  scopes.Identify(*bert, "acme");
  scopes.Identify(*elsewhere, "bank");
  int n = 0;
  EXPECT_TRUE(scopes.Keep(*anna, [&] { ++n; }));
  scopes.Close("acme", "anna");
  EXPECT_FALSE(scopes.Keep(*anna, [&] { ++n; }));
  EXPECT_FALSE(scopes.Keep(*unknown, [&] { ++n; }));
  EXPECT_EQ(n, 1);
  EXPECT_TRUE(scopes.Keep(*bert, [&] { ++n; }));
  EXPECT_TRUE(scopes.Keep(*elsewhere, [&] { ++n; }));
  const auto later = scopes.Arrive("anna");
  scopes.Identify(*later, "acme");
  EXPECT_TRUE(scopes.Keep(*later, [&] { ++n; }));
}

TEST(SubjectScopesTest, AnErasureWaitsForWhatIsBeingKept) {
  SubjectScopes scopes(100, true);
  const auto request = scopes.Arrive("anna");
  scopes.Identify(*request, "acme");
  std::promise<void> keeping, go;
  std::atomic<bool> kept = false;
  std::thread keeper([&] {
    EXPECT_TRUE(scopes.Keep(*request, [&] {
      keeping.set_value();
      go.get_future().wait();
      kept = true;
    }));
  });
  keeping.get_future().wait();
  auto closed = std::async(std::launch::async, [&] {
    scopes.Close("acme", "anna");
    return kept.load();
  });
  EXPECT_EQ(closed.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  go.set_value();
  EXPECT_TRUE(closed.get());
  keeper.join();
}

}  // namespace
}  // namespace surety::gateway
