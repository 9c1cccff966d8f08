// Any ids, one by one: each piece is valid UTF-8, the pieces join to Decode of all ids, and no more than 3 bytes are
// ever held back.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/tokenizer/testing/small_tokenizers.h"
#include "model/tokenizer/unicode.h"

namespace surety::model {
namespace {

void Check(const Tokenizer& tokenizer, const std::vector<uint16_t>& words, bool show_control) {
  std::vector<TokenId> ids;
  std::string bytes;
  IncrementalDecoder decoder(tokenizer, show_control);
  std::string joined;
  for (uint16_t word : words) {
    ids.push_back(static_cast<TokenId>(word) % tokenizer.vocab_size());
    const std::string piece = decoder.Push(ids.back());
    SURETY_CHECK(IsValidUtf8(piece));
    joined += piece;
    if (!show_control) bytes += tokenizer.TokenBytes(ids.back());
  }
  if (!show_control) {
    std::string shown = ReplaceInvalidUtf8(bytes.substr(0, bytes.size() - UnfinishedTail(bytes)));
    if (tokenizer.StripsLeadingSpace() && shown.starts_with(' ')) shown.erase(0, 1);
    SURETY_CHECK(joined == shown);
  }
  joined += decoder.Finish();
  SURETY_CHECK(decoder.Finish().empty());
  SURETY_CHECK(joined == tokenizer.Decode(ids, show_control));
}

}  // namespace
}  // namespace surety::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tokenizers = surety::model::SmallTokenizers();
  std::vector<uint16_t> words;
  for (size_t i = 0; i + 1 < size; i += 2) words.push_back(static_cast<uint16_t>(data[i] | data[i + 1] << 8));
  for (const auto& tokenizer : tokenizers) {
    surety::model::Check(*tokenizer, words, false);
    surety::model::Check(*tokenizer, words, true);
  }
  return 0;
}
