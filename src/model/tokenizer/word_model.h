// A word to token ids: the tokenizer's model proper.
// Threads: immutable. Owns: its tables. Errors: the factories answer kInvalidArgument naming the token or merge.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace surety::model {

class WordModel {
 public:
  virtual ~WordModel() = default;
  // Byte models take any bytes, the others valid UTF-8.
  virtual void Encode(std::string_view word, std::vector<TokenId>& ids) const = 0;
};

Result<std::unique_ptr<WordModel>> MakeRankedBpe(const TokenizerSpec& spec);  // kByteBpe, kCharBpe
Result<std::unique_ptr<WordModel>> MakeScoredBpe(const TokenizerSpec& spec);  // kSentencePieceBpe
Result<std::unique_ptr<WordModel>> MakeUnigram(const TokenizerSpec& spec);
Result<std::unique_ptr<WordModel>> MakeWordPiece(const TokenizerSpec& spec);

// As many scores as tokens, all of them numbers?
Status CheckScores(const TokenizerSpec& spec);

// "<0xE2>" to 0xE2; -1 for anything else.
int ByteOfToken(std::string_view token);

}  // namespace surety::model
