// Server-sent events out of bytes as they come, however the network has cut them.
//
// Source: WHATWG HTML, "9.2.6 Interpreting an event stream": lines end with CR, LF or CR LF; a byte order mark at the
// start is passed over; `data` fields of an event are joined with LF; an event without data, and one that the end of
// the stream cuts, are not dispatched; comments and other fields are passed over.
// Threads: one. Errors: kOutOfRange for an event of more than kMaxEventBytes; nothing is dispatched after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"

namespace surety::cli {

class SseParser {
 public:
  static constexpr size_t kMaxEventBytes = 16 << 20;

  // `time` is when these bytes came; an event is dispatched with the time of its data's first byte.
  Status Feed(std::string_view bytes, int64_t time, FunctionRef<void(std::string_view data, int64_t time)> on_event);

 private:
  void EndLine(FunctionRef<void(std::string_view data, int64_t time)> on_event);

  std::string line_;
  std::string data_;
  bool has_data_ = false;    // a data field came, perhaps an empty one
  bool after_cr_ = false;    // an LF that comes now belongs to the line that has ended
  bool at_start_ = true;     // of the stream: its first line may hold a byte order mark
  bool failed_ = false;
  int64_t line_time_ = -1;   // of the first byte of the line, and of the event's first data line
  int64_t event_time_ = -1;
};

}  // namespace surety::cli
