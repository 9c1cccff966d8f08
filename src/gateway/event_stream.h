// Server-sent events out of bytes as they come, however the network has cut them.
//
// Lines end with CR, LF or CR LF; a space after the colon is optional; data lines of one event are joined by LF;
// comments and other fields are passed over. Unlike a browser, an event that the end of the stream cuts off is given by
// End, since servers forget the last empty line. Threads: one. Errors: kResourceExhausted for an event of more than
// kMaxEventBytes. Source: WHATWG HTML, section "Interpreting an event stream".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"

namespace surety::gateway {

class EventStream {
 public:
  static constexpr size_t kMaxEventBytes = 4 << 20;

  // False from `on_data` ends the reading: bytes behind that event are not looked at.
  Status Feed(std::string_view bytes, FunctionRef<bool(std::string_view data)> on_data);
  void End(FunctionRef<bool(std::string_view data)> on_data);

 private:
  bool EndLine(FunctionRef<bool(std::string_view data)> on_data);
  bool Dispatch(FunctionRef<bool(std::string_view data)> on_data);

  std::string line_, data_;
  bool has_data_ = false;
  bool after_cr_ = false;   // an LF that comes now belongs to the line end that was seen
  bool at_start_ = true;    // a byte order mark may come
};

}  // namespace surety::gateway
