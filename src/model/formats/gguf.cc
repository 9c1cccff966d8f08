#include "model/formats/gguf.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "model/formats/text.h"

namespace surety::model {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF", little-endian
constexpr int kMaxNestedArrays = 4;
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxTensorNameBytes = 255;
// Array elements in one file, so that a file of single bytes cannot grow into many times its size in memory.
constexpr uint64_t kMaxArrayElements = uint64_t{1} << 23;
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kMaxDims = 4;

// The least bytes that a value of the type takes in a file; 0 for a number that is no type.
uint64_t MinBytes(uint32_t type) {
  switch (static_cast<GgufType>(type)) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool: return 1;
    case GgufType::kUint16:
    case GgufType::kInt16: return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32: return 4;
    case GgufType::kString:
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64: return 8;
    case GgufType::kArray: return 12;
  }
  return 0;
}

std::string_view KindName(const GgufValue& value) {
  constexpr std::string_view kNames[] = {"an unsigned integer", "an integer", "a float",
                                         "a boolean",           "a string",   "an array"};
  return kNames[value.index()];
}

Status WrongKind(const std::string& path, std::string_view key, const GgufValue& value, std::string_view wanted) {
  return InvalidArgumentError("'" + path + "': key '" + Printable(key) + "' is " + std::string(KindName(value)) +
                              ", but " + std::string(wanted) + " is needed");
}

template <typename T, typename Wide>
GgufScalar Decoded(const std::byte*& at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  at += sizeof(T);
  return static_cast<Wide>(value);
}

// A value that the parser has checked. Moves past it.
GgufScalar DecodeScalar(GgufType type, const std::byte*& at) {
  switch (type) {
    case GgufType::kUint8: return Decoded<uint8_t, uint64_t>(at);
    case GgufType::kInt8: return Decoded<int8_t, int64_t>(at);
    case GgufType::kUint16: return Decoded<uint16_t, uint64_t>(at);
    case GgufType::kInt16: return Decoded<int16_t, int64_t>(at);
    case GgufType::kUint32: return Decoded<uint32_t, uint64_t>(at);
    case GgufType::kInt32: return Decoded<int32_t, int64_t>(at);
    case GgufType::kUint64: return Decoded<uint64_t, uint64_t>(at);
    case GgufType::kInt64: return Decoded<int64_t, int64_t>(at);
    case GgufType::kFloat32: return Decoded<float, double>(at);
    case GgufType::kFloat64: return Decoded<double, double>(at);
    case GgufType::kBool: return Decoded<uint8_t, bool>(at);
    case GgufType::kString: {
      uint64_t length;
      std::memcpy(&length, at, sizeof(length));
      const std::string_view text(reinterpret_cast<const char*>(at) + sizeof(length), length);
      at += sizeof(length) + length;
      return text;
    }
    case GgufType::kArray: break;
  }
  SURETY_CHECK(false);  // arrays are no scalars
  return uint64_t{0};
}

template <typename Items, typename NameOfItem>
std::vector<uint32_t> SortedByName(const Items& items, NameOfItem name_of) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return name_of(items[a]) < name_of(items[b]); });
  return order;
}

}  // namespace

// Pass 1 walks header, metadata and directory and checks them; pass 2 checks where tensors lie and makes the views.
class GgufParser {
 public:
  explicit GgufParser(GgufFile& file) : file_(file), bytes_(file.map_->bytes()) {}

  Status Parse() {
    SURETY_RETURN_IF_ERROR(ParseHeader());
    for (uint64_t i = 0; i < n_keys_; ++i) SURETY_RETURN_IF_ERROR(ParseKey());
    file_.metadata_by_name_ = SortedByName(file_.metadata_, [](const auto& entry) { return entry.first; });
    SURETY_RETURN_IF_ERROR(CheckDuplicateKeys());
    SURETY_RETURN_IF_ERROR(ReadAlignment());
    for (uint64_t i = 0; i < n_tensors_; ++i) SURETY_RETURN_IF_ERROR(ParseTensorInfo());
    return PlaceTensors();
  }

 private:
  struct TensorInfo {
    std::string_view name;
    DType dtype;
    std::vector<int64_t> shape;  // slowest first
    uint64_t offset;             // from the start of the data
    uint64_t size_bytes;
    uint64_t at_byte;            // of the directory entry
  };

  uint64_t remaining() const { return bytes_.size() - at_; }

  Status Corrupt(uint64_t at_byte, std::string message) const {
    return DataLossError("'" + file_.path() + "': byte " + std::to_string(at_byte) + ": " + std::move(message));
  }
  Status Truncated(std::string_view what, uint64_t needed) const {
    return OutOfRangeError("'" + file_.path() + "': byte " + std::to_string(at_) + ": the file ends within " +
                           std::string(what) + " (" + std::to_string(needed) + " bytes needed, " +
                           std::to_string(remaining()) + " left)");
  }

  template <typename T>
  Result<T> Read(std::string_view what) {
    if (remaining() < sizeof(T)) return Error(Truncated(what, sizeof(T)));
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  Result<std::string_view> ReadString(std::string_view what, uint64_t max_bytes = ~uint64_t{0}) {
    const uint64_t start = at_;
    SURETY_ASSIGN_OR_RETURN(const uint64_t length, Read<uint64_t>(what));
    if (length > max_bytes) {
      return Error(Corrupt(start, std::string(what) + " has " + std::to_string(length) + " bytes; at most " +
                                      std::to_string(max_bytes) + " are allowed"));
    }
    if (length > remaining()) return Error(Truncated(what, length));
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, length);
    at_ += length;
    return text;
  }

  Status ParseHeader() {
    if (bytes_.empty()) return OutOfRangeError("'" + file_.path() + "': byte 0: the file is empty");
    SURETY_ASSIGN_OR_RETURN(const uint32_t magic, Read<uint32_t>("the magic number"));
    if (magic != kMagic) {
      if (magic == __builtin_bswap32(kMagic)) return Corrupt(0, "'FUGG', a GGUF magic number in reverse byte order");
      return Corrupt(0, "not a GGUF file (its first four bytes are not 'GGUF')");
    }
    SURETY_ASSIGN_OR_RETURN(const uint32_t version, Read<uint32_t>("the version"));
    if (version != 2 && version != 3) {
      const uint32_t swapped = __builtin_bswap32(version);
      const bool big_endian = swapped == 2 || swapped == 3;
      return UnimplementedError("'" + file_.path() + "': byte 4: " +
                                (big_endian ? "a big-endian GGUF file of version " + std::to_string(swapped)
                                            : "GGUF version " + std::to_string(version)) +
                                "; little-endian versions 2 and 3 are supported");
    }
    file_.version_ = static_cast<int>(version);
    SURETY_ASSIGN_OR_RETURN(n_tensors_, Read<uint64_t>("the tensor count"));
    SURETY_ASSIGN_OR_RETURN(n_keys_, Read<uint64_t>("the metadata count"));
    // A key takes at least a length, a type and a byte; a directory entry a length, a dimension, type and offset.
    if (n_keys_ > remaining() / 13) {
      return Corrupt(16, "metadata count " + std::to_string(n_keys_) + " does not fit into a file of " +
                             std::to_string(bytes_.size()) + " bytes");
    }
    if (n_tensors_ > remaining() / 32) {
      return Corrupt(8, "tensor count " + std::to_string(n_tensors_) + " does not fit into a file of " +
                            std::to_string(bytes_.size()) + " bytes");
    }
    return OkStatus();
  }

  Status ParseKey() {
    const uint64_t start = at_;
    SURETY_ASSIGN_OR_RETURN(const std::string_view key, ReadString("a metadata key", kMaxKeyBytes));
    if (key.empty()) return Corrupt(start, "empty metadata key");
    const uint64_t type_at = at_;
    SURETY_ASSIGN_OR_RETURN(const uint32_t type, Read<uint32_t>("a metadata type"));
    if (MinBytes(type) == 0) {
      return Corrupt(type_at, "key '" + Printable(key) + "' has the unknown type " + std::to_string(type));
    }
    if (static_cast<GgufType>(type) == GgufType::kArray) {
      GgufArray array;
      SURETY_RETURN_IF_ERROR(ReadArray(key, array, 0));
      file_.metadata_.emplace_back(key, std::move(array));
      return OkStatus();
    }
    SURETY_ASSIGN_OR_RETURN(const GgufScalar scalar, ReadScalar(key, static_cast<GgufType>(type)));
    std::visit([&](auto value) { file_.metadata_.emplace_back(key, value); }, scalar);
    return OkStatus();
  }

  Result<GgufScalar> ReadScalar(std::string_view key, GgufType type) {
    const std::string what = "the value of key '" + Printable(key) + "'";
    if (type == GgufType::kString) {
      SURETY_ASSIGN_OR_RETURN(const std::string_view text, ReadString(what));
      return GgufScalar(text);
    }
    const uint64_t size = MinBytes(static_cast<uint32_t>(type));
    if (remaining() < size) return Error(Truncated(what, size));
    const std::byte* at = bytes_.data() + at_;
    if (type == GgufType::kBool && static_cast<uint8_t>(*at) > 1) {
      return Error(Corrupt(at_, what + " is a boolean of value " + std::to_string(static_cast<uint8_t>(*at))));
    }
    at_ += size;
    return DecodeScalar(type, at);
  }

  Status ReadArray(std::string_view key, GgufArray& array, int depth) {
    const uint64_t start = at_;
    const std::string what = "the array of key '" + Printable(key) + "'";
    SURETY_ASSIGN_OR_RETURN(const uint32_t type, Read<uint32_t>(what));
    SURETY_ASSIGN_OR_RETURN(const uint64_t count, Read<uint64_t>(what));
    const uint64_t min_bytes = MinBytes(type);
    if (min_bytes == 0) return Corrupt(start, what + " has the unknown element type " + std::to_string(type));
    if (count > remaining() / min_bytes) {
      return Corrupt(start + 4, what + " has " + std::to_string(count) + " elements, which do not fit into the " +
                                    std::to_string(remaining()) + " bytes left");
    }
    array.element_type = static_cast<GgufType>(type);
    const uint64_t first = at_;
    if (array.element_type == GgufType::kArray) {
      if (depth == kMaxNestedArrays) return Corrupt(start, what + " is nested too deeply");
      for (uint64_t i = 0; i < count; ++i) {
        GgufArray skipped;
        SURETY_RETURN_IF_ERROR(ReadArray(key, skipped, depth + 1));
      }
      return OkStatus();
    }
    if (count > kMaxArrayElements - n_array_elements_) {
      return Corrupt(start + 4, what + " has " + std::to_string(count) + " elements; at most " +
                                    std::to_string(kMaxArrayElements) + " are read from one file");
    }
    n_array_elements_ += count;
    if (array.element_type == GgufType::kString) {
      for (uint64_t i = 0; i < count; ++i) {
        if (const auto text = ReadString(what); !text) return text.error();
      }
    } else {
      for (uint64_t i = 0; array.element_type == GgufType::kBool && i < count; ++i) {
        if (const auto value = static_cast<uint8_t>(bytes_[at_ + i]); value > 1) {
          return Corrupt(at_ + i, what + " has a boolean of value " + std::to_string(value));
        }
      }
      at_ += count * min_bytes;  // no overflow: count <= remaining / min_bytes
    }
    array.size = count;
    array.bytes = bytes_.subspan(first, at_ - first);
    return OkStatus();
  }

  Status CheckDuplicateKeys() const {
    const auto& order = file_.metadata_by_name_;
    for (size_t i = 1; i < order.size(); ++i) {
      const std::string_view key = file_.metadata_[order[i]].first;
      if (key == file_.metadata_[order[i - 1]].first) {
        return DataLossError("'" + file_.path() + "': key '" + Printable(key) + "' is there twice");
      }
    }
    return OkStatus();
  }

  Status ReadAlignment() {
    if (file_.Find("general.alignment") == nullptr) return OkStatus();
    SURETY_ASSIGN_OR_RETURN(const int64_t alignment, file_.Int("general.alignment"));
    if (alignment < 8 || alignment > (int64_t{1} << 31) || (alignment & (alignment - 1)) != 0) {
      return DataLossError("'" + file_.path() + "': key 'general.alignment' is " + std::to_string(alignment) +
                           ", but must be a power of two of at least 8");
    }
    alignment_ = static_cast<uint64_t>(alignment);
    return OkStatus();
  }

  Status ParseTensorInfo() {
    TensorInfo info;
    info.at_byte = at_;
    SURETY_ASSIGN_OR_RETURN(info.name, ReadString("a tensor name", kMaxTensorNameBytes));
    if (info.name.empty()) return Corrupt(info.at_byte, "empty tensor name");
    const std::string what = "the entry of tensor '" + Printable(info.name) + "'";
    SURETY_ASSIGN_OR_RETURN(const uint32_t n_dims, Read<uint32_t>(what));
    if (n_dims == 0 || n_dims > kMaxDims) {
      return Corrupt(info.at_byte, what + " has " + std::to_string(n_dims) + " dimensions, but 1 to 4 are possible");
    }
    uint64_t elements = 1;
    for (uint32_t i = 0; i < n_dims; ++i) {
      SURETY_ASSIGN_OR_RETURN(const uint64_t dim, Read<uint64_t>(what));
      if (dim == 0 || dim > uint64_t{INT64_MAX} || __builtin_mul_overflow(elements, dim, &elements) ||
          elements > uint64_t{INT64_MAX}) {
        return Corrupt(info.at_byte, what + ": dimension " + std::to_string(i) + " is " + std::to_string(dim) +
                                         ", which is zero or too large");
      }
      info.shape.insert(info.shape.begin(), static_cast<int64_t>(dim));
    }
    SURETY_ASSIGN_OR_RETURN(const uint32_t type, Read<uint32_t>(what));
    const std::optional<DType> dtype = DTypeFromGgufNumber(type);
    if (!dtype) {
      return UnimplementedError("'" + file_.path() + "': byte " + std::to_string(at_ - 4) + ": tensor '" +
                                Printable(info.name) + "' has type " + std::string(GgufTypeName(type)) + " (number " +
                                std::to_string(type) + "), which is not supported");
    }
    info.dtype = *dtype;
    SURETY_ASSIGN_OR_RETURN(info.offset, Read<uint64_t>(what));
    SURETY_RETURN_IF_ERROR(CheckSize(what, elements, info));
    infos_.push_back(std::move(info));
    return OkStatus();
  }

  Status CheckSize(const std::string& what, uint64_t elements, TensorInfo& info) const {
    const DTypeInfo& type = InfoOf(info.dtype);
    const auto block = static_cast<uint64_t>(type.block_elements);
    if (static_cast<uint64_t>(info.shape.back()) % block != 0) {
      return Corrupt(info.at_byte, what + ": rows of " + std::to_string(info.shape.back()) +
                                       " elements are no multiple of the " + std::to_string(block) +
                                       " elements in a block of " + std::string(type.name));
    }
    if (__builtin_mul_overflow(elements / block, static_cast<uint64_t>(type.block_bytes), &info.size_bytes)) {
      return Corrupt(info.at_byte, what + ": its size in bytes is past 64 bits");
    }
    if (info.offset % alignment_ != 0) {
      return Corrupt(info.at_byte, what + ": offset " + std::to_string(info.offset) +
                                       " is no multiple of the alignment " + std::to_string(alignment_));
    }
    return OkStatus();
  }

  Status PlaceTensors() {
    const uint64_t padding = (alignment_ - at_ % alignment_) % alignment_;
    const uint64_t data_bytes = remaining() < padding ? 0 : remaining() - padding;
    const uint64_t data_at = at_ + padding;
    for (const TensorInfo& info : infos_) {
      if (info.offset > data_bytes || info.size_bytes > data_bytes - info.offset) {
        return OutOfRangeError("'" + file_.path() + "': byte " + std::to_string(info.at_byte) + ": tensor '" +
                               Printable(info.name) + "' has " + std::to_string(info.size_bytes) +
                               " bytes at offset " + std::to_string(info.offset) + ", but the data ends at " +
                               std::to_string(data_bytes) + " (is the file truncated?)");
      }
    }
    SURETY_RETURN_IF_ERROR(CheckOverlaps());
    file_.tensors_.reserve(infos_.size());
    for (TensorInfo& info : infos_) {
      file_.tensors_.push_back({std::string(info.name), info.dtype, std::move(info.shape),
                                bytes_.subspan(data_at + info.offset, info.size_bytes)});
    }
    file_.tensors_by_name_ =
        SortedByName(file_.tensors_, [](const TensorView& tensor) { return std::string_view(tensor.name); });
    for (size_t i = 1; i < infos_.size(); ++i) {
      const uint32_t index = file_.tensors_by_name_[i];
      const std::string& name = file_.tensors_[index].name;
      if (name == file_.tensors_[file_.tensors_by_name_[i - 1]].name) {
        return Corrupt(infos_[index].at_byte, "tensor '" + Printable(name) + "' is there twice");
      }
    }
    return OkStatus();
  }

  Status CheckOverlaps() const {
    std::vector<uint32_t> order(infos_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [this](uint32_t a, uint32_t b) { return infos_[a].offset < infos_[b].offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      const TensorInfo& before = infos_[order[i - 1]];
      const TensorInfo& info = infos_[order[i]];
      if (before.offset + before.size_bytes > info.offset) {
        return Corrupt(info.at_byte, "tensor '" + Printable(info.name) + "' at offset " +
                                         std::to_string(info.offset) + " overlaps tensor '" +
                                         Printable(before.name) + "', which ends at " +
                                         std::to_string(before.offset + before.size_bytes));
      }
    }
    return OkStatus();
  }

  GgufFile& file_;
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;  // never past bytes_.size()
  uint64_t n_tensors_ = 0;
  uint64_t n_keys_ = 0;
  uint64_t n_array_elements_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  std::vector<TensorInfo> infos_;
};

Result<std::unique_ptr<GgufFile>> GgufFile::Open(FileSystem& files, const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(auto map, files.Map(path));
  return FromMap(std::move(map));
}

Result<std::unique_ptr<GgufFile>> GgufFile::FromMap(std::unique_ptr<MappedFile> map) {
  auto file = std::make_unique<GgufFile>();
  file->map_ = std::move(map);
  SURETY_RETURN_IF_ERROR(GgufParser(*file).Parse());
  return file;
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = std::lower_bound(metadata_by_name_.begin(), metadata_by_name_.end(), key,
                                      [this](uint32_t i, std::string_view k) { return metadata_[i].first < k; });
  if (found == metadata_by_name_.end() || metadata_[*found].first != key) return nullptr;
  return &metadata_[*found].second;
}

const TensorView* GgufFile::FindTensor(std::string_view name) const {
  const auto found = std::lower_bound(tensors_by_name_.begin(), tensors_by_name_.end(), name,
                                      [this](uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  if (found == tensors_by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found];
}

namespace {

Result<const GgufValue*> Needed(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.Find(key);
  if (value == nullptr) {
    return Error(NotFoundError("'" + file.path() + "': key '" + Printable(key) + "' is missing"));
  }
  return value;
}

}  // namespace

Result<int64_t> GgufFile::Int(std::string_view key) const {
  SURETY_ASSIGN_OR_RETURN(const GgufValue* value, Needed(*this, key));
  if (const auto* u = std::get_if<uint64_t>(value)) {
    if (*u > uint64_t{INT64_MAX}) {
      return Error(InvalidArgumentError("'" + path() + "': key '" + Printable(key) + "' is " + std::to_string(*u) +
                                        ", which is too large"));
    }
    return static_cast<int64_t>(*u);
  }
  if (const auto* i = std::get_if<int64_t>(value)) return *i;
  return Error(WrongKind(path(), key, *value, "an integer"));
}

Result<double> GgufFile::Float(std::string_view key) const {
  SURETY_ASSIGN_OR_RETURN(const GgufValue* value, Needed(*this, key));
  if (const auto* d = std::get_if<double>(value)) return *d;
  if (const auto* u = std::get_if<uint64_t>(value)) return static_cast<double>(*u);
  if (const auto* i = std::get_if<int64_t>(value)) return static_cast<double>(*i);
  return Error(WrongKind(path(), key, *value, "a number"));
}

Result<bool> GgufFile::Bool(std::string_view key) const {
  SURETY_ASSIGN_OR_RETURN(const GgufValue* value, Needed(*this, key));
  if (const auto* b = std::get_if<bool>(value)) return *b;
  return Error(WrongKind(path(), key, *value, "a boolean"));
}

Result<std::string_view> GgufFile::String(std::string_view key) const {
  SURETY_ASSIGN_OR_RETURN(const GgufValue* value, Needed(*this, key));
  if (const auto* s = std::get_if<std::string_view>(value)) return *s;
  return Error(WrongKind(path(), key, *value, "a string"));
}

Result<const GgufArray*> GgufFile::Array(std::string_view key) const {
  SURETY_ASSIGN_OR_RETURN(const GgufValue* value, Needed(*this, key));
  if (const auto* a = std::get_if<GgufArray>(value)) return a;
  return Error(WrongKind(path(), key, *value, "an array"));
}

std::vector<GgufScalar> GgufArray::Values() const {
  std::vector<GgufScalar> values;
  values.reserve(size);
  const std::byte* at = bytes.data();
  for (size_t i = 0; i < size; ++i) values.push_back(DecodeScalar(element_type, at));
  return values;
}

}  // namespace surety::model
