// Earlier answers of a scope, for drafting: bounded, never looked at from another scope.
//
// The same rules as for cached KV: a scope is the verified one under which prefixes are shared, what is past the
// scope's time to live is gone, forgetting overwrites. Each scope has two halves, of which the older one is dropped as
// a whole when the younger one is full; a half whose oldest answer is past its time is dropped too, also if nobody asks
// for its scope: each call looks at a few other scopes.
//
// Threads: the engine thread. Owns: the texts, as token ids.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>

#include "kv/scope.h"
#include "spec/match_index.h"

namespace surety::engine {

struct OutputStoreOptions {
  int tokens_per_scope = 32768;
  int max_scopes = 256;  // the scope that was used longest ago goes first
};

class OutputStore {
 public:
  explicit OutputStore(const OutputStoreOptions& options) : options_(options) {}
  OutputStore(const OutputStore&) = delete;
  OutputStore& operator=(const OutputStore&) = delete;

  // `ttl_ns`: the scope's; 0: no limit.
  void Add(const kv::ScopeKey& scope, std::span<const int32_t> tokens, int64_t now_ns, int64_t ttl_ns);
  // The scope's longest match with the end of `text`, as MatchIndex::Find, in `index`. Null: nothing is kept.
  const spec::MatchIndex* Find(const kv::ScopeKey& scope, std::span<const int32_t> text, int64_t now_ns,
                               int64_t ttl_ns);
  // Returns the bytes that were overwritten.
  int64_t Forget(const kv::ScopeSet& scopes);
  // Erases what is past its time, a few scopes a call.
  void Sweep(int64_t now_ns);
  int n_scopes() const { return static_cast<int>(entries_.size()); }
  int64_t n_tokens() const;  // that are kept, of all scopes

 private:
  struct Half {
    spec::MatchIndex index;
    int64_t first_ns = 0;  // when its oldest answer came
  };
  struct Entry {
    explicit Entry(const kv::ScopeKey& scope) : key(scope) {}
    kv::ScopeKey key;
    int64_t ttl_ns = 0;  // as the last call had it
    Half young, old;
  };
  using Entries = std::list<Entry>;
  static void DropExpired(Entry& entry, int64_t now_ns);
  static int64_t Erase(Half& half);
  void Touch(Entries::iterator entry);
  Entries::iterator Remove(Entries::iterator entry);

  OutputStoreOptions options_;
  Entries entries_;  // the one used last in front
  std::unordered_map<kv::ScopeKey, Entries::iterator, kv::KeyHash> by_scope_;
  Entries::iterator sweep_ = entries_.end();  // the entry that is looked at next
};

}  // namespace surety::engine
