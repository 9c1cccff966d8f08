// GGUF v2 and v3 files: metadata and tensor directory over a memory map.
//
// Two passes: everything is validated in checked 64-bit arithmetic against the file's size first, then handed out, so a
// view can never reach past the map. Big-endian files are refused by name.
// Owns: the map; views and string_views are valid while the GgufFile lives.
// Errors: kDataLoss (bad magic, corrupt counts or offsets; message has the byte offset or the key), kOutOfRange
// (truncated), kUnimplemented (version, or a tensor type, named), kNotFound/kInvalidArgument from the file system.
// Source: the GGUF specification (ggml project, docs/gguf.md), versions 2 and 3.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "tensor/view.h"

namespace surety::model {

enum class GgufType : uint32_t {
  kUint8 = 0, kInt8, kUint16, kInt16, kUint32, kInt32, kFloat32, kBool, kString, kArray, kUint64, kInt64, kFloat64,
};

// A metadata value. Integers of all widths are widened; an array keeps its element type.
struct GgufArray;
using GgufScalar = std::variant<uint64_t, int64_t, double, bool, std::string_view>;
struct GgufArray {
  GgufType element_type = GgufType::kUint8;
  size_t size = 0;                   // 0 for nested arrays, which no known key uses and are skipped
  std::span<const std::byte> bytes;  // the elements as the file has them, checked

  // The elements decoded: a copy of 24 bytes each, so that a vocabulary is not kept twice.
  std::vector<GgufScalar> Values() const;
};
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray>;

class GgufFile {
 public:
  static Result<std::unique_ptr<GgufFile>> Open(FileSystem& files, const std::string& path);
  static Result<std::unique_ptr<GgufFile>> FromMap(std::unique_ptr<MappedFile> map);

  int version() const { return version_; }
  const MappedFile& map() const { return *map_; }
  const std::string& path() const { return map_->path(); }

  // Metadata. Keys in file order.
  std::span<const std::pair<std::string_view, GgufValue>> metadata() const { return metadata_; }
  const GgufValue* Find(std::string_view key) const;  // null if absent
  // Typed access with conversion between integer widths; kNotFound names the key, kInvalidArgument names key and type.
  Result<int64_t> Int(std::string_view key) const;
  Result<double> Float(std::string_view key) const;  // integers convert
  Result<bool> Bool(std::string_view key) const;
  Result<std::string_view> String(std::string_view key) const;
  Result<const GgufArray*> Array(std::string_view key) const;

  std::span<const TensorView> tensors() const { return tensors_; }
  const TensorView* FindTensor(std::string_view name) const;

 private:
  friend class GgufParser;
  std::unique_ptr<MappedFile> map_;
  int version_ = 0;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;
  std::vector<TensorView> tensors_;
  std::vector<uint32_t> metadata_by_name_;  // indices, sorted by key
  std::vector<uint32_t> tensors_by_name_;
};

}  // namespace surety::model
