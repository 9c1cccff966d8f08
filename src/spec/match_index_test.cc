// The match finder against a search that compares every place with every other.
#include "spec/match_index.h"

#include <algorithm>
#include <array>
#include <string>

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::spec {
namespace {

constexpr int32_t kNoToken = -1;  // stands for a break

class MatchDraws {
 public:
  explicit MatchDraws(uint64_t seed) : seed_(seed) {}
  int Below(int n) {
    return static_cast<int>(RandomBits({seed_, n_++, RandomPurpose::kTest}) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t seed_, n_ = 0;
};

bool RunEndsAt(const std::vector<int32_t>& texts, int place, const std::vector<int32_t>& text, int run) {
  if (place + 1 < run) return false;
  return std::equal(text.end() - run, text.end(), texts.begin() + place + 1 - run);
}

// From the description alone: among the latest kMaxChain places where the last four tokens of the text stand, the
// longest match with something after it, the latest of equals; if there is none, the same for the last two.
MatchIndex::Match NaiveFind(const std::vector<int32_t>& texts, const std::vector<int32_t>& text) {
  for (const int run : {4, 2}) {
    if (static_cast<int>(text.size()) < run) continue;
    MatchIndex::Match best;
    int n_places = 0;
    for (int place = static_cast<int>(texts.size()) - 1; place >= 0 && n_places < MatchIndex::kMaxChain; --place) {
      if (!RunEndsAt(texts, place, text, run)) continue;
      ++n_places;
      if (place + 1 == static_cast<int>(texts.size()) || texts[static_cast<size_t>(place) + 1] == kNoToken) continue;
      int length = run;
      while (length < MatchIndex::kMaxLength && length < static_cast<int>(text.size()) &&
             RunEndsAt(texts, place, text, length + 1)) {
        ++length;
      }
      if (length > best.length) best = {place + 1, length};
    }
    if (best.length > 0) return best;
  }
  return {};
}

// The longest match anywhere, whatever the limits.
int LongestAnywhere(const std::vector<int32_t>& texts, const std::vector<int32_t>& text) {
  int longest = 0;
  for (int place = 0; place + 1 < static_cast<int>(texts.size()); ++place) {
    if (texts[static_cast<size_t>(place) + 1] == kNoToken) continue;
    int length = 0;
    while (length < static_cast<int>(text.size()) && RunEndsAt(texts, place, text, length + 1)) ++length;
    if (length >= 2) longest = std::max(longest, length);
  }
  return longest;
}

TEST(MatchIndexTest, FindsTheLatestOfTheLongestMatchesAsASearchOfAllPlacesDoes) {
  int n_found = 0, n_long = 0, n_equal_to_longest = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    MatchDraws draws(seed);
    const int alphabet = 2 + draws.Below(12), length = 1 + draws.Below(160);
    MatchIndex index;
    std::vector<int32_t> texts;
    for (int i = 0; i < length; ++i) {
      if (draws.Below(25) == 0) {
        index.AppendBreak();
        if (!texts.empty() && texts.back() != kNoToken) texts.push_back(kNoToken);
      }
      const int32_t token = draws.Below(alphabet);
      index.Append(token);
      texts.push_back(token);
      // Its own end, back to the last break, or a text from elsewhere.
      std::vector<int32_t> text(std::find(texts.rbegin(), texts.rend(), kNoToken).base(), texts.end());
      if (draws.Below(3) == 0) {
        text.clear();
        for (int n = draws.Below(90); n > 0; --n) text.push_back(draws.Below(alphabet));
      }
      const MatchIndex::Match found = index.Find(text), expected = NaiveFind(texts, text);
      ASSERT_EQ(found.next, expected.next) << "seed " << seed << ", token " << i;
      ASSERT_EQ(found.length, expected.length) << "seed " << seed << ", token " << i;
      n_found += found.length > 0 ? 1 : 0;
      n_long += found.length > 6 ? 1 : 0;
      n_equal_to_longest += found.length == LongestAnywhere(texts, text) ? 1 : 0;
    }
    ASSERT_TRUE(std::equal(texts.begin(), texts.end(), index.tokens().begin(), index.tokens().end()));
  }
  EXPECT_GT(n_found, 5000);
  EXPECT_GT(n_long, 500);
  EXPECT_GT(n_equal_to_longest, 20'000);
}

TEST(MatchIndexTest, NoMatchReachesOverABreakOrEndsAtOne) {
  MatchIndex index;
  for (const int32_t token : {1, 2, 3}) index.Append(token);
  index.AppendBreak();
  index.AppendBreak();  // twice is once
  for (const int32_t token : {4, 5, 6, 7}) index.Append(token);
  EXPECT_EQ(index.size(), 8);
  EXPECT_EQ(index.Find(std::vector<int32_t>{2, 3}).length, 0);  // nothing of its text follows
  EXPECT_EQ(index.Find(std::vector<int32_t>{3, 4}).length, 0);  // they never stood together
  EXPECT_EQ(index.Find(std::vector<int32_t>{2, 3, 4, 5}).length, 2);
  EXPECT_EQ(index.Find(std::vector<int32_t>{2, 3, 4, 5}).next, 6);
  EXPECT_EQ(index.Find(std::vector<int32_t>{1, 2}).next, 2);
  // In the asked text a break ends what is compared too.
  EXPECT_EQ(index.Find(std::vector<int32_t>{3, kNoToken, 4, 5}).length, 2);
  EXPECT_EQ(index.Find(std::vector<int32_t>{1, 2, kNoToken}).length, 0);
  EXPECT_EQ(index.Find(std::vector<int32_t>{1, 2, kNoToken, 4}).length, 0);
}

TEST(MatchIndexTest, LooksAtABoundedNumberOfPlaces) {
  // The best match is the earliest; kMaxChain - 1 later ones of four tokens leave it in sight, one more does not.
  for (const int n_later : {MatchIndex::kMaxChain - 1, MatchIndex::kMaxChain}) {
    MatchIndex index;
    for (const int32_t token : {10, 11, 12, 13, 14, 15, 16}) index.Append(token);
    for (int i = 0; i < n_later; ++i) {
      index.Append(100 + i);
      for (const int32_t token : {12, 13, 14, 15}) index.Append(token);
    }
    index.Append(1);
    const int length = index.Find(std::vector<int32_t>{10, 11, 12, 13, 14, 15}).length;
    EXPECT_EQ(length, n_later < MatchIndex::kMaxChain ? 6 : 4);
  }
}

TEST(MatchIndexTest, LengthsEndAtTheGreatest) {
  MatchIndex index;
  std::vector<int32_t> text;
  for (int32_t i = 0; i < 200; ++i) text.push_back(i);
  for (const int32_t token : text) index.Append(token);
  index.Append(7);
  EXPECT_EQ(index.Find(text).length, MatchIndex::kMaxLength);
  EXPECT_EQ(index.Find(text).next, 200);
}

TEST(MatchIndexTest, NothingIsFoundAfterErasingAndItCanBeUsedAgain) {
  for (const bool erase : {false, true}) {
    MatchIndex index;
    EXPECT_EQ(index.Find(std::vector<int32_t>{1, 2}).length, 0);
    EXPECT_EQ(index.Find({}).length, 0);
    for (int round = 0; round < 3; ++round) {
      for (const int32_t token : {1, 2, 3, 1, 2}) index.Append(token);
      EXPECT_EQ(index.Find(index.tokens()).next, 2);
      const int32_t* memory = index.tokens().data();
      const size_t n = index.tokens().size();
      erase ? index.Erase() : index.Clear();
      EXPECT_EQ(index.size(), 0);
      EXPECT_EQ(index.Find(std::vector<int32_t>{1, 2}).length, 0);
      // The memory is still the index's; nothing of the text is in it.
      if (erase) {
        EXPECT_EQ(std::count(memory, memory + n, 0), static_cast<int64_t>(n));
      }
    }
  }
}

// From the description alone: for each token that stands behind the run, the longest match, the latest of equals.
TEST(MatchIndexTest, FindEachGivesTheLongestMatchOfEachNextToken) {
  int n_several = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    MatchDraws draws(9000 + seed);
    const int alphabet = 2 + draws.Below(4);
    std::vector<int32_t> text;
    MatchIndex index;
    for (int n = 2 + draws.Below(30); n > 0; --n) {  // fewer places than a chain looks at
      text.push_back(draws.Below(alphabet));
      index.Append(text.back());
    }
    std::vector<MatchIndex::Match> expected;
    for (int32_t token = 0; token < alphabet; ++token) {
      MatchIndex::Match best;
      for (int place = static_cast<int>(text.size()) - 2; place >= 1; --place) {
        if (text[static_cast<size_t>(place) + 1] != token) continue;
        int length = 0;
        while (length <= place && length < static_cast<int>(text.size()) && RunEndsAt(text, place, text, length + 1)) {
          ++length;
        }
        if (length >= 2 && length > best.length) best = {place + 1, length};
      }
      if (best.length > 0) expected.push_back(best);
    }
    std::array<MatchIndex::Match, 8> found;
    const int n = index.FindEach(text, found);
    ASSERT_EQ(n, static_cast<int>(expected.size())) << seed;
    n_several += n > 1 ? 1 : 0;
    for (int i = 0; i < n; ++i) {
      const auto& match = found[static_cast<size_t>(i)];
      if (i > 0) {
        ASSERT_GE(found[static_cast<size_t>(i) - 1].length, match.length);
      }
      const auto same = std::find_if(expected.begin(), expected.end(), [&](const MatchIndex::Match& e) {
        return text[static_cast<size_t>(e.next)] == text[static_cast<size_t>(match.next)];
      });
      ASSERT_NE(same, expected.end());
      ASSERT_EQ(same->length, match.length) << seed;
    }
    // Fewer places are for the longest.
    std::array<MatchIndex::Match, 1> one;
    ASSERT_EQ(index.FindEach(text, one), std::min(n, 1));
    if (n > 0) {
      ASSERT_EQ(one[0].length, found[0].length);
    }
  }
  EXPECT_GT(n_several, 50);
}

}  // namespace
}  // namespace surety::spec
