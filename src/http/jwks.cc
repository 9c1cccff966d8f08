#include "http/jwks.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <optional>

#include "http/base64url.h"
#include "http/request_head.h"

namespace surety::http {
namespace {

namespace json = boost::json;

constexpr size_t kMaxTokenBytes = 16 * 1024;
constexpr size_t kMaxKeys = 256;
constexpr size_t kCoordinateBytes = 32;
constexpr int kMinRsaBits = 2048;
constexpr int kMaxRsaBits = 8192;
constexpr size_t kMinSecretBytes = 32;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using PKey = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using PKeyContext = std::unique_ptr<EVP_PKEY_CTX, Deleter<EVP_PKEY_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Deleter<EVP_MD_CTX_free>>;
using BigNumber = std::unique_ptr<BIGNUM, Deleter<BN_free>>;
using Builder = std::unique_ptr<OSSL_PARAM_BLD, Deleter<OSSL_PARAM_BLD_free>>;
using Params = std::unique_ptr<OSSL_PARAM, Deleter<OSSL_PARAM_free>>;
using EcdsaSignature = std::unique_ptr<ECDSA_SIG, Deleter<ECDSA_SIG_free>>;

const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

BigNumber ToNumber(std::string_view bytes) {
  return BigNumber(BN_bin2bn(Bytes(bytes), static_cast<int>(bytes.size()), nullptr));
}

PKey FromParams(const char* type, OSSL_PARAM_BLD* builder) {
  const Params params(OSSL_PARAM_BLD_to_param(builder));
  const PKeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (!params || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) {
    return nullptr;
  }
  PKey made(key);
  const PKeyContext check(EVP_PKEY_CTX_new_from_pkey(nullptr, made.get(), nullptr));
  if (!check || EVP_PKEY_public_check_quick(check.get()) != 1) return nullptr;
  return made;
}

// The decoded member; an error names it.
Result<std::string> JwkMember(const json::object& jwk, const char* name) {
  const json::value* value = jwk.if_contains(name);
  if (value == nullptr || !value->is_string()) {
    return Error(InvalidArgumentError("'" + std::string(name) + "' is missing or no text"));
  }
  auto bytes = Base64UrlDecode(value->get_string());
  if (!bytes || bytes->empty()) {
    return Error(InvalidArgumentError("'" + std::string(name) + "' is not base64url without padding"));
  }
  return *std::move(bytes);
}

Result<PKey> ReadRsa(const json::object& jwk) {
  SURETY_ASSIGN_OR_RETURN(const std::string modulus, JwkMember(jwk, "n"));
  SURETY_ASSIGN_OR_RETURN(const std::string exponent, JwkMember(jwk, "e"));
  if (modulus.size() > kMaxRsaBits / 8 || exponent.size() > 8) {
    return Error(InvalidArgumentError("an RSA key larger than " + std::to_string(kMaxRsaBits) + " bits"));
  }
  const BigNumber n = ToNumber(modulus), e = ToNumber(exponent);
  if (BN_num_bits(n.get()) < kMinRsaBits) {
    return Error(InvalidArgumentError("an RSA key of " + std::to_string(BN_num_bits(n.get())) +
                                      " bits; at least 2048 are needed"));
  }
  const Builder builder(OSSL_PARAM_BLD_new());
  if (OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1) {
    return Error(InternalError("no memory for a key"));
  }
  PKey key = FromParams("RSA", builder.get());
  if (!key) return Error(InvalidArgumentError("'n' and 'e' are no RSA key"));
  return key;
}

Result<PKey> ReadP256(const json::object& jwk) {
  SURETY_ASSIGN_OR_RETURN(const std::string x, JwkMember(jwk, "x"));
  SURETY_ASSIGN_OR_RETURN(const std::string y, JwkMember(jwk, "y"));
  if (x.size() != kCoordinateBytes || y.size() != kCoordinateBytes) {
    return Error(InvalidArgumentError("'x' and 'y' of P-256 hold 32 bytes each"));
  }
  const std::string point = '\x04' + x + y;
  const Builder builder(OSSL_PARAM_BLD_new());
  if (OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()) != 1) {
    return Error(InternalError("no memory for a key"));
  }
  PKey key = FromParams("EC", builder.get());
  if (!key) return Error(InvalidArgumentError("'x' and 'y' are no point of P-256"));
  return key;
}

bool HmacHolds(const std::string& secret, std::string_view signed_part, std::string_view signature) {
  std::array<unsigned char, 32> expected;
  unsigned int n = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), Bytes(signed_part), signed_part.size(),
           expected.data(), &n) == nullptr) {
    return false;
  }
  return n == expected.size() && signature.size() == n && CRYPTO_memcmp(expected.data(), signature.data(), n) == 0;
}

bool PublicKeyHolds(EVP_PKEY* key, std::string_view signed_part, std::string_view signature) {
  const DigestContext context(EVP_MD_CTX_new());
  if (!context || EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key) != 1) return false;
  return EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(signed_part),
                          signed_part.size()) == 1;
}

// A token carries r and s side by side; OpenSSL wants them in DER.
std::optional<std::string> EcdsaToDer(std::string_view raw) {
  if (raw.size() != 2 * kCoordinateBytes) return std::nullopt;
  const EcdsaSignature signature(ECDSA_SIG_new());
  BigNumber r = ToNumber(raw.substr(0, kCoordinateBytes)), s = ToNumber(raw.substr(kCoordinateBytes));
  if (!signature || !r || !s || ECDSA_SIG_set0(signature.get(), r.get(), s.get()) != 1) return std::nullopt;
  (void)r.release();  // the signature owns them now
  (void)s.release();
  unsigned char* der = nullptr;
  const int n = i2d_ECDSA_SIG(signature.get(), &der);
  if (n <= 0) return std::nullopt;
  std::string out(reinterpret_cast<const char*>(der), static_cast<size_t>(n));
  OPENSSL_free(der);
  return out;
}

std::string TextOr(const json::object& object, const char* name, const char* absent) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr) return absent;
  return value->is_string() ? std::string(value->get_string()) : std::string();
}

// Whether the key is meant for checking signatures.
bool IsForSignatures(const json::object& jwk) {
  if (TextOr(jwk, "use", "sig") != "sig") return false;
  const json::value* operations = jwk.if_contains("key_ops");
  if (operations == nullptr) return true;
  if (!operations->is_array()) return false;
  return std::ranges::any_of(operations->get_array(), [](const json::value& operation) {
    return operation.is_string() && (operation.get_string() == "verify" || operation.get_string() == "sign");
  });
}

}  // namespace

struct Jwks::Key {
  std::string algorithm;
  std::string kid;
  bool has_kid = false;
  std::string secret;  // HS256
  PKey key;            // otherwise
  ~Key() { OPENSSL_cleanse(secret.data(), secret.size()); }
};

Jwks::Jwks() = default;
Jwks::Jwks(Jwks&&) noexcept = default;
Jwks& Jwks::operator=(Jwks&&) noexcept = default;
Jwks::~Jwks() = default;

Result<Jwks> Jwks::Parse(std::string_view text, std::string_view path) {
  const std::string where = "'" + std::string(path) + "'";
  boost::system::error_code ec;
  const json::value parsed = json::parse(text, ec);
  const json::value* keys = !ec && parsed.is_object() ? parsed.get_object().if_contains("keys") : nullptr;
  if (keys == nullptr || !keys->is_array()) {
    return Error(InvalidArgumentError(where + " is no key set: a JSON object with an array 'keys'" +
                                      (ec ? " (" + ec.message() + ")" : "")));
  }
  if (keys->get_array().size() > kMaxKeys) {
    return Error(InvalidArgumentError(where + " holds more than " + std::to_string(kMaxKeys) + " keys"));
  }
  Jwks set;
  int number = 0;
  for (const json::value& element : keys->get_array()) {
    const std::string key_name = where + ", key " + std::to_string(++number);
    if (!element.is_object()) return Error(InvalidArgumentError(key_name + " is no JSON object"));
    const json::object& jwk = element.get_object();
    const std::string type = TextOr(jwk, "kty", "");
    const std::string fits = type == "oct" ? "HS256" : type == "RSA" ? "RS256" :
                             type == "EC" && TextOr(jwk, "crv", "") == "P-256" ? "ES256" : "";
    if (fits.empty() || TextOr(jwk, "alg", fits.c_str()) != fits || !IsForSignatures(jwk)) continue;
    auto key = std::make_unique<Key>();
    key->algorithm = fits;
    key->has_kid = jwk.contains("kid");
    key->kid = TextOr(jwk, "kid", "");
    if (key->has_kid && key->kid.empty()) return Error(InvalidArgumentError(key_name + ": 'kid' is empty or no text"));
    if (type == "oct") {
      auto secret = JwkMember(jwk, "k");
      if (!secret) return Error(secret.error().WithContext(key_name));
      if (secret->size() < kMinSecretBytes) {
        return Error(InvalidArgumentError(key_name + ": a secret of " + std::to_string(secret->size()) +
                                          " bytes; HS256 needs at least 32"));
      }
      key->secret = *std::move(secret);
    } else {
      auto made = type == "RSA" ? ReadRsa(jwk) : ReadP256(jwk);
      ERR_clear_error();
      if (!made) return Error(made.error().WithContext(key_name));
      key->key = *std::move(made);
    }
    for (const auto& other : set.keys_) {
      if (key->has_kid && other->has_kid && other->kid == key->kid && other->algorithm == key->algorithm) {
        return Error(InvalidArgumentError(key_name + ": the kid '" + Printable(key->kid, 40) + "' stands twice"));
      }
    }
    set.keys_.push_back(std::move(key));
  }
  if (set.keys_.empty()) {
    return Error(InvalidArgumentError(where + " holds no key for HS256 (oct), RS256 (RSA) or ES256 (EC, P-256)"));
  }
  return set;
}

Result<const Jwks::Key*> Jwks::Select(std::string_view algorithm, const std::string* kid) const {
  const Key* found = nullptr;
  for (const auto& key : keys_) {
    if (key->algorithm != algorithm) continue;
    if (kid != nullptr && !(key->has_kid && key->kid == *kid)) continue;
    if (found != nullptr) return Error(UnauthenticatedError("the token names no key ('kid'), and several would fit"));
    found = key.get();
  }
  if (found == nullptr) {
    return Error(UnauthenticatedError("no key of the set is for this token's 'alg' '" + Printable(algorithm, 20) + "'" +
                     (kid != nullptr ? " and 'kid' '" + Printable(*kid, 40) + "'" : "")));
  }
  return found;
}

Result<std::string> Jwks::Verify(std::string_view token) const {
  if (token.size() > kMaxTokenBytes) return Error(UnauthenticatedError("the token is longer than 16 KiB"));
  const size_t first = token.find('.');
  const size_t second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (second == std::string_view::npos || token.find('.', second + 1) != std::string_view::npos) {
    return Error(UnauthenticatedError("the token has not three parts"));
  }
  const auto header_bytes = Base64UrlDecode(token.substr(0, first));
  const auto payload = Base64UrlDecode(token.substr(first + 1, second - first - 1));
  const auto signature = Base64UrlDecode(token.substr(second + 1));
  if (!header_bytes || !payload || !signature) {
    return Error(UnauthenticatedError("a part of the token is not base64url"));
  }
  boost::system::error_code ec;
  const json::value header = json::parse(*header_bytes, ec);
  if (ec || !header.is_object()) return Error(UnauthenticatedError("the token's header is no JSON object"));
  const json::object& fields = header.get_object();
  for (const char* extension : {"crit", "b64"}) {
    if (!fields.contains(extension)) continue;
    return Error(UnauthenticatedError("the token's header has '" + std::string(extension) + "': it is not understood"));
  }
  const std::string kid = TextOr(fields, "kid", "");
  SURETY_ASSIGN_OR_RETURN(const Key* key, Select(TextOr(fields, "alg", ""), fields.contains("kid") ? &kid : nullptr));
  const std::string_view signed_part = token.substr(0, second);
  bool holds = false;
  if (key->algorithm == "HS256") {
    holds = HmacHolds(key->secret, signed_part, *signature);
  } else if (key->algorithm == "RS256") {
    holds = PublicKeyHolds(key->key.get(), signed_part, *signature);
  } else if (const auto der = EcdsaToDer(*signature)) {
    holds = PublicKeyHolds(key->key.get(), signed_part, *der);
  }
  ERR_clear_error();  // a failed check must not be read as an error of somebody's TLS connection
  if (!holds) return Error(UnauthenticatedError("the token's signature does not hold"));
  return *payload;
}

}  // namespace surety::http
