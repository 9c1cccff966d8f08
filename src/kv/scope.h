// The name under which KV is cached: a keyed digest of everything that two requests must have in common before one may
// read what was computed for the other. There is no other way to address the cache, in any tier.
//
// A key is HMAC-SHA-256, under a secret of the process, of the fields' encoding. Keyed rather than plain SHA-256: keys
// reach logs, metrics and peers, and tenants' names and dates are guessable, so a plain digest would tell who has KV
// here to anyone who tries names; and nobody outside can choose fields to steer where an entry lands. Replicas that are
// to share KV are given one secret.
// Encoding: for each field, in the order of ScopeField: tag (1 byte), length (8 bytes, little endian), bytes. It can be
// read back, so different fields never have one encoding (Invariant 1). A field that was never set is left out and so
// differs from an empty one.
//
// Threads: values; a builder belongs to one thread.
// Invariants: (1) the encoding is injective on fields, permissions taken as a set. (2) keys of scopes, of families and
// of tenants come from disjoint sets of pre-images.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "base/hash.h"
#include "base/status.h"
#include "tensor/kv_layout.h"

namespace surety::kv {

// The version of the arrangement that tensor/kv_layout.h describes; to be raised with any change of it.
inline constexpr uint32_t kKvLayoutVersion = 1;

// Values are part of the encoding: append, never renumber.
enum class ScopeField : uint8_t {
  kTenant = 1,
  kPermission = 2,  // the one field that may stand several times
  kRegion = 3,
  kProduct = 4,
  kPolicyVersion = 5,
  kLanguage = 6,
  kEligibility = 7,
  kEffectiveDate = 8,
  kModelDigest = 9,
  kKvType = 10,
  kPageTokens = 11,
  kLayoutVersion = 12,
  kLayoutShape = 13,
  kSalt = 14,
};
std::string_view NameOf(ScopeField field);

// What keys are made with, one a process or a group of replicas. Any thread may build with it.
class ScopeSecret {
 public:
  static Result<ScopeSecret> Random();  // kUnavailable: the system has no randomness to give
  static ScopeSecret FromBytes(const std::array<uint8_t, 32>& bytes);
  ~ScopeSecret();
  ScopeSecret(ScopeSecret&&) noexcept;
  ScopeSecret& operator=(ScopeSecret&&) noexcept;

 private:
  friend class ScopeKeyBuilder;
  struct Keyed;  // a MAC that has taken in the secret
  explicit ScopeSecret(std::unique_ptr<const Keyed> keyed);
  std::unique_ptr<const Keyed> keyed_;
};

// A scope without its salt: what an operator sets policy for, and what is forgotten when no salt is named.
class FamilyKey {
 public:
  bool operator==(const FamilyKey&) const = default;
  std::string Fingerprint() const;  // 16 hexadecimal digits, for logs and metrics
  size_t hash() const;

 private:
  friend class ScopeKeyBuilder;
  explicit FamilyKey(const std::array<uint8_t, 32>& bytes) : bytes_(bytes) {}
  std::array<uint8_t, 32> bytes_;
};

// All scopes of a tenant in this model: what is forgotten when the tenant leaves.
class TenantKey {
 public:
  bool operator==(const TenantKey&) const = default;
  size_t hash() const;

 private:
  friend class ScopeKeyBuilder;
  explicit TenantKey(const std::array<uint8_t, 32>& bytes) : bytes_(bytes) {}
  std::array<uint8_t, 32> bytes_;
};

class ScopeKey {
 public:
  bool operator==(const ScopeKey& other) const { return bytes_ == other.bytes_; }
  const FamilyKey& family() const { return family_; }
  const TenantKey& tenant() const { return tenant_; }
  std::string Fingerprint() const;
  size_t hash() const;

 private:
  friend class ScopeKeyBuilder;
  friend class TierKey;
  ScopeKey(const std::array<uint8_t, 32>& bytes, const FamilyKey& family, const TenantKey& tenant)
      : bytes_(bytes), family_(family), tenant_(tenant) {}
  std::array<uint8_t, 32> bytes_;
  FamilyKey family_;  // functions of the same fields, so they take no part in equality
  TenantKey tenant_;
};

// One scope, all scopes of a family, or all of a tenant.
class ScopeSet {
 public:
  ScopeSet(const ScopeKey& scope) : key_(scope) {}     // NOLINT: implicit by design
  ScopeSet(const FamilyKey& family) : key_(family) {}  // NOLINT: implicit by design
  ScopeSet(const TenantKey& tenant) : key_(tenant) {}  // NOLINT: implicit by design
  bool Covers(const ScopeKey& scope) const {
    if (const auto* one = std::get_if<ScopeKey>(&key_)) return *one == scope;
    if (const auto* family = std::get_if<FamilyKey>(&key_)) return *family == scope.family();
    return std::get<TenantKey>(key_) == scope.tenant();
  }
  const ScopeKey* scope() const { return std::get_if<ScopeKey>(&key_); }     // null: not just one
  const FamilyKey* family() const { return std::get_if<FamilyKey>(&key_); }  // null: not a family
  const TenantKey* tenant() const { return std::get_if<TenantKey>(&key_); }  // null: not a tenant

 private:
  std::variant<ScopeKey, FamilyKey, TenantKey> key_;
};

struct KeyHash {
  size_t operator()(const TenantKey& key) const { return key.hash(); }
  size_t operator()(const FamilyKey& key) const { return key.hash(); }
  size_t operator()(const ScopeKey& key) const { return key.hash(); }
};

class ScopeKeyBuilder {
 public:
  explicit ScopeKeyBuilder(const ScopeSecret& secret) : secret_(&secret) {}  // the secret outlives the builder

  ScopeKeyBuilder& Tenant(std::string_view value) { return Set(ScopeField::kTenant, value); }
  ScopeKeyBuilder& Permission(std::string_view value);
  ScopeKeyBuilder& Region(std::string_view value) { return Set(ScopeField::kRegion, value); }
  ScopeKeyBuilder& Product(std::string_view value) { return Set(ScopeField::kProduct, value); }
  ScopeKeyBuilder& PolicyVersion(std::string_view value) { return Set(ScopeField::kPolicyVersion, value); }
  ScopeKeyBuilder& Language(std::string_view value) { return Set(ScopeField::kLanguage, value); }
  ScopeKeyBuilder& Eligibility(std::string_view value) { return Set(ScopeField::kEligibility, value); }
  ScopeKeyBuilder& EffectiveDate(std::string_view value) { return Set(ScopeField::kEffectiveDate, value); }
  ScopeKeyBuilder& Salt(std::string_view value) { return Set(ScopeField::kSalt, value); }
  // What computed the KV, and how it lies in memory: digest of the weights, number format, page size, arrangement.
  ScopeKeyBuilder& Model(const Sha256Digest& digest, const KvLayout& layout);

  // kFailedPrecondition: no tenant or no model was set (what belongs to nobody in particular is not cached).
  // kInvalidArgument: a field set twice with different values.
  Result<ScopeKey> Build() const;

  enum class Extent : uint8_t { kScope, kFamily, kTenant };  // all fields; all but the salt; the tenant alone
  // The encoding that is digested, for tests and reviewers.
  std::string Encoding(Extent extent) const;

 private:
  ScopeKeyBuilder& Set(ScopeField field, std::string_view value);
  std::array<uint8_t, 32> Mac(Extent extent) const;

  const ScopeSecret* secret_;
  std::array<std::optional<std::string>, 15> fields_;  // by tag
  std::set<std::string, std::less<>> permissions_;
  std::optional<ScopeField> set_twice_;
};

}  // namespace surety::kv
