// Bytes as a tokenizer.json: reading it, building the tokenizer, encoding and decoding with it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_loaders.h"
#include "model/tokenizer/unicode.h"

namespace surety::model {
namespace {

void OneInput(std::string_view json) {
  auto spec = TokenizerSpecFromJson(json, R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})", "");
  if (!spec) {
    SURETY_CHECK(!spec.error().message().empty());
    return;
  }
  const auto made = Tokenizer::Make(*std::move(spec));
  if (!made) {
    SURETY_CHECK(!made.error().message().empty());
    return;
  }
  const Tokenizer& tokenizer = **made;
  const std::string_view texts[] = {"", "Hello, world  12\n\n", "<s>\xC3\xA9\xE2\x96\x81 \xF0\x9F\x98\x80</s>",
                                    "\xFF\xC3"};
  for (const std::string_view text : texts) {
    const auto ids = tokenizer.Encode(text, true, {.add_special = true});
    for (TokenId id : ids) SURETY_CHECK(id >= 0 && id < tokenizer.vocab_size());
    SURETY_CHECK(IsValidUtf8(tokenizer.Decode(ids, true)));
  }
}

}  // namespace
}  // namespace surety::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::model::OneInput({reinterpret_cast<const char*>(data), size});
  return 0;
}
