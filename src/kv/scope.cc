#include "kv/scope.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <utility>

#include "base/check.h"

namespace surety::kv {
namespace {

void AppendLittleEndian(std::string& out, uint64_t value, int n_bytes) {
  for (int i = 0; i < n_bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void AppendField(std::string& out, ScopeField field, std::string_view value) {
  out.push_back(static_cast<char>(field));
  AppendLittleEndian(out, value.size(), 8);
  out.append(value);
}

// The keys are outputs of a MAC: any eight bytes are a good hash.
size_t HashOf(const std::array<uint8_t, 32>& bytes) {
  size_t hash;
  std::memcpy(&hash, bytes.data(), sizeof hash);
  return hash;
}

// A hash of its own: the one that picks buckets is not for eyes outside.
std::string FingerprintOf(const std::array<uint8_t, 32>& bytes) {
  return HexOf(std::span<const uint8_t>(bytes).last(8));
}

}  // namespace

std::string_view NameOf(ScopeField field) {
  switch (field) {
    case ScopeField::kTenant: return "tenant";
    case ScopeField::kPermission: return "permission";
    case ScopeField::kRegion: return "region";
    case ScopeField::kProduct: return "product";
    case ScopeField::kPolicyVersion: return "policy version";
    case ScopeField::kLanguage: return "language";
    case ScopeField::kEligibility: return "eligibility";
    case ScopeField::kEffectiveDate: return "effective date";
    case ScopeField::kModelDigest: return "model digest";
    case ScopeField::kKvType: return "KV type";
    case ScopeField::kPageTokens: return "page tokens";
    case ScopeField::kLayoutVersion: return "layout version";
    case ScopeField::kLayoutShape: return "layout shape";
    case ScopeField::kSalt: return "salt";
  }
  return "?";
}

struct ScopeSecret::Keyed {
  EVP_MAC_CTX* context = nullptr;
  ~Keyed() { EVP_MAC_CTX_free(context); }
};

ScopeSecret::ScopeSecret(std::unique_ptr<const Keyed> keyed) : keyed_(std::move(keyed)) {}
ScopeSecret::~ScopeSecret() = default;
ScopeSecret::ScopeSecret(ScopeSecret&&) noexcept = default;
ScopeSecret& ScopeSecret::operator=(ScopeSecret&&) noexcept = default;

ScopeSecret ScopeSecret::FromBytes(const std::array<uint8_t, 32>& bytes) {
  auto keyed = std::make_unique<Keyed>();
  EVP_MAC* hmac = EVP_MAC_fetch(nullptr, OSSL_MAC_NAME_HMAC, nullptr);
  SURETY_CHECK(hmac != nullptr);
  keyed->context = EVP_MAC_CTX_new(hmac);
  EVP_MAC_free(hmac);  // the context keeps its own reference
  char digest[] = OSSL_DIGEST_NAME_SHA2_256;
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                               OSSL_PARAM_construct_end()};
  SURETY_CHECK(keyed->context != nullptr &&
               EVP_MAC_init(keyed->context, bytes.data(), bytes.size(), params) == 1);
  return ScopeSecret(std::move(keyed));
}

Result<ScopeSecret> ScopeSecret::Random() {
  std::array<uint8_t, 32> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return Error(UnavailableError("scope secret: the system gave no random bytes"));
  }
  return FromBytes(bytes);
}

std::string FamilyKey::Fingerprint() const { return FingerprintOf(bytes_); }
size_t FamilyKey::hash() const { return HashOf(bytes_); }
size_t TenantKey::hash() const { return HashOf(bytes_); }
std::string ScopeKey::Fingerprint() const { return FingerprintOf(bytes_); }
size_t ScopeKey::hash() const { return HashOf(bytes_); }

ScopeKeyBuilder& ScopeKeyBuilder::Permission(std::string_view value) {
  permissions_.emplace(value);
  return *this;
}

ScopeKeyBuilder& ScopeKeyBuilder::Set(ScopeField field, std::string_view value) {
  std::optional<std::string>& kept = fields_[static_cast<size_t>(field)];
  if (kept && *kept != value && !set_twice_) set_twice_ = field;
  if (!kept) kept = value;
  return *this;
}

ScopeKeyBuilder& ScopeKeyBuilder::Model(const Sha256Digest& digest, const KvLayout& layout) {
  const auto number = [](uint64_t value) {
    std::string bytes;
    AppendLittleEndian(bytes, value, 8);
    return bytes;
  };
  std::string shape;
  for (int value : {layout.n_layers, layout.n_kv_heads, layout.k_dim, layout.v_dim, layout.latent ? 1 : 0}) {
    AppendLittleEndian(shape, static_cast<uint64_t>(value), 8);
  }
  if (layout.companion_bytes > 0) AppendLittleEndian(shape, static_cast<uint64_t>(layout.companion_bytes), 8);
  Set(ScopeField::kModelDigest, {reinterpret_cast<const char*>(digest.data()), digest.size()});
  Set(ScopeField::kKvType, NameOf(layout.type));
  Set(ScopeField::kPageTokens, number(static_cast<uint64_t>(layout.page_tokens)));
  Set(ScopeField::kLayoutVersion, number(kKvLayoutVersion));
  return Set(ScopeField::kLayoutShape, shape);
}

std::string ScopeKeyBuilder::Encoding(Extent extent) const {
  // The first word keeps a family, and a tenant, apart from a scope that has no more fields.
  std::string out = extent == Extent::kScope    ? "surety kv scope 1\n"
                    : extent == Extent::kFamily ? "surety kv family 1\n"
                                                : "surety kv tenant 1\n";
  out.reserve(512);
  for (size_t tag = 0; tag < fields_.size(); ++tag) {
    const auto field = static_cast<ScopeField>(tag);
    if (extent == Extent::kTenant && field != ScopeField::kTenant) continue;
    if (field == ScopeField::kPermission) {
      for (const std::string& value : permissions_) AppendField(out, field, value);
    } else if (fields_[tag] && (extent == Extent::kScope || field != ScopeField::kSalt)) {
      AppendField(out, field, *fields_[tag]);
    }
  }
  return out;
}

std::array<uint8_t, 32> ScopeKeyBuilder::Mac(Extent extent) const {
  const std::string text = Encoding(extent);
  std::array<uint8_t, 32> mac;
  size_t size_bytes = 0;
  // A copy of the keyed state: the key is taken in once a process, not once a request.
  EVP_MAC_CTX* context = EVP_MAC_CTX_dup(secret_->keyed_->context);
  SURETY_CHECK(context != nullptr);
  SURETY_CHECK(EVP_MAC_update(context, reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1 &&
               EVP_MAC_final(context, mac.data(), &size_bytes, mac.size()) == 1 && size_bytes == mac.size());
  EVP_MAC_CTX_free(context);
  return mac;
}

Result<ScopeKey> ScopeKeyBuilder::Build() const {
  if (set_twice_) {
    return Error(InvalidArgumentError("scope: " + std::string(NameOf(*set_twice_)) +
                                      " was set twice, with different values; only permissions may be several"));
  }
  for (ScopeField needed : {ScopeField::kTenant, ScopeField::kModelDigest}) {
    if (!fields_[static_cast<size_t>(needed)]) {
      return Error(FailedPreconditionError("scope: no " + std::string(NameOf(needed)) +
                                           " was set; without it nothing may be cached"));
    }
  }
  return ScopeKey(Mac(Extent::kScope), FamilyKey(Mac(Extent::kFamily)), TenantKey(Mac(Extent::kTenant)));
}

}  // namespace surety::kv
