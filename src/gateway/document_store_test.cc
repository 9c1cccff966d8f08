// The document store: who finds what, and when; changes and boundaries.
#include "gateway/document_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/document_index.h"
#include "gateway/document_text.h"
#include "gateway/testing/document_fixture.h"

namespace surety::gateway {
namespace {

using testing::HasSubstr;

constexpr int kStoreDimensions = 16;

// A document that needs every right, and a caller who has them all.
Document GuardedDocument(const std::string& id, const std::string& text) {
  Document document = PublicDocument(id, text);
  document.permissions = {"claims", "cases"};
  document.tenant = "north";
  document.regions = {"US-NY", "US-CA"};
  document.products = {"card"};
  document.languages = {"en"};
  document.validity = {1000, 2000};
  return document;
}

ReadRights FullReadRights() {
  return {.tenant = "north", .permissions = {"cases"}, .region = "US-NY", .product = "card", .language = "en",
          .as_of_ns = 1500};
}

struct RightCase {
  std::string name;
  std::function<void(ReadRights&)> change;
  bool reads;
};

std::vector<RightCase> RightCases() {
  return {
      {"all of them", [](ReadRights&) {}, true},
      {"another permission of the list", [](ReadRights& r) { r.permissions = {"x", "claims"}; }, true},
      {"another region of the list", [](ReadRights& r) { r.region = "US-CA"; }, true},
      {"first instant", [](ReadRights& r) { r.as_of_ns = 1000; }, true},
      {"last instant", [](ReadRights& r) { r.as_of_ns = 1999; }, true},
      {"other tenant", [](ReadRights& r) { r.tenant = "south"; }, false},
      {"no tenant", [](ReadRights& r) { r.tenant = ""; }, false},
      {"tenant in other case", [](ReadRights& r) { r.tenant = "North"; }, false},
      {"other permission", [](ReadRights& r) { r.permissions = {"case"}; }, false},
      {"no permission", [](ReadRights& r) { r.permissions = {}; }, false},
      {"an empty permission", [](ReadRights& r) { r.permissions = {""}; }, false},
      {"a permission that ends early", [](ReadRights& r) { r.permissions = {std::string("cases\0x", 7)}; }, false},
      {"a permission that is a pattern", [](ReadRights& r) { r.permissions = {"%", "*", "case_"}; }, false},
      {"a permission that is SQL", [](ReadRights& r) { r.permissions = {"') OR 1=1 --"}; }, false},
      {"the word public", [](ReadRights& r) { r.permissions = {"public"}; }, false},
      {"other region", [](ReadRights& r) { r.region = "EU-DE"; }, false},
      {"no region", [](ReadRights& r) { r.region = ""; }, false},
      {"other product", [](ReadRights& r) { r.product = "loan"; }, false},
      {"no product", [](ReadRights& r) { r.product = ""; }, false},
      {"other language", [](ReadRights& r) { r.language = "es"; }, false},
      {"no language", [](ReadRights& r) { r.language = ""; }, false},
      {"values of one another", [](ReadRights& r) { std::swap(r.region, r.product); }, false},
      {"a region for a permission", [](ReadRights& r) { r.permissions = {"US-NY", "card", "en", "north"}; }, false},
      {"a permission for a language", [](ReadRights& r) { r.language = "cases"; }, false},
      {"before it is valid", [](ReadRights& r) { r.as_of_ns = 999; }, false},
      {"the instant it ends", [](ReadRights& r) { r.as_of_ns = 2000; }, false},
      {"long after", [](ReadRights& r) { r.as_of_ns = std::numeric_limits<int64_t>::max(); }, false},
      {"long before", [](ReadRights& r) { r.as_of_ns = std::numeric_limits<int64_t>::min(); }, false},
  };
}

TEST(DocumentRightsTest, EachRightAloneHidesAndShows) {
  DocumentFolder folder;
  auto store = folder.Index();
  AddDocumentOk(*store, GuardedDocument("guarded", "Chargeback windows for disputed fees."),
                EmbedByText(kStoreDimensions));
  const std::vector<float> vector = DirectionOf("anything", kStoreDimensions);
  for (const RightCase& right : RightCases()) {
    ReadRights rights = FullReadRights();
    right.change(rights);
    const size_t n = right.reads ? 1 : 0;
    EXPECT_EQ(FoundPassages(*store, rights, "disputed fees").size(), n) << right.name << ", by text";
    EXPECT_EQ(FoundPassages(*store, rights, "", vector).size(), n) << right.name << ", by vector";
    EXPECT_EQ(FoundPassages(*store, rights, "disputed fees", vector).size(), n) << right.name << ", by both";
  }
}

TEST(DocumentRightsTest, AbsentListsAreForAllAndPublicIsForEveryone) {
  DocumentFolder folder;
  auto store = folder.Index();
  AddDocumentOk(*store, PublicDocument("open", "Opening hours of branches."));
  ReadRights rights = FullReadRights();
  ASSERT_EQ(FoundPassages(*store, rights, "hours").size(), 1);
  EXPECT_TRUE(FoundPassages(*store, rights, "hours")[0].is_public);
  ASSERT_EQ(FoundPassages(*store, {}, "hours").size(), 1);
  // Of one tenant, public there: readable by all of it, but not public.
  Document ours = PublicDocument("ours", "Opening hours of our branches.");
  ours.tenant = "north";
  AddDocumentOk(*store, ours);
  EXPECT_EQ(FoundPassages(*store, {}, "hours").size(), 1);
  ReadRights north;
  north.tenant = "north";
  const auto both = FoundPassages(*store, north, "hours");
  ASSERT_EQ(both.size(), 2);
  for (const Passage& passage : both) EXPECT_EQ(passage.is_public, passage.document == "open");
}

TEST(DocumentRightsTest, NothingIsRelaxedWhenNothingIsFound) {
  DocumentFolder folder;
  auto store = folder.Index();
  AddDocumentOk(*store, GuardedDocument("guarded", "The only text about penguins."), EmbedByText(kStoreDimensions));
  ReadRights rights = FullReadRights();
  EXPECT_EQ(FoundPassages(*store, rights, "penguins", {}, 1000).size(), 1);
  rights.product = "loan";
  EXPECT_TRUE(FoundPassages(*store, rights, "penguins", DirectionOf("x", kStoreDimensions), 1000).empty());
  EXPECT_TRUE(FoundPassages(*store, FullReadRights(), "walruses", {}, 1000).empty());
}

// Documents of words that all queries of the test hold, each unreadable for the caller for one reason alone.
std::vector<Document> PlantedDocuments() {
  std::vector<Document> planted;
  const std::string text = "Fees fees fees: disputed refunds, chargeback, interest and notice, over and over. Fees!";
  for (int i = 0; i < 6; ++i) {
    Document document = GuardedDocument("planted-" + std::to_string(i), text);
    document.title = "Fees";
    switch (i) {
      case 0: document.tenant = "south"; break;
      case 1: document.permissions = {"sar"}; break;
      case 2: document.regions = {"EU-DE"}; break;
      case 3: document.products = {"loan"}; break;
      case 4: document.languages = {"es"}; break;
      default: document.validity = {1501, 1502}; break;
    }
    planted.push_back(std::move(document));
  }
  return planted;
}

std::string AllDocumentAnswers(DocumentStore& store) {
  std::string out;
  for (const char* query : {"fees", "disputed refund", "interest notice chargeback", "over", "nothing of this", ""}) {
    if (*query != '\0') out += DocumentBytesOf(FoundPassages(store, FullReadRights(), query));
    for (const int top_k : {1, 3, 50}) {
      out += fmt::format("|{}|", top_k);
      const std::vector<float> vector = DirectionOf(query, kStoreDimensions);
      out += DocumentBytesOf(FoundPassages(store, FullReadRights(), query, vector, top_k));
    }
  }
  return out;
}

TEST(DocumentRightsTest, TextInUnreadableDocumentsChangesNoBitOfAnAnswer) {
  DocumentFolder folder;
  const EmbedTexts embed = EmbedByText(kStoreDimensions);
  auto store = folder.Index();
  AddDocumentOk(*store, GuardedDocument("a", "Disputed fees are refunded in ten days. Interest is not."), embed);
  AddDocumentOk(*store, GuardedDocument("b", "A notice of fees comes over the post."), embed);
  AddDocumentOk(*store, PublicDocument("c", "Chargeback of refunds, over disputed interest."), embed);
  AddDocumentOk(*store, PublicDocument("d", "Chargeback of refunds, over disputed interest."), embed);   // a tie
  const std::string before = AllDocumentAnswers(*store);
  for (const Document& document : PlantedDocuments()) {
    AddDocumentOk(*store, document, embed);
    EXPECT_EQ(AllDocumentAnswers(*store), before) << document.id;
  }
  // A tie's order is not that of the rows either.
  AddDocumentOk(*store, PublicDocument("c", "Chargeback of refunds, over disputed interest."), embed);
  EXPECT_EQ(AllDocumentAnswers(*store), before);
  // Positive control: once readable, each of them changes the answers.
  for (Document document : PlantedDocuments()) {
    const std::string without = AllDocumentAnswers(*store);
    Document readable = GuardedDocument(document.id, document.text);
    readable.title = document.title;
    const auto removed = store->Remove(document.id, "");
    ASSERT_TRUE(removed && *removed == 1);
    AddDocumentOk(*store, readable, embed);
    EXPECT_NE(AllDocumentAnswers(*store), without) << document.id;
  }
}

TEST(DocumentStoreTest, WithoutAnAccessListADocumentIsRefused) {
  DocumentFolder folder;
  auto store = folder.Index();
  Document document = PublicDocument("fees", "Fees.");
  document.permissions.clear();
  const auto added = store->Add(document, {});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(added.error().message(), HasSubstr("document 'fees': permissions"));
  EXPECT_TRUE(store->List()->empty());
}

TEST(DocumentStoreTest, WhatCanNotBeCitedOrComparedIsRefused) {
  DocumentFolder folder;
  auto store = folder.Index();
  const auto refused = [&](const std::function<void(Document&)>& change, const std::string& what) {
    Document document = PublicDocument("fees", "Fees.");
    change(document);
    const auto added = store->Add(document, {});
    ASSERT_FALSE(added) << what;
    EXPECT_EQ(added.error().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(added.error().message(), HasSubstr(what));
  };
  refused([](Document& d) { d.id = "Fee schedule [2026]"; }, "such as 'Fee-schedule-2026'");
  refused([](Document& d) { d.id = "a:b@c"; }, "such as 'a-b-c'");
  refused([](Document& d) { d.id = ""; }, "id: ''");
  refused([](Document& d) { d.id = "-a"; }, "such as 'a'");
  refused([](Document& d) { d.version = "1 "; }, "version");
  refused([](Document& d) { d.id = std::string(129, 'a'); }, "128");
  refused([](Document& d) { d.permissions = {""}; }, "permissions: '' is empty");
  refused([](Document& d) { d.permissions = {"cases "}; }, "white space");
  refused([](Document& d) { d.permissions = {" cases"}; }, "white space");
  refused([](Document& d) { d.permissions = {"ca\xE2\x80\x8Bses"}; }, "does not show");
  refused([](Document& d) { d.regions = {"Cafe\xCC\x81"}; }, "NFC");
  refused([](Document& d) { d.tenant = "a\nb"; }, "does not show");
  refused([](Document& d) { d.validity = {5, 5}; }, "validity");
  refused([](Document& d) { d.text = " \n\t"; }, "text: there is none");
  refused([](Document& d) { d.text = "a\xFFz"; }, "byte 1");
  refused([](Document& d) { d.text = std::string("a\0z", 3); }, "byte 1 is NUL");
  Document good = PublicDocument("Reg-B_1002.9", "Fees.");
  good.permissions = {"two words", "Caf\xC3\xA9"};
  AddDocumentOk(*store, good);
}

TEST(DocumentStoreTest, OverlappingVersionsAreRefusedWithBothNamed) {
  DocumentFolder folder;
  auto store = folder.Index();
  Document first = PublicDocument("fees", "Old fees.");
  first.validity.to_ns = *ParseDocumentInstant("2026-11-15");
  AddDocumentOk(*store, first);
  Document second = PublicDocument("fees", "New fees.");
  second.version = "2";
  second.validity.from_ns = first.validity.to_ns - 1;
  const auto refused = store->Add(second, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(refused.error().message(), HasSubstr("version '2'"));
  EXPECT_THAT(refused.error().message(), HasSubstr("version '1'"));
  EXPECT_THAT(refused.error().message(), HasSubstr("2026-11-15"));
  second.validity.from_ns = first.validity.to_ns;
  AddDocumentOk(*store, second);
  // A change of both at once, in either order.
  first.validity.to_ns += 10;
  second.validity.from_ns += 10;
  EXPECT_FALSE(store->Add(first, {}));
  for (const bool reversed : {false, true}) {
    const std::vector<Document> both = reversed ? std::vector{second, first} : std::vector{first, second};
    const auto changed = store->AddAll(both, {}, {});
    EXPECT_TRUE(changed) << changed.error().ToString();
  }
  const std::vector<Document> twice = {first, first};
  const auto same = store->AddAll(twice, {}, {});
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().code(), StatusCode::kAlreadyExists);
}

TEST(DocumentStoreTest, SupersededAtAnInstantGivesOneVersionBeforeAndTheOtherFromThere) {
  DocumentFolder folder;
  auto store = folder.Index();
  const int64_t midnight = *ParseDocumentInstant("2026-11-15T00:00:00-05:00");
  Document first = PublicDocument("fees", "The fee is 25 dollars."), second = PublicDocument("fees", "The fee is 30.");
  first.validity.to_ns = midnight;
  second.version = "2";
  second.validity.from_ns = midnight;
  AddDocumentOk(*store, first);
  AddDocumentOk(*store, second);
  const auto version_at = [&](const std::string& instant) {
    ReadRights rights;
    rights.as_of_ns = *ParseDocumentInstant(instant);
    const auto passages = FoundPassages(*store, rights, "fee");
    return passages.size() == 1 ? passages[0].version : fmt::format("{} passages", passages.size());
  };
  EXPECT_EQ(version_at("2026-11-14T23:59:59.999999999-05:00"), "1");
  EXPECT_EQ(version_at("2026-11-15T00:00:00-05:00"), "2");
  EXPECT_EQ(version_at("2026-11-15T05:00:00Z"), "2");
  EXPECT_EQ(store->NextBoundary(midnight - 1), midnight);
  EXPECT_EQ(store->NextBoundary(midnight), std::nullopt);
}

TEST(DocumentStoreTest, NextBoundaryIsTheFirstOneAfter) {
  DocumentFolder folder;
  auto store = folder.Index();
  EXPECT_EQ(store->NextBoundary(0), std::nullopt);
  std::set<int64_t> boundaries;
  for (int i = 0; i < 20; ++i) {
    Document document = PublicDocument("d" + std::to_string(i), "Text.");
    if (i % 3 != 0) document.validity.from_ns = i * 100;
    if (i % 4 != 0) document.validity.to_ns = 3000 + i * 70;
    if (i % 3 != 0) boundaries.insert(document.validity.from_ns);
    if (i % 4 != 0) boundaries.insert(document.validity.to_ns);
    AddDocumentOk(*store, document);
  }
  for (int64_t t = -10; t < 5000; t += 5) {
    const auto next = boundaries.upper_bound(t);
    EXPECT_EQ(store->NextBoundary(t), next == boundaries.end() ? std::nullopt : std::optional(*next)) << t;
  }
}

TEST(DocumentStoreTest, AnotherTenantsDocumentIsNeverReplaced) {
  DocumentFolder folder;
  auto store = folder.Index();
  Document north = PublicDocument("fees", "Fees of north.");
  north.tenant = "north";
  AddDocumentOk(*store, north);
  for (const char* tenant : {"south", ""}) {
    Document other = PublicDocument("fees", "Fees of another.");
    other.tenant = tenant;
    for (const char* version : {"1", "2"}) {
      other.version = version;
      const auto added = store->Add(other, {});
      ASSERT_FALSE(added);
      EXPECT_EQ(added.error().code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(added.error().message(), HasSubstr("tenant"));
    }
  }
  ReadRights rights;
  rights.tenant = "north";
  EXPECT_EQ(FoundPassages(*store, rights, "fees")[0].text, "Fees of north.");
}

TEST(DocumentStoreTest, ReplacingAndRemovingLeaveNothingBehind) {
  DocumentFolder folder;
  auto store = folder.Index();
  const EmbedTexts embed = EmbedByText(kStoreDimensions);
  const std::string empty = store->Snapshot();
  Document secret = PublicDocument("letter", "Zanzibar mandate, quixotic.");
  AddDocumentOk(*store, secret, embed);
  secret.text = "Something else.";
  AddDocumentOk(*store, secret, embed);
  EXPECT_TRUE(FoundPassages(*store, {}, "zanzibar quixotic").empty());
  EXPECT_EQ(FoundPassages(*store, {}, "something").size(), 1);
  const auto removed = store->Remove("letter", "2");
  ASSERT_TRUE(removed);
  EXPECT_EQ(*removed, 0);
  ASSERT_TRUE(store->Remove("letter", "1"));
  EXPECT_TRUE(store->List()->empty());
  EXPECT_EQ(store->Snapshot(), empty);
  const auto summary = store->Summary();
  EXPECT_EQ(summary->documents + summary->chunks + summary->vectors, 0);
  store.reset();
  for (const char* name : {"index.db", "index.db-wal"}) {
    std::ifstream file(folder.File(name), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    for (const char* word : {"anzibar", "quixotic", "omething"}) {
      EXPECT_EQ(bytes.find(word), bytes.npos) << name << ": " << word;
    }
  }
}

// A reader holds the write-ahead log, in which what was removed or replaced still stands.
TEST(DocumentStoreTest, OldBytesThatAReaderKeepsAreReported) {
  for (const bool replaces : {false, true}) {
    const DocumentFolder folder;
    const auto index = folder.Index();
    ASSERT_TRUE(index->Add(PublicDocument("a", "MARKER-26 is the text"), {}));
    sqlite3* reader = nullptr;
    ASSERT_EQ(sqlite3_open(folder.File("index.db").c_str(), &reader), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM document", nullptr, nullptr, nullptr), SQLITE_OK);
    const auto change = [&] {
      return replaces ? index->Add(PublicDocument("a", "another text"), {}) : index->Remove("a", "1");
    };
    const auto blocked = change();
    ASSERT_FALSE(blocked);
    EXPECT_EQ(blocked.error().code(), StatusCode::kUnavailable) << blocked.error().message();
    EXPECT_NE(folder.Bytes().find("MARKER-26"), std::string::npos);
    ASSERT_EQ(sqlite3_exec(reader, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(reader);
    ASSERT_TRUE(change());
    EXPECT_EQ(folder.Bytes().find("MARKER-26"), std::string::npos);
  }
}

// Closing a second descriptor of a file drops all POSIX locks that the process has on it.
TEST(DocumentStoreTest, OpeningForWritingKeepsTheLocksOfThisProcess) {
  const DocumentFolder folder;
  const auto index = folder.Index();
  ASSERT_TRUE(index->Add(PublicDocument("a", "text"), {}));
  const auto locked = [&] {  // by another process's eyes
    const pid_t child = fork();
    if (child == 0) {
      const int fd = open(folder.File("index.db").c_str(), O_RDWR | O_CLOEXEC);
      struct flock lock {};
      lock.l_type = F_WRLCK;
      lock.l_whence = SEEK_SET;
      _exit(fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
  };
  sqlite3* writer = nullptr;
  ASSERT_EQ(sqlite3_open(folder.File("index.db").c_str(), &writer), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(writer, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  ASSERT_TRUE(locked());
  const auto second = folder.Index();
  EXPECT_TRUE(locked());
  sqlite3_exec(writer, "ROLLBACK", nullptr, nullptr, nullptr);
  sqlite3_close(writer);
}

TEST(DocumentStoreTest, SnapshotIsOfTheContent) {
  DocumentFolder folder;
  const EmbedTexts embed = EmbedByText(kStoreDimensions);
  auto store = folder.Index();
  std::set<std::string> seen = {store->Snapshot()};
  const Document one = GuardedDocument("one", "First text."), two = PublicDocument("two", "Second text.");
  AddDocumentOk(*store, one, embed);
  EXPECT_TRUE(seen.insert(store->Snapshot()).second);
  const std::string with_one = store->Snapshot();
  AddDocumentOk(*store, two, embed);
  EXPECT_TRUE(seen.insert(store->Snapshot()).second);
  const std::string with_both = store->Snapshot();
  const std::vector<std::function<void(Document&)>> changes = {
      [](Document& d) { d.text += "!"; }, [](Document& d) { d.title = "T"; }, [](Document& d) { d.source = "s"; },
      [](Document& d) { d.permissions = {"cases"}; }, [](Document& d) { d.regions = {}; },
      [](Document& d) { d.products = {"loan"}; }, [](Document& d) { d.languages.push_back("es"); },
      [](Document& d) { d.validity.from_ns = 999; }, [](Document& d) { d.validity.to_ns = 2001; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    Document changed = one;
    changes[i](changed);
    AddDocumentOk(*store, changed, embed);
    EXPECT_TRUE(seen.insert(store->Snapshot()).second) << i;
    AddDocumentOk(*store, one, embed);
    EXPECT_EQ(store->Snapshot(), with_both) << i;
  }
  AddDocumentOk(*store, one, {});   // its vectors are gone
  EXPECT_TRUE(seen.insert(store->Snapshot()).second);
  AddDocumentOk(*store, one, embed);
  // Another file, another order, opened again.
  store = folder.Index(false, "other.db");
  AddDocumentOk(*store, two, embed);
  EXPECT_NE(store->Snapshot(), with_one);
  AddDocumentOk(*store, one, embed);
  store.reset();
  EXPECT_EQ(folder.Index(true, "other.db")->Snapshot(), with_both);
}

TEST(DocumentStoreTest, WhatWasAddedIsThereAfterOpeningAgain) {
  DocumentFolder folder;
  const Document guarded = GuardedDocument("guarded", "Chargeback windows. Second sentence of it.");
  const std::vector<float> vector = DirectionOf("q", kStoreDimensions);
  std::string before;
  {
    auto store = folder.Index();
    AddDocumentOk(*store, guarded, EmbedByText(kStoreDimensions));
    before = DocumentBytesOf(FoundPassages(*store, FullReadRights(), "chargeback", vector));
  }
  ASSERT_FALSE(before.empty());
  for (const bool read_only : {true, false}) {
    auto store = folder.Index(read_only);
    EXPECT_EQ(DocumentBytesOf(FoundPassages(*store, FullReadRights(), "chargeback", vector)), before);
    const auto listed = store->List();
    ASSERT_TRUE(listed && listed->size() == 1);
    const Document& document = (*listed)[0];
    EXPECT_EQ(document.id, guarded.id);
    EXPECT_EQ(document.permissions, (std::vector<std::string>{"cases", "claims"}));
    EXPECT_EQ(document.regions, (std::vector<std::string>{"US-CA", "US-NY"}));
    EXPECT_EQ(document.products, guarded.products);
    EXPECT_EQ(document.languages, guarded.languages);
    EXPECT_EQ(document.validity, guarded.validity);
    EXPECT_EQ(document.tenant, guarded.tenant);
    EXPECT_EQ(document.text, "");
    const auto added = store->Add(PublicDocument("x", "X."), {});
    EXPECT_EQ(added.has_value(), !read_only);
    if (!added) {
      EXPECT_EQ(added.error().code(), StatusCode::kFailedPrecondition);
    }
  }
}

TEST(DocumentStoreTest, AFailureHalfwayChangesNothing) {
  DocumentFolder folder;
  auto store = folder.Index();
  AddDocumentOk(*store, PublicDocument("there", "Already there."));
  const std::string before = store->Snapshot();
  std::vector<Document> documents;
  for (int i = 0; i < 5; ++i) documents.push_back(PublicDocument("d" + std::to_string(i), "Text."));
  documents.push_back(PublicDocument("there", "Replaced."));
  for (const auto stage : {AddDocumentsOptions::Stage::kEmbedding, AddDocumentsOptions::Stage::kWriting}) {
    AddDocumentsOptions options;
    options.progress = [&](AddDocumentsOptions::Stage now, int64_t done, int64_t) {
      return now == stage && done > 2 ? CancelledError("interrupted") : OkStatus();
    };
    const auto added = store->AddAll(documents, EmbedByText(4), options);
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code(), StatusCode::kCancelled);
    EXPECT_EQ(store->Snapshot(), before);
    EXPECT_EQ(FoundPassages(*store, {}, "already").size(), 1);
  }
  const auto added = store->AddAll(documents, EmbedByText(4), {});
  ASSERT_TRUE(added);
  EXPECT_EQ(*added, 6);
}

TEST(DocumentStoreTest, VectorsOfAnIndexHaveOneLengthAndADirection) {
  DocumentFolder folder;
  auto store = folder.Index();
  AddDocumentOk(*store, PublicDocument("a", "Text."), EmbedByText(8));
  const auto other = store->Add(PublicDocument("b", "Text."), EmbedByText(9));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(), HasSubstr("9 dimensions, the others have 8"));
  for (const float bad : {0.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const EmbedTexts embed = [&](std::span<const std::string> texts) -> Result<std::vector<std::vector<float>>> {
      return std::vector<std::vector<float>>(texts.size(), std::vector<float>(8, bad));
    };
    EXPECT_FALSE(store->Add(PublicDocument("b", "Text."), embed)) << bad;
    EXPECT_FALSE(store->Search({}, "", std::vector<float>(8, bad), 3)) << bad;
  }
  const auto search = store->Search({}, "", DirectionOf("q", 9), 3);
  ASSERT_FALSE(search);
  EXPECT_EQ(search.error().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(store->Search({}, "", {}, 3));
  EXPECT_FALSE(store->Search({}, "text", {}, 0));
  EXPECT_FALSE(store->Search({}, "text", {}, 1001));
}

}  // namespace
}  // namespace surety::gateway
