// Any bytes, cut into trusted and untrusted segments, through one tokenizer of each kind. The first byte chooses where
// the cuts lie.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "model/tokenizer/testing/small_tokenizers.h"
#include "model/tokenizer/unicode.h"

namespace surety::model {
namespace {

void Check(const Tokenizer& tokenizer, std::string_view text, uint8_t stride) {
  std::vector<TextSegment> segments, trusted;
  for (size_t at = 0; at < text.size();) {
    const size_t n = std::min<size_t>(1 + stride % 13, text.size() - at);
    segments.push_back({std::string(text.substr(at, n)), (at / 3 + stride) % 2 == 0});
    trusted.push_back({segments.back().text, true});
    at += n;
  }
  const auto ids = tokenizer.Encode(segments, {});
  for (TokenId id : ids) SURETY_CHECK(id >= 0 && id < tokenizer.vocab_size());
  SURETY_CHECK(ids == tokenizer.Encode(segments, {}));  // a warm cache changes nothing
  const auto whole = tokenizer.Encode(text);
  SURETY_CHECK(tokenizer.Encode(trusted, {}) == whole);
  const auto plain = tokenizer.Encode(text, false);
  for (TokenId id : plain) SURETY_CHECK(!tokenizer.IsControl(id) || id == tokenizer.spec().unk);
  if (tokenizer.spec().kind == TokenizerKind::kByteBpe) {  // every byte has a token: nothing is lost
    std::string back;
    for (TokenId id : plain) back += tokenizer.TokenBytes(id);
    SURETY_CHECK(back == text);
  }
  SURETY_CHECK(IsValidUtf8(tokenizer.Decode(whole, true)));
}

}  // namespace
}  // namespace surety::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tokenizers = surety::model::SmallTokenizers();
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (const auto& tokenizer : tokenizers) surety::model::Check(*tokenizer, text, data[0]);
  return 0;
}
