#include "gateway/event_stream.h"

#include <algorithm>
#include <utility>

namespace surety::gateway {

bool EventStream::Dispatch(FunctionRef<bool(std::string_view data)> on_data) {
  if (!std::exchange(has_data_, false)) return true;
  const std::string data = std::exchange(data_, {});
  return on_data(data);
}

bool EventStream::EndLine(FunctionRef<bool(std::string_view data)> on_data) {
  const std::string whole = std::exchange(line_, {});
  std::string_view line = whole;
  if (std::exchange(at_start_, false) && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  if (line.empty()) return Dispatch(on_data);
  const size_t colon = std::min(line.find(':'), line.size());
  if (line.substr(0, colon) != "data") return true;
  line.remove_prefix(std::min(colon + 1, line.size()));
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
  return true;
}

Status EventStream::Feed(std::string_view bytes, FunctionRef<bool(std::string_view data)> on_data) {
  while (!bytes.empty()) {
    if (std::exchange(after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    if (line_.size() + data_.size() + end > kMaxEventBytes) {
      return ResourceExhaustedError("an event of more than 4 MiB");
    }
    line_ += bytes.substr(0, end);
    if (end == bytes.size()) break;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (!EndLine(on_data)) break;
  }
  return OkStatus();
}

void EventStream::End(FunctionRef<bool(std::string_view data)> on_data) {
  if (!line_.empty() && !EndLine(on_data)) return;
  (void)Dispatch(on_data);
}

}  // namespace surety::gateway
