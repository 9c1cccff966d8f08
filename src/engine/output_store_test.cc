// Earlier answers by scope, against plain lists of what was added: never another scope's, never past its time, never
// after forgetting, and no more than there may be.
#include "engine/output_store.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/random.h"
#include "kv/testing/cache_fixture.h"

namespace surety::engine {
namespace {

using kv::testing::MakeScope;
using kv::testing::TestSecret;
using kv::testing::TinyLayout;

constexpr int64_t kStoreSecond = 1'000'000'000;

class StoreDraws {
 public:
  explicit StoreDraws(uint64_t seed) : seed_(seed) {}
  int Below(int n) {
    return static_cast<int>(RandomBits({seed_, n_++, RandomPurpose::kTest}) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t seed_, n_ = 0;
};

// A base scope and, for each field of a scope, one that differs from it in that field alone.
std::vector<kv::ScopeKey> ScopesThatDifferInOneField() {
  const auto build = [](int field, const std::string& value) {
    kv::ScopeKeyBuilder builder(TestSecret());
    Sha256Digest digest{};
    KvLayout layout = TinyLayout();
    if (field == 9) digest[0] = 1;
    if (field == 10) layout.page_tokens *= 2;
    if (field == 11) ++layout.n_layers;
    builder.Tenant(field == 0 ? value : "t").Region(field == 1 ? value : "r").Product(field == 2 ? value : "p");
    builder.PolicyVersion(field == 3 ? value : "v").Language(field == 4 ? value : "l");
    builder.Eligibility(field == 5 ? value : "e").EffectiveDate(field == 6 ? value : "d");
    builder.Permission(field == 7 ? value : "c").Salt(field == 8 ? value : "s").Model(digest, layout);
    return *builder.Build();
  };
  std::vector<kv::ScopeKey> scopes = {build(-1, "")};
  for (int field = 0; field <= 8; ++field) scopes.push_back(build(field, "x"));
  for (int field = 9; field <= 11; ++field) scopes.push_back(build(field, ""));
  return scopes;
}

// Tokens that name whose they are: of the i-th scope all are from 1000 i on, but for a beginning that all share.
std::vector<int32_t> AnswerOf(size_t scope, int n, StoreDraws& draws) {
  std::vector<int32_t> tokens = {1, 2, 3, 4};
  for (int i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(1000 * (scope + 1)) + draws.Below(50));
  return tokens;
}

const std::vector<int32_t> kShared = {1, 2, 3, 4};

std::optional<int32_t> NextAfterShared(OutputStore& store, const kv::ScopeKey& scope, int64_t now, int64_t ttl) {
  const spec::MatchIndex* index = store.Find(scope, kShared, now, ttl);
  if (index == nullptr) return std::nullopt;
  const auto match = index->Find(kShared);
  if (match.length == 0) return std::nullopt;
  return index->tokens()[static_cast<size_t>(match.next)];
}

TEST(OutputStoreTest, ScopesThatDifferInOneFieldNeverSeeEachOthersAnswers) {
  const std::vector<kv::ScopeKey> scopes = ScopesThatDifferInOneField();
  for (size_t own = 0; own < scopes.size(); ++own) {  // one answer alone in the store: nobody else finds anything
    OutputStore store({});
    StoreDraws draws(own);
    store.Add(scopes[own], AnswerOf(own, 20, draws), 1, 0);
    for (size_t other = 0; other < scopes.size(); ++other) {
      EXPECT_EQ(NextAfterShared(store, scopes[other], 2, 0).has_value(), other == own) << own << " and " << other;
    }
  }
}

TEST(OutputStoreTest, WhatIsFoundWasAddedUnderTheSameScopeInAnyOrderOfCalls) {
  const std::vector<kv::ScopeKey> scopes = ScopesThatDifferInOneField();
  int n_found = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    StoreDraws draws(seed);
    OutputStore store({.tokens_per_scope = 20 + draws.Below(200), .max_scopes = 2 + draws.Below(14)});
    int64_t now = 0;
    for (int round = 0; round < 300; ++round) {
      const auto which = static_cast<size_t>(draws.Below(static_cast<int>(scopes.size())));
      now += draws.Below(100);
      const int64_t ttl = draws.Below(2) * 500;
      const int kind = draws.Below(20);
      if (kind < 8) {
        store.Add(scopes[which], AnswerOf(which, draws.Below(40), draws), now, ttl);
      } else if (kind == 8) {
        store.Forget(scopes[which]);
        EXPECT_EQ(store.Find(scopes[which], kShared, now, ttl), nullptr);
      } else if (const auto* index = store.Find(scopes[which], kShared, now, ttl); index != nullptr) {
        for (const int32_t token : index->tokens()) {
          ASSERT_TRUE(token <= 4 || token / 1000 == static_cast<int32_t>(which) + 1) << token << " for " << which;
        }
        n_found += index->size() > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(n_found, 1000);
}

TEST(OutputStoreTest, KeepsTheLatestAnswersWithinItsBounds) {
  for (const int most : {1, 2, 3, 10, 64, 100}) {
    OutputStore store({.tokens_per_scope = most, .max_scopes = 3});
    StoreDraws draws(static_cast<uint64_t>(most));
    const kv::ScopeKey scope = MakeScope("t");
    int64_t added = 0;
    for (int round = 0; round < 200; ++round) {
      std::vector<int32_t> answer;
      for (int n = draws.Below(most + 20); n > 0; --n) answer.push_back(draws.Below(1000));
      added += static_cast<int64_t>(answer.size());
      store.Add(scope, answer, round, 0);
      ASSERT_LE(store.n_tokens(), most);
      // The end of the latest answer is there, as much of it as half the room holds.
      const size_t kept = std::min<size_t>(answer.size(), static_cast<size_t>(most / 2));
      if (kept < 3) continue;
      const std::span<const int32_t> end = std::span(answer).last(kept);
      const spec::MatchIndex* index = store.Find(scope, end.first(kept - 1), round, 0);
      ASSERT_NE(index, nullptr);
      ASSERT_NE(std::search(index->tokens().begin(), index->tokens().end(), end.begin(), end.end()),
                index->tokens().end());
    }
    ASSERT_GT(added, 2 * most);
  }
}

// What is dropped is the older half: with answers of ten tokens in room for a hundred, the last five are always there.
TEST(OutputStoreTest, HalfOfTheRoomAlwaysHoldsTheLatest) {
  OutputStore store({.tokens_per_scope = 112, .max_scopes = 1});
  const kv::ScopeKey scope = MakeScope("t");
  const auto answer_of = [](int round) {
    std::vector<int32_t> answer;
    for (int i = 0; i < 10; ++i) answer.push_back(100 * round + i);
    return answer;
  };
  for (int round = 0; round < 60; ++round) {
    store.Add(scope, answer_of(round), round, 0);
    for (int back = 0; back < 5 && back <= round; ++back) {
      const auto answer = answer_of(round - back);
      const auto* index = store.Find(scope, std::span(answer).first(6), round, 0);
      ASSERT_EQ(index->Find(std::span(answer).first(6)).length, 6) << round << " " << back;
    }
  }
}

TEST(OutputStoreTest, TheScopeThatWasUsedLongestAgoGoesFirst) {
  OutputStore store({.tokens_per_scope = 100, .max_scopes = 3});
  StoreDraws draws(1);
  const std::vector<kv::ScopeKey> scopes = {MakeScope("a"), MakeScope("b"), MakeScope("c"), MakeScope("d")};
  for (size_t i = 0; i < 3; ++i) store.Add(scopes[i], AnswerOf(i, 10, draws), 1, 0);
  EXPECT_TRUE(NextAfterShared(store, scopes[0], 1, 0).has_value());  // used again
  store.Add(scopes[3], AnswerOf(3, 10, draws), 1, 0);
  EXPECT_EQ(store.n_scopes(), 3);
  EXPECT_FALSE(NextAfterShared(store, scopes[1], 1, 0).has_value());
  for (const size_t i : {size_t{0}, size_t{2}, size_t{3}}) {
    EXPECT_TRUE(NextAfterShared(store, scopes[i], 1, 0).has_value()) << i;
  }
  OutputStore none({.tokens_per_scope = 100, .max_scopes = 0});
  none.Add(scopes[0], kShared, 1, 0);
  EXPECT_EQ(none.n_scopes(), 0);
}

TEST(OutputStoreTest, NothingIsFoundPastItsTime) {
  const kv::ScopeKey scope = MakeScope("t");
  const int64_t ttl = 10 * kStoreSecond;
  for (const int64_t age : {int64_t{0}, ttl - 1, ttl, 5 * ttl}) {
    OutputStore store({});
    StoreDraws draws(1);
    store.Add(scope, AnswerOf(0, 10, draws), 7, ttl);
    EXPECT_EQ(NextAfterShared(store, scope, 7 + age, ttl).has_value(), age < ttl);
    EXPECT_EQ(store.n_tokens() > 0, age < ttl);
  }
  // A limit that is set later holds for what is there, and one that was lifted does not.
  for (const auto& [before, after] : {std::pair(int64_t{0}, ttl), std::pair(ttl, int64_t{0})}) {
    OutputStore store({});
    StoreDraws draws(1);
    store.Add(scope, AnswerOf(0, 10, draws), 0, before);
    const auto* index = store.Find(scope, kShared, before == 0 ? 2 * ttl : ttl / 2, after);
    EXPECT_EQ(index != nullptr && index->size() > 0, after == 0);
    EXPECT_EQ(NextAfterShared(store, scope, 2 * ttl, after).has_value(), after == 0);
  }
}

// Random times against the list of all answers: none older than the limit is ever in what is found.
TEST(OutputStoreTest, NoTokenOfAnAnswerPastItsTimeIsEverFound) {
  int n_found = 0, n_gone = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    StoreDraws draws(seed);
    OutputStore store({.tokens_per_scope = 60, .max_scopes = 4});
    const kv::ScopeKey scope = MakeScope("t");
    const int64_t ttl = 1000;
    int64_t now = 0;
    std::vector<int64_t> came;  // the i-th answer consists of tokens 10 i .. 10 i + 5
    for (int round = 0; round < 200; ++round) {
      now += draws.Below(700);
      if (draws.Below(2) == 0) {
        std::vector<int32_t> answer;
        for (int i = 0; i < 6; ++i) answer.push_back(static_cast<int32_t>(10 * came.size()) + i);
        came.push_back(now);
        store.Add(scope, answer, now, ttl);
      }
      const auto* index = store.Find(scope, kShared, now, ttl);
      n_gone += !came.empty() && (index == nullptr || index->size() == 0) ? 1 : 0;
      if (index == nullptr) continue;
      for (const int32_t token : index->tokens()) {
        if (token < 0) continue;
        ASSERT_LT(now - came[static_cast<size_t>(token / 10)], ttl);
        ++n_found;
      }
    }
  }
  EXPECT_GT(n_found, 5000);
  EXPECT_GT(n_gone, 50);
}

// Symptom: a scope that nobody asked for again kept its texts in memory for ever.
TEST(OutputStoreTest, WhatIsPastItsTimeGoesThoughOnlyOthersAsk) {
  OutputStore store({.tokens_per_scope = 100, .max_scopes = 64});
  StoreDraws draws(1);
  for (int i = 0; i < 40; ++i) {
    store.Add(MakeScope("t" + std::to_string(i)), AnswerOf(0, 10, draws), 0, i % 4 == 0 ? 0 : 1000);
  }
  ASSERT_EQ(store.n_scopes(), 40);
  // Two busy scopes, one that answers and one that only looks.
  for (int i = 0; i < 40; ++i) {
    store.Add(MakeScope("busy"), AnswerOf(0, 4, draws), 2000 + i, 1000);
    store.Find(MakeScope("t0"), kShared, 2000 + i, 0);
  }
  EXPECT_EQ(store.n_scopes(), 11);  // ten without a limit, and the busy one
}

TEST(OutputStoreTest, ForgettingTakesOneScopeAFamilyOrATenantAndSaysHowMuch) {
  const auto scope_of = [](const char* tenant, const char* region, const char* salt) {
    return *kv::ScopeKeyBuilder(TestSecret()).Tenant(tenant).Region(region).Salt(salt)
                .Model(Sha256Digest{}, TinyLayout()).Build();
  };
  const std::vector<kv::ScopeKey> scopes = {scope_of("a", "r", "1"), scope_of("a", "r", "2"), scope_of("a", "q", "1"),
                                            scope_of("b", "r", "1")};
  const std::vector<std::pair<kv::ScopeSet, std::vector<size_t>>> cases = {
      {scopes[0], {0}}, {scopes[0].family(), {0, 1}}, {scopes[0].tenant(), {0, 1, 2}}, {scope_of("c", "", ""), {}}};
  for (const auto& [set, gone] : cases) {
    OutputStore store({});
    StoreDraws draws(1);
    for (size_t i = 0; i < scopes.size(); ++i) store.Add(scopes[i], AnswerOf(i, 16, draws), 1, 0);
    const int64_t before = store.n_tokens();
    EXPECT_EQ(before, 80);
    EXPECT_EQ(store.Forget(set), static_cast<int64_t>(4 * 20 * gone.size()));
    EXPECT_EQ(store.n_tokens(), static_cast<int64_t>(80 - 20 * gone.size()));
    for (size_t i = 0; i < scopes.size(); ++i) {
      const bool is_gone = std::count(gone.begin(), gone.end(), i) > 0;
      EXPECT_EQ(NextAfterShared(store, scopes[i], 2, 0).has_value(), !is_gone) << i;
    }
    EXPECT_EQ(store.Forget(set), 0);
    for (size_t i = 0; i < scopes.size(); ++i) store.Add(scopes[i], AnswerOf(i, 16, draws), 3, 0);
    for (const kv::ScopeKey& scope : scopes) EXPECT_TRUE(NextAfterShared(store, scope, 4, 0).has_value());
  }
}

}  // namespace
}  // namespace surety::engine
