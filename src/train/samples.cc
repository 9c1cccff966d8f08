#include "train/samples.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <span>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/hash.h"
#include "train/append_file.h"

namespace surety::train {
namespace {

namespace json = boost::json;
constexpr int64_t kMaxSampleBytes = int64_t{4} << 30;

std::string LineOf(const Sample& sample) {
  json::array answers;
  for (const auto& [begin, end] : sample.answers) answers.push_back(json::array{begin, end});
  return json::serialize(json::object{{"tokens", json::array(sample.tokens.begin(), sample.tokens.end())},
                                      {"answers", std::move(answers)}}) + "\n";
}

bool ReadInts(const json::value* value, std::vector<int32_t>& out) {
  const json::array* list = value == nullptr ? nullptr : value->if_array();
  if (list == nullptr) return false;
  for (const json::value& item : *list) {
    const int64_t* number = item.if_int64();
    if (number == nullptr || *number < 0 || *number > INT32_MAX) return false;
    out.push_back(static_cast<int32_t>(*number));
  }
  return true;
}

bool ReadSample(std::string_view line, Sample& sample) {
  boost::system::error_code error;
  const json::value value = json::parse(line, error);
  const json::object* object = error ? nullptr : value.if_object();
  if (object == nullptr || !ReadInts(object->if_contains("tokens"), sample.tokens)) return false;
  const json::value* answers = object->if_contains("answers");
  if (answers == nullptr || !answers->is_array()) return false;
  for (const json::value& range : answers->get_array()) {
    std::vector<int32_t> ends;
    if (!ReadInts(&range, ends) || ends.size() != 2 || ends[0] > ends[1]) return false;
    sample.answers.emplace_back(ends[0], ends[1]);
  }
  return true;
}

}  // namespace

void Sample::Truncate(int32_t n) {
  if (static_cast<int32_t>(tokens.size()) <= n) return;
  tokens.resize(static_cast<size_t>(n));
  for (auto& [begin, end] : answers) {
    begin = std::min(begin, n);
    end = std::min(end, n);
  }
  std::erase_if(answers, [](const auto& range) { return range.first >= range.second; });
}

Result<SampleFile> SampleFile::Open(FileSystem& files, const std::string& path, const std::string& digest) {
  SampleFile file;
  file.path_ = path;
  std::string contents;
  if (files.Exists(path)) {
    SURETY_ASSIGN_OR_RETURN(contents, files.ReadAll(path, kMaxSampleBytes));
  }
  const std::string first = json::serialize(json::object{{"run", digest}}) + "\n";
  const bool begun = contents.find('\n') != std::string::npos;
  if (begun && !contents.starts_with(first)) {
    return Error(FailedPreconditionError(path + ": texts of another run; remove the work folder or choose another"));
  }
  size_t whole = begun ? first.size() : 0;
  for (size_t end; (end = contents.find('\n', whole)) != std::string::npos; whole = end + 1) {
    Sample sample;
    if (!ReadSample(std::string_view(contents).substr(whole, end - whole), sample)) {
      return Error(DataLossError(fmt::format("{}: line {} is no sample; remove the work folder and start again", path,
                                             file.samples_.size() + 2)));
    }
    file.samples_.push_back(std::move(sample));
  }
  SURETY_ASSIGN_OR_RETURN(file.fd_, OpenToAppend(path, static_cast<int64_t>(whole)));
  if (!begun) SURETY_RETURN_IF_ERROR(AppendBytes(file.fd_, path, std::as_bytes(std::span(first))));
  return file;
}

SampleFile::SampleFile(SampleFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), samples_(std::move(other.samples_)) {}

SampleFile::~SampleFile() {
  if (fd_ >= 0) close(fd_);
}

Status SampleFile::Append(Sample sample) {
  const std::string line = LineOf(sample);
  SURETY_RETURN_IF_ERROR(AppendBytes(fd_, path_, std::as_bytes(std::span(line))));
  samples_.push_back(std::move(sample));
  return OkStatus();
}

std::string DigestOf(const std::vector<Sample>& samples) {
  Sha256 hash;
  for (const Sample& sample : samples) {
    const std::string line = LineOf(sample);
    hash.Update(std::as_bytes(std::span(line)));
  }
  return HexOf(hash.Finish());
}

std::vector<int32_t> ChooseDraftVocabulary(const std::vector<Sample>& samples, const std::vector<int32_t>& learned,
                                           int vocab_size, int size, const std::vector<int32_t>& always) {
  struct Count {
    int64_t answers = 0, others = 0;
  };
  std::vector<Count> counts(static_cast<size_t>(vocab_size));
  for (const int32_t token : always) counts[static_cast<size_t>(token)].answers = INT64_MAX / 2;
  for (const int32_t index : learned) {
    const Sample& sample = samples[static_cast<size_t>(index)];
    for (size_t i = 0; i < sample.tokens.size(); ++i) {
      Count& count = counts[static_cast<size_t>(sample.tokens[i])];
      (sample.LearnsAfter(static_cast<int32_t>(i) - 1) ? count.answers : count.others) += 1;
    }
  }
  std::vector<int32_t> ids(static_cast<size_t>(vocab_size));
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    const Count &x = counts[static_cast<size_t>(a)], &y = counts[static_cast<size_t>(b)];
    return x.answers != y.answers ? x.answers > y.answers : x.others > y.others;
  });
  ids.resize(static_cast<size_t>(std::min(size, vocab_size)));
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace surety::train
