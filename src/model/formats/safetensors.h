// One .safetensors file: the tensors of its JSON header over a memory map.
//
// The header is checked in 64-bit arithmetic against the file's size; tensors must cover the data without holes or
// overlaps, as the format demands.
// Owns: the map, and copies of tensors that lie at addresses unfit for their numbers; views are valid while the
// SafetensorsFile lives.
// Errors: kDataLoss (corrupt header; message has the byte or the tensor's name), kOutOfRange (truncated),
// kResourceExhausted (no memory for a copy), and the file system's.
// Source: the safetensors format description (huggingface/safetensors, README).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/file.h"
#include "base/status.h"
#include "tensor/view.h"

namespace surety::model {

class SafetensorsFile {
 public:
  // A tensor that is in the file but holds no weights that can be read: of a type other than F32, F16 and BF16, or
  // without elements. Its bytes are as the file has them, at any address.
  struct Unread {
    std::string name;
    std::string dtype;  // as the file names it
    std::vector<int64_t> shape;
    std::span<const std::byte> bytes;
  };

  static Result<std::unique_ptr<SafetensorsFile>> Open(FileSystem& files, const std::string& path);
  static Result<std::unique_ptr<SafetensorsFile>> FromMap(std::unique_ptr<MappedFile> map);

  const MappedFile& map() const { return *map_; }
  const std::string& path() const { return map_->path(); }
  std::span<const TensorView> tensors() const { return tensors_; }
  std::span<const Unread> unread() const { return unread_; }

 private:
  friend class SafetensorsParser;
  std::unique_ptr<MappedFile> map_;
  std::vector<AlignedBuffer> copies_;
  std::vector<TensorView> tensors_;
  std::vector<Unread> unread_;
};

}  // namespace surety::model
