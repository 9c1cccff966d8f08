// TLS from end to end, with OpenSSL's own client on the other side.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>

#include "http/server.h"
#include "http/testing/certificates.h"
#include "http/testing/raw_client.h"
#include "http/testing/test_server.h"

namespace surety::http {
namespace {

using ::testing::HasSubstr;

class TlsClient {
 public:
  TlsClient(int port, const std::string& trusted, int max_version = 0) {
    (void)std::signal(SIGPIPE, SIG_IGN);  // OpenSSL's sockets raise it
    context_ = SSL_CTX_new(TLS_client_method());
    BIO* bio = BIO_new_mem_buf(trusted.data(), static_cast<int>(trusted.size()));
    X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), certificate);
    X509_free(certificate);
    BIO_free(bio);
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    if (max_version != 0) {
      SSL_CTX_set_security_level(context_, 0);
      SSL_CTX_set_min_proto_version(context_, 0);
      SSL_CTX_set_max_proto_version(context_, max_version);
    }
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const timeval limit = {5, 0};
    (void)::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd_);
    constexpr std::string_view kProtocols = "\x02h2\x08http/1.1";
    SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(kProtocols.data()), kProtocols.size());
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ::close(fd_);
    ERR_clear_error();
  }

  bool connected() const { return connected_; }
  SSL* ssl() { return ssl_; }
  int fd() const { return fd_; }
  void Send(const std::string& bytes) {
    EXPECT_EQ(SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())), static_cast<int>(bytes.size()));
  }
  // Until `text` has come or the peer has ended.
  std::string ReadUntil(const std::string& text) {
    std::string all;
    std::array<char, 4096> bytes;
    while (all.find(text) == std::string::npos) {
      const int n = SSL_read(ssl_, bytes.data(), bytes.size());
      if (n <= 0) break;
      all.append(bytes.data(), static_cast<size_t>(n));
    }
    return all;
  }

 private:
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  int fd_ = -1;
  bool connected_ = false;
};

class TlsTest : public ::testing::Test {
 protected:
  TestServer::Options Options() const {
    TestServer::Options options;
    options.server.tls = TlsOptions{certificate_.path(), key_.path()};
    options.server.limits.header_timeout_ms = 500;
    return options;
  }

  const PemPair pair_ = MakeSelfSigned();
  const TemporaryFile certificate_{pair_.certificate};
  const TemporaryFile key_{pair_.key};
};

TEST_F(TlsTest, AnswersOverTls12And13AndSpeaksHttp11) {
  TestServer server(Options());
  EXPECT_THAT(server.server().url("api"), ::testing::StartsWith("https://127.0.0.1:"));
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(server.port(), pair_.certificate, version);
    ASSERT_TRUE(client.connected());
    EXPECT_EQ(SSL_version(client.ssl()), version);
    const unsigned char* protocol = nullptr;
    unsigned int size = 0;
    SSL_get0_alpn_selected(client.ssl(), &protocol, &size);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(protocol), size), "http/1.1");
    for (int i = 0; i < 2; ++i) {
      client.Send(MakeRequest("GET", "/hello"));
      EXPECT_THAT(client.ReadUntil("hello"), HasSubstr("HTTP/1.1 200 OK"));
    }
    client.Send(MakeRequest("GET", "/stream?n=100"));
    EXPECT_THAT(client.ReadUntil("\r\n0\r\n\r\n"), HasSubstr("piece 99"));
    const std::string body(200'000, 'b');
    client.Send(MakeRequest("POST", "/echo", "Connection: close\r\n", body));
    EXPECT_THAT(client.ReadUntil("no such text"), ::testing::EndsWith(body));
    EXPECT_EQ(SSL_get_shutdown(client.ssl()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN) << "a clean end";
  }
}

TEST_F(TlsTest, OldVersionsAndPlainTextAreRefusedAndDisturbNobody) {
  TestServer server(Options());
  TlsClient good(server.port(), pair_.certificate);
  ASSERT_TRUE(good.connected());
  good.Send(MakeRequest("GET", "/hello"));
  EXPECT_THAT(good.ReadUntil("hello"), HasSubstr("200 OK"));
  TlsClient old(server.port(), pair_.certificate, TLS1_1_VERSION);
  EXPECT_FALSE(old.connected());
  RawClient plain(server.port());
  ASSERT_TRUE(plain.Send(MakeRequest("GET", "/hello")));
  EXPECT_EQ(plain.Read().status, 0);
  RawClient silent(server.port());
  EXPECT_TRUE(silent.AtEnd(3000)) << "the handshake has a limit";
  good.Send(MakeRequest("GET", "/hello"));
  EXPECT_THAT(good.ReadUntil("hello"), HasSubstr("200 OK"));
}

TEST_F(TlsTest, ClientsThatLeaveAreNoticed) {
  TestServer server(Options());
  {
    TlsClient client(server.port(), pair_.certificate);
    client.Send(MakeRequest("GET", "/idle"));
    EXPECT_THAT(client.ReadUntil("first"), HasSubstr("first"));
  }
  EXPECT_TRUE(server.WaitForDisconnects(1, 5000));
  TlsClient polite(server.port(), pair_.certificate);
  polite.Send(MakeRequest("GET", "/wait"));
  (void)server.NextWaiting();  // the first one's
  const auto writer = server.NextWaiting();
  SSL_shutdown(polite.ssl());
  EXPECT_TRUE(server.WaitForDisconnects(2, 5000));
  EXPECT_FALSE(writer->Write("x"));
}

TEST_F(TlsTest, StopEndsRunningConnections) {
  auto server = std::make_unique<TestServer>(Options());
  TlsClient client(server->port(), pair_.certificate);
  client.Send(MakeRequest("GET", "/idle"));
  EXPECT_THAT(client.ReadUntil("first"), HasSubstr("first"));
  server->server().Stop(50);
  EXPECT_EQ(server->n_disconnects(), 1);
  EXPECT_EQ(client.ReadUntil("more"), "");
}

TEST_F(TlsTest, BadFilesAreNamed) {
  const auto registry = observe::Registry::Make();
  const auto message = [&](const std::string& certificate, const std::string& key) {
    ServerOptions options;
    options.tls = TlsOptions{certificate, key};
    const auto started = Server::Start(options, {ListenerOptions{}}, {registry.get(), &Clock::Real(), nullptr, {}});
    EXPECT_FALSE(started);
    return started ? "" : started.error().ToString();
  };
  EXPECT_THAT(message("/no/such/file", key_.path()), HasSubstr("/no/such/file"));
  EXPECT_THAT(message(key_.path(), key_.path()), HasSubstr("not a readable PEM certificate"));
  const TemporaryFile other(MakeSelfSigned().key);
  EXPECT_THAT(message(certificate_.path(), other.path()), HasSubstr(other.path()));
  EXPECT_THAT(message(certificate_.path(), ""), HasSubstr("both"));
}

}  // namespace
}  // namespace surety::http
