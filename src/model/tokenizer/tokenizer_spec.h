// A tokenizer as data: everything that GGUF metadata or a tokenizer.json says, in one form. tokenizer.h builds the
// working object from it.
//
// Text passes through: special tokens cut out, then for each piece the normalisers in order, added tokens that match
// normalised text cut out, the pre-tokenizers in order, and the model (the kind) on each resulting word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace surety::model {

using TokenId = int32_t;

enum class TokenizerKind : uint8_t {
  kByteBpe,           // merges by rank over bytes
  kCharBpe,           // merges by rank over characters, with byte fallback or an unknown token
  kSentencePieceBpe,  // the pair whose joined piece has the best score merges first
  kUnigram,           // the segmentation of the highest total score
  kWordPiece,         // greedy longest match
};
std::string_view NameOf(TokenizerKind kind);

struct Normaliser {
  enum class Step : uint8_t {
    kPrepend,       // text, before a piece that is not empty
    kReplace,       // pattern (literal) by text
    kReplaceRegex,  // pattern by text
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,
    kStripAccents,
    kStripLeft,
    kStripRight,
    kBertClean,           // control characters dropped, every whitespace a space
    kBertChinese,         // spaces around ideographs
    kCharsmap,            // SentencePiece's precompiled map, raw bytes in `text`: the longest key at each place
    kCharsmapByGrapheme,  // as tokenizer.json means it: a whole grapheme's key if there is one, else each character's
  };
  Step step;
  std::string pattern, text;
};

struct PreTokenizer {
  enum class Step : uint8_t {
    kSplit,      // by pattern; see behaviour
    kDigits,     // every digit by itself
    kDigitRuns,  // runs of digits
    kMetaspace,  // spaces become U+2581; see prepend, split
    kByteLevel,  // a space before the piece if it has none (prefix_space)
    kBert,       // whitespace removed, punctuation isolated
    kWhitespaceSplit,
    kPunctuation,  // isolated
  };
  enum class Behaviour : uint8_t { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class Prepend : uint8_t { kNever, kFirst, kAlways };
  Step step;
  std::string pattern;
  Behaviour behaviour = Behaviour::kIsolated;
  bool invert = false;
  Prepend prepend = Prepend::kNever;
  bool split = false;         // Metaspace: a new word at each U+2581
  bool prefix_space = false;  // ByteLevel
};

enum class Decoding : uint8_t { kByteLevel, kSentencePiece, kWordPiece, kPlain };

struct AddedToken {
  TokenId id = -1;
  std::string text;
  bool special = false;     // control: only where specials are on, hidden in decoded text
  bool normalised = false;  // matched in the normalised text
  bool lstrip = false, rstrip = false, single_word = false;
};

struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::kByteBpe;
  std::vector<std::string> tokens;  // by id, in the vocabulary's own spelling (byte-level letters, U+2581, ##)
  std::vector<bool> byte_tokens;    // by id: "<0xE2>" stands for a byte; empty if none does
  std::vector<bool> unusable;       // by id: never produced from text; empty if all may be
  std::vector<double> scores;       // SentencePiece kinds
  std::vector<std::pair<std::string, std::string>> merges;  // BPE kinds with ranks, best first
  std::vector<AddedToken> added;

  std::vector<Normaliser> normalisers;
  std::vector<PreTokenizer> pre_tokenizers;
  Decoding decoding = Decoding::kByteLevel;
  bool strip_leading_space = false;  // decoding drops one space at the very start
  bool clean_up_spaces = false;      // WordPiece: " ." to "." and the like

  bool ignore_merges = false;  // a word that is a token as a whole is taken whole
  bool byte_fallback = false;
  bool fuse_unknown = false;      // neighbouring unknown characters give one unknown token
  std::string continuing_prefix;  // WordPiece "##"
  int max_word_chars = 100;       // WordPiece

  TokenId bos = -1, eos = -1, unk = -1, pad = -1;
  std::vector<TokenId> end_of_turn;     // more ids that end an answer (eot, eom, ...)
  std::vector<TokenId> prefix, suffix;  // what add_special puts around the text
  std::string source;                   // "gguf gpt2/qwen2", "tokenizer.json": for messages
};

}  // namespace surety::model
