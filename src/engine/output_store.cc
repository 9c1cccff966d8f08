#include "engine/output_store.h"

#include <utility>

namespace surety::engine {
namespace {

constexpr int kSweptScopes = 2;  // looked at in each call

}  // namespace

int64_t OutputStore::Erase(Half& half) {
  const int64_t bytes = int64_t{4} * half.index.size();
  half.index.Erase();
  return bytes;
}

void OutputStore::DropExpired(Entry& entry, int64_t now_ns) {
  if (entry.ttl_ns <= 0) return;
  for (Half* half : {&entry.young, &entry.old}) {
    if (half->index.size() > 0 && now_ns - half->first_ns >= entry.ttl_ns) Erase(*half);
  }
}

OutputStore::Entries::iterator OutputStore::Remove(Entries::iterator entry) {
  Erase(entry->young);
  Erase(entry->old);
  by_scope_.erase(entry->key);
  const bool is_next = entry == sweep_;
  const auto after = entries_.erase(entry);
  if (is_next) sweep_ = after;
  return after;
}

void OutputStore::Touch(Entries::iterator entry) {
  if (entry == sweep_) ++sweep_;  // what is used often would hold up the way to the others
  entries_.splice(entries_.begin(), entries_, entry);
}

void OutputStore::Sweep(int64_t now_ns) {
  for (int i = 0; i < kSweptScopes && !entries_.empty(); ++i) {
    if (sweep_ == entries_.end()) sweep_ = entries_.begin();
    const auto entry = sweep_++;
    DropExpired(*entry, now_ns);
    if (entry->young.index.size() + entry->old.index.size() == 0) Remove(entry);
  }
}

void OutputStore::Add(const kv::ScopeKey& scope, std::span<const int32_t> tokens, int64_t now_ns, int64_t ttl_ns) {
  Sweep(now_ns);
  const auto half_size = static_cast<size_t>(options_.tokens_per_scope / 2);
  if (tokens.empty() || half_size == 0) return;
  if (tokens.size() > half_size) tokens = tokens.last(half_size);
  const auto found = by_scope_.find(scope);
  if (found != by_scope_.end()) {
    Touch(found->second);
  } else {
    entries_.emplace_front(scope);
    by_scope_[scope] = entries_.begin();
  }
  Entry& entry = entries_.front();
  entry.ttl_ns = ttl_ns;
  DropExpired(entry, now_ns);
  const auto n_young = static_cast<size_t>(entry.young.index.size());
  if (n_young > 0 && n_young + 1 + tokens.size() > half_size) {  // with a break between
    Erase(entry.old);
    std::swap(entry.old, entry.young);
  }
  if (entry.young.index.size() == 0) entry.young.first_ns = now_ns;
  entry.young.index.AppendBreak();
  for (const int32_t token : tokens) entry.young.index.Append(token);
  while (static_cast<int>(entries_.size()) > options_.max_scopes) Remove(std::prev(entries_.end()));
}

const spec::MatchIndex* OutputStore::Find(const kv::ScopeKey& scope, std::span<const int32_t> text, int64_t now_ns,
                                          int64_t ttl_ns) {
  Sweep(now_ns);
  const auto found = by_scope_.find(scope);
  if (found == by_scope_.end()) return nullptr;
  Touch(found->second);
  Entry& entry = *found->second;
  entry.ttl_ns = ttl_ns;
  DropExpired(entry, now_ns);
  const int young = entry.young.index.Find(text).length, old = entry.old.index.Find(text).length;
  return young >= old ? &entry.young.index : &entry.old.index;
}

int64_t OutputStore::Forget(const kv::ScopeSet& scopes) {
  int64_t bytes = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (!scopes.Covers(entry->key)) {
      ++entry;
      continue;
    }
    bytes += int64_t{4} * (entry->young.index.size() + entry->old.index.size());
    entry = Remove(entry);
  }
  return bytes;
}

int64_t OutputStore::n_tokens() const {
  int64_t n = 0;
  for (const Entry& entry : entries_) n += entry.young.index.size() + entry.old.index.size();
  return n;
}

}  // namespace surety::engine
