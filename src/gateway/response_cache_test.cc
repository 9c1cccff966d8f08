#include "gateway/response_cache.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gateway/testing/hard_fact_pairs.h"
#include "gateway/testing/partition_fixture.h"

namespace surety::gateway {
namespace {

constexpr int64_t kCacheSecond = 1'000'000'000, kCacheHour = 3600 * kCacheSecond;

CachedAnswer CacheAnswer(const std::string& text, const std::string& decision = "decision-1") {
  CachedAnswer answer;
  answer.answer.text = text;
  answer.decision = decision;
  answer.answer_digest = "digest of " + text;
  answer.documents = {"fees@3", "terms@1"};
  answer.subject = "customer-1";
  answer.cost = 0.25;
  return answer;
}

class ResponseCacheTest : public ::testing::Test {
 protected:
  void Put(const Partition& partition, const AnswerBasis& basis, std::string_view question, CachedAnswer answer,
           std::span<const float> vector = {}, int64_t ttl = kCacheHour) {
    const Status status = cache_->Store(partition, basis, question, vector, std::move(answer), ttl);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  std::string Exact(const Partition& partition, const AnswerBasis& basis, std::string_view question) {
    const auto hit = cache_->Find(partition, basis, question, clock_.WallNanos());
    EXPECT_EQ(hit ? hit->similarity : 1, 1);
    return hit ? hit->answer.answer.text : "";
  }
  std::string Similar(const Partition& partition, const AnswerBasis& basis, std::string_view question,
                      std::span<const float> vector, double least = 0.9) {
    const auto hit = cache_->FindSimilar(partition, basis, question, vector, least, clock_.WallNanos());
    return hit ? hit->answer.answer.text : "";
  }

  PartitionTestClock clock_;
  std::unique_ptr<ResponseCache> cache_ = ResponseCache::Make(64 << 20, clock_);
  const Partition base_ = SiblingPartition(-1);
  const AnswerBasis basis_ = SomeBasis();
  const std::vector<float> vector_ = {0.6f, 0.8f};
};

TEST_F(ResponseCacheTest, NoDimensionMayDiffer) {
  Put(base_, basis_, "What is the fee?", CacheAnswer("base"), vector_);
  for (int i = 0; i < kDimensionCount; ++i) {
    const Partition other = SiblingPartition(i);
    EXPECT_EQ(Exact(other, basis_, "What is the fee?"), "") << NameOf(static_cast<Dimension>(i));
    EXPECT_EQ(Similar(other, basis_, "What is the fee?", vector_, -1), "") << NameOf(static_cast<Dimension>(i));
  }
  // The controls: the same circumstances find it, written in another order too.
  EXPECT_EQ(Exact(base_, basis_, "What is the fee?"), "base");
  EXPECT_EQ(Similar(base_, basis_, "What's the fee?", vector_), "base");
  Circumstances reordered = SomeCircumstances();
  std::ranges::reverse(*reordered.permissions);
  EXPECT_EQ(Exact(PartitionOf(reordered), basis_, "What is the fee?"), "base");

  for (int i = 0; i < kDimensionCount; ++i) {
    Put(SiblingPartition(i), basis_, "What is the fee?", CacheAnswer("sibling " + std::to_string(i)), vector_);
  }
  for (int i = 0; i < kDimensionCount; ++i) {
    EXPECT_EQ(Exact(SiblingPartition(i), basis_, "What is the fee?"), "sibling " + std::to_string(i));
    EXPECT_EQ(Similar(SiblingPartition(i), basis_, "What's the fee?", vector_), "sibling " + std::to_string(i));
  }
  EXPECT_EQ(Exact(base_, basis_, "What is the fee?"), "base");
  EXPECT_EQ(cache_->counters().cross_partition_hits, 0);
}

TEST_F(ResponseCacheTest, NoPartOfTheBasisMayDiffer) {
  Put(base_, basis_, "What is the fee?", CacheAnswer("base"), vector_);
  for (int i = 0; i < kBasisFields; ++i) {
    AnswerBasis other = basis_;
    BasisField(other, i) += "x";
    EXPECT_EQ(Exact(base_, other, "What is the fee?"), "") << i;
    EXPECT_EQ(Similar(base_, other, "What is the fee?", vector_, -1), "") << i;
    std::swap(BasisField(other, i), BasisField(other, (i + 1) % kBasisFields));
    EXPECT_EQ(Exact(base_, other, "What is the fee?"), "") << i;
    EXPECT_EQ(Similar(base_, other, "What is the fee?", vector_, -1), "") << i;
  }
  EXPECT_EQ(Exact(base_, basis_, "What is the fee? "), "");
  EXPECT_EQ(Exact(base_, basis_, "What is the fee?"), "base");
  EXPECT_EQ(Similar(base_, basis_, "What is the fee?", vector_), "base");
}

TEST_F(ResponseCacheTest, AHitCarriesWhatWasStored) {
  CachedAnswer answer = CacheAnswer("text");
  answer.answer.reasoning = "why";
  answer.answer.calls = {{"lookup", "{}"}};
  Put(base_, basis_, "q", answer);
  clock_.Advance(kCacheSecond);
  const auto hit = cache_->Find(base_, basis_, "q", clock_.WallNanos());
  ASSERT_TRUE(hit.has_value());
  EXPECT_EQ(hit->answer.answer.reasoning, "why");
  ASSERT_EQ(hit->answer.answer.calls.size(), 1u);
  EXPECT_EQ(hit->answer.answer.calls[0].arguments, "{}");
  EXPECT_EQ(hit->answer.decision, "decision-1");
  EXPECT_EQ(hit->answer.documents, answer.documents);
  EXPECT_EQ(hit->answer.tenant, "bank-a");
  EXPECT_EQ(hit->answer.cost, 0.25);
  EXPECT_EQ(hit->answer.stored_ns, clock_.WallNanos() - kCacheSecond);
}

TEST_F(ResponseCacheTest, TimeToLiveEndsAtItsInstant) {
  const auto both = [&] { return Exact(base_, basis_, "fee?") + Similar(base_, basis_, "fee?", vector_); };
  Put(base_, basis_, "fee?", CacheAnswer("a"), vector_, 1000);
  clock_.Advance(999);
  EXPECT_EQ(both(), "aa");
  clock_.Advance(1);
  EXPECT_EQ(both(), "");
  EXPECT_EQ(cache_->n_entries(), 0);  // and is gone
  EXPECT_EQ(cache_->bytes(), 0);
  EXPECT_EQ(cache_->counters().expired, 1);
  Put(base_, basis_, "fee?", CacheAnswer("b"), vector_, 1000);
  clock_.wall_ns -= 500;  // the wall's clock is set back: an entry does not live longer for it
  clock_.mono_ns += 999;
  EXPECT_EQ(both(), "bb");
  clock_.mono_ns += 1;
  EXPECT_EQ(both(), "");
  Put(base_, basis_, "fee?", CacheAnswer("c"), vector_, 1000);
  clock_.wall_ns += 1000;  // the machine slept
  EXPECT_EQ(Similar(base_, basis_, "fee?", vector_) + Exact(base_, basis_, "fee?"), "");
  Put(base_, basis_, "fee?", CacheAnswer("d"), vector_, std::numeric_limits<int64_t>::max());
  clock_.Advance(kCacheHour * 24 * 365 * 10);
  EXPECT_EQ(both(), "dd");
}

TEST_F(ResponseCacheTest, ValidityIsHalfOpenAndAskedForTheInstant) {
  CachedAnswer answer = CacheAnswer("a");
  answer.validity = {1000, 2000};
  Put(base_, basis_, "fee?", answer, vector_);
  const auto at = [&](int64_t t) {
    const bool exact = cache_->Find(base_, basis_, "fee?", t).has_value();
    EXPECT_EQ(exact, cache_->FindSimilar(base_, basis_, "fee?", vector_, 0.9, t).has_value());
    return exact;
  };
  EXPECT_FALSE(at(999));
  EXPECT_TRUE(at(1000));
  EXPECT_TRUE(at(1999));
  EXPECT_FALSE(at(2000));
  EXPECT_FALSE(at(std::numeric_limits<int64_t>::max()));
  EXPECT_FALSE(at(std::numeric_limits<int64_t>::min()));
  EXPECT_TRUE(at(1500));
}

TEST_F(ResponseCacheTest, WhatWasNeverValidIsRefused) {
  const auto code = [&](CachedAnswer answer, std::span<const float> vector, int64_t ttl) {
    return cache_->Store(base_, basis_, "q", vector, std::move(answer), ttl).code();
  };
  CachedAnswer never = CacheAnswer("a"), other = CacheAnswer("a"), large = CacheAnswer(std::string(65 << 20, 'x'));
  never.validity = {5, 5};
  other.tenant = "bank-b";
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(code(never, {}, 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(other, {}, 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(CacheAnswer("a"), {}, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(CacheAnswer("a"), {}, -1), StatusCode::kInvalidArgument);
  for (const std::vector<float>& bad : std::vector<std::vector<float>>{{0, 0}, {2, 0}, {nan, 1}, {inf, 0}}) {
    EXPECT_EQ(code(CacheAnswer("a"), bad, 1), StatusCode::kInvalidArgument);
    EXPECT_EQ(Similar(base_, basis_, "q", bad, -1), "");
  }
  EXPECT_EQ(code(large, {}, 1), StatusCode::kResourceExhausted);
  EXPECT_EQ(cache_->n_entries(), 0);
  EXPECT_EQ(code(CacheAnswer("a"), vector_, 1), StatusCode::kOk);
}

TEST_F(ResponseCacheTest, TheLeastRecentlyUsedGoFirstAndTheBoundHolds) {
  const auto name = [](int i) { return "question " + std::to_string(100 + i); };
  const auto put = [&](int i) { Put(base_, basis_, name(i), CacheAnswer(std::string(1000, 'a')), vector_); };
  put(0);
  const int64_t first = cache_->bytes();
  put(1);
  const int64_t each = cache_->bytes() - first;
  ASSERT_GT(each, 1000 + static_cast<int64_t>(AnswerKey(base_, basis_, name(0)).size()));
  ASSERT_GT(first, each);  // the neighbourhood
  const int64_t bound = first + 9 * each;
  cache_ = ResponseCache::Make(bound, clock_);
  const auto stands = [&](int i) {  // asked outside its validity, which is no use of it
    const int64_t before = cache_->counters().not_valid;
    (void)cache_->Find(base_, basis_, name(i), std::numeric_limits<int64_t>::max());
    return cache_->counters().not_valid > before;
  };
  std::vector<int> order;  // most recent last
  std::mt19937 random(2);
  for (int n = 0; n < 600; ++n) {
    const int i = static_cast<int>(random() % 16);
    const bool known = std::erase(order, i) > 0;
    if (random() % 2) {
      put(i);
      order.push_back(i);
      if (order.size() > 10) order.erase(order.begin());
    } else {
      ASSERT_EQ(random() % 2 ? !Exact(base_, basis_, name(i)).empty()
                             : cache_->FindSimilar(base_, basis_, name(i), vector_, 0.9, 0).has_value(), known);
      if (known) order.push_back(i);
    }
    ASSERT_LE(cache_->bytes(), bound);
    ASSERT_EQ(cache_->n_entries(), static_cast<int64_t>(order.size()));
    if (n % 10 == 0) {
      for (int j = 0; j < 16; ++j) ASSERT_EQ(stands(j), (std::ranges::count(order, j) > 0)) << n << " " << j;
    }
  }
  EXPECT_EQ(cache_->bytes(), bound);
  EXPECT_GT(cache_->counters().evicted, 100);
  EXPECT_EQ(cache_->Clear().entries, 10);
  EXPECT_EQ(cache_->bytes(), 0);
}

TEST_F(ResponseCacheTest, ANewAnswerToTheSameQuestionReplacesTheOld) {
  Put(base_, basis_, "q", CacheAnswer("old"), vector_);
  const int64_t bytes = cache_->bytes();
  Put(base_, basis_, "q", CacheAnswer("new"), vector_);
  EXPECT_EQ(Exact(base_, basis_, "q"), "new");
  EXPECT_EQ(Similar(base_, basis_, "q", vector_), "new");
  EXPECT_EQ(cache_->n_entries(), 1);
  EXPECT_EQ(cache_->bytes(), bytes);
  Put(base_, basis_, "q", CacheAnswer("new"));  // without vector: no longer found by meaning
  EXPECT_EQ(Similar(base_, basis_, "q", vector_), "");
}

TEST_F(ResponseCacheTest, OppositeQuestionsDoNotMatchThoughTheirVectorsAreEqual) {
  for (const auto& [a, b] : kOppositeQuestions) {
    cache_->Clear();
    Put(base_, basis_, a, CacheAnswer("answer"), vector_);
    EXPECT_EQ(Similar(base_, basis_, b, vector_), "") << a << " / " << b;
    EXPECT_EQ(Similar(base_, basis_, a, vector_), "answer");
  }
  EXPECT_EQ(cache_->counters().refused_by_facts, static_cast<int64_t>(std::size(kOppositeQuestions)));
  for (const auto& [a, b] : kEqualQuestions) {
    cache_->Clear();
    Put(base_, basis_, a, CacheAnswer("answer"), vector_);
    EXPECT_EQ(Similar(base_, basis_, b, vector_), "answer") << a << " / " << b;
  }
}

TEST_F(ResponseCacheTest, TheMostSimilarThatPassesIsFoundAtOrAboveTheThreshold) {
  constexpr int kDimensions = 19, kStored = 60;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto draw = [&] {
    std::vector<float> v(kDimensions);
    double norm = 0;
    for (float& x : v) norm += std::pow(x = normal(random), 2);
    for (float& x : v) x = static_cast<float>(x / std::sqrt(norm));
    return v;
  };
  std::vector<std::vector<float>> stored;
  for (int i = 0; i < kStored; ++i) {
    stored.push_back(draw());
    // A third asks about another code.
    Put(base_, basis_, (i % 3 ? "explain R01 please " : "explain R02 please ") + std::string(i, '?'),
        CacheAnswer(std::to_string(i)), stored.back());
  }
  Put(base_, basis_, "explain R01", CacheAnswer("other embedder"), vector_);
  int n_hits = 0;
  for (int n = 0; n < 400; ++n) {
    const std::vector<float> asked = draw();
    const double least = 0.1 + 0.05 * (n % 10);
    double best = -2;
    int who = -1;
    for (int i = 0; i < kStored; ++i) {
      double dot = 0;
      for (int d = 0; d < kDimensions; ++d) dot += static_cast<double>(stored[i][d]) * asked[d];
      if (i % 3 != 0 && dot >= least && dot > best) {
        best = dot;
        who = i;
      }
    }
    const auto hit = cache_->FindSimilar(base_, basis_, "explain R01", asked, least, 0);
    ASSERT_EQ(hit.has_value(), who >= 0);
    if (!hit) continue;
    ++n_hits;
    EXPECT_EQ(hit->answer.answer.text, std::to_string(who));
    EXPECT_NEAR(hit->similarity, best, 1e-12);
  }
  EXPECT_GT(n_hits, 50);
  EXPECT_LT(n_hits, 400);
  // Exactly at the threshold, and a hair above it.
  const std::vector<float> axis = {1, 0};
  const double at = vector_[0];
  EXPECT_EQ(Similar(base_, basis_, "explain R01", axis, at), "other embedder");
  EXPECT_EQ(Similar(base_, basis_, "explain R01", axis, std::nextafter(at, 1)), "");
  EXPECT_EQ(Similar(base_, basis_, "explain R01", axis, std::numeric_limits<double>::quiet_NaN()), "");
}

TEST_F(ResponseCacheTest, ErasureCountsWhatItRemovedAndRemovesNothingElse) {
  const auto put = [&](const Partition& partition, int i, const std::string& subject, const std::string& document) {
    CachedAnswer answer = CacheAnswer("answer " + std::to_string(i), "decision-" + std::to_string(i));
    answer.subject = subject;
    answer.documents = {document, "terms@1"};
    Put(partition, basis_, "q" + std::to_string(i), std::move(answer), i % 2 ? vector_ : std::vector<float>{});
  };
  Circumstances elsewhere = SomeCircumstances();
  TextOf(elsewhere, Dimension::kTenant) = "bank-b";
  const Partition other = PartitionOf(elsewhere);
  put(base_, 0, "alice", "fees@1");
  put(base_, 1, "alice", "fees@2");
  put(SiblingPartition(3), 2, "alice", "rates@1");
  put(base_, 3, "alice2", "fee@s");
  put(base_, 4, "", "mail@bank@7");
  put(other, 5, "alice", "fees@1");
  const int64_t bytes = cache_->bytes();
  const CacheForgetReceipt none = cache_->ForgetSubject("bank-a", "");
  EXPECT_EQ(none.entries + none.vectors + none.bytes, 0);
  const CacheForgetReceipt receipt = cache_->ForgetSubject("bank-a", "alice");
  EXPECT_EQ(receipt.entries, 3);
  EXPECT_EQ(receipt.vectors, 1);
  EXPECT_EQ(receipt.bytes, bytes - cache_->bytes());
  EXPECT_GT(receipt.bytes, 0);
  EXPECT_EQ(Exact(base_, basis_, "q0") + Exact(base_, basis_, "q1") + Similar(base_, basis_, "q1", vector_), "");
  EXPECT_EQ(Similar(base_, basis_, "the q3", vector_), "answer 3");
  EXPECT_EQ(Exact(other, basis_, "q5"), "answer 5");
  EXPECT_EQ(cache_->ForgetSubject("bank-a", "alice").entries, 0);

  EXPECT_EQ(cache_->ForgetDocument("fees").entries, 1);  // bank-b's; "fee@s" is another document
  EXPECT_EQ(cache_->ForgetDocument("mail").entries, 0);
  EXPECT_EQ(cache_->ForgetDocument("mail@bank").entries, 1);
  EXPECT_EQ(Exact(base_, basis_, "q3"), "answer 3");
  EXPECT_EQ(cache_->ForgetDocument("terms").entries, 1);
  EXPECT_EQ(cache_->n_entries(), 0);
  EXPECT_EQ(cache_->bytes(), 0);
}

TEST_F(ResponseCacheTest, EntriesBoundToASubjectAreItsToo) {
  CachedAnswer answer = CacheAnswer("a");
  answer.subject.clear();
  AnswerBasis basis = basis_;
  basis.subject = "bob";
  Put(base_, basis, "q", answer);
  EXPECT_EQ(cache_->ForgetSubject("bank-a", "customer-1").entries, 0);
  EXPECT_EQ(cache_->ForgetSubject("bank-a", "bob").entries, 1);
}

TEST_F(ResponseCacheTest, AWithdrawnPairIsNotStoredAgain) {
  Put(base_, basis_, "q", CacheAnswer("wrong", "d1"), vector_);
  Put(base_, basis_, "q2", CacheAnswer("right", "d2"), vector_);
  const CacheForgetReceipt receipt = cache_->ForgetDecision("d1");
  EXPECT_EQ(receipt.entries, 1);
  EXPECT_EQ(receipt.vectors, 1);
  const auto store = [&](const AnswerBasis& basis, const std::string& question, const std::string& text,
                         const std::string& decision) {
    return cache_->Store(base_, basis, question, vector_, CacheAnswer(text, decision), kCacheHour).code();
  };
  AnswerBasis later = basis_;
  later.model_revision = "next";
  EXPECT_EQ(store(basis_, "q", "wrong", "d3"), StatusCode::kFailedPrecondition);
  EXPECT_EQ(store(later, "q", "wrong", "d4"), StatusCode::kFailedPrecondition);  // nor by another model
  EXPECT_EQ(Exact(base_, basis_, "q") + Exact(base_, later, "q"), "");
  EXPECT_EQ(cache_->counters().withdrawn, 2);
  EXPECT_EQ(store(basis_, "q", "corrected", "d5"), StatusCode::kOk);  // the controls
  EXPECT_EQ(store(basis_, "q3", "wrong", "d6"), StatusCode::kOk);
  EXPECT_EQ(Exact(base_, basis_, "q2"), "right");
  // Withdrawn before it was stored: a race that withdrawal wins.
  EXPECT_EQ(cache_->ForgetDecision("d7").entries, 0);
  EXPECT_EQ(store(basis_, "q4", "late", "d7"), StatusCode::kFailedPrecondition);
  EXPECT_EQ(store(basis_, "q4", "late", "d8"), StatusCode::kOk);
}

// Random operations against a list of entries that is searched from end to end.
TEST_F(ResponseCacheTest, DoesWhatANaiveListDoes) {
  struct Row {
    int partition, basis;
    std::string question, text, subject, document;
    int64_t until, from, to;
  };
  std::vector<Row> rows;
  std::mt19937 random(9);
  std::vector<Partition> partitions;
  for (int i = -1; i < kDimensionCount; ++i) partitions.push_back(SiblingPartition(i));
  const auto basis_of = [](int i) {
    AnswerBasis basis = SomeBasis();
    if (i > 0) std::swap(BasisField(basis, i), BasisField(basis, i - 1));
    return basis;
  };
  int n_hits = 0;
  for (int n = 0; n < 20'000 / kPartitionDrawsOver; ++n) {
    const int p = static_cast<int>(random() % partitions.size()), b = static_cast<int>(random() % kBasisFields);
    const Partition& partition = partitions[static_cast<size_t>(p)];
    const std::string question = "q" + std::to_string(random() % 3);
    const std::string subject = "s" + std::to_string(random() % 40), document = "d" + std::to_string(random() % 40);
    const auto is = [&](const Row& r) { return r.partition == p && r.basis == b && r.question == question; };
    clock_.Advance(static_cast<int64_t>(random() % 3));
    const int64_t now = clock_.WallNanos();
    switch (random() % 8) {
      case 0: case 1: case 2: {
        CachedAnswer answer = CacheAnswer(std::to_string(n));
        answer.subject = subject;
        answer.documents = {document + "@1"};
        answer.validity.from_ns = now - static_cast<int64_t>(random() % 300);
        answer.validity.to_ns = now + 1 + static_cast<int64_t>(random() % 300);
        const int64_t ttl = 1 + static_cast<int64_t>(random() % 2000);
        std::erase_if(rows, is);
        rows.push_back({p, b, question, answer.answer.text, subject, document, now + ttl, answer.validity.from_ns,
                        answer.validity.to_ns});
        Put(partition, basis_of(b), question, std::move(answer), {}, ttl);
        break;
      }
      case 3: {
        if (random() % 10) break;
        const size_t before = rows.size();
        std::erase_if(rows, [&](const Row& r) { return r.subject == subject && r.partition != 1; });
        const auto receipt = cache_->ForgetSubject("bank-a", subject);  // partition 1 is of another tenant
        ASSERT_GE(receipt.entries, static_cast<int64_t>(before - rows.size()));  // more: expired ones nobody asked for
        break;
      }
      case 4: {
        if (random() % 10) break;
        std::erase_if(rows, [&](const Row& r) { return r.document == document; });
        (void)cache_->ForgetDocument(document);
        break;
      }
      default: {
        const int64_t as_of = now + static_cast<int64_t>(random() % 5) - 2;
        std::string want;
        for (const Row& r : rows) {
          if (is(r) && now < r.until && r.from <= as_of && as_of < r.to) want = r.text;
        }
        const auto hit = cache_->Find(partition, basis_of(b), question, as_of);
        ASSERT_EQ(hit ? hit->answer.answer.text : "", want) << n;
        n_hits += hit.has_value();
      }
    }
    std::erase_if(rows, [&](const Row& r) { return now >= r.until; });
  }
  EXPECT_GT(n_hits, 500 / kPartitionDrawsOver);
  EXPECT_EQ(cache_->counters().cross_partition_hits, 0);
}

TEST_F(ResponseCacheTest, ManyThreadsGetOnlyTheirOwn) {
  cache_ = ResponseCache::Make(40'000, clock_);
  std::atomic<int64_t> n_hits = 0, n_wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int n = 0; n < 4000 / kPartitionDrawsOver + 200; ++n) {
        const int p = static_cast<int>(random() % 3) - 1;
        const Partition partition = SiblingPartition(p);
        const std::string code = "R0" + std::to_string(random() % 5), question = "explain " + code;
        const std::string text = std::to_string(p) + " " + code;
        std::optional<CacheHit> hit;
        switch (random() % 16) {
          case 0: (void)cache_->ForgetSubject("bank-a", "customer-1"); break;
          case 1: (void)cache_->ForgetDocument("fees"); break;
          case 2: clock_.Advance(1); break;
          case 3: case 4: case 5: case 6: case 7:
            (void)cache_->Store(partition, basis_, question, vector_, CacheAnswer(text), 50);
            break;
          case 8: case 9: case 10: hit = cache_->Find(partition, basis_, question, 0); break;
          default: hit = cache_->FindSimilar(partition, basis_, "please " + question, vector_, 0.9, 0);
        }
        n_hits += hit.has_value();
        n_wrong += hit && hit->answer.answer.text != text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(n_hits, 100);
  EXPECT_EQ(n_wrong, 0);
  EXPECT_LE(cache_->bytes(), 40'000);
  const ResponseCacheCounters c = cache_->counters();
  EXPECT_EQ(c.cross_partition_hits, 0);
  EXPECT_EQ(n_hits, c.exact_hits + c.similar_hits);
  (void)cache_->Clear();
  EXPECT_EQ(cache_->bytes(), 0);
}

}  // namespace
}  // namespace surety::gateway
