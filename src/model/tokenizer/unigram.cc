// The unigram model: the segmentation of the highest total score, by dynamic programming over byte positions.
// Source: Kudo 2018, "Subword Regularization"; an unknown character costs the lowest score less 10, as SentencePiece has
// it.
#include <algorithm>
#include <cmath>

#include "model/tokenizer/unicode.h"
#include "model/tokenizer/vocabulary.h"
#include "model/tokenizer/word_model.h"

namespace surety::model {
namespace {

constexpr double kUnknownPenalty = 10.0;

class Unigram final : public WordModel {
 public:
  explicit Unigram(const TokenizerSpec& spec) : vocabulary_(spec), scores_(spec.scores) {
    double lowest = 0;
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      longest_ = std::max(longest_, spec.tokens[i].size());
      lowest = std::min(lowest, static_cast<double>(scores_[i]));
    }
    unknown_score_ = lowest - kUnknownPenalty;
  }

  void Encode(std::string_view word, std::vector<TokenId>& ids) const override {
    struct Node {
      double score = -INFINITY;
      size_t start = 0;
      TokenId id = -1;
    };
    std::vector<Node> best(word.size() + 1);
    best[0].score = 0;
    for (size_t at = 0; at < word.size();) {
      const auto char_size = static_cast<size_t>(CharLength(word, at));
      bool has_single = false;
      for (size_t size = char_size; size <= longest_ && at + size <= word.size();) {
        const TokenId id = vocabulary_.Find(word.substr(at, size));
        if (id >= 0 && id != vocabulary_.unk()) {
          Node& node = best[at + size];
          const double score = best[at].score + static_cast<double>(scores_[static_cast<size_t>(id)]);
          if (score > node.score) node = {score, at, id};
          has_single = has_single || size == char_size;
        }
        if (at + size == word.size()) break;
        size += static_cast<size_t>(CharLength(word, at + size));
      }
      if (!has_single) {
        Node& node = best[at + char_size];
        const double score = best[at].score + unknown_score_;
        if (score > node.score) node = {score, at, -1};
      }
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

 private:
  Vocabulary vocabulary_;
  std::vector<float> scores_;
  size_t longest_ = 0;
  double unknown_score_ = 0;
};

}  // namespace

Result<std::unique_ptr<WordModel>> MakeUnigram(const TokenizerSpec& spec) {
  if (spec.scores.size() != spec.tokens.size()) {
    return Error(InvalidArgumentError("the vocabulary has " + std::to_string(spec.tokens.size()) + " tokens, but " +
                                      std::to_string(spec.scores.size()) + " scores"));
  }
  return std::make_unique<Unigram>(spec);
}

}  // namespace surety::model
