// What the target computed for every position of the samples: hidden states (bfloat16) and the likeliest tokens among
// those that the head may say, with their probabilities. A file of rows of one size, in the samples' order, read
// through a map.
//
// A row: tap_width bfloat16, padded to 4 bytes; the target's most likely token (any id); n_top draft ids; n_top
// probabilities of sum 1 (over the draft vocabulary, cut at the n_top likeliest).
//
// Threads: writer one, reader any. Owns: the file or its map. Errors: kDataLoss (size or header), kIoError.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "train/samples.h"

namespace surety::train {

struct FeatureShape {
  int64_t tap_width = 0;
  int n_top = 0;
  std::string digest;  // of samples, vocabulary and settings: rows of another run are not gone on with

  int64_t TapBytes() const { return (tap_width * 2 + 3) / 4 * 4; }
  int64_t RowBytes() const { return TapBytes() + 4 + int64_t{n_top} * 8; }
  int64_t FileBytes(int64_t n_rows) const { return kHeaderBytes + n_rows * RowBytes(); }
  static constexpr int64_t kHeaderBytes = 128;
};

// The most likely ones of a distribution over the draft vocabulary.
struct TopTokens {
  std::vector<int32_t> ids;
  std::vector<float> probabilities;
};
// The n_top largest of softmax over logits[draft_ids[i]], renormalised, likeliest first (ties: the lower id).
void TopOf(std::span<const float> logits, std::span<const int32_t> draft_ids, int n_top, TopTokens& top);

// Is nothing of it NaN or positive infinity, and something finite?
bool AreNumbers(std::span<const float> x);

class FeatureWriter {
 public:
  // Goes on behind the whole samples that are in the file already.
  static Result<FeatureWriter> Open(FileSystem& files, const std::string& path, const FeatureShape& shape,
                                    const std::vector<Sample>& samples);
  FeatureWriter(FeatureWriter&& other) noexcept;
  FeatureWriter& operator=(FeatureWriter&&) = delete;
  ~FeatureWriter();

  size_t n_samples() const { return n_samples_; }  // that are in the file
  // The next position of the current sample. Of positions without targets `top` is empty.
  void AddRow(std::span<const float> taps, int32_t most_likely, const TopTokens& top);
  Status EndSample();  // writes its rows
  Status Finish();     // syncs

 private:
  FeatureWriter() = default;
  FeatureShape shape_;
  std::string path_;
  int fd_ = -1;
  size_t n_samples_ = 0;
  std::vector<std::byte> rows_;
};

class FeatureFile {
 public:
  static Result<FeatureFile> Open(FileSystem& files, const std::string& path, const FeatureShape& shape,
                                  const std::vector<Sample>& samples);

  struct Row {
    std::span<const uint16_t> taps;  // bfloat16
    int32_t most_likely = 0;
    std::span<const int32_t> ids;
    std::span<const float> probabilities;
  };
  Row At(size_t sample, int32_t position) const;
  const FeatureShape& shape() const { return shape_; }

 private:
  FeatureFile() = default;
  FeatureShape shape_;
  std::unique_ptr<MappedFile> map_;
  std::vector<int64_t> first_row_;  // by sample
};

}  // namespace surety::train
