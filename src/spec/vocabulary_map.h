// Which tokens two vocabularies have in common, so that a model of one can draft for a model of the other.
//
// Tokens are the same where they stand for the same bytes, control tokens where they have the same name. A drafter
// with another vocabulary draws from the common tokens alone; its law is 0 elsewhere, which costs acceptance and never
// exactness, since every draft is verified by the target's own law.
//
// Threads: immutable. Owns: two tables of ids.
// Source: token-level intersection of Timor et al. 2025 ("Accelerating LLM inference with lossless speculative decoding
// algorithms for heterogeneous vocabularies").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace surety::spec {

class VocabularyMap {
 public:
  // The tokenizers outlive the map.
  VocabularyMap(const model::Tokenizer& target, const model::Tokenizer& draft);

  // Every token of the target is the draft's token of the same id.
  bool identical() const { return identical_; }
  int n_common() const { return n_common_; }
  int32_t ToTarget(int32_t draft_token) const { return At(to_target_, draft_token); }  // -1: not in common
  int32_t ToDraft(int32_t target_token) const { return At(to_draft_, target_token); }
  // Appends what the draft reads for a token of the target: the common token, or the draft's own tokens of its bytes.
  void AppendDraftTokens(int32_t target_token, std::vector<int32_t>& out) const;
  // Logits of the draft's vocabulary by tokens of the target's; minus infinity for those that are not in common.
  void ScatterLogits(std::span<const float> draft_logits, std::span<float> target_logits) const;

 private:
  static int32_t At(const std::vector<int32_t>& ids, int32_t token) {
    return token >= 0 && static_cast<size_t>(token) < ids.size() ? ids[static_cast<size_t>(token)] : -1;
  }

  const model::Tokenizer& target_;
  const model::Tokenizer& draft_;
  std::vector<int32_t> to_target_, to_draft_;
  bool identical_ = false;
  int n_common_ = 0;
};

}  // namespace surety::spec
