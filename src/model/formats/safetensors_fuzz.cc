// Bytes as a safetensors file. Every byte that a view promises is read.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "model/formats/hf_names.h"
#include "model/formats/safetensors.h"

namespace surety::model {
namespace {

void OneInput(std::span<const std::byte> input) {
  const auto file = SafetensorsFile::FromMap(MakeMemoryFile("fuzz.safetensors", input));
  if (!file) {
    SURETY_CHECK(!file.error().message().empty());
    return;
  }
  ModelConfig decoder, encoder;
  decoder.architecture = "deepseek2";
  encoder.encoder = true;
  unsigned sum = 0;
  for (const TensorView& tensor : (*file)->tensors()) {
    const auto element = static_cast<size_t>(InfoOf(tensor.dtype).block_bytes);
    SURETY_CHECK(tensor.bytes.size() == static_cast<size_t>(tensor.ElementCount()) * element);
    SURETY_CHECK(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % element == 0);
    for (std::byte b : tensor.bytes) sum += static_cast<unsigned>(b);
    sum += static_cast<unsigned>(CanonicalName(tensor.name, decoder).canonical.size());
    sum += static_cast<unsigned>(CanonicalName(tensor.name, encoder).canonical.size());
  }
  volatile unsigned keep = sum;
  (void)keep;
}

}  // namespace
}  // namespace surety::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::model::OneInput(std::as_bytes(std::span(data, size)));
  return 0;
}
