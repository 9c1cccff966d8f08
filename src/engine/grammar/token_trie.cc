#include "engine/grammar/token_trie.h"

#include <algorithm>
#include <numeric>

#include "model/tokenizer/unicode.h"

namespace surety::engine {
namespace {

// Characters of a plain token; 0 if it is not plain.
int PlainChars(std::string_view text) {
  int n = 0;
  for (size_t at = 0; at < text.size(); ++n) {
    char32_t c = 0;
    const int length = model::DecodeUtf8(text, at, c);
    if (length <= 0 || c < 0x20 || c == '"' || c == '\\' || n == TokenTrie::kMaxPlainChars) return 0;
    at += static_cast<size_t>(length);
  }
  return n;
}

}  // namespace

std::shared_ptr<const TokenTrie> TokenTrie::Make(const model::Tokenizer& tokenizer,
                                                 std::span<const std::string> markers) {
  const auto& spec = tokenizer.spec();
  std::vector<std::string> bytes(static_cast<size_t>(tokenizer.vocab_size()));
  std::vector<int32_t> end_ids;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto at = static_cast<size_t>(id);
    if (tokenizer.IsEndOfText(id)) {
      end_ids.push_back(id);
    } else if (tokenizer.IsControl(id)) {
      const std::string_view text = tokenizer.TokenText(id);
      if (std::find(markers.begin(), markers.end(), text) != markers.end()) bytes[at] = text;
    } else if (at >= spec.unusable.size() || !spec.unusable[at]) {
      bytes[at] = tokenizer.TokenBytes(id);
    }
  }
  return std::make_shared<TokenTrie>(std::move(bytes), std::move(end_ids), tokenizer.StripsLeadingSpace());
}

TokenTrie::TokenTrie(std::vector<std::string> token_bytes, std::vector<int32_t> end_ids, bool strips_leading_space)
    : token_bytes_(std::move(token_bytes)), end_ids_(std::move(end_ids)), strips_leading_space_(strips_leading_space) {
  for (const int32_t id : end_ids_) token_bytes_[static_cast<size_t>(id)].clear();
  for (std::string& bytes : token_bytes_) {
    if (bytes.size() > kMaxTokenBytes) bytes.clear();
  }
  std::vector<int32_t> order(token_bytes_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [this](int32_t a, int32_t b) { return bytes(a) < bytes(b); });
  next_same_.assign(token_bytes_.size(), -1);
  plain_.assign(kMaxPlainChars, std::vector<uint64_t>(mask_words()));
  std::vector<int32_t> path;  // nodes of the bytes of the token before
  std::string_view before;
  for (const int32_t token : order) {
    const std::string_view text = bytes(token);
    if (text.empty()) continue;
    const size_t same =
        static_cast<size_t>(std::mismatch(text.begin(), text.end(), before.begin(), before.end()).first - text.begin());
    for (size_t i = same; i < path.size(); ++i) {
      nodes_[static_cast<size_t>(path[i])].subtree_end = static_cast<int32_t>(nodes_.size());
    }
    path.resize(same);
    for (size_t i = same; i < text.size(); ++i) {
      path.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({static_cast<uint8_t>(text[i]), static_cast<uint32_t>(i + 1), 1, 0, -1});
    }
    Node& node = nodes_[static_cast<size_t>(path.back())];
    next_same_[static_cast<size_t>(token)] = node.token;
    node.token = token;
    before = text;
    const int n_chars = PlainChars(text);
    for (int n = n_chars; n > 0 && n <= kMaxPlainChars; ++n) {
      plain_[static_cast<size_t>(n - 1)][static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
    }
    for (size_t i = 0; n_chars == 0 && i < path.size(); ++i) nodes_[static_cast<size_t>(path[i])].plain_only = 0;
  }
  for (const int32_t node : path) nodes_[static_cast<size_t>(node)].subtree_end = static_cast<int32_t>(nodes_.size());
}

std::span<const uint64_t> TokenTrie::plain_up_to(int n) const {
  return plain_[static_cast<size_t>(std::min(n, kMaxPlainChars) - 1)];
}

bool TokenTrie::ends_text(int32_t token) const {
  return std::find(end_ids_.begin(), end_ids_.end(), token) != end_ids_.end();
}

}  // namespace surety::engine
