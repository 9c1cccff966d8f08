#include "train/checkpoint.h"

#include <cstring>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/hash.h"
#include "train/append_file.h"

namespace surety::train {
namespace {

constexpr std::string_view kCheckpointMark = "surety checkpoint 1\n";

void PutNumber(std::string& out, uint64_t n) { out.append(reinterpret_cast<const char*>(&n), 8); }

class CheckpointParser {
 public:
  explicit CheckpointParser(std::string_view bytes) : rest_(bytes) {}
  bool Number(uint64_t& n) {
    if (rest_.size() < 8) return false;
    std::memcpy(&n, rest_.data(), 8);
    rest_.remove_prefix(8);
    return true;
  }
  bool Bytes(uint64_t n, std::string_view& out) {
    if (rest_.size() < n) return false;
    out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return true;
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

bool ParseCheckpoint(std::string_view bytes, Checkpoint& out) {
  if (bytes.size() < kCheckpointMark.size() + 32 || !bytes.starts_with(kCheckpointMark)) return false;
  const std::string_view body = bytes.substr(0, bytes.size() - 32);
  const Sha256Digest digest = Sha256Of(std::as_bytes(std::span(body)));
  if (std::memcmp(digest.data(), bytes.data() + body.size(), 32) != 0) return false;
  CheckpointParser parser(body.substr(kCheckpointMark.size()));
  uint64_t n = 0, count = 0;
  std::string_view text;
  if (!parser.Number(n) || !parser.Bytes(n, text) || !parser.Number(count)) return false;
  boost::system::error_code error;
  const boost::json::value state = boost::json::parse(text, error);
  if (error || !state.is_object()) return false;
  out.state = state.as_object();
  for (uint64_t i = 0; i < count; ++i) {
    if (!parser.Number(n) || n > body.size() / sizeof(float) || !parser.Bytes(n * sizeof(float), text)) return false;
    std::vector<float> array(n);
    std::memcpy(array.data(), text.data(), text.size());
    out.arrays.push_back(std::move(array));
  }
  return parser.empty();
}

}  // namespace

Status WriteCheckpoint(const std::string& path, const boost::json::object& state,
                       std::span<const std::span<const float>> arrays) {
  std::string out(kCheckpointMark);
  const std::string text = boost::json::serialize(state);
  size_t size = out.size() + text.size() + 64;
  for (const auto& array : arrays) size += 8 + array.size_bytes();
  out.reserve(size);
  PutNumber(out, text.size());
  out += text;
  PutNumber(out, arrays.size());
  for (const auto& array : arrays) {
    PutNumber(out, array.size());
    out.append(reinterpret_cast<const char*>(array.data()), array.size_bytes());
  }
  const Sha256Digest digest = Sha256Of(std::as_bytes(std::span(out)));
  out.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return ReplacePrivately(path, out);
}

Result<Checkpoint> ReadCheckpoint(FileSystem& files, const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(const auto map, files.Map(path));
  Checkpoint checkpoint;
  const auto bytes = map->bytes();
  if (!ParseCheckpoint({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, checkpoint)) {
    return Error(DataLossError(path + ": not a checkpoint of train-draft, or damaged"));
  }
  return checkpoint;
}

}  // namespace surety::train
