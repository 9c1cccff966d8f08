// The unigram model: the segmentation of the highest total score, by dynamic programming over byte positions.
// Source: Kudo 2018, "Subword Regularization"; an unknown character costs the lowest score less 10, as SentencePiece
// has it.
#include <algorithm>
#include <cmath>

#include "model/tokenizer/flat_map.h"
#include "model/tokenizer/unicode.h"
#include "model/tokenizer/vocabulary.h"
#include "model/tokenizer/word_cache.h"
#include "model/tokenizer/word_model.h"

namespace surety::model {
namespace {

constexpr double kUnknownPenalty = 10.0;

// All tokens by their bytes. Node 0 is the root.
class ByteTrie {
 public:
  void Add(std::string_view text, TokenId id) {
    uint32_t node = 0;
    for (char c : text) {
      const uint64_t key = Key(node, c);
      const uint32_t* child = children_.Find(key);
      if (child == nullptr) {
        ids_.push_back(-1);
        children_.Insert(key, static_cast<uint32_t>(ids_.size() - 1));
        node = static_cast<uint32_t>(ids_.size() - 1);
      } else {
        node = *child;
      }
    }
    if (ids_[node] < 0) ids_[node] = id;
  }
  // Goes on by one byte; false where no token does.
  bool Step(uint32_t& node, char c) const {
    const uint32_t* child = children_.Find(Key(node, c));
    if (child == nullptr) return false;
    node = *child;
    return true;
  }
  TokenId id(uint32_t node) const { return ids_[node]; }

 private:
  static uint64_t Key(uint32_t node, char c) { return (static_cast<uint64_t>(node) << 8) | static_cast<uint8_t>(c); }
  FlatMap<uint32_t> children_;
  std::vector<TokenId> ids_ = std::vector<TokenId>(1, -1);
};

class Unigram final : public WordModel {
 public:
  explicit Unigram(const TokenizerSpec& spec) : vocabulary_(spec), scores_(spec.scores) {
    double lowest = INFINITY;
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      lowest = std::min(lowest, scores_[i]);
      const auto id = static_cast<TokenId>(i);
      if (id != vocabulary_.unk() && vocabulary_.Find(spec.tokens[i]) == id) trie_.Add(spec.tokens[i], id);
    }
    unknown_score_ = lowest - kUnknownPenalty;
  }

  void Encode(std::string_view word, std::vector<TokenId>& ids) const override {
    if (word.empty() || cache_.Find(word, ids)) return;
    const size_t first = ids.size();
    BestPath(word, ids);
    cache_.Store(word, std::span(ids).subspan(first));
  }

 private:
  void BestPath(std::string_view word, std::vector<TokenId>& ids) const {
    struct Node {
      double score = -INFINITY;
      size_t start = 0;
      TokenId id = -1;
      bool reached = false;
    };
    std::vector<Node> best(word.size() + 1);
    best[0].score = 0;
    const auto offer = [&](size_t start, size_t end, double score, TokenId id) {
      Node& node = best[end];
      if (!node.reached || score > node.score) node = {score, start, id, true};
    };
    for (size_t at = 0; at < word.size();) {
      const auto char_size = static_cast<size_t>(CharLength(word, at));
      bool has_single = false;
      uint32_t node = 0;
      for (size_t end = at; end < word.size() && trie_.Step(node, word[end]);) {
        ++end;
        const TokenId id = trie_.id(node);
        if (id < 0) continue;
        offer(at, end, best[at].score + scores_[static_cast<size_t>(id)], id);
        has_single = has_single || end - at == char_size;
      }
      if (!has_single) offer(at, at + char_size, best[at].score + unknown_score_, -1);
      at += char_size;
    }
    std::vector<std::pair<size_t, size_t>> spans;
    for (size_t end = word.size(); end > 0; end = best[end].start) spans.emplace_back(best[end].start, end);
    bool unknown = false;
    for (auto it = spans.rbegin(); it != spans.rend(); ++it) {
      const TokenId id = best[it->second].id;
      if (id >= 0) {
        ids.push_back(id);
      } else {
        vocabulary_.AppendUnknown(word.substr(it->first, it->second - it->first), unknown, ids);
      }
      unknown = id < 0;
    }
  }

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  ByteTrie trie_;
  double unknown_score_ = 0;
  WordCache cache_;
};

}  // namespace

Result<std::unique_ptr<WordModel>> MakeUnigram(const TokenizerSpec& spec) {
  SURETY_RETURN_IF_ERROR(CheckScores(spec));
  return std::make_unique<Unigram>(spec);
}

}  // namespace surety::model
