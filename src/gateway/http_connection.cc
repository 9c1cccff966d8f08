#include "gateway/http_connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "base/clock.h"
#include "gateway/http_resolver.h"

namespace surety::gateway {
namespace {

constexpr int64_t kStopMillis = 20;
constexpr size_t kRecordBytes = 16 << 10;

std::string SslErrorText() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "TLS failed" : reason;
}

class PlainConnection : public HttpConnection {
 public:
  explicit PlainConnection(int fd) : fd_(fd) {}
  ~PlainConnection() override { ::close(fd_); }
  PlainConnection(const PlainConnection&) = delete;
  PlainConnection& operator=(const PlainConnection&) = delete;

  Io Read(std::span<char> bytes) override {
    ssize_t n;
    do n = ::recv(fd_, bytes.data(), bytes.size(), 0);
    while (n < 0 && errno == EINTR);
    if (n > 0) return {.n_bytes = static_cast<size_t>(n), .error = {}};
    if (n == 0) return {.ended = true, .error = {}};
    return Failed();
  }

  Io Write(std::string_view bytes) override {
    ssize_t n;
    do n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0) return Failed();
    n_sent_ += n;
    return {.n_bytes = static_cast<size_t>(n), .error = {}};
  }

  bool unsent() const override { return false; }
  int64_t n_sent() const override { return n_sent_; }

  Status Wait(bool write, const HttpLimits& limits, std::string_view doing) override {
    while (true) {
      SURETY_RETURN_IF_ERROR(limits.Check(doing));
      pollfd ready = {fd_, static_cast<short>(write ? POLLIN | POLLOUT : POLLIN), 0};
      if (::poll(&ready, 1, limits.WaitMillis()) > 0) return OkStatus();
    }
  }

  bool IsQuiet() override {
    char byte;
    const ssize_t n = ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }

 private:
  static Io Failed() {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {.error = {}};
    return {.error = UnavailableError(std::strerror(errno))};
  }

  const int fd_;
  int64_t n_sent_ = 0;
};

// OpenSSL works on memory; the socket is read and written here, so that nothing in it waits or raises a signal.
class TlsConnection : public HttpConnection {
 public:
  TlsConnection(std::unique_ptr<PlainConnection> socket, SSL* ssl) : socket_(std::move(socket)), ssl_(ssl) {
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl_);
  }
  ~TlsConnection() override {
    // A short good-bye where it can leave at once.
    if (SSL_is_init_finished(ssl_) && !failed_) {
      ERR_clear_error();
      (void)SSL_shutdown(ssl_);
      (void)Flush();
    }
    SSL_free(ssl_);
    ERR_clear_error();
  }
  TlsConnection(const TlsConnection&) = delete;
  TlsConnection& operator=(const TlsConnection&) = delete;

  Status Handshake(const HttpLimits& limits) {
    while (true) {
      ERR_clear_error();
      const int result = SSL_do_handshake(ssl_);
      const int reason = SSL_get_error(ssl_, result);
      const Status flushed = Flush();
      if (result == 1) return OkStatus();
      if (reason != SSL_ERROR_WANT_READ) {
        failed_ = true;
        const long verdict = SSL_get_verify_result(ssl_);
        const std::string text = verdict != X509_V_OK ? X509_verify_cert_error_string(verdict) : SslErrorText();
        ERR_clear_error();
        return UnavailableError(std::string(limits.authority) + ": TLS: " + text);
      }
      const Io io = Fill();
      if (io.n_bytes > 0) continue;
      if (io.ended || !io.error.ok() || !flushed.ok()) {
        failed_ = true;
        return UnavailableError(std::string(limits.authority) + ": TLS: closed inside the handshake");
      }
      SURETY_RETURN_IF_ERROR(socket_->Wait(unsent(), limits, "TLS"));
    }
  }

  Io Read(std::span<char> bytes) override {
    (void)Flush();
    while (true) {
      ERR_clear_error();
      const int n = SSL_read(ssl_, bytes.data(), static_cast<int>(bytes.size()));
      if (n > 0) return {.n_bytes = static_cast<size_t>(n), .error = {}};
      const int reason = SSL_get_error(ssl_, n);
      (void)Flush();
      if (reason == SSL_ERROR_ZERO_RETURN) return {.ended = true, .error = {}};
      if (reason != SSL_ERROR_WANT_READ) {
        failed_ = true;
        return {.error = UnavailableError("TLS: " + SslErrorText())};
      }
      Io io = Fill();
      if (io.n_bytes == 0) {
        io.cut = io.ended;
        return io;
      }
    }
  }

  Io Write(std::string_view bytes) override {
    if (Status flushed = Flush(); !flushed.ok()) return {.error = std::move(flushed)};
    if (unsent() || bytes.empty()) return {.error = {}};
    ERR_clear_error();
    const int n = SSL_write(ssl_, bytes.data(), static_cast<int>(std::min(bytes.size(), kRecordBytes)));
    if (n <= 0) {
      failed_ = true;
      return {.error = UnavailableError("TLS: " + SslErrorText())};
    }
    (void)Flush();  // an error shows at the next write or read
    return {.n_bytes = static_cast<size_t>(n), .error = {}};
  }

  bool unsent() const override { return !out_.empty() || BIO_ctrl_pending(SSL_get_wbio(ssl_)) > 0; }
  int64_t n_sent() const override { return socket_->n_sent(); }
  Status Wait(bool write, const HttpLimits& limits, std::string_view doing) override {
    return socket_->Wait(write || unsent(), limits, doing);
  }

  // Session tickets may have come since; they are no answer.
  bool IsQuiet() override {
    char byte;
    return Read(std::span(&byte, 1)).n_bytes == 0 && !failed_ && socket_->IsQuiet() &&
           (SSL_get_shutdown(ssl_) & SSL_RECEIVED_SHUTDOWN) == 0;
  }

 private:
  // Bytes from the socket to OpenSSL.
  Io Fill() {
    std::array<char, kRecordBytes> bytes;
    Io io = socket_->Read(bytes);
    if (io.n_bytes > 0) BIO_write(SSL_get_rbio(ssl_), bytes.data(), static_cast<int>(io.n_bytes));
    return io;
  }

  // From OpenSSL to the socket, as many as it takes.
  Status Flush() {
    while (true) {
      if (out_.empty()) {
        const size_t n = BIO_ctrl_pending(SSL_get_wbio(ssl_));
        if (n == 0) return OkStatus();
        out_.resize(n);
        out_.resize(static_cast<size_t>(std::max(0, BIO_read(SSL_get_wbio(ssl_), out_.data(), static_cast<int>(n)))));
      }
      const Io io = socket_->Write(out_);
      if (!io.error.ok()) return io.error;
      if (io.n_bytes == 0) return OkStatus();
      out_.erase(0, io.n_bytes);
    }
  }

  const std::unique_ptr<PlainConnection> socket_;
  SSL* const ssl_;
  std::string out_;
  bool failed_ = false;
};

struct SslContextFree {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslContext = std::shared_ptr<SSL_CTX>;

// A key under a pass phrase is refused, not asked for on the terminal.
int NoPassPhrase(char*, int, int, void*) { return 0; }

Result<SslContext> MakeSslContext(const HttpTls& tls) {
  SslContext context(SSL_CTX_new(TLS_client_method()), SslContextFree());
  if (context == nullptr) return Error(UnavailableError("TLS: " + SslErrorText()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_default_verify_paths(context.get());
  SSL_CTX_set_default_passwd_cb(context.get(), NoPassPhrase);
  ERR_clear_error();  // a system without authorities trusts the file's alone
  if (!tls.ca_file.empty() && SSL_CTX_load_verify_locations(context.get(), tls.ca_file.c_str(), nullptr) != 1) {
    return Error(InvalidArgumentError("'" + tls.ca_file + "' has no certificates in PEM form: " + SslErrorText()));
  }
  if (tls.certificate.empty()) return context;
  if (SSL_CTX_use_certificate_chain_file(context.get(), tls.certificate.c_str()) != 1) {
    return Error(InvalidArgumentError("'" + tls.certificate + "' has no certificate in PEM form: " + SslErrorText()));
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), tls.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Error(InvalidArgumentError("'" + tls.key + "' is no key of '" + tls.certificate +
                                      "' in PEM form without a pass phrase: " + SslErrorText()));
  }
  return context;
}

// A file and its state; one that is not named is as it always was.
Status AddFileState(const std::string& file, std::string& key) {
  struct stat state = {};
  if (!file.empty() && ::stat(file.c_str(), &state) != 0) {
    return InvalidArgumentError("'" + file + "': " + std::strerror(errno));
  }
  key += file;
  for (const int64_t part : {int64_t{state.st_mtim.tv_sec}, int64_t{state.st_mtim.tv_nsec}, int64_t{state.st_size}}) {
    key += '\n' + std::to_string(part);
  }
  return OkStatus();
}

// Reading the system's authorities takes longer than a handshake, so contexts are kept, by the files' states.
Result<SslContext> SslContextFor(const HttpTls& tls) {
  static std::mutex mutex;
  static auto& kept = *new std::map<std::string, SslContext>();
  std::string key;
  for (const std::string* file : {&tls.ca_file, &tls.certificate, &tls.key}) {
    SURETY_RETURN_IF_ERROR(AddFileState(*file, key));
  }
  const std::lock_guard lock(mutex);
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  SURETY_ASSIGN_OR_RETURN(SslContext context, MakeSslContext(tls));
  if (kept.size() >= 16) kept.clear();
  kept[key] = context;
  return context;
}

Result<std::unique_ptr<HttpConnection>> OpenTls(std::unique_ptr<PlainConnection> socket, const HttpAddress& address,
                                                const HttpTls& tls, const HttpLimits& limits) {
  SURETY_ASSIGN_OR_RETURN(const SslContext context, SslContextFor(tls));
  SSL* ssl = SSL_new(context.get());
  if (ssl == nullptr) return Error(UnavailableError("TLS: " + SslErrorText()));
  auto connection = std::make_unique<TlsConnection>(std::move(socket), ssl);
  static constexpr std::array<unsigned char, 9> kProtocols = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  SSL_set_alpn_protos(ssl, kProtocols.data(), kProtocols.size());
  bool named = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), address.host.c_str()) == 1;
  if (!named) {
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    named = SSL_set1_host(ssl, address.host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, address.host.c_str()) == 1;
  }
  if (!named) return Error(UnavailableError(address.authority + ": TLS: the host's name cannot be checked"));
  SURETY_RETURN_IF_ERROR(connection->Handshake(limits));
  return connection;
}

// One address; `deadline_ns` may be before the call's own.
Result<int> ConnectTo(const SocketAddress& to, int64_t deadline_ns, const HttpLimits& limits) {
  const int fd = ::socket(to.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Error(UnavailableError(std::strerror(errno)));
  const auto failed = [fd](Status status) {
    ::close(fd);
    return Error(std::move(status));
  };
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to.address), to.size) != 0 && errno != EINPROGRESS) {
    return failed(UnavailableError(std::strerror(errno)));
  }
  while (true) {
    if (Status status = limits.Check("connecting"); !status.ok()) return failed(std::move(status));
    if (Clock::Real().NowNanos() >= deadline_ns) return failed(UnavailableError("no answer"));
    pollfd ready = {fd, POLLOUT, 0};
    if (::poll(&ready, 1, std::min(limits.WaitMillis(), 100)) > 0) break;
  }
  int error = 0;
  socklen_t size = sizeof error;
  (void)::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return failed(UnavailableError(std::strerror(error)));
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

}  // namespace

Status HttpLimits::Check(std::string_view doing) const {
  if (stop != nullptr && *stop && (*stop)()) return CancelledError(std::string(authority) + ": given up");
  if (Clock::Real().NowNanos() < deadline_ns) return OkStatus();
  return Status(StatusCode::kDeadlineExceeded,
                std::string(authority) + ": " + std::string(doing) + " was not done in time");
}

int HttpLimits::WaitMillis() const {
  const int64_t left = (deadline_ns - Clock::Real().NowNanos()) / 1'000'000 + 1;
  const int64_t most = stop != nullptr && *stop ? kStopMillis : int64_t{1000};
  return static_cast<int>(std::clamp<int64_t>(left, 1, most));
}

Result<std::unique_ptr<HttpConnection>> HttpConnection::Open(const HttpAddress& address, const HttpTls& tls,
                                                             const HttpLimits& limits) {
  SURETY_ASSIGN_OR_RETURN(const std::vector<SocketAddress> found, LookUpHost(address.host, address.port, limits));
  Status last = UnavailableError("the name has no address");
  for (size_t i = 0; i < found.size(); ++i) {
    // An address that does not answer must leave time for the next one.
    const int64_t now = Clock::Real().NowNanos();
    const int64_t share = (limits.deadline_ns - now) / static_cast<int64_t>(found.size() - i);
    Result<int> fd = ConnectTo(found[i], i + 1 < found.size() ? now + share : limits.deadline_ns, limits);
    if (fd) {
      auto socket = std::make_unique<PlainConnection>(*fd);
      if (!address.tls) return socket;
      return OpenTls(std::move(socket), address, tls, limits);
    }
    if (fd.error().code() != StatusCode::kUnavailable) return Error(fd.error());
    last = fd.error();
  }
  return Error(UnavailableError(std::string(limits.authority) + ": connecting: " + last.message()));
}

}  // namespace surety::gateway
