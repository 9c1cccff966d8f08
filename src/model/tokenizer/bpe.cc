// Byte-pair encoding. Ranked: merges learnt in an order, the earliest first. Scored: any two neighbours whose joined text
// is a token, the best score first. Both take the leftmost of equals, and both run in O(n log n) over a word.
// Source: Sennrich et al. 2016; Kudo and Richardson 2018 (SentencePiece) for the scored form.
#include <algorithm>
#include <cmath>
#include <queue>

#include "model/tokenizer/unicode.h"
#include "model/tokenizer/vocabulary.h"
#include "model/tokenizer/word_model.h"

namespace surety::model {
namespace {

// A symbol of the word being merged: a span of its bytes, linked to its neighbours.
struct Symbol {
  size_t begin, size;
  int previous, next;
  TokenId id;  // -1: not a token
};

struct Candidate {
  double order;  // smaller merges first
  int left, right;
  size_t size;   // of both when queued: tells a stale entry
  TokenId merged;
};
struct LaterFirst {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.order != b.order ? a.order > b.order : a.left > b.left;
  }
};

// Merges until nothing is left to merge. Queue(left, right) gives the candidate for two neighbours, merged -1 for none.
template <typename Lookup>
void MergeAll(std::vector<Symbol>& symbols, Lookup&& lookup) {
  std::priority_queue<Candidate, std::vector<Candidate>, LaterFirst> queue;
  const auto consider = [&](int left, int right) {
    if (left < 0 || right < 0) return;
    Symbol& a = symbols[static_cast<size_t>(left)];
    Symbol& b = symbols[static_cast<size_t>(right)];
    Candidate candidate{0, left, right, a.size + b.size, -1};
    lookup(a, b, candidate.order, candidate.merged);
    if (candidate.merged >= 0) queue.push(candidate);
  };
  for (int i = 0; i + 1 < static_cast<int>(symbols.size()); ++i) consider(i, i + 1);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& a = symbols[static_cast<size_t>(top.left)];
    Symbol& b = symbols[static_cast<size_t>(top.right)];
    if (a.size == 0 || b.size == 0 || a.next != top.right || a.size + b.size != top.size) continue;
    a.size += b.size;
    a.id = top.merged;
    a.next = b.next;
    b.size = 0;
    if (a.next >= 0) symbols[static_cast<size_t>(a.next)].previous = top.left;
    consider(a.previous, top.left);
    consider(top.left, a.next);
  }
}

void LinkUp(std::vector<Symbol>& symbols) {
  for (size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<int>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<int>(i) + 1 : -1;
  }
}

class RankedBpe final : public WordModel {
 public:
  explicit RankedBpe(const TokenizerSpec& spec)
      : bytes_(spec.kind == TokenizerKind::kByteBpe), ignore_merges_(spec.ignore_merges), vocabulary_(spec) {}

  Status Build(const TokenizerSpec& spec) {
    std::string bytes;
    if (bytes_) {
      byte_ids_.assign(256, -1);
      for (uint32_t b = 0; b < 256; ++b) {
        std::string letter;
        AppendUtf8(ByteToLetter(static_cast<uint8_t>(b)), letter);
        byte_ids_[b] = vocabulary_.Find(letter);
      }
      if (ignore_merges_) {
        for (size_t i = 0; i < spec.tokens.size(); ++i) {
          if (LettersToBytes(spec.tokens[i], bytes)) whole_.emplace(bytes, static_cast<TokenId>(i));
        }
      }
    }
    merges_.reserve(spec.merges.size());
    for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
      const auto& [left, right] = spec.merges[rank];
      const TokenId a = vocabulary_.Find(left), b = vocabulary_.Find(right), joined = vocabulary_.Find(left + right);
      if (a < 0 || b < 0 || joined < 0) {
        return InvalidArgumentError("merge " + std::to_string(rank) + " ('" + left + "' '" + right +
                                    "') names a token that the vocabulary lacks");
      }
      merges_.emplace(Key(a, b), Merge{static_cast<uint32_t>(rank), joined});
    }
    return OkStatus();
  }

  void Encode(std::string_view word, std::vector<TokenId>& ids) const override {
    if (word.empty()) return;
    if (ignore_merges_) {
      if (bytes_) {
        if (const auto it = whole_.find(word); it != whole_.end()) {
          ids.push_back(it->second);
          return;
        }
      } else if (const TokenId id = vocabulary_.Find(word); id >= 0) {
        ids.push_back(id);
        return;
      }
    }
    thread_local std::vector<Symbol> symbols;
    symbols.clear();
    for (size_t at = 0; at < word.size();) {
      const size_t size = bytes_ ? 1 : static_cast<size_t>(CharLength(word, at));
      const TokenId id =
          bytes_ ? byte_ids_[static_cast<uint8_t>(word[at])] : vocabulary_.Find(word.substr(at, size));
      symbols.push_back({at, size, -1, -1, id});
      at += size;
    }
    LinkUp(symbols);
    const auto lookup = [this](const Symbol& a, const Symbol& b, double& order, TokenId& merged) {
      if (a.id < 0 || b.id < 0) return;
      const auto it = merges_.find(Key(a.id, b.id));
      if (it == merges_.end()) return;
      order = it->second.rank;
      merged = it->second.joined;
    };
    if (symbols.size() <= kShortWord) {
      MergeShort(symbols, lookup);
    } else {
      MergeAll(symbols, lookup);
    }
    bool unknown = false;
    for (int i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
      const Symbol& symbol = symbols[static_cast<size_t>(i)];
      if (symbol.id >= 0) {
        ids.push_back(symbol.id);
        unknown = false;
      } else if (!bytes_) {
        vocabulary_.AppendUnknown(word.substr(symbol.begin, symbol.size), unknown, ids);
        unknown = !vocabulary_.has_bytes();
      }
    }
  }

 private:
  static constexpr size_t kShortWord = 24;
  struct Merge {
    uint32_t rank;
    TokenId joined;
  };
  static uint64_t Key(TokenId a, TokenId b) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32) | static_cast<uint32_t>(b);
  }

  // For short words a plain search for the best pair is faster than a queue.
  template <typename Lookup>
  static void MergeShort(std::vector<Symbol>& symbols, Lookup&& lookup) {
    struct Pair {
      double order = INFINITY;
      TokenId merged = -1;
    };
    std::array<Pair, kShortWord> pairs;  // of symbol i with its next
    const auto consider = [&](int i) {
      Pair& pair = pairs[static_cast<size_t>(i)];
      pair = Pair();
      const int next = symbols[static_cast<size_t>(i)].next;
      if (next < 0) return;
      lookup(symbols[static_cast<size_t>(i)], symbols[static_cast<size_t>(next)], pair.order, pair.merged);
      if (pair.merged < 0) pair.order = INFINITY;
    };
    for (size_t i = 0; i < symbols.size(); ++i) consider(static_cast<int>(i));
    while (true) {
      int best = -1;
      double order = INFINITY;
      for (int i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
        if (pairs[static_cast<size_t>(i)].order < order) {
          order = pairs[static_cast<size_t>(i)].order;
          best = i;
        }
      }
      if (best < 0) return;
      Symbol& a = symbols[static_cast<size_t>(best)];
      Symbol& b = symbols[static_cast<size_t>(a.next)];
      a.size += b.size;
      a.id = pairs[static_cast<size_t>(best)].merged;
      a.next = b.next;
      if (a.next >= 0) symbols[static_cast<size_t>(a.next)].previous = best;
      consider(best);
      if (a.previous >= 0) consider(a.previous);
    }
  }

  bool bytes_;
  bool ignore_merges_;
  Vocabulary vocabulary_;
  std::vector<TokenId> byte_ids_;
  StringToId whole_;
  std::unordered_map<uint64_t, Merge> merges_;
};

class ScoredBpe final : public WordModel {
 public:
  explicit ScoredBpe(const TokenizerSpec& spec) : vocabulary_(spec), scores_(spec.scores) {}

  void Encode(std::string_view word, std::vector<TokenId>& ids) const override {
    thread_local std::vector<Symbol> symbols;
    symbols.clear();
    for (size_t at = 0; at < word.size();) {
      const auto size = static_cast<size_t>(CharLength(word, at));
      symbols.push_back({at, size, -1, -1, vocabulary_.Find(word.substr(at, size))});
      at += size;
    }
    if (symbols.empty()) return;
    LinkUp(symbols);
    MergeAll(symbols, [&](const Symbol& a, const Symbol& b, double& order, TokenId& merged) {
      merged = vocabulary_.Find(word.substr(a.begin, a.size + b.size));
      if (merged >= 0) order = -static_cast<double>(scores_[static_cast<size_t>(merged)]);
    });
    bool unknown = false;
    for (int i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
      const Symbol& symbol = symbols[static_cast<size_t>(i)];
      if (symbol.id >= 0) {
        ids.push_back(symbol.id);
      } else {
        vocabulary_.AppendUnknown(word.substr(symbol.begin, symbol.size), unknown, ids);
      }
      unknown = symbol.id < 0;
    }
  }

 private:
  Vocabulary vocabulary_;
  std::vector<float> scores_;
};

}  // namespace

Result<std::unique_ptr<WordModel>> MakeRankedBpe(const TokenizerSpec& spec) {
  auto model = std::make_unique<RankedBpe>(spec);
  SURETY_RETURN_IF_ERROR(model->Build(spec));
  return model;
}

Result<std::unique_ptr<WordModel>> MakeScoredBpe(const TokenizerSpec& spec) {
  if (spec.scores.size() != spec.tokens.size()) {
    return Error(InvalidArgumentError("the vocabulary has " + std::to_string(spec.tokens.size()) + " tokens, but " +
                                      std::to_string(spec.scores.size()) + " scores"));
  }
  for (size_t i = 0; i < spec.scores.size(); ++i) {
    if (std::isnan(spec.scores[i])) {
      return Error(InvalidArgumentError("the score of token " + std::to_string(i) + " is not a number"));
    }
  }
  return std::make_unique<ScoredBpe>(spec);
}

}  // namespace surety::model
