// A server on the loopback that does to each connection what a test says, byte by byte.
//
// Threads: one for the door and one a connection; the script runs on the connection's. Owns: all of them; the
// destructor closes the connections and joins.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace surety::gateway {

struct ScriptedRequest {
  std::string method, target;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class ScriptedConnection {
 public:
  virtual ~ScriptedConnection() = default;
  // False when the peer has closed, or the server is being ended.
  virtual bool ReadRequest(ScriptedRequest& request) = 0;
  virtual bool Send(std::string_view bytes) = 0;
  // One byte range after the other with a pause between, so that the peer reads them apart.
  bool SendSplit(std::string_view bytes, size_t at);
  // Until the peer closes; false when it has not within the time.
  virtual bool WaitForClose(int limit_ms) = 0;
  virtual void CloseNow() = 0;   // without anything further
  virtual void Abort() = 0;      // so that the peer sees a reset
  int number = 0;                // of the connection, from 0
};

struct ScriptedTls {
  std::string certificate, key;  // PEM
  std::string client_authority;  // PEM; where given, clients must show a certificate of it
};

class ScriptedServer {
 public:
  using Script = std::function<void(ScriptedConnection&)>;
  explicit ScriptedServer(Script script, ScriptedTls tls = {});
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  // A script that answers each request by `answer` (whole HTTP bytes), as long as the peer asks.
  static Script Answering(std::function<std::string(const ScriptedRequest&)> answer);

  int port() const { return port_; }
  std::string Url(std::string_view path = "/") const;
  int n_connections() const { return n_connections_; }
  std::vector<ScriptedRequest> requests() const;  // all that ReadRequest gave
  void Record(const ScriptedRequest& request);

 private:
  void Serve();

  const Script script_;
  void* tls_context_ = nullptr;
  int door_ = -1, port_ = 0;
  std::atomic<bool> ending_{false};
  std::atomic<int> n_connections_{0};
  mutable std::mutex mutex_;
  std::vector<ScriptedRequest> requests_;
  std::vector<int> sockets_;
  std::list<std::thread> threads_;
  std::thread accept_;
};

// "HTTP/1.1 200 OK" with a length and, where given, further headers, each ended by CR LF.
std::string HttpOk(std::string_view body, std::string_view headers = {}, std::string_view status = "200 OK");
// The same in chunks of `size` bytes.
std::string HttpChunked(std::string_view body, size_t size, std::string_view headers = {});

}  // namespace surety::gateway
