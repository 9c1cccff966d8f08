#include "cli/zip_reader.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <zlib.h>

#include "cli/file_writer.h"
#include "cli/interrupt.h"

namespace surety::cli {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kEnd64LocatorSignature = 0x07064b50;
constexpr uint32_t kEntrySignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint64_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kEntryBytes = 46, kLocalBytes = 30;
constexpr size_t kZipPieceBytes = 1 << 20;

// Little-endian numbers with every access checked against the size.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size() const { return bytes_.size(); }
  bool Has(uint64_t at, uint64_t n) const { return at <= bytes_.size() && n <= bytes_.size() - at; }
  template <typename T>
  T Get(uint64_t at) const {
    T value = 0;
    if (Has(at, sizeof(T))) std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }
  std::string Text(uint64_t at, uint64_t n) const {
    return Has(at, n) ? std::string(reinterpret_cast<const char*>(bytes_.data()) + at, n) : std::string();
  }

 private:
  std::span<const std::byte> bytes_;
};

struct Directory {
  uint64_t offset = 0;
  uint64_t n_entries = 0;
};

// ZIP64 values stand in the extra field, in this order, only where the plain field is all ones.
void ApplyZip64(const Bytes& bytes, uint64_t at, uint64_t extra_bytes, ZipMember& member) {
  const uint64_t end = at + extra_bytes;
  while (at + 4 <= end) {
    const auto id = bytes.Get<uint16_t>(at);
    const uint64_t field_end = at + 4 + bytes.Get<uint16_t>(at + 2);
    if (id == 1) {
      uint64_t place = at + 4;
      for (uint64_t* value : {&member.size_bytes, &member.packed_bytes, &member.header_offset}) {
        if (*value != 0xFFFFFFFFu || place + 8 > field_end) continue;
        *value = bytes.Get<uint64_t>(place);
        place += 8;
      }
    }
    at = field_end;
  }
}

Result<Directory> FindDirectory(const Bytes& bytes) {
  if (bytes.size() < kEndBytes) return Error(DataLossError("not a ZIP archive: too short"));
  const uint64_t lowest = bytes.size() > kEndBytes + 65535 ? bytes.size() - kEndBytes - 65535 : 0;
  for (uint64_t at = bytes.size() - kEndBytes + 1; at-- > lowest;) {
    if (bytes.Get<uint32_t>(at) != kEndSignature) continue;
    Directory directory{bytes.Get<uint32_t>(at + 16), bytes.Get<uint16_t>(at + 10)};
    if (at >= kLocatorBytes && bytes.Get<uint32_t>(at - kLocatorBytes) == kEnd64LocatorSignature) {
      const auto end64 = bytes.Get<uint64_t>(at - kLocatorBytes + 8);
      if (!bytes.Has(end64, kEnd64Bytes) || bytes.Get<uint32_t>(end64) != kEnd64Signature) {
        return Error(DataLossError(fmt::format("corrupt ZIP64 directory at offset {}", end64)));
      }
      directory = {bytes.Get<uint64_t>(end64 + 48), bytes.Get<uint64_t>(end64 + 32)};
    }
    return directory;
  }
  return Error(DataLossError("not a ZIP archive: no directory at its end"));
}

Status ZlibFailure(const ZipMember& member, const char* why) {
  return DataLossError(fmt::format("member {}: {}", member.name, why));
}

}  // namespace

Result<std::unique_ptr<ZipReader>> ZipReader::Open(FileSystem& files, const std::string& path) {
  auto reader = std::make_unique<ZipReader>();
  SURETY_ASSIGN_OR_RETURN(reader->map_, files.Map(path));
  SURETY_RETURN_IF_ERROR(reader->ReadDirectory().WithContext(path));
  return reader;
}

Status ZipReader::ReadDirectory() {
  const Bytes bytes(map_->bytes());
  SURETY_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(bytes));
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.n_entries; ++i) {
    if (!bytes.Has(at, kEntryBytes) || bytes.Get<uint32_t>(at) != kEntrySignature) {
      return DataLossError(fmt::format("corrupt ZIP directory entry at offset {}", at));
    }
    const uint64_t name_bytes = bytes.Get<uint16_t>(at + 28);
    const uint64_t extra_bytes = bytes.Get<uint16_t>(at + 30);
    const uint64_t comment_bytes = bytes.Get<uint16_t>(at + 32);
    if (!bytes.Has(at, kEntryBytes + name_bytes + extra_bytes + comment_bytes)) {
      return DataLossError(fmt::format("ZIP directory entry at offset {} is cut off", at));
    }
    ZipMember member;
    member.flags = bytes.Get<uint16_t>(at + 8);
    member.method = bytes.Get<uint16_t>(at + 10);
    member.crc = bytes.Get<uint32_t>(at + 16);
    member.packed_bytes = bytes.Get<uint32_t>(at + 20);
    member.size_bytes = bytes.Get<uint32_t>(at + 24);
    member.header_offset = bytes.Get<uint32_t>(at + 42);
    member.name = bytes.Text(at + kEntryBytes, name_bytes);
    ApplyZip64(bytes, at + kEntryBytes + name_bytes, extra_bytes, member);
    members_.push_back(std::move(member));
    at += kEntryBytes + name_bytes + extra_bytes + comment_bytes;
  }
  return OkStatus();
}

Result<ZipMember> ZipReader::Find(const std::string& pattern) const {
  for (const ZipMember& member : members_) {
    const bool match = pattern.starts_with("*/") ? ("/" + member.name).ends_with(pattern.substr(1))
                                                 : member.name == pattern;
    if (match) return member;
  }
  return Error(NotFoundError(fmt::format("{}: no member {}", map_->path(), pattern)));
}

Status ZipReader::Extract(const ZipMember& member, const std::string& path) const {
  const Bytes bytes(map_->bytes());
  if (!bytes.Has(member.header_offset, kLocalBytes) || bytes.Get<uint32_t>(member.header_offset) != kLocalSignature) {
    return ZlibFailure(member, "its header is corrupt");
  }
  if ((member.flags & 1) != 0) return UnimplementedError(fmt::format("member {} is encrypted", member.name));
  if (member.method != 0 && member.method != 8) {
    return UnimplementedError(fmt::format("member {}: ZIP method {} is not supported", member.name, member.method));
  }
  const uint64_t data = member.header_offset + kLocalBytes + bytes.Get<uint16_t>(member.header_offset + 26) +
                        bytes.Get<uint16_t>(member.header_offset + 28);
  if (!bytes.Has(data, member.packed_bytes)) return ZlibFailure(member, "it is cut off");

  SURETY_ASSIGN_OR_RETURN(auto out, FileWriter::Create(path));
  z_stream stream = {};
  if (member.method == 8 && inflateInit2(&stream, -MAX_WBITS) != Z_OK) return InternalError("zlib did not start");
  const auto* next = reinterpret_cast<const Bytef*>(map_->bytes().data() + data);
  uint64_t left = member.packed_bytes;
  uint64_t written = 0;
  uLong crc = crc32(0, nullptr, 0);
  std::vector<std::byte> piece(kZipPieceBytes);
  Status status;
  bool ended = member.method == 0 && left == 0;
  while (status.ok() && !ended) {
    if (Interrupted()) status = CancelledError("interrupted");
    const auto in = static_cast<uInt>(std::min<uint64_t>(left, kZipPieceBytes));
    size_t n = in;
    if (member.method == 0) {
      std::memcpy(piece.data(), next, in);
      left -= in;
      next += in;
      ended = left == 0;
    } else {
      stream.next_in = const_cast<Bytef*>(next);
      stream.avail_in = in;
      stream.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_out = static_cast<uInt>(kZipPieceBytes);
      const int rc = inflate(&stream, Z_NO_FLUSH);
      if (rc != Z_OK && rc != Z_STREAM_END) status = ZlibFailure(member, "its compressed data is corrupt");
      left -= in - stream.avail_in;
      next = stream.next_in;
      n = kZipPieceBytes - stream.avail_out;
      ended = rc == Z_STREAM_END;
    }
    written += n;
    if (written > member.size_bytes) status = ZlibFailure(member, "it is larger than the directory says");
    crc = crc32(crc, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(n));
    if (status.ok()) status = out->Append({piece.data(), n});
  }
  if (member.method == 8) inflateEnd(&stream);
  SURETY_RETURN_IF_ERROR(status);
  if (written != member.size_bytes || crc != member.crc) return ZlibFailure(member, "its checksum is wrong");
  return out->Commit();
}

}  // namespace surety::cli
