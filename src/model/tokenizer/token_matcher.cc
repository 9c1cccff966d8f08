#include "model/tokenizer/token_matcher.h"

namespace surety::model {

void TokenMatcher::Add(const AddedToken& token) {
  if (token.text.empty()) return;
  starts_[static_cast<uint8_t>(token.text[0])] = true;
  uint32_t node = 0;
  for (char c : token.text) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t child = 0;
    for (const auto& [label, target] : nodes_[node].children) {
      if (label == byte) child = target;
    }
    if (child == 0) {
      child = static_cast<uint32_t>(nodes_.size());
      nodes_[node].children.emplace_back(byte, child);
      nodes_.emplace_back();
    }
    node = child;
  }
  if (nodes_[node].token == nullptr) {
    nodes_[node].token = &token;
    tokens_.push_back(&token);
  }
}

const AddedToken* TokenMatcher::Match(std::string_view text, size_t at,
                                      FunctionRef<bool(const AddedToken&, size_t)> accept) const {
  const AddedToken* best = nullptr;
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    uint32_t child = 0;
    for (const auto& [label, target] : nodes_[node].children) {
      if (label == byte) {
        child = target;
        break;
      }
    }
    if (child == 0) break;
    node = child;
    const AddedToken* token = nodes_[node].token;
    if (token != nullptr && accept(*token, i + 1)) best = token;
  }
  return best;
}

}  // namespace surety::model
