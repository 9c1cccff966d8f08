#include "gateway/partition.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "gateway/circumstances.h"
#include "gateway/testing/partition_fixture.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;

// What two requests' circumstances are equal by, said without Canonical: sets as sets, the rest as it stands.
struct PartitionTruth {
  std::array<std::optional<std::string>, kDimensionCount> text;
  std::optional<std::set<std::string>> permissions;
  bool operator==(const PartitionTruth&) const = default;
};

PartitionTruth PartitionTruthOf(const Circumstances& raw) {
  PartitionTruth truth{raw.text, std::nullopt};
  if (raw.permissions) truth.permissions.emplace(raw.permissions->begin(), raw.permissions->end());
  return truth;
}

// Reads tag, length and bytes back. A key that can be decoded to what it was made of cannot have been made of anything
// else.
struct PartitionDecoder {
  std::string_view rest;
  bool ok = true;

  std::string_view Field(uint8_t tag) {
    ok = ok && rest.size() >= 9 && static_cast<uint8_t>(rest[0]) == tag;
    if (!ok) return {};
    uint64_t size = 0;
    for (int i = 1; i <= 8; ++i) size = size * 256 + static_cast<uint8_t>(rest[static_cast<size_t>(i)]);
    rest.remove_prefix(9);
    ok = size <= rest.size();
    if (!ok) return {};
    const std::string_view bytes = rest.substr(0, size);
    rest.remove_prefix(size);
    return bytes;
  }

  PartitionTruth Dimensions() {
    PartitionTruth truth;
    for (size_t i = 0; i < kDimensionCount; ++i) {
      const std::string_view bytes = Field(static_cast<uint8_t>(i + 1));
      if (i != static_cast<size_t>(Dimension::kPermissions)) {
        truth.text[i] = std::string(bytes);
        continue;
      }
      truth.permissions.emplace();
      PartitionDecoder inner{bytes};
      while (inner.ok && !inner.rest.empty()) {
        const auto [at, is_new] = truth.permissions->emplace(inner.Field(1));
        ok = ok && is_new;
      }
      ok = ok && inner.ok;
    }
    return truth;
  }

  AnswerBasis Basis() {
    AnswerBasis basis;
    for (int i = 0; i < kBasisFields; ++i) BasisField(basis, i) = std::string(Field(static_cast<uint8_t>(16 + i)));
    return basis;
  }
};

class PartitionDraw {
 public:
  explicit PartitionDraw(uint64_t seed) : random_(seed) {}

  size_t Below(size_t n) { return random_() % n; }

  // Made of pieces that would confuse a key with separators or with lengths in digits.
  std::string Text() {
    static const std::vector<std::string> kPieces = {"a",  "b",    "A",   ":",      "|",      ",",  ";",  "/",
                                                     "=",  "1",    "2",   "3:abc",  "9",      "\"", "\\", "en",
                                                     "[]", "null", "a b", "\u00e9", "\u0430", "%00"};
    std::string text;
    for (size_t n = 1 + Below(3); n > 0; --n) text += kPieces[Below(kPieces.size())];
    return text;
  }

  std::string Date() {
    static const std::vector<std::string> kDates = {"2026-11-15", "2026-11-16", "2026-01-11", "2025-11-15"};
    return kDates[Below(kDates.size())];
  }

  Circumstances Values() {
    Circumstances c;
    for (auto& text : c.text) text = Text();
    TextOf(c, Dimension::kPermissions).reset();
    TextOf(c, Dimension::kEffectiveDate) = Date();
    c.permissions.emplace();
    for (size_t n = Below(4); n > 0; --n) c.permissions->push_back(Text());
    return c;
  }

  // Close to `c`: of every kind of confusion that a key could fall to.
  Circumstances Near(Circumstances c) {
    static constexpr size_t kTexts[] = {0, 2, 3, 4, 5, 6};  // neither the set nor the date
    std::string& one = *c.text[kTexts[Below(6)]];
    std::string& two = *c.text[kTexts[Below(6)]];
    std::vector<std::string>& set = *c.permissions;
    switch (Below(12)) {
      case 0: std::shuffle(set.begin(), set.end(), random_); break;
      case 1: if (!set.empty()) set.push_back(set[Below(set.size())]); break;
      case 2: std::swap(one, two); break;
      case 3: one = two; break;
      case 4:  // the border between two values moves
        if (&one != &two && one.size() > 1 && one.back() > 0x20 && one[one.size() - 2] != ' ') {
          two.insert(0, 1, one.back());
          one.pop_back();
        }
        break;
      case 5: one = Text(); break;
      case 6: one += Text(); break;  // the old value is a prefix of the new one
      case 7: TextOf(c, Dimension::kEffectiveDate) = Date(); break;
      case 8: if (!set.empty()) { std::swap(one, set[Below(set.size())]); } break;
      case 9:  // two permissions or one with the separator inside
        if (set.size() > 1) {
          set[0] += "," + set.back();
          set.pop_back();
        }
        break;
      case 10: set.push_back(Text()); break;
      default: if (!set.empty()) set.pop_back(); break;
    }
    return c;
  }

 private:
  std::mt19937_64 random_;
};

TEST(PartitionTest, KeysAreEqualExactlyWhereCircumstancesAre) {
  constexpr int kBases = 50'000 / kPartitionDrawsOver, kSiblings = 20;  // 1e6 pairs
  PartitionDraw draw(7);
  int64_t n_equal = 0, n_reordered = 0, n_different = 0;
  for (int b = 0; b < kBases; ++b) {
    const Circumstances base = draw.Values();
    const PartitionTruth truth = PartitionTruthOf(base);
    const Partition partition = PartitionOf(base);
    PartitionDecoder decoder{partition.key()};
    ASSERT_EQ(decoder.Dimensions(), truth);
    ASSERT_TRUE(decoder.ok && decoder.rest.empty());
    Circumstances near = base;
    for (int s = 0; s < kSiblings; ++s) {
      near = draw.Near(s % 3 == 0 ? base : std::move(near));
      const bool same = PartitionTruthOf(near) == truth;
      const Partition other = PartitionOf(near);
      ASSERT_EQ(other.key() == partition.key(), same) << "base " << b << ", sibling " << s;
      ASSERT_EQ(other == partition, same);
      ASSERT_EQ(other.scope() == partition.scope(), same);
      ++(same ? n_equal : n_different);
      n_reordered += same && near.permissions != base.permissions;
    }
  }
  // The controls: the draw made equal pairs, equal ones that are written differently, and different ones.
  EXPECT_GT(n_equal, kBases);
  EXPECT_GT(n_reordered, kBases / 10);
  EXPECT_GT(n_different, kBases);
}

TEST(PartitionTest, AllCombinationsOfSmallValuesHaveKeysOfTheirOwn) {
  const std::vector<std::vector<std::string>> sets = {{}, {"a"}, {"b"}, {"a", "b"}, {"ab"}, {"a,b"}};
  std::set<std::string> keys;
  size_t n = 0;
  for (const auto& set : sets) {
    for (int bits = 0; bits < 729; ++bits) {
      Circumstances c = SomeCircumstances();
      c.permissions = set;
      int rest = bits;
      for (const size_t i : {0, 2, 3, 4, 5, 6}) {
        c.text[i] = std::array{"a", "b", "ab"}[static_cast<size_t>(rest % 3)];
        rest /= 3;
      }
      keys.insert(PartitionOf(c).key());
      ++n;
    }
  }
  EXPECT_EQ(keys.size(), n);
}

TEST(PartitionTest, EachDimensionAloneGivesAnotherPartition) {
  const Partition base = SiblingPartition(-1);
  EXPECT_EQ(base, SiblingPartition(-1));
  EXPECT_EQ(base.Digest(), SiblingPartition(-1).Digest());
  EXPECT_EQ(base.Digest().size(), 64u);
  std::set<std::string> digests = {base.Digest()};
  for (int i = 0; i < kDimensionCount; ++i) {
    EXPECT_NE(base, SiblingPartition(i)) << NameOf(static_cast<Dimension>(i));
    EXPECT_FALSE(base.scope() == SiblingPartition(i).scope());
    digests.insert(SiblingPartition(i).Digest());
  }
  EXPECT_EQ(digests.size(), 9u);
  for (size_t i = 0; i < kDimensionCount; ++i) {  // values change places
    for (size_t j = 0; j < i; ++j) {
      Circumstances c = SomeCircumstances();
      if (!c.text[i] || !c.text[j] || i == static_cast<size_t>(Dimension::kEffectiveDate)) continue;
      std::swap(c.text[i], c.text[j]);
      EXPECT_NE(base, PartitionOf(c)) << i << " and " << j;
    }
  }
}

TEST(PartitionTest, ADimensionWithoutValueMakesNoPartitionAndIsNamed) {
  for (int i = 0; i < kDimensionCount; ++i) {
    Circumstances c = SomeCircumstances();
    c.text[static_cast<size_t>(i)].reset();
    if (i == static_cast<int>(Dimension::kPermissions)) c.permissions.reset();
    const auto canonical = Canonical(c);
    ASSERT_TRUE(canonical.has_value());
    const auto partition = Partition::Make(*canonical);
    ASSERT_FALSE(partition.has_value());
    EXPECT_EQ(partition.error().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(partition.error().message(), HasSubstr(NameOf(static_cast<Dimension>(i))));
  }
  Circumstances two = SomeCircumstances();
  two.text[5].reset();
  two.text[2].reset();
  EXPECT_THAT(Partition::Make(two).error().message(), HasSubstr("'region'"));
}

TEST(PartitionTest, AnEmptySetOfPermissionsIsAValueAndNoneIsNot) {
  Circumstances c = SomeCircumstances();
  c.permissions.emplace();
  const Partition empty = PartitionOf(c);
  EXPECT_NE(empty, SiblingPartition(-1));
  c.permissions.reset();
  EXPECT_FALSE(Partition::Make(c).has_value());
}

TEST(PartitionTest, PermissionsAreASet) {
  Circumstances c = SomeCircumstances();
  c.permissions = {"b", "a,c", "a", "b", "c"};
  const Partition partition = PartitionOf(c);
  std::vector<std::string> order = {"a", "a,c", "b", "c"};
  do {
    c.permissions = order;
    EXPECT_EQ(PartitionOf(c), partition);
    c.permissions->push_back(order[0]);
    EXPECT_EQ(PartitionOf(c), partition);
  } while (std::ranges::next_permutation(order).found);
  for (const std::vector<std::string>& other : std::vector<std::vector<std::string>>{
           {"a", "b", "c"}, {"a,c", "b"}, {"a", "a", "c", "b,c"}, {"a,c", "a", "b,c"}, {"a,a,c,b,c"},
           {"A", "a,c", "b", "c"}}) {
    c.permissions = other;
    EXPECT_NE(PartitionOf(c), partition);
  }
}

// Every dimension, and each permission, refuses `value`.
void ExpectPartitionRefuses(const std::string& value, std::string_view why) {
  for (int i = 0; i < kDimensionCount; ++i) {
    Circumstances c = SomeCircumstances();
    if (i == static_cast<int>(Dimension::kPermissions)) {
      c.permissions->push_back(value);
    } else {
      c.text[static_cast<size_t>(i)] = value;
    }
    const auto canonical = Canonical(c);
    ASSERT_FALSE(canonical.has_value()) << value << " in " << NameOf(static_cast<Dimension>(i));
    EXPECT_EQ(canonical.error().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(canonical.error().message(), HasSubstr(NameOf(static_cast<Dimension>(i))));
    EXPECT_THAT(canonical.error().message(), HasSubstr(why));
  }
}

void ExpectPartitionAccepts(const std::string& value) {
  Circumstances c = SomeCircumstances();
  TextOf(c, Dimension::kProduct) = value;
  c.permissions->push_back(value);
  const auto canonical = Canonical(c);
  ASSERT_TRUE(canonical.has_value()) << canonical.error().message();
  EXPECT_EQ(canonical->text[static_cast<size_t>(Dimension::kProduct)], value);  // as it was: nothing is repaired
  EXPECT_EQ(*Canonical(*canonical), *canonical);
}

TEST(PartitionTest, WhatCannotBeSeenIsRefused) {
  for (const char* hidden :
       {"\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u200e", "\u200f", "\u061c", "\u202a", "\u202b",
        "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u034f", "\ufe0e", "\ufe0f", "\u3164",
        "\u115f", "\u180e", "\U000e0001", "\U000e0061", "\U000e0100", "\u206a"}) {
    ExpectPartitionRefuses(std::string("ab") + hidden + "c", "invisible");
    ExpectPartitionRefuses(std::string("ab") + hidden, "byte 2 is U+");
    ExpectPartitionRefuses(hidden, "byte 0 is U+");
  }
  for (const std::string& control : {std::string(1, '\0'), std::string("\n"), std::string("\t"), std::string("\r"),
                                     std::string("\x1b"), std::string("\x7f"), std::string("\u0085")}) {
    ExpectPartitionRefuses("ab" + control + "c", "control");
    ExpectPartitionRefuses("ab" + control, "control");
  }
  for (const char* line : {"\u2028", "\u2029"}) ExpectPartitionRefuses(std::string("a") + line + "b", "line separator");
  for (const char* unassigned : {"\u0378", "\ufffe", "\uffff", "\U0001fffe", "\U0010ffff", "\ufdd0"}) {
    ExpectPartitionRefuses(std::string("a") + unassigned, "not assigned");
  }
}

TEST(PartitionTest, WhiteSpaceAtTheEndsIsRefusedAndInsideItStays) {
  for (const char* space : {" ", "\u00a0", "\u1680", "\u2003", "\u2009", "\u202f", "\u205f", "\u3000"}) {
    ExpectPartitionRefuses(std::string("ab") + space, "ends with white space");
    ExpectPartitionRefuses(space + std::string("ab"), "begins with white space");
    ExpectPartitionRefuses(space, "white space");
    ExpectPartitionAccepts(std::string("a") + space + "b");
  }
}

TEST(PartitionTest, ValuesHave1To256BytesOfUtf8) {
  ExpectPartitionRefuses("", "empty");
  ExpectPartitionAccepts(std::string(256, 'x'));
  ExpectPartitionRefuses(std::string(257, 'x'), "257 bytes");
  std::string wide;
  for (int i = 0; i < 64; ++i) wide += "\U0001f600";
  ExpectPartitionAccepts(wide);
  ExpectPartitionRefuses(wide + "x", "257 bytes");
  for (const char* bad : {"\xff", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80",
                          "\xe2\x82", "\xf0\x9f\x98", "\xf8\x88\x80\x80\x80"}) {
    ExpectPartitionRefuses(std::string("a") + bad, "byte 1 is not UTF-8");
  }
}

// Expected forms by the Unicode Standard, annex 15, and its tables.
TEST(PartitionTest, ComposedIsTakenDecomposedRefused) {
  const std::vector<std::pair<const char*, const char*>> pairs = {
      {"\u00e9", "e\u0301"},              // a letter with an accent
      {"\u1ea1\u0307", "\u0227\u0323"},   // marks out of order
      {"\u1ea1\u0307", "a\u0307\u0323"},
      {"\uac00", "\u1100\u1161"},         // Hangul
      {"\uac01", "\uac00\u11a8"},
      {"K", "\u212a"},                    // Kelvin, Angstrom and Ohm are other spellings of letters
      {"\u00c5", "\u212b"},
      {"\u03a9", "\u2126"},
      {"\u0915\u093c", "\u0958"},         // excluded from composition
      {"\u3008", "\u2329"},
      {"\u8c48", "\uf900"},
  };
  for (const auto& [composed, other] : pairs) {
    ExpectPartitionAccepts(std::string("a") + composed + "b");
    ExpectPartitionRefuses(std::string("a") + other + "b", "NFC");
    ExpectPartitionRefuses(other, "NFC");
  }
}

TEST(PartitionTest, LookAlikesAreOtherValues) {
  const std::vector<std::vector<std::string>> families = {
      {"a", "\u0430", "\uff41", "\u0251", "A", "\uff21", "\u0391", "\u0410"},  // Latin, Cyrillic, full width, Greek
      {"en", "EN", "En", "e\u0578", "\uff45n"},
      {"o", "0", "O", "\u043e", "\u03bf", "\u0585"},
      {"i", "I", "\u0131", "\u0130", "l", "1", "\u0456"},
      {"ss", "\u00df", "\u1e9e", "SS"},
      {"fi", "\ufb01"},
      {"US-NY", "US\u2010NY", "US\u2011NY", "US\u2013NY", "US\u2212NY", "US_NY", "us-ny"},
      {"a b", "a\u00a0b", "a\u2003b", "a  b", "ab"},
      {"null", "NULL", "None", "nil", "undefined", "*", "-", "0", "false"},
      {"\u00e9", "e", "\u0435"},
  };
  for (const auto& family : families) {
    std::set<std::string> by_text, by_permission;
    for (const std::string& value : family) {
      Circumstances c = SomeCircumstances();
      TextOf(c, Dimension::kLanguage) = value;
      by_text.insert(PartitionOf(c).key());
      c = SomeCircumstances();
      c.permissions->push_back(value);
      by_permission.insert(PartitionOf(c).key());
    }
    EXPECT_EQ(by_text.size(), family.size()) << family[0];
    EXPECT_EQ(by_permission.size(), family.size()) << family[0];
  }
}

TEST(PartitionTest, DatesAreThoseOfTheCalendar) {
  const auto accepted = [](const std::string& date) {
    Circumstances c = SomeCircumstances();
    TextOf(c, Dimension::kEffectiveDate) = date;
    return Canonical(c).has_value();
  };
  for (const int year : {1, 1900, 1999, 2000, 2024, 2026, 2100, 2400, 9999}) {
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    const std::array days = {31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    for (int month = 0; month <= 99; month = month == 13 ? 99 : month + 1) {
      for (int day = 0; day <= 32; ++day) {
        const bool exists = month >= 1 && month <= 12 && day >= 1 && day <= days[static_cast<size_t>(month - 1)];
        char date[32];
        std::snprintf(date, sizeof(date), "%04d-%02d-%02d", year, month, day);
        ASSERT_EQ(accepted(date), exists) << date;
      }
    }
  }
  EXPECT_FALSE(accepted("2026-02-30"));
  EXPECT_FALSE(accepted("0000-01-01"));
  for (const char* form : {"2026-2-3", "20260203", "2026/02/03", "2026-02-03T00:00:00Z", "03-02-2026", "+026-02-03",
                           "2026-02-3 ", " 2026-02-3", "today", "12026-02-03", "\uff12026-02-03", "2026-0a-03"}) {
    EXPECT_FALSE(accepted(form)) << form;
  }
}

TEST(PartitionTest, PermissionsAsATextAreRefused) {
  Circumstances c = SomeCircumstances();
  TextOf(c, Dimension::kPermissions) = "balances.read";
  EXPECT_THAT(Canonical(c).error().message(), HasSubstr("'permissions'"));
}

TEST(PartitionTest, WhatIsNotCanonicalIsABug) {
  Circumstances unsorted = SomeCircumstances(), hidden = unsorted;
  std::ranges::reverse(*unsorted.permissions);
  TextOf(hidden, Dimension::kTenant) = "bank\u200b";
  EXPECT_DEATH((void)Partition::Make(unsorted), "no sorted set");
  EXPECT_DEATH((void)Partition::Make(hidden), "invisible");
}

TEST(AnswerKeyTest, EachFieldAloneGivesAnotherKey) {
  const Partition partition = SiblingPartition(-1);
  const std::string base = AnswerKey(partition, SomeBasis(), "question");
  EXPECT_EQ(base, AnswerKey(SiblingPartition(-1), SomeBasis(), "question"));
  std::set<std::string> answers = {base}, neighbourhoods = {NeighbourhoodKey(partition, SomeBasis())};
  for (int i = 0; i < kBasisFields; ++i) {
    for (const char* value : {"", "other"}) {
      AnswerBasis basis = SomeBasis();
      BasisField(basis, i) = value;
      answers.insert(AnswerKey(partition, basis, "question"));
      neighbourhoods.insert(NeighbourhoodKey(partition, basis));
    }
    for (int j = 0; j < i; ++j) {
      AnswerBasis basis = SomeBasis();
      std::swap(BasisField(basis, i), BasisField(basis, j));
      answers.insert(AnswerKey(partition, basis, "question"));
      neighbourhoods.insert(NeighbourhoodKey(partition, basis));
    }
  }
  for (int i = 0; i < kDimensionCount; ++i) {
    answers.insert(AnswerKey(SiblingPartition(i), SomeBasis(), "question"));
    neighbourhoods.insert(NeighbourhoodKey(SiblingPartition(i), SomeBasis()));
  }
  EXPECT_EQ(answers.size(), 1u + 26 + 78 + 8);
  EXPECT_EQ(neighbourhoods.size(), 1u + 26 + 78 + 8);
  for (const char* question : {"Question", "question ", "", "question?"}) {
    EXPECT_TRUE(answers.insert(AnswerKey(partition, SomeBasis(), question)).second);
  }
}

TEST(AnswerKeyTest, KeysAreDecodedToWhatTheyWereMadeOf) {
  PartitionDraw draw(11);
  for (int n = 0; n < 20'000 / kPartitionDrawsOver; ++n) {
    const Circumstances c = draw.Values();
    AnswerBasis basis;
    for (int i = 0; i < kBasisFields; ++i) {
      if (draw.Below(3) > 0) BasisField(basis, i) = draw.Text();
    }
    if (draw.Below(4) == 0) {  // a whole key inside a field
      const std::string inner = AnswerKey(PartitionOf(c), basis, draw.Text());
      BasisField(basis, static_cast<int>(draw.Below(kBasisFields))) = inner;
    }
    const std::string question = draw.Below(5) == 0 ? "" : draw.Text();
    const std::string key = AnswerKey(PartitionOf(c), basis, question);
    PartitionDecoder decoder{key};
    ASSERT_EQ(decoder.Dimensions(), PartitionTruthOf(c));
    AnswerBasis decoded = decoder.Basis();
    for (int i = 0; i < kBasisFields; ++i) ASSERT_EQ(BasisField(decoded, i), BasisField(basis, i));
    ASSERT_EQ(key.size() - decoder.rest.size(), NeighbourhoodKey(PartitionOf(c), basis).size());
    ASSERT_EQ(decoder.Field(64), question);
    ASSERT_TRUE(decoder.ok && decoder.rest.empty());
  }
}

TEST(CircumstancesTest, AnInstantIsThatOfTheSystemsCalendar) {
  for (uint64_t n = 0; n < 5000; ++n) {
    const RandomKey key{.seed = 4, .position = n, .purpose = RandomPurpose::kTest};
    int64_t instant_ns = static_cast<int64_t>(RandomBits(key));
    if (n == 0) instant_ns = std::numeric_limits<int64_t>::max();
    if (n == 1) instant_ns = 0;
    if (n == 2) instant_ns = -1;
    const time_t seconds = instant_ns / 1'000'000'000 - (instant_ns % 1'000'000'000 < 0);
    tm parts = {};
    gmtime_r(&seconds, &parts);
    char text[40];
    ASSERT_GT(strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts), 0u);
    ASSERT_EQ(UtcInstant(instant_ns), text);
    ASSERT_EQ(UtcDate(instant_ns), std::string(text).substr(0, 10));
  }
}

}  // namespace
}  // namespace surety::gateway
