// A tokenizer as data: everything that GGUF metadata or a tokenizer.json says, in one form. tokenizer.h builds the
// working object from it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace surety::model {

using TokenId = int32_t;

enum class TokenizerKind : uint8_t { kByteBpe, kSentencePieceBpe, kUnigram, kWordPiece };

// How text is cut before byte-level BPE. Each names a published pattern; kCustom carries its own.
enum class PreTokenizer : uint8_t { kNone, kGpt2, kLlama3, kQwen2, kSmolLm, kCustom };

enum class TokenClass : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct SpecialToken {
  TokenId id = -1;
  std::string text;
  bool special = false;      // control: only recognised where specials are on, hidden in decoded text
  bool normalized = false;   // matched in the normalised text
  bool lstrip = false, rstrip = false, single_word = false;
};

struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::kByteBpe;
  std::vector<std::string> tokens;     // by id, in the vocabulary's own spelling (byte-level letters, U+2581, ##)
  std::vector<TokenClass> classes;     // by id; empty = all normal
  std::vector<float> scores;           // SentencePiece kinds
  std::vector<std::pair<std::string, std::string>> merges;  // BPE kinds with merges, best first
  std::vector<SpecialToken> added;     // added and special tokens

  PreTokenizer pre_tokenizer = PreTokenizer::kNone;
  std::vector<std::string> patterns;   // kCustom: applied one after another, each isolating its matches
  bool ignore_merges = false;          // a piece that is a token as a whole is taken whole
  bool byte_fallback = false;
  bool add_prefix_space = false;       // SentencePiece: a space before the text
  bool prefix_space_first_only = true; // ... only before the first segment, not after each special token
  bool remove_extra_whitespace = false;
  bool escape_whitespace = true;       // SentencePiece: U+2581 for space
  bool split_on_whitespace_symbol = true;  // HF Metaspace: pieces start at U+2581
  // Normalisation, in this order.
  bool clean_text = false, chinese_chars = false, strip_accents = false, lowercase = false;  // WordPiece
  bool nfc = false, nfkc = false;
  std::string precompiled_charsmap;    // SentencePiece's, raw bytes; may be empty
  std::string continuing_prefix = "##";
  int max_word_chars = 100;

  TokenId bos = -1, eos = -1, unk = -1, pad = -1, cls = -1, sep = -1, mask = -1;
  std::vector<TokenId> end_of_turn;    // more ids that end an answer (eot, eom, ...)
  bool add_bos = false, add_eos = false;  // what the tokenizer does by itself (WordPiece: CLS and SEP)
  std::string source;                  // "gguf:gpt2/qwen2", "tokenizer.json": for messages
};

}  // namespace surety::model
