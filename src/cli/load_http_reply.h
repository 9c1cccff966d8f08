// An HTTP/1.1 response out of bytes as they come: status, the headers that matter here, and the body without framing.
//
// Threads: one. Errors: Feed answers false where the bytes are no HTTP response.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace surety::cli {

class HttpReplyParser {
 public:
  struct Events {
    std::function<void(int status, bool event_stream, double retry_after_s)> on_header;
    std::function<void(std::string_view)> on_body;
  };

  virtual ~HttpReplyParser() = default;
  static std::unique_ptr<HttpReplyParser> Make(Events events);

  virtual bool Feed(std::string_view bytes) = 0;
  // The peer has closed. True if that ends the response properly.
  virtual bool FeedEnd() = 0;
  virtual bool complete() const = 0;
  virtual bool keep_alive() const = 0;         // after it is complete
  virtual const std::string& error() const = 0;
};

}  // namespace surety::cli
