#include "cli/load_sse.h"

#include <algorithm>

namespace surety::cli {

void SseParser::EndLine(FunctionRef<void(std::string_view data, int64_t time)> on_event) {
  std::string_view line = line_;
  if (at_start_ && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  at_start_ = false;
  if (line.empty()) {
    if (has_data_) {
      data_.pop_back();  // the LF after the last line
      on_event(data_, event_time_);
    }
    data_.clear();
    has_data_ = false;
  } else {
    const size_t colon = line.find(':');
    std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (line.substr(0, colon) == "data") {
      data_ += value;
      data_ += '\n';
      if (!has_data_) event_time_ = line_time_;
      has_data_ = true;
    }
  }
  line_.clear();
  line_time_ = -1;
}

Status SseParser::Feed(std::string_view bytes, int64_t time,
                       FunctionRef<void(std::string_view data, int64_t time)> on_event) {
  if (failed_) return OutOfRangeError("the event stream has failed");
  if (after_cr_ && !bytes.empty()) {
    if (bytes.front() == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
  }
  while (!bytes.empty()) {
    if (line_time_ < 0) line_time_ = time;
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    if (line_.size() + end + data_.size() > kMaxEventBytes) {
      failed_ = true;
      return OutOfRangeError("an event of more than 16 MiB");
    }
    line_ += bytes.substr(0, end);
    if (end == bytes.size()) return OkStatus();
    const bool cr = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    EndLine(on_event);
    if (cr && bytes.empty()) after_cr_ = true;
    if (cr && bytes.starts_with('\n')) bytes.remove_prefix(1);
  }
  return OkStatus();
}

}  // namespace surety::cli
