#include "gateway/testing/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>

#include "base/check.h"

namespace surety::gateway {
namespace {

class ScriptedSocket : public ScriptedConnection {
 public:
  ScriptedSocket(int fd, SSL_CTX* context, ScriptedServer& server) : fd_(fd), server_(server) {
    if (context == nullptr) return;
    ssl_ = SSL_new(context);
    SSL_set_fd(ssl_, fd_);
    if (SSL_accept(ssl_) != 1) closed_ = true;
  }
  ~ScriptedSocket() override {
    if (ssl_ != nullptr && !closed_) (void)SSL_shutdown(ssl_);
    SSL_free(ssl_);
    ERR_clear_error();
  }

  bool ReadRequest(ScriptedRequest& request) override {
    request = {};
    size_t end;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!Fill()) return false;
    }
    ParseHead(buffer_.substr(0, end + 2), request);
    buffer_.erase(0, end + 4);
    const auto length = request.headers.find("content-length");
    const size_t n = length == request.headers.end() ? 0 : std::stoul(length->second);
    while (buffer_.size() < n) {
      if (!Fill()) return false;
    }
    request.body = buffer_.substr(0, n);
    buffer_.erase(0, n);
    server_.Record(request);
    return true;
  }

  bool Send(std::string_view bytes) override {
    while (!bytes.empty()) {
      if (closed_) return false;
      const ssize_t n = ssl_ != nullptr ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                                        : ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  bool WaitForClose(int limit_ms) override {
    pollfd ready = {fd_, POLLIN, 0};
    while (::poll(&ready, 1, limit_ms) > 0) {
      if (!Fill()) return true;
    }
    return false;
  }

  void CloseNow() override {
    closed_ = true;
    (void)::shutdown(fd_, SHUT_RDWR);
  }

  void Abort() override {
    closed_ = true;
    const linger reset = {1, 0};
    (void)::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }

 private:
  bool Fill() {
    if (closed_) return false;
    std::array<char, 16384> bytes;
    const ssize_t n = ssl_ != nullptr ? SSL_read(ssl_, bytes.data(), bytes.size())
                                      : ::recv(fd_, bytes.data(), bytes.size(), 0);
    if (n <= 0) return false;
    buffer_.append(bytes.data(), static_cast<size_t>(n));
    return true;
  }

  static void ParseHead(const std::string& head, ScriptedRequest& request) {
    size_t at = head.find("\r\n");
    const std::string line = head.substr(0, at);
    const size_t first = line.find(' '), last = line.rfind(' ');
    request.method = line.substr(0, first);
    request.target = line.substr(first + 1, last - first - 1);
    while (at + 2 < head.size()) {
      const size_t next = head.find("\r\n", at + 2);
      const std::string field = head.substr(at + 2, next - at - 2);
      at = next;
      const size_t colon = field.find(':');
      std::string name = field.substr(0, colon);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      request.headers[name] = colon + 2 <= field.size() ? field.substr(colon + 2) : "";
    }
  }

  const int fd_;
  ScriptedServer& server_;
  SSL* ssl_ = nullptr;
  bool closed_ = false;
  std::string buffer_;
};

SSL_CTX* ServerContext(const ScriptedTls& tls) {
  if (tls.certificate.empty()) return nullptr;
  (void)std::signal(SIGPIPE, SIG_IGN);  // OpenSSL's sockets raise it
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  BIO* bio = BIO_new_mem_buf(tls.certificate.data(), static_cast<int>(tls.certificate.size()));
  X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  bio = BIO_new_mem_buf(tls.key.data(), static_cast<int>(tls.key.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  SURETY_CHECK(SSL_CTX_use_certificate(context, certificate) == 1 && SSL_CTX_use_PrivateKey(context, key) == 1);
  X509_free(certificate);
  EVP_PKEY_free(key);
  if (tls.client_authority.empty()) return context;
  bio = BIO_new_mem_buf(tls.client_authority.data(), static_cast<int>(tls.client_authority.size()));
  X509* authority = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  SURETY_CHECK(X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority) == 1);
  X509_free(authority);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

}  // namespace

bool ScriptedConnection::SendSplit(std::string_view bytes, size_t at) {
  if (!Send(bytes.substr(0, at))) return false;
  std::this_thread::sleep_for(std::chrono::microseconds(200));
  return Send(bytes.substr(at));
}

ScriptedServer::ScriptedServer(Script script, ScriptedTls tls)
    : script_(std::move(script)), tls_context_(ServerContext(tls)) {
  door_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  SURETY_CHECK(::bind(door_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  SURETY_CHECK(::listen(door_, 256) == 0);
  SURETY_CHECK(::getsockname(door_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  accept_ = std::thread([this] { Serve(); });
}

ScriptedServer::~ScriptedServer() {
  ending_ = true;
  (void)::shutdown(door_, SHUT_RDWR);
  accept_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : sockets_) (void)::shutdown(fd, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  ::close(door_);
  SSL_CTX_free(static_cast<SSL_CTX*>(tls_context_));
}

void ScriptedServer::Serve() {
  while (!ending_) {
    const int fd = ::accept4(door_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      if (ending_) return;
      continue;
    }
    const int on = 1;
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int number = n_connections_++;
    const std::lock_guard lock(mutex_);
    sockets_.push_back(fd);
    threads_.emplace_back([this, fd, number] {
      {
        ScriptedSocket connection(fd, static_cast<SSL_CTX*>(tls_context_), *this);
        connection.number = number;
        script_(connection);
      }
      const std::lock_guard lock(mutex_);
      std::erase(sockets_, fd);
      ::close(fd);
    });
  }
}

ScriptedServer::Script ScriptedServer::Answering(std::function<std::string(const ScriptedRequest&)> answer) {
  return [answer = std::move(answer)](ScriptedConnection& connection) {
    ScriptedRequest request;
    while (connection.ReadRequest(request)) {
      if (!connection.Send(answer(request))) return;
    }
  };
}

std::string ScriptedServer::Url(std::string_view path) const {
  return std::string(tls_context_ != nullptr ? "https" : "http") + "://127.0.0.1:" + std::to_string(port_) +
         std::string(path);
}

std::vector<ScriptedRequest> ScriptedServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void ScriptedServer::Record(const ScriptedRequest& request) {
  const std::lock_guard lock(mutex_);
  requests_.push_back(request);
}

std::string HttpOk(std::string_view body, std::string_view headers, std::string_view status) {
  return "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + std::string(headers) + "\r\n" + std::string(body);
}

std::string HttpChunked(std::string_view body, size_t size, std::string_view headers) {
  std::string bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + std::string(headers) + "\r\n";
  while (!body.empty()) {
    const std::string_view piece = body.substr(0, size);
    std::array<char, 24> length;
    std::snprintf(length.data(), length.size(), "%zx\r\n", piece.size());
    bytes.append(length.data()).append(piece).append("\r\n");
    body.remove_prefix(piece.size());
  }
  return bytes + "0\r\n\r\n";
}

}  // namespace surety::gateway
