// The circumstances of a request in canonical form, and the partition that they make: the one thing by which caches, KV
// prefixes and drafts are kept apart.
//
// A partition can only be made from all eight dimensions, and a cache can only be asked with a partition, so that no
// look-up can forget one. Its key is the encoding itself, not a digest of it: tag, length, bytes for each dimension in
// fixed order. Length-prefixed concatenation is injective, so two requests that differ in a dimension can never share
// an entry, whatever a hash function does.
//
// Threads: values. Errors: Canonical: kInvalidArgument naming the dimension and what is wrong with its value.
#pragma once

#include <array>
#include <compare>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/scope.h"
#include "base/status.h"
#include "gateway/policy.h"

namespace surety::gateway {

// One dimension's value. Permissions are a set, all others one text.
struct Circumstances {
  std::array<std::optional<std::string>, kDimensionCount> text;  // kPermissions: unused
  std::optional<std::vector<std::string>> permissions;           // an empty set is a value; nullopt is none

  bool operator==(const Circumstances&) const = default;
};

// Canonical values. Texts must be UTF-8 of 1 to 256 bytes in NFC, without control, format (zero-width, bidi) or
// unassigned characters and without white space at the ends; nothing is repaired in silence: what is not canonical is
// refused, so two spellings of one value can never be two values. Permissions are sorted and made unique.
// effective_date is a date YYYY-MM-DD of the calendar.
Result<Circumstances> Canonical(Circumstances raw);

class Partition {
 public:
  // kFailedPrecondition naming the first dimension without a value: then nothing may be cached.
  // `canonical`: of Canonical; anything else is a bug (SURETY_CHECK).
  static Result<Partition> Make(const Circumstances& canonical);

  const std::string& key() const { return key_; }
  const api::Scope& scope() const { return scope_; }   // without salt; equal scopes and equal keys are the same thing
  std::string Digest() const;                          // SHA-256, hex: for evidence, never to callers
  auto operator<=>(const Partition& other) const { return key_ <=> other.key_; }
  bool operator==(const Partition& other) const { return key_ == other.key_; }

 private:
  Partition() = default;
  std::string key_;
  api::Scope scope_;
};

// What else must be equal for an answer to be the same answer. All of it is encoded behind the partition.
struct AnswerBasis {
  std::string route;
  std::string policy_digest;
  std::string model_revision;      // digest of weights, or the remote model's name
  std::string prompt_template;     // digest of system prompt and chat template
  std::string decoding;            // all sampling parameters, constraint and limits, canonical
  std::string tools;               // digest of tool schemas
  std::string verifiers;           // names and versions of verifiers and their tables
  std::string retrieval_snapshot;  // of the document store
  std::string audience, channel;
  std::string subject;             // where entries are bound to a subject; else empty
  std::string risk;                // a lower one may have been released with less
  std::string conversation;        // the whole history, canonical, the last question apart
};

// The key of an exact entry: partition, basis, question. Injective.
std::string AnswerKey(const Partition& partition, const AnswerBasis& basis, std::string_view question);
// The key of the neighbourhood in which a question may be matched by meaning: all but the question.
std::string NeighbourhoodKey(const Partition& partition, const AnswerBasis& basis);

// Appends tag, length (fixed width) and bytes.
inline constexpr size_t kFieldHeadBytes = 9;  // tag and length
void AppendField(std::string& out, uint8_t tag, std::string_view bytes);

}  // namespace surety::gateway
