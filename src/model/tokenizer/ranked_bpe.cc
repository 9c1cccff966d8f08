// Byte-pair encoding with merges learnt in an order, the earliest first: over bytes (GPT-2, Llama 3, Qwen) or
// characters. Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units".
#include <optional>

#include "model/tokenizer/bpe_merge.h"
#include "model/tokenizer/flat_map.h"
#include "model/tokenizer/space_cuts.h"
#include "model/tokenizer/unicode.h"
#include "model/tokenizer/vocabulary.h"
#include "model/tokenizer/word_cache.h"
#include "model/tokenizer/word_model.h"

namespace surety::model {
namespace {

class RankedBpe final : public WordModel {
 public:
  explicit RankedBpe(const TokenizerSpec& spec)
      : bytes_(spec.kind == TokenizerKind::kByteBpe), ignore_merges_(spec.ignore_merges), vocabulary_(spec) {
    // Parts share the cache with words, which a look-up of whole words would tell apart.
    if (!bytes_ && !ignore_merges_) cuts_.emplace(spec);
  }

  Status Build(const TokenizerSpec& spec) {
    if (bytes_) {
      byte_ids_.assign(256, -1);
      for (uint32_t b = 0; b < 256; ++b) {
        std::string letter;
        AppendUtf8(ByteToLetter(static_cast<uint8_t>(b)), letter);
        byte_ids_[b] = vocabulary_.Find(letter);
      }
      std::string bytes;
      for (size_t i = 0; ignore_merges_ && i < spec.tokens.size(); ++i) {
        if (LettersToBytes(spec.tokens[i], bytes)) whole_.emplace(bytes, static_cast<TokenId>(i));
      }
    }
    merges_.Reserve(spec.merges.size());
    for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
      const auto& [left, right] = spec.merges[rank];
      const TokenId a = vocabulary_.Find(left), b = vocabulary_.Find(right), joined = vocabulary_.Find(left + right);
      if (a < 0 || b < 0 || joined < 0) {
        return InvalidArgumentError("merge " + std::to_string(rank) + " ('" + left + "' '" + right +
                                    "') names a token that the vocabulary lacks");
      }
      merges_.Insert(Key(a, b), Merge{static_cast<uint32_t>(rank), joined});
    }
    return OkStatus();
  }

  void Encode(std::string_view word, std::vector<TokenId>& ids) const override {
    if (word.empty() || cache_.Find(word, ids)) return;
    const size_t first = ids.size();
    if (const TokenId whole = Whole(word); whole >= 0) {
      ids.push_back(whole);
    } else if (cuts_) {
      cuts_->ForEachPart(word, [&](std::string_view part) {
        if (part.size() < word.size() && cache_.Find(part, ids)) return;
        const size_t first_of_part = ids.size();
        Merged(part, ids);
        if (part.size() < word.size()) cache_.Store(part, std::span(ids).subspan(first_of_part));
      });
    } else {
      Merged(word, ids);
    }
    cache_.Store(word, std::span(ids).subspan(first));
  }

 private:
  struct Merge {
    uint32_t rank = 0;
    TokenId joined = -1;
  };
  static uint64_t Key(TokenId a, TokenId b) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32) | static_cast<uint32_t>(b);
  }

  TokenId Whole(std::string_view word) const {
    if (!ignore_merges_) return -1;
    if (!bytes_) return vocabulary_.Find(word);
    const auto it = whole_.find(word);
    return it == whole_.end() ? -1 : it->second;
  }

  void Merged(std::string_view word, std::vector<TokenId>& ids) const {
    thread_local std::vector<BpeSymbol> symbols;
    symbols.clear();
    for (size_t at = 0; at < word.size();) {
      const size_t size = bytes_ ? 1 : static_cast<size_t>(CharLength(word, at));
      const TokenId id = bytes_ ? byte_ids_[static_cast<uint8_t>(word[at])] : vocabulary_.Find(word.substr(at, size));
      symbols.push_back({at, size, -1, -1, id});
      at += size;
    }
    MergeAll(symbols, [this](const BpeSymbol& a, const BpeSymbol& b) -> BpeMerge {
      if (a.id < 0 || b.id < 0) return {};
      const Merge* merge = merges_.Find(Key(a.id, b.id));
      if (merge == nullptr) return {};
      return {static_cast<double>(merge->rank), merge->joined};
    });
    bool unknown = false;
    for (int i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
      const BpeSymbol& symbol = symbols[static_cast<size_t>(i)];
      if (symbol.id >= 0) {
        ids.push_back(symbol.id);
        unknown = false;
      } else if (!bytes_) {
        vocabulary_.AppendUnknown(word.substr(symbol.begin, symbol.size), unknown, ids);
        unknown = !vocabulary_.has_bytes();
      }
    }
  }

  bool bytes_;
  bool ignore_merges_;
  Vocabulary vocabulary_;
  std::vector<TokenId> byte_ids_;
  StringToId whole_;
  FlatMap<Merge> merges_;
  std::optional<SpaceCuts> cuts_;
  WordCache cache_;
};

}  // namespace

Result<std::unique_ptr<WordModel>> MakeRankedBpe(const TokenizerSpec& spec) {
  auto model = std::make_unique<RankedBpe>(spec);
  SURETY_RETURN_IF_ERROR(model->Build(spec));
  return model;
}

}  // namespace surety::model
