// Texts as token ids, with what the target wrote or would have written: what the head learns to say. On disk one JSON
// object a line, appended text by text, so that work which was interrupted goes on after the last whole line.
//
// Threads: one. Owns: the open file. Errors: kDataLoss with file and line; the system's.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace surety::train {

struct Sample {
  std::vector<int32_t> tokens;
  // Half-open ranges of positions whose token is learned. The last one may reach one position past the tokens: there
  // the text ended by itself, and that it ends is learned too.
  std::vector<std::pair<int32_t, int32_t>> answers;

  // Is what comes after position i to be learned?
  bool LearnsAfter(int32_t i) const {
    for (const auto& [begin, end] : answers) {
      if (i + 1 >= begin && i + 1 < end) return true;
    }
    return false;
  }
  // At most n tokens; what lies behind is cut off.
  void Truncate(int32_t n);
};

class SampleFile {
 public:
  // The samples that are there; what comes after the last whole line is dropped. `digest` names the run, texts and
  // settings, in the file's first line. kFailedPrecondition where another stands there: those texts are not this run's.
  static Result<SampleFile> Open(FileSystem& files, const std::string& path, const std::string& digest);
  SampleFile(SampleFile&& other) noexcept;
  SampleFile& operator=(SampleFile&&) = delete;
  ~SampleFile();

  const std::vector<Sample>& samples() const { return samples_; }
  Status Append(Sample sample);  // written before it returns
  std::vector<Sample> Take() && { return std::move(samples_); }

 private:
  SampleFile() = default;
  std::string path_;
  int fd_ = -1;
  std::vector<Sample> samples_;
};

// SHA-256 of the samples, hex.
std::string DigestOf(const std::vector<Sample>& samples);

// The `size` target ids that the head may say, ascending: those that come up most in the answers of the samples whose
// index `learned` names, then those of their prompts, then the lowest.
std::vector<int32_t> ChooseDraftVocabulary(const std::vector<Sample>& samples, const std::vector<int32_t>& learned,
                                           int vocab_size, int size, const std::vector<int32_t>& always);

}  // namespace surety::train
