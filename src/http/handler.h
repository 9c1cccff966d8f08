// The border between the transport (sockets, TLS, limits, who is calling) and what is answered.
//
// Threads: Handle is called on an I/O thread and must not block for long; a ResponseWriter may be used from any thread,
// one call at a time. Owns: the transport and whoever still writes share the writer.
// Invariants: (1) each request is answered exactly once: by Send, or by StartStream ... FinishStream. A writer that is
// destroyed unanswered sends a 500. (2) After the client has left, writes are ignored and return false.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json/object.hpp>

#include "api/scope.h"

namespace surety::http {

class RequestTrace;

enum class Role : uint8_t { kNone, kUser, kAdmin };

// Who is calling, as verified by the transport: by API key, by JWT, or nobody where the server runs without keys.
struct Identity {
  Role role = Role::kNone;
  std::string subject;     // for logs and audit: the key's name or the token's sub
  api::Scope scope;        // salt is empty
  boost::json::object claims;  // all that was verified: the token's claims, or the fields of the key's entry
  int priority = 0;        // the most urgent this caller may ask for; lower runs earlier
};

using HeaderList = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;                         // "POST"
  std::string path;                           // decoded, without the query: "/v1/models/a b"
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers; // names in lower case
  std::string body;
  std::string request_id;                     // x-request-id of the caller if it is sane, else made here
  int64_t start_ns = 0;                       // monotonic, when its head was complete; 0: not known
  Identity identity;
};

class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  virtual void Send(int status, std::string_view content_type, std::string body, HeaderList headers = {}) = 0;

  // A response whose body comes in pieces, e.g. server-sent events.
  virtual void StartStream(int status, std::string_view content_type, HeaderList headers = {}) = 0;
  // False when the client has left, or reads so slowly that its buffer is full (it is then disconnected).
  virtual bool Write(std::string data) = 0;
  virtual void FinishStream() = 0;

  // Called at most once, when the client leaves before the answer is complete; at once if it has left already.
  virtual void OnDisconnect(std::function<void()> callback) = 0;

  // Of this request, where it is traced; lives as long as the writer.
  virtual RequestTrace* trace() { return nullptr; }
};

using Handler = std::function<void(HttpRequest request, std::shared_ptr<ResponseWriter> writer)>;

// What answers a method and path. `path` may end in "/*": any rest, of one or more segments.
struct Route {
  std::string method;
  std::string path;
  Role role = Role::kUser;   // the least role that may call; kNone: public
  Handler handler;
};

}  // namespace surety::http
