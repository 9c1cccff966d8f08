// GGUF files in memory, right or wrong on purpose, for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "model/formats/gguf.h"

namespace surety::model {

class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;                     // of the tensors' offsets; not written as a key
  std::optional<uint64_t> n_keys, n_tensors;   // what the header claims, if not the truth
  std::string magic = "GGUF";

  template <typename T>
  static std::string Raw(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string Text(std::string_view text) { return Raw(uint64_t{text.size()}) + std::string(text); }

  // A value as raw bytes after its type.
  GgufWriter& Key(std::string_view key, GgufType type, const std::string& raw) {
    keys_ += Text(key) + Raw(static_cast<uint32_t>(type)) + raw;
    ++key_count_;
    return *this;
  }
  GgufWriter& Int(std::string_view key, uint32_t value) { return Key(key, GgufType::kUint32, Raw(value)); }
  GgufWriter& Float(std::string_view key, float value) { return Key(key, GgufType::kFloat32, Raw(value)); }
  GgufWriter& String(std::string_view key, std::string_view value) {
    return Key(key, GgufType::kString, Text(value));
  }

  // Shape slowest first. The offset follows from the tensors before unless given.
  GgufWriter& Tensor(std::string_view name, DType dtype, std::vector<uint64_t> shape,
                     std::optional<uint64_t> offset = std::nullopt) {
    return TensorOfType(name, static_cast<uint32_t>(dtype), std::move(shape), offset);
  }
  GgufWriter& TensorOfType(std::string_view name, uint32_t type, std::vector<uint64_t> shape,
                           std::optional<uint64_t> offset = std::nullopt) {
    infos_ += Text(name) + Raw(static_cast<uint32_t>(shape.size()));
    uint64_t elements = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      infos_ += Raw(shape[i]);
      elements *= shape[i];
    }
    infos_ += Raw(type) + Raw(offset.value_or(next_offset_));
    const std::optional<DType> dtype = DTypeFromGgufNumber(type);
    if (dtype && elements < (1 << 20)) {
      const auto bytes = static_cast<uint64_t>(RowBytes(*dtype, static_cast<int64_t>(elements)));
      next_offset_ += (bytes + alignment - 1) / alignment * alignment;
    }
    ++tensor_count_;
    return *this;
  }

  std::string Bytes() const {
    std::string out = magic + Raw(version) + Raw(n_tensors.value_or(tensor_count_)) +
                      Raw(n_keys.value_or(key_count_)) + keys_ + infos_;
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    out.resize(out.size() + next_offset_);
    return out;
  }
  std::unique_ptr<MappedFile> Map(const std::string& path = "test.gguf") const {
    const std::string bytes = Bytes();
    return MakeMemoryFile(path, std::as_bytes(std::span(bytes)));
  }
  Result<std::unique_ptr<GgufFile>> Parse() const { return GgufFile::FromMap(Map()); }

 private:
  std::string keys_, infos_;
  uint64_t key_count_ = 0, tensor_count_ = 0, next_offset_ = 0;
};

}  // namespace surety::model
