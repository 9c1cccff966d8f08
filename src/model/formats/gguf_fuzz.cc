// Bytes as a GGUF file: parsing, every accessor, and the model that it claims to be. Every byte that a view promises is
// read.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "model/formats/gguf.h"
#include "model/formats/gguf_model.h"

namespace surety::model {
namespace {

void ReadAll(const GgufFile& file) {
  unsigned sum = 0;
  for (const auto& [key, value] : file.metadata()) {
    SURETY_CHECK(file.Find(key) != nullptr);
    sum += file.Int(key).has_value() + file.Float(key).has_value() + file.Bool(key).has_value();
    if (const auto text = file.String(key)) {
      for (char c : *text) sum += static_cast<unsigned char>(c);
    }
    if (const auto array = file.Array(key)) sum += static_cast<unsigned>((*array)->Values().size());
  }
  for (const TensorView& tensor : file.tensors()) {
    SURETY_CHECK(file.FindTensor(tensor.name) == &tensor);
    SURETY_CHECK(static_cast<int64_t>(tensor.bytes.size()) == tensor.rows() * RowBytes(tensor.dtype, tensor.cols()));
    for (std::byte b : tensor.bytes) sum += static_cast<unsigned>(b);
  }
  volatile unsigned keep = sum;
  (void)keep;
}

void OneInput(std::span<const std::byte> input) {
  auto file = GgufFile::FromMap(MakeMemoryFile("fuzz.gguf", input));
  if (!file) {
    SURETY_CHECK(!file.error().message().empty());
    return;
  }
  ReadAll(**file);
  const auto model = OpenGgufModel(MakeMemoryFile("fuzz.gguf", input));
  if (!model) {
    SURETY_CHECK(!model.error().message().empty());
    return;
  }
  SURETY_CHECK((*model)->config().Validate().ok());
  SURETY_CHECK((*model)->Find("token_embd.weight") != nullptr);
  SURETY_CHECK((*model)->config().KvLayoutFor(KvType::kF16, 16).Validate().ok());
}

}  // namespace
}  // namespace surety::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::model::OneInput(std::as_bytes(std::span(data, size)));
  return 0;
}
