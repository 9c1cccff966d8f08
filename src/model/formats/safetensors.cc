#include "model/formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "model/formats/json_fields.h"
#include "model/formats/text.h"

namespace surety::model {
namespace {

constexpr uint64_t kMaxHeaderBytes = uint64_t{32} << 20;
constexpr size_t kMaxShapeDims = 8;

// Bits of an element of a type that the format names; 0 if unknown.
uint64_t BitsOf(std::string_view dtype) {
  constexpr std::pair<std::string_view, uint64_t> kBits[] = {
      {"BOOL", 8},     {"U8", 8},       {"I8", 8},       {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
      {"F6_E2M3", 6},  {"F6_E3M2", 6},  {"F4", 4},       {"I16", 16},    {"U16", 16},    {"F16", 16},
      {"BF16", 16},    {"I32", 32},     {"U32", 32},     {"F32", 32},    {"I64", 64},    {"U64", 64},
      {"F64", 64},     {"C64", 64}};
  for (const auto& [name, bits] : kBits) {
    if (name == dtype) return bits;
  }
  return 0;
}

std::optional<uint64_t> Unsigned(const boost::json::value& value) {
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<uint64_t>(value.get_int64());
  if (value.is_uint64()) return value.get_uint64();
  return std::nullopt;
}

}  // namespace

class SafetensorsParser {
 public:
  explicit SafetensorsParser(SafetensorsFile& file) : file_(file), bytes_(file.map_->bytes()) {}

  Status Parse() {
    SURETY_ASSIGN_OR_RETURN(const std::string_view header, Header());
    auto object = ParseJsonObject(header, "'" + file_.path() + "': header (from byte 8)");
    if (!object) return DataLossError(object.error().message());
    for (const auto& [name, value] : *object) {
      if (name == "__metadata__") continue;
      SURETY_RETURN_IF_ERROR(ParseEntry(name, value));
    }
    SURETY_RETURN_IF_ERROR(CheckCover());
    for (Entry& entry : entries_) SURETY_RETURN_IF_ERROR(Place(entry));
    return OkStatus();
  }

 private:
  struct Entry {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    uint64_t elements = 1;
    uint64_t begin = 0, end = 0;  // from the start of the data
  };

  Status Corrupt(std::string message) const { return DataLossError("'" + file_.path() + "': " + std::move(message)); }

  Result<std::string_view> Header() {
    if (bytes_.size() < 8) {
      return Error(OutOfRangeError("'" + file_.path() + "': byte 0: the file has " + std::to_string(bytes_.size()) +
                                   " bytes, less than the 8 of a header's length"));
    }
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof(length));
    if (length > kMaxHeaderBytes) {
      return Error(Corrupt("byte 0: header length " + std::to_string(length) + "; at most " +
                           std::to_string(kMaxHeaderBytes) + " bytes are read (not a safetensors file?)"));
    }
    if (length > bytes_.size() - 8) {
      return Error(OutOfRangeError("'" + file_.path() + "': byte 8: the file ends within the header of " +
                                   std::to_string(length) + " bytes (" + std::to_string(bytes_.size() - 8) +
                                   " left)"));
    }
    data_ = bytes_.subspan(8 + length);
    const std::string_view header(reinterpret_cast<const char*>(bytes_.data()) + 8, length);
    if (!header.starts_with('{')) return Error(Corrupt("byte 8: the header does not start with '{'"));
    return header;
  }

  Status ParseEntry(std::string_view name, const boost::json::value& value) {
    const std::string what = "tensor '" + Printable(name) + "'";
    const boost::json::object* object = value.if_object();
    if (object == nullptr) return Corrupt(what + " has no object as its entry");
    const boost::json::value* dtype = object->if_contains("dtype");
    const boost::json::value* shape = object->if_contains("shape");
    const boost::json::value* offsets = object->if_contains("data_offsets");
    if (dtype == nullptr || !dtype->is_string()) return Corrupt(what + " has no string 'dtype'");
    if (shape == nullptr || !shape->is_array()) return Corrupt(what + " has no array 'shape'");
    if (offsets == nullptr || !offsets->is_array() || offsets->get_array().size() != 2) {
      return Corrupt(what + " has no pair 'data_offsets'");
    }
    Entry entry;
    entry.name = std::string(name);
    entry.dtype = std::string(dtype->get_string());
    if (shape->get_array().size() > kMaxShapeDims) {
      return Corrupt(what + " has " + std::to_string(shape->get_array().size()) + " dimensions; at most 8 are read");
    }
    for (const boost::json::value& dim : shape->get_array()) {
      const std::optional<uint64_t> size = Unsigned(dim);
      if (!size || *size > uint64_t{INT64_MAX} || __builtin_mul_overflow(entry.elements, *size, &entry.elements) ||
          entry.elements > uint64_t{INT64_MAX}) {
        return Corrupt(what + " has a dimension that is negative, no integer or too large");
      }
      entry.shape.push_back(static_cast<int64_t>(*size));
    }
    const std::optional<uint64_t> begin = Unsigned(offsets->get_array()[0]);
    const std::optional<uint64_t> end = Unsigned(offsets->get_array()[1]);
    if (!begin || !end || *begin > *end) return Corrupt(what + " has data_offsets that are not ascending numbers");
    entry.begin = *begin;
    entry.end = *end;
    SURETY_RETURN_IF_ERROR(CheckSize(what, entry));
    entries_.push_back(std::move(entry));
    return OkStatus();
  }

  Status CheckSize(const std::string& what, const Entry& entry) const {
    if (entry.end > data_.size()) {
      return OutOfRangeError("'" + file_.path() + "': " + what + " ends at byte " + std::to_string(entry.end) +
                             " of the data, which has " + std::to_string(data_.size()) +
                             " bytes (is the file truncated?)");
    }
    const uint64_t bits = BitsOf(entry.dtype);
    if (bits == 0) return OkStatus();  // unknown type: it stays unread
    uint64_t total_bits = 0;
    const bool overflow = __builtin_mul_overflow(entry.elements, bits, &total_bits);
    if (overflow || total_bits % 8 != 0 || total_bits / 8 != entry.end - entry.begin) {
      return Corrupt(what + " has " + std::to_string(entry.end - entry.begin) + " bytes, which is not the size of " +
                     ShapeText(entry.shape) + " " + entry.dtype);
    }
    return OkStatus();
  }

  // The data is covered by the tensors in order, each byte once.
  Status CheckCover() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    uint64_t at = 0;
    for (const Entry& entry : entries_) {
      if (entry.begin != at) {
        return Corrupt("tensor '" + Printable(entry.name) + "' starts at byte " + std::to_string(entry.begin) +
                       " of the data, but the one before ends at " + std::to_string(at));
      }
      at = entry.end;
    }
    if (at != data_.size()) {
      return Corrupt("the tensors end at byte " + std::to_string(at) + " of the data, which has " +
                     std::to_string(data_.size()) + " bytes");
    }
    return OkStatus();
  }

  Status Place(Entry& entry) {
    std::optional<DType> dtype;
    if (entry.dtype == "F32" || entry.dtype == "F16" || entry.dtype == "BF16") dtype = DTypeFromName(entry.dtype);
    std::span<const std::byte> bytes = data_.subspan(entry.begin, entry.end - entry.begin);
    if (!dtype || entry.elements == 0) {
      file_.unread_.push_back({std::move(entry.name), std::move(entry.dtype), std::move(entry.shape), bytes});
      return OkStatus();
    }
    const auto element_bytes = static_cast<uintptr_t>(InfoOf(*dtype).block_bytes);
    if (!bytes.empty() && reinterpret_cast<uintptr_t>(bytes.data()) % element_bytes != 0) {
      auto copy = AlignedBuffer::TryAllocate(bytes.size());
      if (!copy) return copy.error().WithContext("tensor '" + Printable(entry.name) + "'");
      std::memcpy(copy->data(), bytes.data(), bytes.size());
      bytes = {copy->data(), bytes.size()};
      file_.copies_.push_back(*std::move(copy));
    }
    file_.tensors_.push_back({std::move(entry.name), *dtype, std::move(entry.shape), bytes});
    return OkStatus();
  }

  SafetensorsFile& file_;
  std::span<const std::byte> bytes_;
  std::span<const std::byte> data_;
  std::vector<Entry> entries_;
};

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(FileSystem& files, const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(auto map, files.Map(path));
  return FromMap(std::move(map));
}

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::FromMap(std::unique_ptr<MappedFile> map) {
  auto file = std::make_unique<SafetensorsFile>();
  file->map_ = std::move(map);
  SURETY_RETURN_IF_ERROR(SafetensorsParser(*file).Parse());
  return file;
}

}  // namespace surety::model
