// Scores and order against plain reimplementations; queries that are no syntax; damaged files; many threads.
#include "gateway/document_search.h"

#include <atomic>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "gateway/document_text.h"
#include "gateway/testing/document_fixture.h"

namespace surety::gateway {
namespace {

using testing::HasSubstr;

constexpr int kSearchDimensions = 12;

class SearchDice {
 public:
  explicit SearchDice(uint64_t seed) : seed_(seed) {}
  size_t Below(size_t n) { return RandomBits({.seed = seed_, .position = n_++, .purpose = RandomPurpose::kTest}) % n; }

 private:
  uint64_t seed_, n_ = 0;
};

// Words that are terms as they stand.
const std::vector<std::string>& SearchWords() {
  static const std::vector<std::string> words = {"fee", "card", "loan", "notice", "claim", "dispute", "rate", "branch",
                                                 "limit", "refund", "day", "month"};
  return words;
}

std::string RandomSearchSentence(SearchDice& dice, size_t words) {
  std::string text;
  for (size_t i = 0; i < words; ++i) {
    // Some words are far more frequent than others.
    text += (i == 0 ? "" : " ") + SearchWords()[std::min(dice.Below(12), dice.Below(12))];
  }
  return text;
}

std::vector<std::string> SearchWordsOf(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// A corpus of one-passage documents, a part of it readable; rankings by the book.
class NaiveSearch {
 public:
  explicit NaiveSearch(SearchDice& dice) {
    for (int i = 0; i < 60; ++i) {
      const std::string text = RandomSearchSentence(dice, 1 + dice.Below(30));
      const Document document = PublicDocument(fmt::format("d{}", dice.Below(1'000'000)), text);
      if (ids_.insert(document.id).second) documents_.push_back(document);
      if (i % 3 == 0) documents_.back().permissions = {"other"};
    }
  }
  const std::vector<Document>& documents() const { return documents_; }

  std::map<std::string, double> Bm25(const std::vector<std::string>& query) const {
    std::map<std::string, double> scores;
    double n = 0, length = 0;
    for (const Document& d : documents_) {
      if (!Readable(d)) continue;
      n += 1;
      length += static_cast<double>(SearchWordsOf(d.text).size());
    }
    for (const std::string& term : std::set<std::string>(query.begin(), query.end())) {
      double with = 0;
      for (const Document& d : documents_) with += Readable(d) && Count(d, term) > 0 ? 1 : 0;
      for (const Document& d : documents_) {
        const double tf = Count(d, term), own = static_cast<double>(SearchWordsOf(d.text).size());
        if (!Readable(d) || tf == 0) continue;
        scores[d.id] += std::log(1 + (n - with + 0.5) / (with + 0.5)) * tf * 2.2 /
                        (tf + 1.2 * (0.25 + 0.75 * own / (length / n)));
      }
    }
    return scores;
  }
  std::map<std::string, double> Cosine(const std::vector<float>& query) const {
    std::map<std::string, double> scores;
    for (const Document& d : documents_) {
      if (!Readable(d)) continue;
      const std::vector<float> own = DirectionOf(d.text, kSearchDimensions);
      long double ab = 0, aa = 0, bb = 0;
      for (size_t i = 0; i < own.size(); ++i) {
        ab += static_cast<long double>(query[i]) * own[i];
        aa += static_cast<long double>(query[i]) * query[i];
        bb += static_cast<long double>(own[i]) * own[i];
      }
      scores[d.id] = static_cast<double>(ab / std::sqrt(aa * bb));
    }
    return scores;
  }
  static std::vector<std::string> Ranking(const std::map<std::string, double>& scores) {
    std::vector<std::pair<double, std::string>> order;
    for (const auto& [id, score] : scores) order.emplace_back(-score, id);
    std::ranges::sort(order);
    std::vector<std::string> ids;
    for (const auto& entry : order) ids.push_back(entry.second);
    return ids;
  }
  static std::map<std::string, double> Fused(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    std::map<std::string, double> scores;
    for (const auto* list : {&a, &b}) {
      for (size_t rank = 1; rank <= std::min<size_t>(list->size(), 100); ++rank) {
        scores[(*list)[rank - 1]] += 1.0 / (60.0 + static_cast<double>(rank));
      }
    }
    return scores;
  }

 private:
  static bool Readable(const Document& d) { return d.permissions[0] == "public"; }
  static double Count(const Document& d, const std::string& term) {
    const auto words = SearchWordsOf(d.text);
    return static_cast<double>(std::ranges::count(words, term));
  }
  std::vector<Document> documents_;
  std::set<std::string> ids_;
};

// Scores agree to the last digits; the order is that of the scores, where they are clearly apart.
void ExpectSearchRanking(const std::vector<Passage>& found, const std::map<std::string, double>& truth, size_t top_k,
                   const std::string& what) {
  ASSERT_EQ(found.size(), std::min(top_k, truth.size())) << what;
  const std::vector<std::string> ranking = NaiveSearch::Ranking(truth);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i].score, truth.at(found[i].document), 1e-9) << what << ", rank " << i;
    EXPECT_NEAR(found[i].score, truth.at(ranking[i]), 1e-9) << what << ", rank " << i;
  }
}

TEST(DocumentSearchTest, TextVectorAndFusionAgreeWithPlainReimplementations) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SearchDice dice(seed);
    const NaiveSearch naive(dice);
    DocumentFolder folder;
    auto store = folder.Index();
    const auto added = store->AddAll(naive.documents(), EmbedByText(kSearchDimensions), {});
    ASSERT_TRUE(added) << added.error().ToString();
    for (int i = 0; i < 20; ++i) {
      const std::string query = RandomSearchSentence(dice, 1 + dice.Below(5));
      const std::vector<float> vector = DirectionOf(query, kSearchDimensions);
      const size_t top_k = 1 + dice.Below(50);
      const auto text = naive.Bm25(SearchWordsOf(query));
      const auto near = naive.Cosine(vector);
      const auto k = static_cast<int>(top_k);
      ExpectSearchRanking(FoundPassages(*store, {}, query, {}, k), text, top_k, "text: " + query);
      ExpectSearchRanking(FoundPassages(*store, {}, "", vector, k), near, top_k, "vector: " + query);
      const auto fused = NaiveSearch::Fused(NaiveSearch::Ranking(text), NaiveSearch::Ranking(near));
      ExpectSearchRanking(FoundPassages(*store, {}, query, vector, k), fused, top_k, "both: " + query);
    }
  }
}

TEST(DocumentSearchTest, EqualScoresAreOrderedByNameWhateverWasAddedFirst) {
  for (const bool reversed : {false, true}) {
    DocumentFolder folder;
    auto store = folder.Index();
    for (int i = 0; i < 30; ++i) {
      const std::string id = fmt::format("d{:02}", reversed ? 29 - i : i);
      AddDocumentOk(*store, PublicDocument(id, "The same text."), EmbedByText(4));
    }
    for (const auto& passages : {FoundPassages(*store, {}, "text", {}, 10),
                                 FoundPassages(*store, {}, "", DirectionOf("q", 4), 10),
                                 FoundPassages(*store, {}, "text", DirectionOf("q", 4), 10)}) {
      ASSERT_EQ(passages.size(), 10);
      for (int i = 0; i < 10; ++i) EXPECT_EQ(passages[static_cast<size_t>(i)].document, fmt::format("d{:02}", i));
    }
  }
}

TEST(DocumentSearchTest, PassagesAreExactPiecesOfTheTextInOrder) {
  DocumentFolder folder;
  auto store = folder.Index();
  std::string text;
  for (int i = 0; i < 200; ++i) text += fmt::format("Paragraph {} says \u00FCber fees and {} cards.\r\n\r\n", i, i * 7);
  AddDocumentOk(*store, PublicDocument("long", text));
  auto passages = FoundPassages(*store, {}, "fees", {}, 1000);
  ASSERT_GT(passages.size(), 5);
  std::ranges::sort(passages, {}, [](const Passage& p) { return std::stoi(p.chunk); });
  std::string joined;
  for (size_t i = 0; i < passages.size(); ++i) {
    EXPECT_EQ(passages[i].chunk, std::to_string(i + 1));
    joined += passages[i].text;
  }
  EXPECT_EQ(joined, text);
}

TEST(DocumentSearchTest, QueriesAreTextAndNeverSyntax) {
  DocumentFolder folder;
  auto store = folder.Index();
  AddDocumentOk(*store, PublicDocument("a", "The refund policy NEAR the branch."));
  AddDocumentOk(*store, PublicDocument("b", "Interest or fees."));
  const auto same = [&](std::string_view strange, std::string_view plain) {
    EXPECT_EQ(DocumentBytesOf(FoundPassages(*store, {}, strange)), DocumentBytesOf(FoundPassages(*store, {}, plain)))
        << strange;
  };
  same("\"refund\" AND (policy* OR ^branch) -- '", "refund AND policy OR branch");
  same("title:refund", "title refund");
  same(std::string_view("re\0fund policy", 14), "re fund policy");
  same("refund\xFF\xC3policy", "refund policy");
  same("REFUND POLICIES", "refund policy");
  same("{refund} + [policy] NOT", "refund policy not");
  EXPECT_TRUE(FoundPassages(*store, {}, "'\"()*:^-+~{}[]\\;").empty());
  EXPECT_TRUE(FoundPassages(*store, {}, std::string_view("\0\0", 2)).empty());
  // Bytes of every kind, and far too much of it.
  SearchDice dice(7);
  static constexpr std::string_view kPieces[] = {"NEAR(", "\"", "'", "*", "OR ", "AND ", "NOT ", "refund", " ",
                                                 std::string_view("\0", 1),
                                                 "\xF0\x9F\x92\xB3", "\xED\xA0\x80", "^", ":", "?1", "%", "\n", "1.2"};
  for (int i = 0; i < 400; ++i) {
    std::string query;
    for (size_t n = 1 + dice.Below(30); n > 0; --n) query += kPieces[dice.Below(std::size(kPieces))];
    const auto passages = store->Search({}, query, {}, 5);
    ASSERT_TRUE(passages) << query << passages.error().ToString();
    EXPECT_EQ(!passages->empty(), std::ranges::any_of(DocumentTerms(query), [](const std::string& t) {
      return t == "refund" || t == "or" || t == "near";
    })) << query;
  }
  std::string huge = "refund ";
  for (int i = 0; i < 400'000; ++i) huge += fmt::format("w{} ", i);
  EXPECT_EQ(FoundPassages(*store, {}, huge)[0].document, "a");
  EXPECT_TRUE(FoundPassages(*store, {}, std::string(5'000'000, '"')).empty());
  EXPECT_TRUE(FoundPassages(*store, {}, std::string(5'000'000, '1') + ".1.1.1").empty());
}

TEST(DocumentSearchTest, ManyPermissionsAndDocumentsOfManyAudiences) {
  DocumentFolder folder;
  auto store = folder.Index();
  std::vector<Document> documents;
  for (int i = 0; i < 300; ++i) {
    documents.push_back(PublicDocument("d" + std::to_string(i), "The same word."));
    documents.back().permissions = {"p" + std::to_string(i)};
  }
  ASSERT_TRUE(store->AddAll(documents, {}, {}));
  ReadRights rights;
  for (int i = 0; i < 20'000; ++i) rights.permissions.push_back("p" + std::to_string(2 * i));
  EXPECT_EQ(FoundPassages(*store, rights, "word", {}, 1000).size(), 150);
  rights.permissions.push_back("one more");
  EXPECT_FALSE(store->Search(rights, "word", {}, 10));
}

// Replaces the text of a document over and over; each search must see one of the two states, whole.
TEST(DocumentSearchTest, SearchesSeeOneStateWhileAnotherConnectionWrites) {
  DocumentFolder folder;
  auto writer = folder.Index();
  const auto version = [](int n) {
    std::string text;
    for (int i = 0; i < 60; ++i) text += fmt::format("Common word, state{} and part {} of a long text.\n\n", n, i);
    return PublicDocument("moving", text);
  };
  std::set<std::string> snapshots;
  for (const int n : {0, 1}) {
    AddDocumentOk(*writer, version(n), EmbedByText(8));
    snapshots.insert(writer->Snapshot());
  }
  auto reader = folder.Index(true);
  std::atomic<bool> stop = false;
  std::atomic<int> searches = 0, failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      while (!stop) {
        const auto passages = (t == 0 ? *writer : *reader).Search({}, "common word", DirectionOf("q", 8), 100);
        if (!passages || passages->empty()) {
          ++failures;
          continue;
        }
        std::set<bool> states;
        for (const Passage& p : *passages) states.insert(p.text.find("state0") != p.text.npos);
        if (states.size() != 1 || !snapshots.contains(reader->Snapshot())) ++failures;
        ++searches;
      }
    });
  }
  for (int i = 0; i < 25; ++i) {
    const auto added = writer->Add(version(i % 2), EmbedByText(8));
    // Made, though readers who never rest may keep the log from being emptied.
    EXPECT_TRUE(added || added.error().code() == StatusCode::kUnavailable) << added.error().ToString();
  }
  while (searches < 20 && failures == 0) std::this_thread::yield();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(reader->Snapshot(), writer->Snapshot());
}

// A clock that a search looks at, and that moves by itself.
class TickingClock final : public Clock {
 public:
  int64_t NowNanos() const override { return ++looks; }
  int64_t WallNanos() const override { return 0; }
  void SleepNanos(int64_t) override {}
  mutable std::atomic<int64_t> looks = 0;
};

TEST(DocumentSearchTest, ASearchEndsAtItsDeadline) {
  DocumentFolder folder;
  auto store = folder.Index();
  for (int i = 0; i < 100; ++i) {
    std::string text;
    for (int j = 0; j < 40; ++j) text += fmt::format("Common word and part {} of document {}.\n\n", j, i);
    AddDocumentOk(*store, PublicDocument(fmt::format("d{}", i), text));
  }
  ASSERT_TRUE(store->keeps_deadlines());
  const TickingClock clock;
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  const auto whole = store->Retrieve({}, "common word", {}, 5, {&clock, kNever});
  ASSERT_TRUE(whole.has_value());
  const int64_t looks = clock.looks;
  ASSERT_GT(looks, 3);   // else nothing is tested
  EXPECT_EQ(DocumentBytesOf(whole->passages), DocumentBytesOf(*store->Search({}, "common word", {}, 5)));
  clock.looks = 0;
  const auto late = folder.Index(true)->Retrieve({}, "common word", {}, 5, {&clock, looks / 2});
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), StatusCode::kDeadlineExceeded);
  EXPECT_LE(clock.looks, looks / 2 + 1);
  EXPECT_EQ(DocumentBytesOf(whole->passages), DocumentBytesOf(*store->Search({}, "common word", {}, 5)));
}

TEST(DocumentSearchTest, AnIndexThatWasReplacedIsOpenedAgain) {
  DocumentFolder folder;
  AddDocumentOk(*folder.Index(), PublicDocument("a", "Old rule."));
  AddDocumentOk(*folder.Index(false, "new.db"), PublicDocument("a", "New rule."));
  auto reader = folder.Index(true);
  const std::string before = reader->Snapshot();
  EXPECT_EQ(FoundPassages(*reader, {}, "rule")[0].text, "Old rule.");
  for (const char* end : {"-wal", "-shm", ""}) {
    std::filesystem::remove(folder.File(std::string("index.db") + end));
  }
  const auto gone = reader->Search({}, "rule", {}, 3);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), StatusCode::kNotFound);
  const std::string unreadable = reader->Snapshot();
  EXPECT_NE(unreadable, reader->Snapshot());   // no key twice
  EXPECT_EQ(reader->NextBoundary(5), 6);
  std::filesystem::rename(folder.File("new.db"), folder.File("index.db"));
  EXPECT_EQ(FoundPassages(*reader, {}, "rule")[0].text, "New rule.");
  EXPECT_NE(reader->Snapshot(), before);
}

TEST(DocumentSearchTest, WhatIsNoIndexIsRefusedWithAReason) {
  DocumentFolder folder;
  const auto reason = [&](const std::string& path, bool read_only) {
    const auto opened = DocumentStore::Open(path, read_only);
    return opened ? "opened" : opened.error().ToString();
  };
  EXPECT_THAT(reason(folder.File("none.db"), true), HasSubstr("NOT_FOUND"));
  EXPECT_FALSE(std::filesystem::exists(folder.File("none.db")));
  EXPECT_THAT(reason(":memory:", false), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(reason("", false), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_NE(reason(folder.File("."), false), "opened");
  std::ofstream(folder.File("text.db")) << std::string(5000, 'x');
  EXPECT_THAT(reason(folder.File("text.db"), true), HasSubstr("DATA_LOSS"));
  EXPECT_THAT(reason(folder.File("text.db"), false), HasSubstr("DATA_LOSS"));
  std::ofstream(folder.File("empty.db"));
  EXPECT_THAT(reason(folder.File("empty.db"), true), HasSubstr("no document index"));
}

// Every page of the file is damaged in many ways: each call ends with an answer or an error, and whatever text comes is
// the text that was added.
TEST(DocumentSearchTest, DamagedFilesGiveErrorsAndNeverOtherText) {
  DocumentFolder folder;
  std::set<std::string> texts;
  {
    auto store = folder.Index();
    for (int i = 0; i < 12; ++i) {
      Document document = PublicDocument("d" + std::to_string(i), fmt::format("Rule {} about fees, word{}.", i, i));
      if (i % 2 == 0) document.regions = {"US-NY", "EU-DE"};
      AddDocumentOk(*store, document, EmbedByText(8));
      texts.insert(document.text);
    }
  }
  std::ifstream file(folder.File("index.db"), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_GT(good.size(), 16384);
  SearchDice dice(3);
  int errors = 0, answers = 0;
  for (int trial = 0; trial < 250; ++trial) {
    std::string bad = good;
    if (trial % 10 == 0) bad.resize(dice.Below(bad.size()));
    for (size_t n = 1 + dice.Below(trial % 2 == 0 ? 3 : 300); n > 0 && !bad.empty(); --n) {
      bad[dice.Below(bad.size())] = static_cast<char>(dice.Below(256));
    }
    for (const char* end : {"-wal", "-shm"}) std::filesystem::remove(folder.File(std::string("bad.db") + end));
    std::ofstream(folder.File("bad.db"), std::ios::binary) << bad;
    auto store = DocumentStore::Open(folder.File("bad.db"), trial % 3 != 0);
    if (!store) {
      ++errors;
      continue;
    }
    ReadRights rights;
    rights.region = "US-NY";
    const auto passages = (*store)->Search(rights, "fees rule word3", DirectionOf("q", 8), 20);
    (passages ? answers : errors) += 1;
    if (passages) {
      for (const Passage& p : *passages) EXPECT_TRUE(texts.contains(p.text)) << p.text;
    }
    (void)(*store)->List();
    (void)(*store)->Snapshot();
    (void)(*store)->NextBoundary(0);
    if (trial % 3 == 0) {
      (void)(*store)->Add(PublicDocument("d3", "Replaced."), EmbedByText(8));
      (void)(*store)->Remove("d4", "");
    }
  }
  EXPECT_GT(errors, 20);
  EXPECT_GT(answers, 20);
}

}  // namespace
}  // namespace surety::gateway
