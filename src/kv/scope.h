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
// Invariants: (1) the encoding is injective on fields, permissions taken as a set. (2) keys of scopes and of families
// come from disjoint sets of pre-images.
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

class ScopeKey {
 public:
  bool operator==(const ScopeKey& other) const { return bytes_ == other.bytes_; }
  const FamilyKey& family() const { return family_; }
  std::string Fingerprint() const;
  size_t hash() const;

 private:
  friend class ScopeKeyBuilder;
  friend class TierKey;
  ScopeKey(const std::array<uint8_t, 32>& bytes, const FamilyKey& family) : bytes_(bytes), family_(family) {}
  std::array<uint8_t, 32> bytes_;
  FamilyKey family_;  // a function of the same fields, so it takes no part in equality
};

// One scope, or all scopes of a family.
class ScopeSet {
 public:
  ScopeSet(const ScopeKey& scope) : scope_(scope), family_(scope.family()) {}  // NOLINT: implicit by design
  ScopeSet(const FamilyKey& family) : family_(family) {}                      // NOLINT: implicit by design
  bool Covers(const ScopeKey& scope) const { return scope_ ? *scope_ == scope : family_ == scope.family(); }
  const std::optional<ScopeKey>& scope() const { return scope_; }  // empty: the whole family
  const FamilyKey& family() const { return family_; }

 private:
  std::optional<ScopeKey> scope_;
  FamilyKey family_;
};

struct KeyHash {
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

  // The encoding that is digested, for tests and reviewers.
  std::string Encoding(bool with_salt) const;

 private:
  ScopeKeyBuilder& Set(ScopeField field, std::string_view value);
  std::array<uint8_t, 32> Mac(bool with_salt) const;

  const ScopeSecret* secret_;
  std::array<std::optional<std::string>, 15> fields_;  // by tag
  std::set<std::string, std::less<>> permissions_;
  std::optional<ScopeField> set_twice_;
};

}  // namespace surety::kv
