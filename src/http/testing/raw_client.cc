#include "http/testing/raw_client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cctype>
#include <cstdlib>
#include <utility>

namespace surety::http {
namespace {
constexpr int kLimitMs = 10'000;
}

RawClient::RawClient(int port) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) Close();
}

RawClient::~RawClient() { Close(); }

void RawClient::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void RawClient::Reset() {
  const linger at_once = {1, 0};
  (void)::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  Close();
}

void RawClient::SetReceiveBuffer(int size_bytes) {
  (void)::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &size_bytes, sizeof size_bytes);
}

void RawClient::ShutdownSend() { (void)::shutdown(fd_, SHUT_WR); }

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool RawClient::Fill(int limit_ms) {
  if (fd_ < 0 || ended_) return false;
  pollfd waiting = {fd_, POLLIN, 0};
  if (::poll(&waiting, 1, limit_ms) <= 0) return false;
  std::array<char, 16 * 1024> bytes;
  const ssize_t n = ::recv(fd_, bytes.data(), bytes.size(), 0);
  if (n <= 0) {
    ended_ = true;
    return false;
  }
  buffer_.append(bytes.data(), static_cast<size_t>(n));
  return true;
}

std::string RawClient::ReadSome(int limit_ms) {
  if (buffer_.empty()) (void)Fill(limit_ms);
  return std::exchange(buffer_, {});
}

bool RawClient::ReadUntil(std::string_view text, int limit_ms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  while (buffer_.find(text) == std::string::npos) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0 || (!Fill(static_cast<int>(left.count())) && ended_)) return false;
  }
  return true;
}

bool RawClient::AtEnd(int limit_ms) {
  if (!buffer_.empty()) return false;
  return !Fill(limit_ms) && ended_;
}

bool RawClient::ReadLine(std::string& line) {
  size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!Fill(kLimitMs)) return false;
  }
  line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return true;
}

bool RawClient::ReadChunks(std::string& body) {
  for (std::string line;;) {
    if (!ReadLine(line)) return false;
    const size_t size = std::strtoull(line.c_str(), nullptr, 16);
    while (buffer_.size() < size + 2) {
      if (!Fill(kLimitMs)) return false;
    }
    body.append(buffer_, 0, size);
    if (buffer_.compare(size, 2, "\r\n") != 0) return false;
    buffer_.erase(0, size + 2);
    if (size == 0) return true;
  }
}

RawResponse RawClient::Read(bool to_head_request, bool interim) {
  RawResponse response;
  std::string line;
  if (!ReadLine(line) || !line.starts_with("HTTP/1.1 ") || line.size() < 13) return response;
  const int status = std::atoi(line.c_str() + 9);
  for (;;) {
    if (!ReadLine(line)) return response;
    if (line.empty()) break;
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) return response;
    std::string name = line.substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    response.headers[name] += (response.headers.contains(name) ? ", " : "") + line.substr(colon + 2);
  }
  if (status == 100 && !interim) return Read(to_head_request);
  response.status = status;
  if (to_head_request || status == 204 || status == 304 || status < 200) {
    response.complete = true;
  } else if (response.headers.contains("transfer-encoding")) {
    response.complete = ReadChunks(response.body);
  } else if (response.headers.contains("content-length")) {
    const size_t length = std::strtoull(response.headers["content-length"].c_str(), nullptr, 10);
    while (buffer_.size() < length && Fill(kLimitMs)) {
    }
    response.complete = buffer_.size() >= length;
    response.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
  } else {
    while (Fill(kLimitMs)) {
    }
    response.complete = ended_;
    response.body = std::exchange(buffer_, {});
  }
  return response;
}

std::string MakeRequest(std::string_view method, std::string_view path, std::string_view extra_headers,
                        std::string_view body) {
  std::string out(method);
  out.append(" ").append(path).append(" HTTP/1.1\r\nHost: 127.0.0.1\r\n").append(extra_headers);
  if (!body.empty()) out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return out.append("\r\n").append(body);
}

}  // namespace surety::http
