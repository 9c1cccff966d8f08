#include "http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <cstring>
#include <string>

namespace surety::http {
namespace {

std::string LastError() {
  const unsigned long code = ERR_get_error();
  std::array<char, 256> text = {};
  if (code != 0) ERR_error_string_n(code, text.data(), text.size());
  ERR_clear_error();
  return code == 0 ? "unknown error" : text.data();
}

// An encrypted key would make OpenSSL ask on the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                   unsigned int offered_size, void*) {
  static constexpr std::array<unsigned char, 9> kHttp11 = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, out_size, kHttp11.data(), kHttp11.size(), offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;  // a client that offers only others learns by the answer that this is HTTP/1.1
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

Result<std::unique_ptr<boost::asio::ssl::context>> MakeTlsContext(const TlsOptions& options) {
  auto context = std::make_unique<boost::asio::ssl::context>(boost::asio::ssl::context::tls_server);
  SSL_CTX* ssl = context->native_handle();
  ERR_clear_error();
  if (SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) != 1) return Error(InternalError("TLS 1.2: " + LastError()));
  SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);  // an idle connection keeps no 32 KiB
  SSL_CTX_set_default_passwd_cb(ssl, NoPassphrase);
  SSL_CTX_set_alpn_select_cb(ssl, SelectProtocol, nullptr);
  if (SSL_CTX_use_certificate_chain_file(ssl, options.certificate_file.c_str()) != 1) {
    return Error(InvalidArgumentError("TLS certificate '" + options.certificate_file +
                                      "': not a readable PEM certificate: " + LastError()));
  }
  if (SSL_CTX_use_PrivateKey_file(ssl, options.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Error(InvalidArgumentError("TLS key '" + options.key_file + "': not a readable PEM key without passphrase "
                                      "that belongs to the certificate: " + LastError()));
  }
  if (SSL_CTX_check_private_key(ssl) != 1) {
    return Error(InvalidArgumentError("TLS key '" + options.key_file + "' does not belong to the certificate '" +
                                      options.certificate_file + "': " + LastError()));
  }
  return context;
}

}  // namespace surety::http
