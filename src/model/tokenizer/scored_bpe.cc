// Byte-pair encoding by score: any two neighbours whose joined text is a token may merge, the best score first.
// Source: Kudo and Richardson 2018, "SentencePiece".
#include <algorithm>
#include <cmath>

#include "model/tokenizer/bpe_merge.h"
#include "model/tokenizer/space_cuts.h"
#include "model/tokenizer/unicode.h"
#include "model/tokenizer/vocabulary.h"
#include "model/tokenizer/word_cache.h"
#include "model/tokenizer/word_model.h"

namespace surety::model {
namespace {

class ScoredBpe final : public WordModel {
 public:
  explicit ScoredBpe(const TokenizerSpec& spec) : vocabulary_(spec), scores_(spec.scores), cuts_(spec) {
    for (const std::string& token : spec.tokens) longest_ = std::max(longest_, token.size());
  }

  void Encode(std::string_view word, std::vector<TokenId>& ids) const override {
    cuts_.ForEachPart(word, [&](std::string_view part) {
      if (cache_.Find(part, ids)) return;
      const size_t first = ids.size();
      Merged(part, ids);
      cache_.Store(part, std::span(ids).subspan(first));
    });
  }

 private:
  void Merged(std::string_view word, std::vector<TokenId>& ids) const {
    thread_local std::vector<BpeSymbol> symbols;
    symbols.clear();
    for (size_t at = 0; at < word.size();) {
      const auto size = static_cast<size_t>(CharLength(word, at));
      symbols.push_back({at, size, -1, -1, vocabulary_.Find(word.substr(at, size))});
      at += size;
    }
    MergeAll(symbols, [&](const BpeSymbol& a, const BpeSymbol& b) -> BpeMerge {
      if (a.size + b.size > longest_) return {};
      const TokenId merged = vocabulary_.Find(word.substr(a.begin, a.size + b.size));
      if (merged < 0) return {};
      return {-static_cast<double>(scores_[static_cast<size_t>(merged)]), merged};
    });
    bool unknown = false;
    for (int i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
      const BpeSymbol& symbol = symbols[static_cast<size_t>(i)];
      if (symbol.id >= 0) {
        ids.push_back(symbol.id);
      } else {
        vocabulary_.AppendUnknown(word.substr(symbol.begin, symbol.size), unknown, ids);
      }
      unknown = symbol.id < 0;
    }
  }

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  SpaceCuts cuts_;
  size_t longest_ = 0;
  WordCache cache_;
};

}  // namespace

Result<std::unique_ptr<WordModel>> MakeScoredBpe(const TokenizerSpec& spec) {
  SURETY_RETURN_IF_ERROR(CheckScores(spec));
  return std::make_unique<ScoredBpe>(spec);
}

}  // namespace surety::model
