#include "train/features.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "tensor/half.h"
#include "train/append_file.h"
#include "train/math_table.h"

namespace surety::train {
namespace {

// Fixed bytes at the start: a mark, sizes, the digest.
std::array<std::byte, FeatureShape::kHeaderBytes> HeaderOf(const FeatureShape& shape) {
  std::array<std::byte, FeatureShape::kHeaderBytes> header = {};
  const std::string text = fmt::format("surety features 1 {} {} {}", shape.tap_width, shape.n_top, shape.digest);
  std::memcpy(header.data(), text.data(), std::min(text.size(), header.size()));
  return header;
}

}  // namespace

void TopOf(std::span<const float> logits, std::span<const int32_t> draft_ids, int n_top, TopTokens& top) {
  thread_local std::vector<std::pair<float, int32_t>> all;
  all.clear();
  for (size_t i = 0; i < draft_ids.size(); ++i) {
    all.emplace_back(logits[static_cast<size_t>(draft_ids[i])], static_cast<int32_t>(i));
  }
  const auto before = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  const size_t n = std::min(static_cast<size_t>(n_top), all.size());
  std::nth_element(all.begin(), all.begin() + static_cast<ptrdiff_t>(n) - 1, all.end(), before);
  std::sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(n), before);
  top.ids.assign(static_cast<size_t>(n_top), 0);
  top.probabilities.assign(static_cast<size_t>(n_top), 0.0f);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(all[i].first) - static_cast<double>(all[0].first));
  for (size_t i = 0; i < n; ++i) {
    top.ids[i] = all[i].second;
    top.probabilities[i] = static_cast<float>(
        std::exp(static_cast<double>(all[i].first) - static_cast<double>(all[0].first)) / sum);
  }
}

bool AreNumbers(std::span<const float> x) {
  bool some = false, none_wrong = true;
  for (const float value : x) {
    some |= std::isfinite(value);
    none_wrong &= value < std::numeric_limits<float>::infinity();  // false for NaN
  }
  return some && none_wrong;
}

Result<FeatureWriter> FeatureWriter::Open(FileSystem& files, const std::string& path, const FeatureShape& shape,
                                          const std::vector<Sample>& samples) {
  FeatureWriter writer;
  writer.shape_ = shape;
  writer.path_ = path;
  const auto header = HeaderOf(shape);
  int64_t there = 0;
  std::error_code error;
  if (const auto size = std::filesystem::file_size(path, error); !error) {
    SURETY_ASSIGN_OR_RETURN(const auto map, files.Map(path));
    const auto bytes = map->bytes();
    if (bytes.size() >= header.size() && std::equal(header.begin(), header.end(), bytes.begin())) {
      there = static_cast<int64_t>(size);
    }
  }
  int64_t end = FeatureShape::kHeaderBytes;
  for (; there > 0 && writer.n_samples_ < samples.size(); ++writer.n_samples_) {
    const int64_t next = end + static_cast<int64_t>(samples[writer.n_samples_].tokens.size()) * shape.RowBytes();
    if (next > there) break;
    end = next;
  }
  SURETY_ASSIGN_OR_RETURN(writer.fd_, OpenToAppend(path, there > 0 ? end : 0));
  if (there == 0) SURETY_RETURN_IF_ERROR(AppendBytes(writer.fd_, path, header));
  return writer;
}

FeatureWriter::FeatureWriter(FeatureWriter&& other) noexcept
    : shape_(std::move(other.shape_)), path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)),
      n_samples_(other.n_samples_), rows_(std::move(other.rows_)) {}

FeatureWriter::~FeatureWriter() {
  if (fd_ >= 0) close(fd_);
}

void FeatureWriter::AddRow(std::span<const float> taps, int32_t most_likely, const TopTokens& top) {
  const size_t at = rows_.size();
  rows_.resize(at + static_cast<size_t>(shape_.RowBytes()));
  std::byte* row = rows_.data() + at;
  for (size_t i = 0; i < taps.size(); ++i) {
    const uint16_t bits = F32ToBF16(taps[i]);
    std::memcpy(row + 2 * i, &bits, 2);
  }
  row += shape_.TapBytes();
  std::memcpy(row, &most_likely, 4);
  if (top.ids.empty()) return;
  std::memcpy(row + 4, top.ids.data(), top.ids.size() * 4);
  std::memcpy(row + 4 + int64_t{shape_.n_top} * 4, top.probabilities.data(), top.probabilities.size() * 4);
}

Status FeatureWriter::EndSample() {
  SURETY_RETURN_IF_ERROR(AppendBytes(fd_, path_, rows_));
  rows_.clear();
  ++n_samples_;
  return OkStatus();
}

Status FeatureWriter::Finish() { return SyncFile(fd_, path_); }

Result<FeatureFile> FeatureFile::Open(FileSystem& files, const std::string& path, const FeatureShape& shape,
                                      const std::vector<Sample>& samples) {
  FeatureFile file;
  file.shape_ = shape;
  SURETY_ASSIGN_OR_RETURN(file.map_, files.Map(path));
  int64_t n_rows = 0;
  for (const Sample& sample : samples) {
    file.first_row_.push_back(n_rows);
    n_rows += static_cast<int64_t>(sample.tokens.size());
  }
  const auto header = HeaderOf(shape);
  const auto bytes = file.map_->bytes();
  if (static_cast<int64_t>(bytes.size()) != shape.FileBytes(n_rows) ||
      !std::equal(header.begin(), header.end(), bytes.begin())) {
    return Error(DataLossError(fmt::format("{}: {} bytes that are not those of this run; {} were to be expected", path,
                                           bytes.size(), shape.FileBytes(n_rows))));
  }
  return file;
}

FeatureFile::Row FeatureFile::At(size_t sample, int32_t position) const {
  const std::byte* row = map_->bytes().data() + FeatureShape::kHeaderBytes +
                         (first_row_[sample] + position) * shape_.RowBytes();
  Row out;
  out.taps = {reinterpret_cast<const uint16_t*>(row), static_cast<size_t>(shape_.tap_width)};
  row += shape_.TapBytes();
  std::memcpy(&out.most_likely, row, 4);
  const auto n = static_cast<size_t>(shape_.n_top);
  out.ids = {reinterpret_cast<const int32_t*>(row + 4), n};
  out.probabilities = {reinterpret_cast<const float*>(row + 4 + 4 * n), n};
  return out;
}

}  // namespace surety::train
