// Normalisers and pre-tokenizers of a TokenizerSpec, compiled.
// Threads: immutable after Make. Errors: Make: kInvalidArgument for a pattern or a charsmap that is broken.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "model/tokenizer/regex.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace surety::model {

// SentencePiece's precompiled map: a double-array trie from character sequences to replacements.
// Source: the format of sentencepiece's normalizer (trie size, darts-clone units, NUL-ended strings).
class Charsmap {
 public:
  static Result<Charsmap> Make(std::string_view blob);
  // The longest (or the shortest) key that `text` starts with; its length, 0 if none. The replacement is set.
  size_t Match(std::string_view text, std::string_view& replacement, bool longest = true) const;

 private:
  std::vector<uint32_t> units_;
  std::string strings_;
};

// Where a piece of text stands.
enum class PieceAt : uint8_t {
  kStart,     // at the very start of the text
  kBehind,    // behind a token that was cut out
  kContinues  // behind other text that is not seen: nothing is put before it
};

class TextPipeline {
 public:
  static Result<TextPipeline> Make(const TokenizerSpec& spec);

  // valid_utf8 in, valid UTF-8 out.
  std::string Normalise(std::string_view piece, PieceAt at) const;
  // Calls fn for every word of a normalised piece.
  void PreTokenise(std::string_view piece, PieceAt at, FunctionRef<void(std::string_view)> fn) const;

 private:
  struct CompiledNormaliser {
    Normaliser::Step step;
    std::string pattern, text;
    Regex regex;
    Charsmap charsmap;
  };
  struct CompiledPreTokenizer {
    PreTokenizer spec;
    Regex regex;
  };
  void Apply(size_t step, std::string_view piece, PieceAt at, FunctionRef<void(std::string_view)> fn) const;

  std::vector<CompiledNormaliser> normalisers_;
  std::vector<CompiledPreTokenizer> pre_tokenizers_;
};

}  // namespace surety::model
