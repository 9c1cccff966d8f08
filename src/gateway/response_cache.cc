#include "gateway/response_cache.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <list>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <openssl/crypto.h>

#include "base/check.h"
#include "base/hash.h"

namespace surety::gateway {
namespace {

constexpr size_t kCacheMaxWithdrawn = 65'536;
// What an entry takes beside its bytes: nodes of the list and the tables, the allocator's headers.
constexpr int64_t kCacheEntryOverhead = 256, kCacheNeighbourhoodOverhead = 128;
constexpr double kCacheUnitTolerance = 1e-2;

void CacheWipe(std::string& s) {
  s.resize(s.capacity());  // what was written behind the end, too; never moves
  OPENSSL_cleanse(s.data(), s.size());
  s.clear();
}

void CacheWipe(CachedAnswer& a) {
  CacheWipe(a.answer.text);
  CacheWipe(a.answer.reasoning);
  for (AnswerText::Call& call : a.answer.calls) {
    CacheWipe(call.name);
    CacheWipe(call.arguments);
  }
  for (std::string& document : a.documents) CacheWipe(document);
  for (std::string* s : {&a.decision, &a.answer_digest, &a.tenant, &a.subject}) CacheWipe(*s);
}

struct CacheEntry {
  ~CacheEntry() {
    CacheWipe(key);
    CacheWipe(bound_subject);
    CacheWipe(answer);
    OPENSSL_cleanse(vector.data(), vector.size() * sizeof(float));
  }
  std::string_view neighbourhood() const { return std::string_view(key).substr(0, neighbourhood_size); }
  std::string partition() const { return key.substr(0, partition_size); }
  std::string_view question() const { return std::string_view(key).substr(key.size() - question_size); }

  // Never changed once it stands in the cache: readers look at them without its lock.
  std::string key;                  // AnswerKey, of which NeighbourhoodKey is the beginning
  size_t partition_size = 0, neighbourhood_size = 0, question_size = 0;
  std::vector<float> vector;
  CachedAnswer answer;
  std::string bound_subject;        // of the basis
  int64_t stored_mono_ns = 0, ttl_ns = 0, bytes = 0;

  // Under the lock.
  bool live = true;
  size_t place = 0;                 // in its neighbourhood
  std::list<std::shared_ptr<CacheEntry>>::iterator used;
};
using CacheEntryPtr = std::shared_ptr<CacheEntry>;

struct CacheKeyHash {
  using is_transparent = void;
  size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
};

int64_t CacheBytesOf(const CacheEntry& e) {
  const CachedAnswer& a = e.answer;
  size_t bytes = sizeof(CacheEntry) + e.key.capacity() + e.bound_subject.capacity() +
                 e.vector.capacity() * sizeof(float) + a.answer.text.capacity() + a.answer.reasoning.capacity() +
                 a.decision.capacity() + a.answer_digest.capacity() + a.tenant.capacity() + a.subject.capacity();
  bytes += a.answer.calls.capacity() * sizeof(AnswerText::Call) + a.documents.capacity() * sizeof(std::string);
  for (const AnswerText::Call& call : a.answer.calls) bytes += call.name.capacity() + call.arguments.capacity();
  for (const std::string& document : a.documents) bytes += document.capacity();
  return static_cast<int64_t>(bytes) + kCacheEntryOverhead;
}

// Eight sums, so that one addition need not wait for the one before.
double CacheDot(std::span<const float> a, std::span<const float> b) {
  double sums[8] = {};
  size_t i = 0;
  for (; i + 8 <= a.size(); i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
  }
  for (; i < a.size(); ++i) sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

bool CacheIsUnit(std::span<const float> v) {
  return std::abs(std::sqrt(CacheDot(v, v)) - 1.0) <= kCacheUnitTolerance;  // false for NaN and infinity
}

std::string CacheSealOf(std::string text) {
  const Sha256Digest digest = Sha256Of(std::as_bytes(std::span<const char>(text.data(), text.size())));
  CacheWipe(text);
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

std::string CachePairSeal(std::string_view tenant, std::string_view question, const AnswerText& answer) {
  size_t size = tenant.size() + question.size() + answer.text.size();
  for (const AnswerText::Call& call : answer.calls) size += call.name.size() + call.arguments.size();
  std::string text;
  text.reserve(size + kFieldHeadBytes * (3 + 2 * answer.calls.size()));  // never grows: nothing is left behind
  AppendField(text, 1, tenant);
  AppendField(text, 2, question);
  AppendField(text, 3, answer.text);
  for (const AnswerText::Call& call : answer.calls) {
    AppendField(text, 4, call.name);
    AppendField(text, 5, call.arguments);
  }
  return CacheSealOf(std::move(text));
}

std::string CacheDecisionSeal(std::string_view decision) {
  std::string text;
  AppendField(text, 6, decision);
  return CacheSealOf(std::move(text));
}

// Digests of what is never stored again, oldest dropped first.
class CacheWithdrawn {
 public:
  void Add(std::string seal) {
    if (!set_.insert(seal).second) return;
    order_.push_back(std::move(seal));
    if (order_.size() <= kCacheMaxWithdrawn) return;
    set_.erase(order_.front());
    order_.pop_front();
  }
  bool Contains(const std::string& seal) const { return set_.contains(seal); }

 private:
  std::unordered_set<std::string> set_;
  std::deque<std::string> order_;
};

class ResponseCacheImpl final : public ResponseCache {
 public:
  ResponseCacheImpl(int64_t max_bytes, const Clock& clock) : max_bytes_(max_bytes), clock_(clock) {}

  std::optional<CacheHit> Find(const Partition& partition, const AnswerBasis& basis, std::string_view question,
                               int64_t as_of_ns) override {
    std::string key = AnswerKey(partition, basis, question);
    CacheEntryPtr entry;
    {
      const std::lock_guard lock(mutex_);
      const auto found = by_key_.find(std::string_view(key));
      if (found != by_key_.end()) entry = found->second;
      if (entry && !MayReturn(entry, partition, as_of_ns)) entry = nullptr;
      ++(entry ? counters_.exact_hits : counters_.exact_misses);
    }
    CacheWipe(key);
    if (!entry) return std::nullopt;
    return CacheHit{entry->answer, 1, entry->partition()};
  }

  std::optional<CacheHit> FindSimilar(const Partition& partition, const AnswerBasis& basis, std::string_view question,
                                      std::span<const float> vector, double min_similarity,
                                      int64_t as_of_ns) override {
    std::vector<std::pair<double, CacheEntryPtr>> near;
    if (!vector.empty() && CacheIsUnit(vector)) {
      for (CacheEntryPtr& entry : Neighbours(partition, basis)) {
        if (entry->vector.size() != vector.size()) continue;  // of another embedder
        const double similarity = CacheDot(entry->vector, vector);
        if (similarity >= min_similarity) near.emplace_back(similarity, std::move(entry));
      }
    }
    // Equally similar ones by their keys, so that the same cache gives the same hit.
    std::ranges::sort(near, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second->key < b.second->key;
    });
    int64_t n_refused = 0;
    std::optional<CacheHit> hit;
    for (const auto& [similarity, entry] : near) {
      if (!SameHardFacts(question, entry->question())) {
        ++n_refused;
        continue;
      }
      const std::unique_lock lock(mutex_);
      if (!entry->live || !MayReturn(entry, partition, as_of_ns)) continue;
      hit = CacheHit{entry->answer, std::min(similarity, 1.0), entry->partition()};
      break;
    }
    const std::lock_guard lock(mutex_);
    counters_.refused_by_facts += n_refused;
    ++(hit ? counters_.similar_hits : counters_.similar_misses);
    return hit;
  }

  Status Store(const Partition& partition, const AnswerBasis& basis, std::string_view question,
               std::span<const float> vector, CachedAnswer answer, int64_t ttl_ns) override {
    const Status status = StoreOwned(partition, basis, question, vector, answer, ttl_ns);
    CacheWipe(answer);  // what was not taken, and what short strings leave behind
    return status;
  }

  CacheForgetReceipt ForgetSubject(std::string_view tenant, std::string_view subject) override {
    if (subject.empty()) return {};
    return ForgetIf([&](const CacheEntry& e) {
      return e.answer.tenant == tenant && (e.answer.subject == subject || e.bound_subject == subject);
    });
  }

  CacheForgetReceipt ForgetDocument(std::string_view document) override {
    return ForgetIf([&](const CacheEntry& e) {
      return std::ranges::any_of(e.answer.documents, [&](std::string_view name) {
        return name == document || name.substr(0, name.rfind('@')) == document;
      });
    });
  }

  CacheForgetReceipt ForgetDecision(std::string_view decision) override {
    std::string seal = CacheDecisionSeal(decision);
    return ForgetIf(
        [&](const CacheEntry& e) {
          if (e.answer.decision != decision) return false;
          withdrawn_.Add(CachePairSeal(e.answer.tenant, e.question(), e.answer.answer));
          return true;
        },
        std::move(seal));
  }

  CacheForgetReceipt Clear() override {
    return ForgetIf([](const CacheEntry&) { return true; });
  }

  int64_t n_entries() const override {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(by_key_.size());
  }
  int64_t bytes() const override {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  ResponseCacheCounters counters() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  using Neighbourhood = std::vector<CacheEntryPtr>;

  // Under the lock, for a live entry: counts why not, marks it as used if so.
  bool MayReturn(const CacheEntryPtr& entry, const Partition& partition, int64_t as_of_ns) {
    if (!entry->key.starts_with(partition.key())) {
      ++counters_.cross_partition_hits;
      return false;
    }
    if (Expired(*entry)) {
      ++counters_.expired;
      Remove(entry);
      return false;
    }
    if (!entry->answer.validity.Contains(as_of_ns)) {
      ++counters_.not_valid;
      return false;
    }
    by_use_.splice(by_use_.begin(), by_use_, entry->used);
    return true;
  }

  // By both clocks: the wall's may be set back, the monotonic one stands still while the machine sleeps.
  bool Expired(const CacheEntry& e) const {
    return clock_.NowNanos() - e.stored_mono_ns >= e.ttl_ns || clock_.WallNanos() - e.answer.stored_ns >= e.ttl_ns;
  }

  Neighbourhood Neighbours(const Partition& partition, const AnswerBasis& basis) {
    std::string key = NeighbourhoodKey(partition, basis);
    Neighbourhood neighbours;
    {
      const std::lock_guard lock(mutex_);
      const auto found = neighbourhoods_.find(std::string_view(key));
      if (found != neighbourhoods_.end()) neighbours = found->second;
    }
    CacheWipe(key);
    return neighbours;
  }

  Status StoreOwned(const Partition& partition, const AnswerBasis& basis, std::string_view question,
                    std::span<const float> vector, CachedAnswer& answer, int64_t ttl_ns) {
    const std::string& tenant = partition.scope().tenant;
    if (ttl_ns <= 0) return InvalidArgumentError(fmt::format("a time to live of {} ns; it must be above 0", ttl_ns));
    if (answer.validity.from_ns >= answer.validity.to_ns) {
      return InvalidArgumentError("the answer's validity is empty: it ends before it begins");
    }
    if (!answer.tenant.empty() && answer.tenant != tenant) {
      return InvalidArgumentError("the answer's tenant is not the partition's");
    }
    if (!vector.empty() && !CacheIsUnit(vector)) {
      return InvalidArgumentError("the question's vector is not of length 1");
    }
    auto entry = std::make_shared<CacheEntry>();
    entry->answer = std::move(answer);
    entry->answer.tenant = tenant;
    entry->answer.stored_ns = clock_.WallNanos();
    entry->key = AnswerKey(partition, basis, question);
    entry->neighbourhood_size = entry->key.size() - kFieldHeadBytes - question.size();
    entry->partition_size = partition.key().size();
    entry->question_size = question.size();
    entry->vector.assign(vector.begin(), vector.end());
    entry->bound_subject = basis.subject;
    entry->stored_mono_ns = clock_.NowNanos();
    entry->ttl_ns = ttl_ns;
    entry->bytes = CacheBytesOf(*entry);
    const std::string by_decision = CacheDecisionSeal(entry->answer.decision);
    const std::string by_pair = CachePairSeal(tenant, question, entry->answer.answer);

    const std::lock_guard lock(mutex_);
    if (withdrawn_.Contains(by_decision) || withdrawn_.Contains(by_pair)) {
      ++counters_.withdrawn;
      return FailedPreconditionError("this answer to this question was withdrawn and is not stored again");
    }
    if (const auto old = by_key_.find(std::string_view(entry->key)); old != by_key_.end()) {
      Remove(CacheEntryPtr(old->second));
    }
    return Insert(std::move(entry));
  }

  Status Insert(CacheEntryPtr entry) {
    const int64_t most = entry->bytes + NeighbourhoodBytes(*entry);
    if (most > max_bytes_) {
      return ResourceExhaustedError(fmt::format("the answer takes {} bytes, the cache {}", most, max_bytes_));
    }
    const auto needed = [&] {
      return entry->bytes + (InNeighbourhood(*entry) ? 0 : NeighbourhoodBytes(*entry));
    };
    while (bytes_ + needed() > max_bytes_) {
      SURETY_CHECK(!by_use_.empty());
      ++counters_.evicted;
      Remove(CacheEntryPtr(by_use_.back()));
    }
    bytes_ += needed();
    if (!entry->vector.empty()) {
      auto found = neighbourhoods_.find(entry->neighbourhood());
      if (found == neighbourhoods_.end()) {
        found = neighbourhoods_.emplace(entry->neighbourhood(), Neighbourhood()).first;
      }
      entry->place = found->second.size();
      found->second.push_back(entry);
    }
    by_use_.push_front(entry);
    entry->used = by_use_.begin();
    by_key_.emplace(std::string_view(entry->key), entry);
    ++counters_.stored;
    return OkStatus();
  }

  int64_t NeighbourhoodBytes(const CacheEntry& e) const {
    return e.vector.empty() ? 0 : static_cast<int64_t>(e.neighbourhood_size) + kCacheNeighbourhoodOverhead;
  }
  bool InNeighbourhood(const CacheEntry& e) const { return neighbourhoods_.contains(e.neighbourhood()); }

  // By value: the caller's may be the last reference but the tables'.
  void Remove(CacheEntryPtr entry) {
    entry->live = false;
    bytes_ -= entry->bytes;
    by_key_.erase(std::string_view(entry->key));
    by_use_.erase(entry->used);
    if (entry->vector.empty()) return;
    const auto found = neighbourhoods_.find(entry->neighbourhood());
    SURETY_CHECK(found != neighbourhoods_.end() && found->second[entry->place] == entry);
    Neighbourhood& neighbours = found->second;
    std::swap(neighbours[entry->place], neighbours.back());
    neighbours[entry->place]->place = entry->place;
    neighbours.pop_back();
    if (!neighbours.empty()) return;
    bytes_ -= NeighbourhoodBytes(*entry);
    auto node = neighbourhoods_.extract(found);
    CacheWipe(node.key());
  }

  template <typename Predicate>
  CacheForgetReceipt ForgetIf(Predicate&& gone, std::string withdraw = {}) {
    const std::lock_guard lock(mutex_);
    if (!withdraw.empty()) withdrawn_.Add(std::move(withdraw));
    CacheForgetReceipt receipt;
    const int64_t before = bytes_;
    for (auto at = by_use_.begin(); at != by_use_.end();) {
      const CacheEntryPtr entry = *at++;
      if (!gone(*entry)) continue;
      ++receipt.entries;
      receipt.vectors += !entry->vector.empty();
      Remove(entry);
    }
    receipt.bytes = before - bytes_;
    counters_.forgotten += receipt.entries;
    return receipt;
  }

  const int64_t max_bytes_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::list<CacheEntryPtr> by_use_;  // most recent first
  std::unordered_map<std::string_view, CacheEntryPtr, CacheKeyHash, std::equal_to<>> by_key_;  // the entry's own key
  std::unordered_map<std::string, Neighbourhood, CacheKeyHash, std::equal_to<>> neighbourhoods_;
  CacheWithdrawn withdrawn_;
  ResponseCacheCounters counters_;
  int64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<ResponseCache> ResponseCache::Make(int64_t max_bytes, const Clock& clock) {
  return std::make_unique<ResponseCacheImpl>(max_bytes, clock);
}

}  // namespace surety::gateway
