#include "engine/output_store.h"

#include <utility>

namespace surety::engine {

int64_t OutputStore::Erase(Half& half) {
  const int64_t bytes = int64_t{4} * half.index.size();
  half.index.Erase();
  return bytes;
}

void OutputStore::DropExpired(Entry& entry, int64_t now_ns, int64_t ttl_ns) {
  if (ttl_ns <= 0) return;
  for (Half* half : {&entry.young, &entry.old}) {
    if (half->index.size() > 0 && now_ns - half->first_ns >= ttl_ns) Erase(*half);
  }
}

void OutputStore::Add(const kv::ScopeKey& scope, std::span<const int32_t> tokens, int64_t now_ns, int64_t ttl_ns) {
  const auto half_size = static_cast<size_t>(options_.tokens_per_scope / 2);
  if (tokens.empty() || half_size == 0) return;
  if (tokens.size() > half_size) tokens = tokens.last(half_size);
  const auto found = by_scope_.find(scope);
  if (found != by_scope_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
  } else {
    entries_.emplace_front(scope);
    by_scope_[scope] = entries_.begin();
  }
  Entry& entry = entries_.front();
  DropExpired(entry, now_ns, ttl_ns);
  if (static_cast<size_t>(entry.young.index.size()) + tokens.size() > half_size) {
    Erase(entry.old);
    std::swap(entry.old, entry.young);
  }
  if (entry.young.index.size() == 0) entry.young.first_ns = now_ns;
  entry.young.index.AppendBreak();
  for (const int32_t token : tokens) entry.young.index.Append(token);
  while (static_cast<int>(entries_.size()) > options_.max_scopes) {
    Erase(entries_.back().young);
    Erase(entries_.back().old);
    by_scope_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

const spec::MatchIndex* OutputStore::Find(const kv::ScopeKey& scope, std::span<const int32_t> text, int64_t now_ns,
                                          int64_t ttl_ns) {
  const auto found = by_scope_.find(scope);
  if (found == by_scope_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  Entry& entry = *found->second;
  DropExpired(entry, now_ns, ttl_ns);
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
    bytes += Erase(entry->young) + Erase(entry->old);
    by_scope_.erase(entry->key);
    entry = entries_.erase(entry);
  }
  return bytes;
}

}  // namespace surety::engine
