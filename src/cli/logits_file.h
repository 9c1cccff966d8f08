// Reference logits on disk: a safetensors file with `tokens` I32 [T] and `logits` F32 or F16 [T, V].
//
// Owns: the map; rows are read as they are asked for, so a file larger than memory is fine.
// Errors: kDataLoss with the offset or key (not safetensors, shapes that do not fit), kUnimplemented (another type).
// Source: the safetensors format: 8 bytes of header length, a JSON header, then the tensors' bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "cli/file_writer.h"

namespace surety::cli {

class LogitsFile {
 public:
  static Result<std::unique_ptr<LogitsFile>> Open(FileSystem& files, const std::string& path);

  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t vocab_size() const { return vocab_size_; }
  // Row r as floats; out has vocab_size() places.
  void Row(int64_t r, std::span<float> out) const;

 private:
  std::unique_ptr<MappedFile> map_;
  std::vector<int32_t> tokens_;
  std::span<const std::byte> logits_;
  int64_t vocab_size_ = 0;
  bool half_ = false;
};

// Writes such a file (F32), row after row, in order.
class LogitsWriter {
 public:
  static Result<std::unique_ptr<LogitsWriter>> Create(const std::string& path, std::span<const int32_t> tokens,
                                                      int64_t vocab_size);
  Status Append(std::span<const float> row);
  Status Commit();

 private:
  std::unique_ptr<FileWriter> out_;
};

}  // namespace surety::cli
