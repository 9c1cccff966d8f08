// Small tokenizers of each kind against plain restatements of their rules, trust borders, and threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "base/random.h"
#include "model/tokenizer/testing/small_tokenizers.h"

namespace surety::model {
namespace {

std::string RandomWord(uint64_t round, std::string_view alphabet, uint64_t max_size) {
  const uint64_t size = 1 + RandomBits({round, 0, RandomPurpose::kTest}) % max_size;
  std::string word;
  for (uint64_t i = 1; i <= size; ++i) {
    word += alphabet[RandomBits({round, i, RandomPurpose::kTest}) % alphabet.size()];
  }
  return word;
}

// Byte-pair encoding as it is defined: again and again, the best pair, the leftmost of equals.
std::vector<std::string> NaiveMerge(std::string_view word,
                                    const std::map<std::pair<std::string, std::string>, int>& ranks) {
  std::vector<std::string> symbols;
  for (char c : word) symbols.emplace_back(1, c);
  while (true) {
    int best = -1;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto it = ranks.find({symbols[i], symbols[i + 1]});
      if (it != ranks.end() && (best < 0 || it->second < best)) {
        best = it->second;
        at = i;
      }
    }
    if (best < 0) return symbols;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(RankedBpeTest, EqualsTheDefinitionOnShortAndLongWords) {
  TokenizerSpec spec = SmallByteBpe(kGpt2Pattern);
  spec.pre_tokenizers.clear();  // one word, whatever it holds
  std::map<std::pair<std::string, std::string>, int> ranks;
  for (const auto& [left, right] : spec.merges) {
    std::string a, b;
    ASSERT_TRUE(LettersToBytes(left, a) && LettersToBytes(right, b));
    ranks.emplace(std::pair(a, b), static_cast<int>(ranks.size()));
  }
  const auto tokenizer = *Tokenizer::Make(spec);
  for (uint64_t round = 0; round < 3000; ++round) {
    const std::string word = RandomWord(round, "aab 12", round % 3 == 0 ? 100 : 30);
    std::vector<std::string> pieces;
    for (TokenId id : tokenizer->Encode(word, false)) pieces.emplace_back(tokenizer->TokenBytes(id));
    ASSERT_EQ(pieces, NaiveMerge(word, ranks)) << '\'' << word << '\'';
  }
}

// The scored form by its definition, over characters of one byte and U+2581.
TEST(ScoredBpeTest, EqualsTheDefinitionAlthoughTextIsCutAtSpaces) {
  const TokenizerSpec spec = SmallSentencePiece(TokenizerKind::kSentencePieceBpe);
  std::map<std::string, TokenId> ids;
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    if (!spec.byte_tokens[i] && !spec.unusable[i]) ids.emplace(spec.tokens[i], static_cast<TokenId>(i));
  }
  const auto tokenizer = *Tokenizer::Make(spec);
  for (uint64_t round = 0; round < 3000; ++round) {
    const std::string text = RandomWord(round, "aab  ", 60);
    std::vector<std::string> symbols = {"\xE2\x96\x81"};
    for (char c : text) symbols.push_back(c == ' ' ? "\xE2\x96\x81" : std::string(1, c));
    while (true) {
      TokenId best = -1;
      size_t at = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto it = ids.find(symbols[i] + symbols[i + 1]);
        if (it == ids.end()) continue;
        const auto score = [&](TokenId id) { return spec.scores[static_cast<size_t>(id)]; };
        if (best < 0 || score(it->second) > score(best)) {
          best = it->second;
          at = i;
        }
      }
      if (best < 0) break;
      symbols[at] += symbols[at + 1];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    std::vector<TokenId> expected;
    for (const std::string& symbol : symbols) expected.push_back(ids.at(symbol));
    ASSERT_EQ(tokenizer->Encode(text, false), expected) << '\'' << text << '\'';
  }
}

TEST(TrustTest, ASpecialTokenCountsOnlyWhereAllOfItIsTrusted) {
  for (const auto& tokenizer : SmallTokenizers()) {
    const auto has_control = [&](std::vector<TextSegment> segments) {
      const auto ids = tokenizer->Encode(segments, {});
      return std::any_of(ids.begin(), ids.end(),
                         [&](TokenId id) { return tokenizer->IsControl(id) && id != tokenizer->spec().unk; });
    };
    EXPECT_TRUE(has_control({{"<|im_", true}, {"start|>", true}}));
    EXPECT_FALSE(has_control({{"<|im_", true}, {"start|>", false}}));
    EXPECT_FALSE(has_control({{"<|im_", false}, {"start|>", true}}));
    EXPECT_FALSE(has_control({{"<|im_start|>", false}, {"a", true}}));
    EXPECT_TRUE(has_control({{"<s>", false}, {"<s>", true}}));
    EXPECT_FALSE(has_control({{"<", true}, {"s", false}, {">", true}}));
    EXPECT_TRUE(has_control({{"<|im_", true}, {"", false}, {"start|>", true}}));
  }
}

TEST(TrustTest, OrdinaryTokensSpanBorders) {
  for (const auto& tokenizer : SmallTokenizers()) {
    const std::vector<TextSegment> segments = {{"ab a", true}, {"b", false}, {" ab", true}};
    EXPECT_EQ(tokenizer->Encode(segments, {}), tokenizer->Encode("ab ab ab"));
  }
}

TEST(AddedTokenTest, SurroundingSpaceAndWordBordersAreHonoured) {
  const auto tokenizer = *Tokenizer::Make(SmallByteBpe(kGpt2Pattern));
  const auto encode = [&](std::string_view text) { return tokenizer->Encode(text); };
  const TokenId w = tokenizer->vocab_size() - 1;
  ASSERT_EQ(tokenizer->TokenText(w), "<w>");
  EXPECT_EQ(encode("1 \xE3\x80\x80<w>\n\xC2\xA0 2"), (std::vector<TokenId>{'1', w, '2'}));  // Unicode spaces too
  const auto joined = encode("1<w>2");
  EXPECT_EQ(std::find(joined.begin(), joined.end(), w), joined.end());
}

TEST(WordCacheTest, ThreadsThatShareATokenizerAgree) {
  for (const auto& tokenizer : SmallTokenizers()) {
    std::vector<std::string> texts;
    for (uint64_t round = 0; round < 2000; ++round) texts.push_back(RandomWord(round, "aab 1e.,", 24));
    std::vector<int> wrong(4, 0);
    std::vector<std::vector<TokenId>> alone;
    for (const auto& text : texts) alone.push_back(tokenizer->Encode(text));
    std::vector<std::thread> threads;
    for (size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < texts.size(); ++i) {
          const size_t k = (i * 7 + t * 501) % texts.size();
          wrong[t] += tokenizer->Encode(texts[k]) != alone[k];
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(4, 0));
  }
}

TEST(NormaliseTest, FormsAreTakenOnlyWhereTheyMatter) {
  EXPECT_EQ(Normalise("e\xCC\x81 x", NormalForm::kNfc), "\xC3\xA9 x");
  EXPECT_EQ(Normalise("x\xC3\xA9", NormalForm::kNfd), "xe\xCC\x81");
  EXPECT_EQ(Normalise("a\xEF\xAC\x81\xC2\xA0", NormalForm::kNfkc), "afi ");
  EXPECT_EQ(Normalise("\xE3\x8B\xBF", NormalForm::kNfkc), "\xE3\x8B\xBF");  // U+32FF: newer than the reference
  EXPECT_EQ(Normalise("e\xCC\x81"
                      "a\xCC\xA3\xCC\x81"
                      "b",
                      NormalForm::kNfc),
            "\xC3\xA9\xE1\xBA\xA1\xCC\x81"
            "b");
}

}  // namespace
}  // namespace surety::model
