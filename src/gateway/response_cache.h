// Answers that may be given again: exactly the same question, or, where a route allows it, one of the same meaning,
// inside one partition and one basis. A hit is a candidate: the caller checks it again (validity, authorisation).
//
// Semantic hits need, besides similarity, the same hard facts in both questions (SameHardFacts): embeddings score
// opposite questions alike.
// Threads: any. Owns: its entries, within `max_bytes`, least recently used go first. Errors: kInvalidArgument for an
// entry that was never valid, kResourceExhausted for one larger than the cache, kFailedPrecondition for one that was
// withdrawn by ForgetDecision.
// Invariants: (1) Find takes a Partition and a basis, there is no other way to ask. (2) An entry is found only if its
// whole key equals the asked one byte by byte. (3) An entry is returned only inside its validity and time to live.
// (4) The memory of a removed entry is overwritten before it is freed, and removed entries are never returned.
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
  int attempts = 1;                    // generations that it took; after a repair one alone would not make it again
  int64_t stored_ns = 0;               // wall
};

struct CacheHit {
  CachedAnswer answer;
  double similarity = 1;               // 1: exact
  std::string partition;               // full encoding of the one that it was stored in
};

struct CacheForgetReceipt {
  int64_t entries = 0, vectors = 0, bytes = 0;
};

// Since the cache was made.
struct ResponseCacheCounters {
  int64_t exact_hits = 0, exact_misses = 0;
  int64_t similar_hits = 0, similar_misses = 0;
  int64_t refused_by_facts = 0;       // similar enough, but SameHardFacts said no
  int64_t expired = 0, not_valid = 0; // found, and past its time to live or outside its validity
  int64_t stored = 0, evicted = 0, forgotten = 0, withdrawn = 0;  // withdrawn: not stored for ForgetDecision's sake
  int64_t cross_partition_hits = 0;   // found outside the asked partition, and not returned: must be 0
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
  // `vector` empty: for exact look-ups alone. Replaces the entry of the same question. Sets answer.stored_ns, and
  // answer.tenant to the partition's where it is empty; another tenant is kInvalidArgument.
  virtual Status Store(const Partition& partition, const AnswerBasis& basis, std::string_view question,
                       std::span<const float> vector, CachedAnswer answer, int64_t ttl_ns) = 0;

  virtual CacheForgetReceipt ForgetSubject(std::string_view tenant, std::string_view subject) = 0;
  virtual CacheForgetReceipt ForgetDocument(std::string_view document) = 0;   // all versions
  // And never stores the decision's answer again, nor the same answer to the same question for the same tenant,
  // whatever decision comes to it. The newest 65,536 of these are remembered, as digests.
  virtual CacheForgetReceipt ForgetDecision(std::string_view decision) = 0;
  virtual CacheForgetReceipt Clear() = 0;
  virtual int64_t n_entries() const = 0;
  virtual int64_t bytes() const = 0;
  virtual ResponseCacheCounters counters() const = 0;
};

// True if nothing is found by which two questions of close meaning ask for different things. Both must have
//   - the same numbers ("1,000" and "1000", "ten" and "10", "5k" and "5000" are one; "10%" and "10", "$10" and "10",
//     "5 am" and "5 pm", "1st" and "1" are not; "1.000", which is a thousand to some, equals only itself),
//   - as many negations ("cannot", "n't", "never", "without", ...), which stand at the same place among shared words,
//   - the same codes (letters with digits: R01, 10b5), and the same names: what is written with a capital where no
//     sentence begins, or begins one and is not known as an opening word, must occur in the other in whatever case;
//     words of scripts without capitals count as names,
//   - the same periods, comparisons ("over", "at least", "before"), quantities and currencies, and the same word after
//     "from",
//   - no two rivals ("credit" and "debit", "open" and "close", "when" and "why") and no word beside its prefixed
//     opposite ("authorised", "unauthorised"),
//   - their shared words in the same order: "from A to B" is not "from B to A".
// Words are English; negations of Spanish, French and German are known besides. It cannot tell two common nouns apart
// that it does not know as rivals. Not UTF-8: false, unless equal.
bool SameHardFacts(std::string_view a, std::string_view b);

}  // namespace surety::gateway
