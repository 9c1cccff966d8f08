#include "spec/vocabulary_map.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>

namespace surety::spec {
namespace {

// What makes two tokens the same: the bytes, or the name of a control token, which no bytes can equal.
std::string MeaningOf(const model::Tokenizer& tokenizer, int32_t token) {
  if (tokenizer.IsControl(token)) return "control:" + std::string(tokenizer.TokenText(token));
  const std::string_view bytes = tokenizer.TokenBytes(token);
  return bytes.empty() ? std::string() : "bytes:" + std::string(bytes);
}

}  // namespace

VocabularyMap::VocabularyMap(const model::Tokenizer& target, const model::Tokenizer& draft)
    : target_(target), draft_(draft), to_target_(static_cast<size_t>(draft.vocab_size()), -1),
      to_draft_(static_cast<size_t>(target.vocab_size()), -1) {
  std::unordered_map<std::string, int32_t> by_meaning;
  for (int32_t id = 0; id < draft.vocab_size(); ++id) {
    if (std::string meaning = MeaningOf(draft, id); !meaning.empty()) by_meaning.emplace(std::move(meaning), id);
  }
  identical_ = target.vocab_size() <= draft.vocab_size();
  for (int32_t id = 0; id < target.vocab_size(); ++id) {
    const std::string meaning = MeaningOf(target, id);
    const bool same_id = id < draft.vocab_size() && MeaningOf(draft, id) == meaning;
    identical_ = identical_ && same_id;
    const auto found = by_meaning.find(meaning);
    if (meaning.empty() || found == by_meaning.end()) continue;
    const int32_t other = same_id ? id : found->second;
    to_draft_[static_cast<size_t>(id)] = other;
    if (to_target_[static_cast<size_t>(other)] < 0) to_target_[static_cast<size_t>(other)] = id;
    ++n_common_;
  }
}

void VocabularyMap::AppendDraftTokens(int32_t target_token, std::vector<int32_t>& out) const {
  if (identical_) {
    out.push_back(target_token);
    return;
  }
  if (const int32_t common = ToDraft(target_token); common >= 0) {
    out.push_back(common);
    return;
  }
  // Nothing for a control token.
  const auto ids = draft_.Encode(target_.TokenBytes(target_token), false, {.continues = true});
  out.insert(out.end(), ids.begin(), ids.end());
}

void VocabularyMap::ScatterLogits(std::span<const float> draft_logits, std::span<float> target_logits) const {
  if (identical_) {
    std::copy_n(draft_logits.begin(), target_logits.size(), target_logits.begin());
    return;
  }
  std::fill(target_logits.begin(), target_logits.end(), -std::numeric_limits<float>::infinity());
  for (size_t id = 0; id < to_target_.size(); ++id) {
    if (to_target_[id] >= 0) target_logits[static_cast<size_t>(to_target_[id])] = draft_logits[id];
  }
}

}  // namespace surety::spec
