// What searches keep of one state of the index: it is never seen in a result, goes with every change, and has a bound.
#include "gateway/document_memo.h"

#include <atomic>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "gateway/document_search.h"
#include "gateway/testing/document_fixture.h"

namespace surety::gateway {
namespace {

class MemoDice {
 public:
  explicit MemoDice(uint64_t seed) : seed_(seed) {}
  size_t Below(size_t n) { return RandomBits({.seed = seed_, .position = n_++, .purpose = RandomPurpose::kTest}) % n; }
  std::string Of(const std::vector<std::string>& all) { return all[Below(all.size())]; }

 private:
  uint64_t seed_, n_ = 0;
};

const std::vector<std::string> kMemoTenants = {"", "north", "south", "west"};
const std::vector<std::string> kMemoPermissions = {"public", "claims", "cases", "branch"};
const std::vector<std::string> kMemoRegions = {"", "US-NY", "US-CA"};
const std::vector<std::string> kMemoWords = {"fee", "card", "loan", "notice", "claim", "dispute", "rate", "limit"};

std::string MemoText(MemoDice& dice, size_t words) {
  std::string text;
  for (size_t i = 0; i < words; ++i) text += (i == 0 ? "" : " ") + dice.Of(kMemoWords);
  return text;
}

Document RandomMemoDocument(MemoDice& dice) {
  // The id says whose it is: ids are unique across tenants.
  const std::string tenant = dice.Of(kMemoTenants);
  Document document = PublicDocument(fmt::format("d{}{}", dice.Below(12), tenant), MemoText(dice, 3 + dice.Below(20)));
  document.tenant = tenant;
  document.title = MemoText(dice, 2);
  document.permissions = {dice.Of(kMemoPermissions)};
  if (const std::string region = dice.Of(kMemoRegions); !region.empty()) document.regions = {region};
  if (dice.Below(3) == 0) {
    document.validity = {static_cast<int64_t>(dice.Below(50)), 50 + static_cast<int64_t>(dice.Below(50))};
  }
  return document;
}

ReadRights RandomMemoRights(MemoDice& dice) {
  ReadRights rights{.tenant = dice.Of(kMemoTenants), .permissions = {}, .region = dice.Of(kMemoRegions), .product = "",
                    .language = "", .as_of_ns = static_cast<int64_t>(dice.Below(110))};
  for (const std::string& permission : kMemoPermissions) {
    if (dice.Below(2) == 0) rights.permissions.push_back(permission);
  }
  return rights;
}

// One store that has searched before, another opened for this search alone: each bit is the same, for all kinds of
// callers and instants, and after changes by this store and by others.
TEST(DocumentMemoTest, ResultsAreThoseOfAStoreThatNeverSearched) {
  DocumentFolder folder;
  auto warm = folder.Index();
  auto other = folder.Index();
  MemoDice dice(17);
  size_t found = 0;
  std::set<std::string> answers;
  for (int round = 0; round < 60; ++round) {
    DocumentIndex& writer = round % 2 == 0 ? *warm : *other;
    if (dice.Below(4) == 0) {
      ASSERT_TRUE(writer.Remove("d" + std::to_string(dice.Below(12)) + dice.Of(kMemoTenants), ""));
    } else {
      AddDocumentOk(writer, RandomMemoDocument(dice), EmbedByText(8));
    }
    auto cold = folder.Index(/*read_only=*/true);
    for (int i = 0; i < 12; ++i) {
      const ReadRights rights = RandomMemoRights(dice);
      const std::string query = MemoText(dice, 1 + dice.Below(4));
      const std::vector<float> vector = dice.Below(4) == 0 ? DirectionOf(query, 8) : std::vector<float>();
      const int top_k = 1 + static_cast<int>(dice.Below(8));
      const std::string expected = DocumentBytesOf(FoundPassages(*cold, rights, query, vector, top_k));
      ASSERT_EQ(DocumentBytesOf(FoundPassages(*warm, rights, query, vector, top_k)), expected);
      ASSERT_EQ(warm->Snapshot(), cold->Snapshot());
      const auto boundary = folder.Index(/*read_only=*/true)->NextBoundary(rights.as_of_ns);
      ASSERT_EQ(warm->NextBoundary(rights.as_of_ns), boundary);
      const auto retrieved = warm->Retrieve(rights, query, vector, top_k);
      ASSERT_TRUE(retrieved);
      ASSERT_EQ(DocumentBytesOf(retrieved->passages), expected);
      ASSERT_EQ(retrieved->snapshot, cold->Snapshot());
      ASSERT_EQ(retrieved->boundary, boundary);
      found += expected.empty() ? 0 : 1;
      answers.insert(expected);
      if (i % 4 == 3) cold = folder.Index(/*read_only=*/true);
    }
  }
  EXPECT_GT(found, 200u);
  EXPECT_GT(answers.size(), 150u);
}

// The same search at rising and falling instants, over a document's begin and end.
TEST(DocumentMemoTest, WhatIsReadableFollowsTheInstant) {
  DocumentFolder folder;
  auto store = folder.Index();
  Document document = PublicDocument("d", "fee");
  document.validity = {10, 20};
  AddDocumentOk(*store, document);
  AddDocumentOk(*store, PublicDocument("always", "fee"));
  for (const bool rising : {true, false}) {
    for (int64_t i = 0; i < 30; ++i) {
      ReadRights rights;
      rights.as_of_ns = rising ? i : 29 - i;
      const bool valid = rights.as_of_ns >= 10 && rights.as_of_ns < 20;
      EXPECT_EQ(FoundPassages(*store, rights, "fee").size(), valid ? 2u : 1u) << rights.as_of_ns;
      const auto boundary = store->NextBoundary(rights.as_of_ns);
      EXPECT_EQ(boundary.value_or(-1), rights.as_of_ns < 10 ? 10 : valid ? 20 : -1);
    }
  }
  ReadRights last;
  last.as_of_ns = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(FoundPassages(*store, last, "fee").empty());   // nothing is valid at the end of all times
}

struct MemoReader {
  std::unique_ptr<DocumentDb> db;
  SearchMemo memo;
  std::string Search(const std::string& query) {
    const auto found = SearchDocuments(*db, memo, ReadRights{}, {.text = query, .vector = {}, .top_k = 5});
    EXPECT_TRUE(found) << (found ? "" : found.error().ToString());
    return found ? DocumentBytesOf(found->passages) : "";
  }
};

MemoReader OpenMemoReader(const DocumentFolder& folder) {
  auto db = DocumentDb::Open(folder.File("index.db"), DocumentDb::Mode::kRead);
  EXPECT_TRUE(db);
  return {.db = *std::move(db), .memo = {}};
}

TEST(DocumentMemoTest, ASecondSearchReadsNothingAndAnyChangeEmptiesIt) {
  DocumentFolder folder;
  auto store = folder.Index();
  AddDocumentOk(*store, PublicDocument("d", "The overdraft fee is 35 dollars."));
  MemoReader reader = OpenMemoReader(folder);
  const std::string first = reader.Search("overdraft fee");
  EXPECT_NE(first, "");
  const size_t bytes = reader.memo.bytes();
  EXPECT_EQ(reader.memo.passages.size(), 1u);
  EXPECT_EQ(reader.Search("overdraft fee"), first);
  EXPECT_EQ(reader.memo.bytes(), bytes);   // nothing was added, so nothing was read
  ASSERT_TRUE(store->Remove("d", ""));
  EXPECT_EQ(reader.Search("loan"), "");
  EXPECT_TRUE(reader.memo.passages.empty());
  EXPECT_TRUE(reader.memo.documents.empty());
  EXPECT_TRUE(reader.memo.names.empty());
  for (const auto& [key, readable] : reader.memo.readable) EXPECT_FALSE(readable->places.contains("overdraft"));
}

TEST(DocumentMemoTest, HasABound) {
  DocumentFolder folder;
  auto store = folder.Index();
  AddDocumentOk(*store, PublicDocument("d", "The overdraft fee is 35 dollars."));
  MemoReader reader = OpenMemoReader(folder);
  const std::string first = reader.Search("overdraft");
  bool emptied = false;
  size_t before = 0;
  for (int i = 0; i < 400; ++i) {   // words that nobody wrote
    std::string query = "overdraft";
    for (int word = 0; word < 250; ++word) query += fmt::format(" q{}x{}", i, word);
    EXPECT_EQ(reader.Search(query), first);
    EXPECT_LE(reader.memo.bytes(), SearchMemo::kMostBytes + SearchMemo::kMostBytes / 4);
    emptied |= reader.memo.bytes() < before;
    before = reader.memo.bytes();
  }
  EXPECT_TRUE(emptied);
  SearchMemo memo;
  EXPECT_FALSE(memo.Keeps(SearchMemo::kMostBytes));
  EXPECT_EQ(memo.bytes(), 0u);
}

// Equal keys would show one caller what another may read.
TEST(DocumentMemoTest, DifferentRightsHaveDifferentKeys) {
  std::set<std::string> keys;
  const std::vector<std::string> fields = {"", "a", "b", "ab", std::string(1, '\0')};
  size_t n = 0;
  for (const std::string& tenant : fields) {
    for (const std::string& region : fields) {
      for (const std::string& product : fields) {
        for (const std::vector<std::string>& permissions :
             {std::vector<std::string>{}, {""}, {"a"}, {"a", "b"}, {"ab"}, {"b", "a"}, {"a", ""}}) {
          keys.insert(RightsKey({.tenant = tenant, .permissions = permissions, .region = region, .product = product,
                                 .language = "", .as_of_ns = static_cast<int64_t>(n++)}));
        }
      }
    }
  }
  EXPECT_EQ(keys.size(), n);
}

// Searches of several tenants while documents come and go: each sees a state that there was, and nothing of others.
TEST(DocumentMemoTest, ManyThreadsSeeStatesThatThereWere) {
  DocumentFolder folder;
  auto store = folder.Index();
  for (const char* tenant : {"north", "south"}) {
    Document document = PublicDocument(fmt::format("kept-{}", tenant), fmt::format("fee of {}", tenant));
    document.tenant = tenant;
    AddDocumentOk(*store, document);
  }
  std::atomic<bool> done = false;
  std::atomic<int> failures = 0, searches = 0, with_both = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, tenant = std::string(t % 2 == 0 ? "north" : "south")] {
      while (!done) {
        ReadRights rights;
        rights.tenant = tenant;
        const auto found = store->Search(rights, "fee", {}, 5);
        (void)store->Snapshot();
        (void)store->NextBoundary(0);
        ++searches;
        const bool right = found && !found->empty() && found->size() <= 2;
        failures += right ? 0 : 1;
        if (!right) continue;
        with_both += found->size() == 2 ? 1 : 0;
        for (const Passage& passage : *found) {
          failures += passage.document == "kept-" + tenant || passage.document == "passing" ? 0 : 1;
        }
      }
    });
  }
  for (int i = 0; i < 15 || (with_both == 0 && i < 500); ++i) {
    EXPECT_TRUE(store->Add(PublicDocument("passing", "fee"), {}));
    for (const int seen = searches; searches < seen + 8 && failures == 0;) std::this_thread::yield();
    EXPECT_EQ(FoundPassages(*store, ReadRights{}, "fee").size(), 1u);   // at once
    EXPECT_TRUE(store->Remove("passing", ""));
    EXPECT_EQ(FoundPassages(*store, ReadRights{}, "fee").size(), 0u);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_GT(with_both, 0);
}

}  // namespace
}  // namespace surety::gateway
