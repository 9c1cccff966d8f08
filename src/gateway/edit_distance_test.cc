#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "base/random.h"
#include "gateway/review_store.h"

namespace surety::gateway {
namespace {

// The recurrence, cell by cell, over code points of text that is known to be valid.
double PlainDistance(const std::u32string& a, const std::u32string& b) {
  if (a.empty() && b.empty()) return 0;
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return static_cast<double>(row.back()) / static_cast<double>(std::max(a.size(), b.size()));
}

std::string DistanceUtf8(const std::u32string& text) {
  std::string out;
  for (const char32_t c : text) {
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += {static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 63))};
    } else if (c < 0x10000) {
      out += {static_cast<char>(0xE0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 63)),
              static_cast<char>(0x80 | (c & 63))};
    } else {
      out += {static_cast<char>(0xF0 | (c >> 18)), static_cast<char>(0x80 | ((c >> 12) & 63)),
              static_cast<char>(0x80 | ((c >> 6) & 63)), static_cast<char>(0x80 | (c & 63))};
    }
  }
  return out;
}

TEST(EditDistanceTest, KnownValues) {
  EXPECT_EQ(NormalisedEditDistance("", ""), 0);
  EXPECT_EQ(NormalisedEditDistance("", "abc"), 1);
  EXPECT_EQ(NormalisedEditDistance("kitten", "sitting"), 3.0 / 7);
  EXPECT_EQ(NormalisedEditDistance("Gr\xc3\xbc\xc3\x9f""e", "Gruse"), 2.0 / 5);  // characters, not bytes
  EXPECT_EQ(NormalisedEditDistance("\xff", "\xc3\xbf"), 1);                      // a stray byte is not that code point
  EXPECT_EQ(NormalisedEditDistance("a\xff", "b\xff"), 0.5);
}

TEST(EditDistanceTest, AgreesWithTheRecurrence) {
  uint64_t draw = 0;
  const auto random = [&](uint64_t below) { return RandomBits({11, draw++, RandomPurpose::kTest, 0}) % below; };
  const std::u32string alphabet = U"abcd \u00fc\u20ac\U0001F600";
  for (int round = 0; round < 600; ++round) {
    const size_t n_letters = 1 + random(alphabet.size());
    std::u32string a(random(200), U'a'), b;
    for (char32_t& c : a) c = alphabet[random(n_letters)];
    if (random(2) == 0) {  // an edited copy, or a text of its own
      b = a;
      for (uint64_t edits = random(20); edits > 0; --edits) {
        const size_t at = random(b.size() + 1);
        const uint64_t kind = random(3);
        if (kind == 0) b.insert(b.begin() + static_cast<ptrdiff_t>(at), alphabet[random(n_letters)]);
        if (kind == 1 && at < b.size()) b.erase(at, 1 + random(5));
        if (kind == 2 && at < b.size()) b[at] = alphabet[random(n_letters)];
      }
    } else {
      b.resize(random(200));
      for (char32_t& c : b) c = alphabet[random(n_letters)];
    }
    ASSERT_EQ(NormalisedEditDistance(DistanceUtf8(a), DistanceUtf8(b)), PlainDistance(a, b)) << "round " << round;
  }
}

TEST(EditDistanceTest, EveryLengthAroundAWord) {
  for (size_t n = 60; n <= 70; ++n) {
    for (size_t m = 60; m <= 130; m += 5) {
      std::u32string a, b;
      for (size_t i = 0; i < n; ++i) a += U"xyzw"[i * 7 % 4];
      for (size_t i = 0; i < m; ++i) b += U"xyzw"[i * i % 4];
      ASSERT_EQ(NormalisedEditDistance(DistanceUtf8(a), DistanceUtf8(b)), PlainDistance(a, b)) << n << " " << m;
    }
  }
}

TEST(EditDistanceTest, LongTextsAreBounded) {
  // Wholly different ones: no shortcut helps.
  const std::string a(20'000, 'a'), b(20'000, 'b');
  EXPECT_EQ(NormalisedEditDistance(a, b), 1);
  // Beyond the exact part: an upper bound, and never over 1; exact where the changes lie close together.
  std::string c(200'000, 'c');
  std::string d = c;
  d[100'000] = 'd';
  EXPECT_EQ(NormalisedEditDistance(c, d), 1.0 / 200'000);
  for (size_t i = 0; i < d.size(); i += 97) d[i] = 'x';
  const double far = NormalisedEditDistance(c, d);
  EXPECT_GE(far, 2'062.0 / 200'000);
  EXPECT_LE(far, 2'080.0 / 200'000);
}

}  // namespace
}  // namespace surety::gateway
