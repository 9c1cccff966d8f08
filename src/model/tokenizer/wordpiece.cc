// WordPiece: the longest token that starts the word, then the longest continuation, and so on; a word that cannot be
// covered is unknown as a whole.
// Source: Wu et al. 2016; Devlin et al. 2019.
#include <algorithm>

#include "model/tokenizer/unicode.h"
#include "model/tokenizer/vocabulary.h"
#include "model/tokenizer/word_model.h"

namespace surety::model {
namespace {

class WordPiece final : public WordModel {
 public:
  explicit WordPiece(const TokenizerSpec& spec)
      : vocabulary_(spec), prefix_(spec.continuing_prefix), max_word_chars_(spec.max_word_chars), unk_(spec.unk) {
    for (const std::string& token : spec.tokens) longest_ = std::max(longest_, token.size());
  }

  void Encode(std::string_view word, std::vector<TokenId>& ids) const override {
    const size_t first = ids.size();
    int n_chars = 0;
    for (size_t at = 0; at < word.size(); at += static_cast<size_t>(CharLength(word, at))) ++n_chars;
    if (n_chars > max_word_chars_) {
      ids.push_back(unk_);
      return;
    }
    std::string piece;
    for (size_t at = 0; at < word.size();) {
      piece.assign(at == 0 ? "" : prefix_);
      const size_t prefix_size = piece.size();
      piece += word.substr(at, longest_);
      TokenId id = -1;
      while (piece.size() > prefix_size && (id = vocabulary_.Find(piece)) < 0) piece.pop_back();
      if (id < 0) {
        ids.resize(first);
        ids.push_back(unk_);
        return;
      }
      ids.push_back(id);
      at += piece.size() - prefix_size;
    }
  }

 private:
  Vocabulary vocabulary_;
  std::string prefix_;
  int max_word_chars_;
  TokenId unk_;
  size_t longest_ = 0;
};

}  // namespace

Result<std::unique_ptr<WordModel>> MakeWordPiece(const TokenizerSpec& spec) {
  if (spec.unk < 0) return Error(InvalidArgumentError("a WordPiece vocabulary needs an unknown token"));
  return std::make_unique<WordPiece>(spec);
}

}  // namespace surety::model
