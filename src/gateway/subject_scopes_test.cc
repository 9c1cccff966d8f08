#include "gateway/subject_scopes.h"

#include <gtest/gtest.h>

namespace surety::gateway {
namespace {

api::Scope ScopeWithSalt(const std::string& salt) {
  api::Scope scope;
  scope.tenant = "acme";
  scope.salt = salt;
  return scope;
}

TEST(SubjectScopesTest, KnowsEachSubjectsScopesOnce) {
  SubjectScopes scopes(100, true);
  scopes.Note("acme", "anna", ScopeWithSalt("1"));
  scopes.Note("acme", "anna", ScopeWithSalt("1"));
  scopes.Note("acme", "anna", ScopeWithSalt("2"));
  scopes.Note("acme", "bert", ScopeWithSalt("3"));
  EXPECT_EQ(scopes.Take("acme", "anna", 1)->size(), 2u);
  EXPECT_EQ(scopes.Take("acme", "anna", 2)->size(), 0u);
  EXPECT_EQ(scopes.Take("acme", "bert", 3)->size(), 1u);
  EXPECT_EQ(scopes.Take("bank", "anna", 4)->size(), 0u);
}

TEST(SubjectScopesTest, SaysWhenItDoesNotKnowEverything) {
  SubjectScopes restarted(100, false);
  EXPECT_FALSE(restarted.Take("acme", "anna", 1));
  SubjectScopes full(1, true);
  full.Note("acme", "anna", ScopeWithSalt("1"));
  EXPECT_TRUE(full.Take("acme", "bert", 1));
  full.Note("acme", "anna", ScopeWithSalt("2"));
  EXPECT_FALSE(full.Take("acme", "bert", 2));
}

TEST(SubjectScopesTest, WhatBeganBeforeAnErasureIsToldApart) {
  SubjectScopes scopes(100, true);
  EXPECT_FALSE(scopes.ErasedSince("acme", "anna", 0));
  (void)scopes.Take("acme", "anna", 50);
  EXPECT_TRUE(scopes.ErasedSince("acme", "anna", 40));
  EXPECT_TRUE(scopes.ErasedSince("acme", "anna", 50));
  EXPECT_FALSE(scopes.ErasedSince("acme", "anna", 51));
  EXPECT_FALSE(scopes.ErasedSince("acme", "bert", 40));
}

}  // namespace
}  // namespace surety::gateway
