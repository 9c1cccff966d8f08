// One connection to an HTTP server, plain or TLS, that never blocks but in Open and Wait, which keep a deadline.
//
// TLS: 1.2 or later; the server's certificate must be valid for the host's name or address, by the system's authorities
// or those of a given file. Threads: one at a time. Owns: the socket. Errors: as http_client.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "gateway/http_client.h"

namespace surety::gateway {

// When a call is to be given up.
struct HttpLimits {
  int64_t deadline_ns = 0;                         // of Clock::Real().NowNanos()
  const std::function<bool()>* stop = nullptr;     // may be empty
  std::string_view authority;                      // for messages

  // kDeadlineExceeded, kCancelled.
  Status Check(std::string_view doing) const;
  // Until the next check is due: at most 20 ms where there is a stop; at least 1.
  int WaitMillis() const;
};

class HttpConnection {
 public:
  struct Io {
    size_t n_bytes = 0;
    bool ended = false;      // Read: the peer has closed
    bool cut = false;        // with ended: a TLS stream that was not closed in form
    Status error;            // of the connection; n_bytes 0 with neither: nothing to be done now
  };

  // Looks the name up, connects to the first address that answers, shakes hands.
  static Result<std::unique_ptr<HttpConnection>> Open(const HttpAddress& address, const HttpTls& tls,
                                                      const HttpLimits& limits);
  virtual ~HttpConnection() = default;

  virtual Io Read(std::span<char> bytes) = 0;
  // Takes some of the bytes; what it took may still wait to leave (unsent()).
  virtual Io Write(std::string_view bytes) = 0;
  virtual bool unsent() const = 0;
  virtual int64_t n_sent() const = 0;              // bytes that the socket took since Open
  // Until there is something to read, or something can be written where `write`.
  virtual Status Wait(bool write, const HttpLimits& limits, std::string_view doing) = 0;
  // Neither closed nor with bytes that nobody asked for.
  virtual bool IsQuiet() = 0;
};

}  // namespace surety::gateway
