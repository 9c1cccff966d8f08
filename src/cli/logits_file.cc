#include "cli/logits_file.h"

#include <cstring>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "tensor/half.h"

namespace surety::cli {
namespace {

constexpr uint64_t kMaxLogitsHeaderBytes = 100 << 20;

struct LogitsEntry {
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// A tensor of the header, its range checked against the data.
Result<LogitsEntry> FindEntry(const boost::json::object& header, std::string_view name,
                              std::span<const std::byte> data) {
  const auto* value = header.if_contains(name);
  if (value == nullptr || !value->is_object()) return Error(DataLossError(fmt::format("no tensor '{}'", name)));
  const auto& object = value->as_object();
  const auto* dtype = object.if_contains("dtype");
  const auto* shape = object.if_contains("shape");
  const auto* offsets = object.if_contains("data_offsets");
  const Status corrupt = DataLossError(fmt::format("the header's entry '{}' is corrupt", name));
  if (dtype == nullptr || !dtype->is_string() || shape == nullptr || !shape->is_array() || offsets == nullptr ||
      !offsets->is_array() || offsets->as_array().size() != 2) {
    return Error(corrupt);
  }
  LogitsEntry entry;
  entry.dtype = dtype->as_string();
  for (const auto& dimension : shape->as_array()) {
    const auto* number = dimension.if_int64();
    if (number == nullptr || *number < 0 || *number > INT32_MAX) return Error(corrupt);
    entry.shape.push_back(*number);
  }
  const auto* begin = offsets->as_array()[0].if_int64();
  const auto* end = offsets->as_array()[1].if_int64();
  if (begin == nullptr || end == nullptr || *begin < 0 || *end < *begin ||
      *end > static_cast<int64_t>(data.size())) {
    return Error(DataLossError(fmt::format("tensor '{}' reaches past the end of the file", name)));
  }
  entry.bytes = data.subspan(static_cast<size_t>(*begin), static_cast<size_t>(*end - *begin));
  return entry;
}

}  // namespace

Result<std::unique_ptr<LogitsFile>> LogitsFile::Open(FileSystem& files, const std::string& path) {
  auto file = std::unique_ptr<LogitsFile>(new LogitsFile());
  SURETY_ASSIGN_OR_RETURN(file->map_, files.Map(path));
  const auto bytes = file->map_->bytes();
  uint64_t header_bytes = 0;
  if (bytes.size() >= 8) std::memcpy(&header_bytes, bytes.data(), 8);
  if (bytes.size() < 8 || header_bytes > kMaxLogitsHeaderBytes || header_bytes > bytes.size() - 8) {
    return Error(DataLossError(fmt::format("{}: not a safetensors file", path)));
  }
  boost::system::error_code error;
  const boost::json::value header =
      boost::json::parse({reinterpret_cast<const char*>(bytes.data()) + 8, header_bytes}, error);
  if (error || !header.is_object()) return Error(DataLossError(fmt::format("{}: its header is not JSON", path)));
  const auto data = bytes.subspan(8 + header_bytes);
  auto tokens = FindEntry(header.as_object(), "tokens", data);
  if (!tokens) return Error(tokens.error().WithContext(path));
  auto logits = FindEntry(header.as_object(), "logits", data);
  if (!logits) return Error(logits.error().WithContext(path));
  if (tokens->dtype != "I32" || (logits->dtype != "F32" && logits->dtype != "F16")) {
    return Error(UnimplementedError(fmt::format("{}: tokens are {} and logits {}; I32 and F32 or F16 are read", path,
                                                tokens->dtype, logits->dtype)));
  }
  file->half_ = logits->dtype == "F16";
  const size_t element_bytes = file->half_ ? 2 : 4;
  const auto& shape = logits->shape;
  if (tokens->shape.size() != 1 || shape.size() != 2 || shape[0] != tokens->shape[0] || shape[0] == 0 ||
      shape[1] == 0 || tokens->bytes.size() != static_cast<size_t>(shape[0]) * 4 ||
      logits->bytes.size() != static_cast<size_t>(shape[0]) * static_cast<size_t>(shape[1]) * element_bytes) {
    return Error(DataLossError(fmt::format("{}: the shapes of tokens and logits do not fit", path)));
  }
  file->vocab_size_ = shape[1];
  file->tokens_.resize(static_cast<size_t>(shape[0]));
  std::memcpy(file->tokens_.data(), tokens->bytes.data(), tokens->bytes.size());
  file->logits_ = logits->bytes;
  return file;
}

void LogitsFile::Row(int64_t r, std::span<float> out) const {
  const size_t row_bytes = static_cast<size_t>(vocab_size_) * (half_ ? 2 : 4);
  const std::byte* row = logits_.data() + static_cast<size_t>(r) * row_bytes;
  if (!half_) {
    std::memcpy(out.data(), row, row_bytes);
  } else {
    for (size_t i = 0; i < out.size(); ++i) {
      uint16_t bits;
      std::memcpy(&bits, row + 2 * i, 2);
      out[i] = F16ToF32(bits);
    }
  }
  map_->Release(logits_.subspan(static_cast<size_t>(r) * row_bytes, row_bytes));
}

Result<std::unique_ptr<LogitsWriter>> LogitsWriter::Create(const std::string& path, std::span<const int32_t> tokens,
                                                           int64_t vocab_size) {
  auto writer = std::make_unique<LogitsWriter>();
  SURETY_ASSIGN_OR_RETURN(writer->out_, FileWriter::Create(path));
  const auto n = static_cast<int64_t>(tokens.size());
  const int64_t logits_end = n * 4 + n * vocab_size * 4;
  std::string header = fmt::format(
      R"({{"tokens":{{"dtype":"I32","shape":[{}],"data_offsets":[0,{}]}},)"
      R"("logits":{{"dtype":"F32","shape":[{},{}],"data_offsets":[{},{}]}}}})",
      n, n * 4, n, vocab_size, n * 4, logits_end);
  while (header.size() % 8 != 0) header += ' ';
  const uint64_t header_bytes = header.size();
  SURETY_RETURN_IF_ERROR(writer->out_->Append(std::as_bytes(std::span(&header_bytes, 1))));
  SURETY_RETURN_IF_ERROR(writer->out_->Append(std::as_bytes(std::span(header))));
  SURETY_RETURN_IF_ERROR(writer->out_->Append(std::as_bytes(tokens)));
  return writer;
}

Status LogitsWriter::Append(std::span<const float> row) { return out_->Append(std::as_bytes(row)); }
Status LogitsWriter::Commit() { return out_->Commit(); }

}  // namespace surety::cli
