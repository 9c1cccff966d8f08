// Answers that may be given again: exactly the same question, or, where a route allows it, one of the same meaning,
// inside one partition and one basis. A hit is a candidate: the caller checks it again (validity, authorisation).
//
// Semantic hits need, besides similarity, the same numbers, the same negations and the same capitalised names and codes
// in both questions: embeddings score opposite questions alike.
// Threads: any. Owns: its entries, within `max_bytes`, least recently used go first. Errors: kInvalidArgument for an
// entry that was never valid, kResourceExhausted for one larger than the cache.
// Invariants: (1) Find takes a Partition and a basis, there is no other way to ask. (2) An entry is found only if its
// whole key equals the asked one byte by byte. (3) An entry is returned only inside its validity and time to live.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "gateway/partition.h"
#include "gateway/policy.h"
#include "gateway/verifier.h"

namespace surety::gateway {

struct CachedAnswer {
  AnswerText answer;
  std::string decision;                // that released it
  std::string answer_digest;           // DigestOf(answer)
  std::vector<std::string> documents;  // "document@version" it is based on
  Validity validity;
  std::string tenant, subject;         // for erasure: whose data it may hold; subject may be empty
  double cost = 0;                     // that a hit avoids
  int64_t stored_ns = 0;               // wall
};

struct CacheHit {
  CachedAnswer answer;
  double similarity = 1;               // 1: exact
};

struct CacheForgetReceipt {
  int64_t entries = 0, vectors = 0, bytes = 0;
};

class ResponseCache {
 public:
  static std::unique_ptr<ResponseCache> Make(int64_t max_bytes, const Clock& clock);
  virtual ~ResponseCache() = default;

  virtual std::optional<CacheHit> Find(const Partition& partition, const AnswerBasis& basis, std::string_view question,
                                       int64_t as_of_ns) = 0;
  // `vector`: of the question, unit length; the most similar entry at or above `min_similarity`.
  virtual std::optional<CacheHit> FindSimilar(const Partition& partition, const AnswerBasis& basis,
                                              std::string_view question, std::span<const float> vector,
                                              double min_similarity, int64_t as_of_ns) = 0;
  // `vector` empty: for exact look-ups alone.
  virtual Status Store(const Partition& partition, const AnswerBasis& basis, std::string_view question,
                       std::span<const float> vector, CachedAnswer answer, int64_t ttl_ns) = 0;

  virtual CacheForgetReceipt ForgetSubject(std::string_view tenant, std::string_view subject) = 0;
  virtual CacheForgetReceipt ForgetDocument(std::string_view document) = 0;   // all versions
  virtual CacheForgetReceipt ForgetDecision(std::string_view decision) = 0;   // and never store this pair again
  virtual CacheForgetReceipt Clear() = 0;
  virtual int64_t n_entries() const = 0;
  virtual int64_t bytes() const = 0;
};

// True if both questions have the same multiset of numbers, negations, and names and codes.
bool SameHardFacts(std::string_view a, std::string_view b);

}  // namespace surety::gateway
