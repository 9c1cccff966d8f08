// A blocking client over a plain socket, for tests: it sends whatever bytes it is given and reads answers by the rules
// of RFC 9112, with code that shares nothing with the server's.
//
// Threads: one. Owns: the socket. Every wait ends after a limit; what was not received then is reported as such.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace surety::http {

struct RawResponse {
  int status = 0;                              // 0: no answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  bool complete = false;                       // the body ended as its head promised
};

class RawClient {
 public:
  explicit RawClient(int port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return fd_ >= 0; }
  bool Send(std::string_view bytes);           // all of them; false if the peer has closed
  void ShutdownSend();
  void Close();
  void Reset();                                // closes so that the peer gets a reset
  void SetReceiveBuffer(int size_bytes);

  // One answer, without interim ones (100) unless asked for.
  RawResponse Read(bool to_head_request = false, bool interim = false);
  std::string ReadSome(int limit_ms);          // empty: nothing came, or the end
  bool ReadUntil(std::string_view text, int limit_ms);  // of all bytes since the last answer; they stay unread
  bool AtEnd(int limit_ms);                    // the peer closes within the limit, and sends nothing before

 private:
  bool Fill(int limit_ms);                     // false: end or limit
  bool ReadLine(std::string& line);
  bool ReadChunks(std::string& body);

  int fd_ = -1;
  bool ended_ = false;
  std::string buffer_;
};

// "GET /path HTTP/1.1" with Host, the given further lines (each with CR LF) and a body with its length.
std::string MakeRequest(std::string_view method, std::string_view path, std::string_view extra_headers = "",
                        std::string_view body = "");

}  // namespace surety::http
