// One small tokenizer of each kind, for fuzzing and property tests: all bytes, a few words, control and user-defined
// tokens. Byte-level ones have a token for every byte, so no text is lost.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/tokenizer/pattern_scan.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/unicode.h"

namespace surety::model {

inline TokenId AddToSpec(TokenizerSpec& spec, std::string text, double score = 0) {
  spec.tokens.push_back(std::move(text));
  spec.scores.push_back(score);
  return static_cast<TokenId>(spec.tokens.size() - 1);
}

// Control tokens, a user-defined one that is the start of a control token, and one that takes the space around it.
inline void AddSpecialTokens(TokenizerSpec& spec) {
  for (const char* text : {"<s>", "</s>", "<|im_start|>", "<|im", "<w>"}) {
    AddedToken added{.id = AddToSpec(spec, text, -90), .text = text, .special = std::string_view(text) != "<|im"};
    added.lstrip = added.rstrip = added.single_word = added.text == "<w>";
    spec.added.push_back(std::move(added));
  }
  spec.unusable.assign(spec.tokens.size(), false);
  for (const AddedToken& token : spec.added) spec.unusable[static_cast<size_t>(token.id)] = token.special;
}

inline TokenizerSpec SmallByteBpe(const char* pattern) {
  TokenizerSpec spec;
  for (uint32_t b = 0; b < 256; ++b) {
    std::string letter;
    AppendUtf8(ByteToLetter(static_cast<uint8_t>(b)), letter);
    AddToSpec(spec, letter);
  }
  const std::string space = "\xC4\xA0";  // the letter of the byte 0x20
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{
           {"a", "b"}, {"ab", "ab"}, {space, "a"}, {space, space}, {"a", "a"}, {"aa", "a"}, {"1", "2"}}) {
    AddToSpec(spec, left + right);
    spec.merges.emplace_back(left, right);
  }
  AddSpecialTokens(spec);
  spec.pre_tokenizers = {{.step = PreTokenizer::Step::kSplit, .pattern = pattern}};
  return spec;
}

// Byte tokens and pieces in SentencePiece's spelling.
inline TokenizerSpec SmallSentencePiece(TokenizerKind kind) {
  TokenizerSpec spec;
  spec.kind = kind;
  spec.decoding = Decoding::kSentencePiece;
  spec.unk = AddToSpec(spec, "<unk>", -100);
  for (int b = 0; b < 256; ++b) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    AddToSpec(spec, std::string("<0x") + kHex[b / 16] + kHex[b % 16] + ">", -100);
  }
  for (size_t i = 0; i < spec.tokens.size(); ++i) spec.byte_tokens.push_back(i > 0);
  double score = -1;
  const std::string space = "\xE2\x96\x81";
  for (const std::string& piece :
       {space, std::string("a"), std::string("b"), "a" + std::string("b"), space + "a", space + "ab", std::string("aa"),
        "b" + space, space + space, std::string("\xC3\xA9")}) {
    AddToSpec(spec, piece, score -= 0.5);
  }
  AddSpecialTokens(spec);
  spec.byte_tokens.resize(spec.tokens.size(), false);
  spec.byte_fallback = kind != TokenizerKind::kUnigram;
  spec.fuse_unknown = true;
  spec.normalisers = {{Normaliser::Step::kPrepend, {}, space}, {Normaliser::Step::kReplace, " ", space}};
  if (kind == TokenizerKind::kUnigram)
    spec.normalisers.insert(spec.normalisers.begin(), {Normaliser::Step::kNfkc, {}, {}});
  if (kind == TokenizerKind::kCharBpe) spec.merges = {{"a", "b"}, {space, "a"}, {"a", "a"}, {space, "ab"}};
  spec.strip_leading_space = true;
  return spec;
}

inline TokenizerSpec SmallWordPiece() {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::kWordPiece;
  spec.decoding = Decoding::kWordPiece;
  spec.continuing_prefix = "##";
  spec.clean_up_spaces = true;
  spec.unk = AddToSpec(spec, "[UNK]");
  for (const char* text :
       {"a", "b", "##a", "##b", "ab", "##ab", ".", ",", "!", "'", "\xC3\xA9", "e", "##e", "1", "##1"}) {
    AddToSpec(spec, text);
  }
  AddSpecialTokens(spec);
  using Step = Normaliser::Step;
  spec.normalisers = {{Step::kBertClean, {}, {}},
                      {Step::kBertChinese, {}, {}},
                      {Step::kNfd, {}, {}},
                      {Step::kStripAccents, {}, {}},
                      {Step::kLowercase, {}, {}}};
  spec.pre_tokenizers = {{.step = PreTokenizer::Step::kBert, .pattern = {}}};
  return spec;
}

inline std::vector<std::unique_ptr<Tokenizer>> SmallTokenizers() {
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  for (TokenizerSpec spec :
       {SmallByteBpe(kGpt2Pattern), SmallByteBpe(kLlama3Pattern),
        SmallByteBpe("\\p{Lu}?\\p{Ll}+|\\s+(?!\\S)|[^\\s\\p{L}]+"), SmallSentencePiece(TokenizerKind::kCharBpe),
        SmallSentencePiece(TokenizerKind::kSentencePieceBpe), SmallSentencePiece(TokenizerKind::kUnigram),
        SmallWordPiece()}) {
    auto made = Tokenizer::Make(std::move(spec));
    SURETY_CHECK(made.has_value());
    tokenizers.push_back(*std::move(made));
  }
  return tokenizers;
}

}  // namespace surety::model
