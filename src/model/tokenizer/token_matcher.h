// Finds added tokens in text: at each place, from left to right, the longest that fits.
// Threads: immutable after Add.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace surety::model {

class TokenMatcher {
 public:
  // `token` must stay where it is.
  void Add(const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // The longest token that starts at `at` and that `accept` agrees to; null if none.
  const AddedToken* Match(std::string_view text, size_t at,
                          FunctionRef<bool(const AddedToken& token, size_t end)> accept) const;
  // Whether any token starts with this byte.
  bool MayStart(char c) const { return starts_[static_cast<uint8_t>(c)]; }

 private:
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> children;
    const AddedToken* token = nullptr;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<const AddedToken*> tokens_;
  std::array<bool, 256> starts_{};
};

}  // namespace surety::model
