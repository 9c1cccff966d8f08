#include "engine/page_keeper.h"

#include <algorithm>

namespace surety::engine {
namespace {

bool UsesCache(const Sequence& sequence) {
  return sequence.state->prepared.scope.has_value() && !sequence.state->forgotten;
}

// Prompt logprobs need the logits of every prompt row, so nothing is taken from the cache.
bool MayMatch(const Sequence& sequence) {
  return UsesCache(sequence) && (sequence.state->request().n_prompt_logprobs < 0 || sequence.n_output() > 0);
}

}  // namespace

Result<std::unique_ptr<PageKeeper>> PageKeeper::Make(kv::PagePool& pool, Clock& clock,
                                                     const PageKeeperOptions& options) {
  auto keeper = std::unique_ptr<PageKeeper>(new PageKeeper(pool, clock));
  if (!options.disk_folder.empty()) {
    if (options.host_bytes == 0) {
      return Error(InvalidArgumentError("a disk cache takes what the host cache pushes out: set host_cache_bytes too"));
    }
    SURETY_ASSIGN_OR_RETURN(auto file, kv::OpenTierFile(options.disk_folder));
    SURETY_ASSIGN_OR_RETURN(keeper->disk_,
                            kv::DiskTier::Make(std::move(file), pool.layout().PageBytes(), options.disk_bytes));
  }
  if (options.host_bytes > 0) {
    SURETY_ASSIGN_OR_RETURN(keeper->host_, kv::HostStore::Make(pool, options.host_bytes, keeper->disk_.get()));
  }
  kv::PrefixCacheOptions cache_options;
  cache_options.default_policy = options.policy;
  SURETY_ASSIGN_OR_RETURN(keeper->cache_,
                          kv::PrefixCache::Make(pool, clock, cache_options, keeper->host_.get()));
  return keeper;
}

int PageKeeper::n_evictable() const {
  int n = pool_.n_reclaimable();
  for (const auto& [key, kept] : kept_) n += static_cast<int>(kept.pages.pages().size());
  return n;
}

int PageKeeper::Evict(int n, bool last_resort) {
  const int before = pool_.n_free();
  cache_->EvictPages(n);
  while (pool_.n_free() - before < n && !kept_.empty()) {
    kept_.erase(std::min_element(kept_.begin(), kept_.end(),
                                 [](const auto& a, const auto& b) { return a.first < b.first; }));
  }
  if (last_resort && pool_.n_free() - before < n) {
    cache_->EvictPages(n - (pool_.n_free() - before), nullptr, kv::FloorRule::kBreak);
  }
  return pool_.n_free() - before;
}

void PageKeeper::Attach(Sequence& sequence) {
  if (UsesCache(sequence)) {
    const kv::ScopeKey& scope = *sequence.state->prepared.scope;
    kv::PrefixMatch match = cache_->Match(scope, sequence.tokens, MayMatch(sequence) ? sequence.n_tokens() - 1 : 0);
    sequence.n_computed = match.n_tokens;
    sequence.n_published = static_cast<int>(match.pages.size());
    const int page = pool_.layout().page_tokens;
    if (sequence.swapped_tail && sequence.swapped_tokens / page * page == match.n_tokens) {
      if (kv::PageHandle handle = pool_.Allocate()) {
        host_->SwapIn(std::move(sequence.swapped_tail), handle);
        match.pages.push_back(std::move(handle));
        sequence.n_computed = sequence.swapped_tokens;
      }
    }
    sequence.swapped_tail.Reset();
    sequence.pages.Adopt(std::move(match.pages));
    sequence.cursor = match.cursor;
    if (cache_->PolicyOf(scope.family()).zero_on_release) sequence.pages.MarkZeroOnRelease();
    return;
  }
  if (sequence.state->forgotten) sequence.pages.MarkZeroOnRelease();
  const auto it = kept_.find(sequence.state->conversation);
  if (sequence.state->conversation == 0 || it == kept_.end()) return;
  KeptSequence kept = std::move(it->second);
  kept_.erase(it);
  const auto limit = std::min(kept.tokens.size(), sequence.tokens.size() - 1);
  size_t same = 0;
  while (same < limit && kept.tokens[same] == sequence.tokens[same]) ++same;
  kept.pages.Truncate(static_cast<int>(same));
  sequence.pages = std::move(kept.pages);
  if (!sequence.pages.pages().empty()) pool_.Renew(sequence.pages.pages().back());
  sequence.n_computed = static_cast<int>(same);
}

void PageKeeper::AttachMore(Sequence& sequence) {
  if (!MayMatch(sequence) || !sequence.cursor || sequence.n_computed % pool_.layout().page_tokens != 0) return;
  const int most = sequence.n_tokens() - 1;
  if (cache_->PeekTokens(*sequence.state->prepared.scope, sequence.tokens, most) <= sequence.n_computed) return;
  // The cache's pages hold what this choice's own hold, and more.
  sequence.pages.Truncate(0);
  Attach(sequence);
}

void PageKeeper::SwapOutTail(Sequence& sequence, int64_t recompute_ns) {
  const int page = pool_.layout().page_tokens;
  if (host_ == nullptr || !UsesCache(sequence) || sequence.n_computed % page == 0 || host_->SwapRoom() == 0) return;
  const kv::PageHandle& tail = sequence.pages.handles()[static_cast<size_t>(sequence.n_computed / page)];
  if (!swap_cost_.ShouldSwap(recompute_ns)) {
    ++n_left_to_recompute_;
    return;
  }
  const int64_t start = clock_.NowNanos();
  auto swapped = host_->SwapOut(tail, *sequence.state->prepared.scope, start);
  if (!swapped) return;
  swap_cost_.ObserveCopy(clock_.NowNanos() - start);
  ++n_swapped_;
  sequence.swapped_tail = *std::move(swapped);
  sequence.swapped_tokens = sequence.n_computed;
}

void PageKeeper::Detach(Sequence& sequence, int64_t recompute_ns) {
  SwapOutTail(sequence, recompute_ns);
  sequence.pages.Truncate(0);
  sequence.n_computed = sequence.n_published = 0;
  sequence.cursor.reset();
}

void PageKeeper::Fork(const Sequence& from, Sequence& to) {
  const int page = pool_.layout().page_tokens;
  const auto n_whole = static_cast<size_t>(from.n_computed / page);
  std::vector<kv::PageHandle> pages;
  for (const kv::PageHandle& handle : from.pages.handles().first(n_whole)) pages.push_back(handle.Share());
  to.n_computed = static_cast<int>(n_whole) * page;
  if (kv::PageHandle copy = from.n_computed % page == 0 ? kv::PageHandle() : pool_.Allocate()) {
    pool_.CopyPage(from.pages.pages()[n_whole], copy.page());
    pages.push_back(std::move(copy));
    to.n_computed = from.n_computed;
  }
  to.pages.Adopt(std::move(pages));
  if (from.pages.zero_on_release()) to.pages.MarkZeroOnRelease();
  to.cursor = from.cursor;
  to.n_published = from.n_published;
}

void PageKeeper::MarkIfForgotten(Sequence& sequence) {
  if (sequence.cursor && cache_->Forgotten(*sequence.cursor)) sequence.pages.MarkZeroOnRelease();
}

bool PageKeeper::SharesPrefixes(const Sequence& a, const Sequence& b) const {
  const auto& scope_a = a.state->prepared.scope;
  const auto& scope_b = b.state->prepared.scope;
  return scope_a && scope_b && *scope_a == *scope_b;
}

void PageKeeper::Publish(Sequence& sequence) {
  if (!sequence.cursor) return;
  const int page = pool_.layout().page_tokens;
  const int n_whole = sequence.n_computed / page;
  if (n_whole <= sequence.n_published) return;
  const auto tokens = std::span<const int32_t>(sequence.tokens).first(static_cast<size_t>(n_whole * page));
  const kv::InsertResult result =
      cache_->Insert(*sequence.cursor, tokens, sequence.pages.handles().first(static_cast<size_t>(n_whole)));
  sequence.n_published = n_whole;
  if (result.forgotten) sequence.pages.MarkZeroOnRelease();
}

void PageKeeper::Keep(Sequence& sequence) {
  const uint64_t conversation = sequence.state->conversation;
  if (conversation == 0 || sequence.state->forgotten) return;
  sequence.tokens.resize(static_cast<size_t>(sequence.n_computed));
  sequence.pages.Truncate(sequence.n_computed);
  kept_.erase(conversation);
  kept_.emplace(conversation, KeptSequence{std::move(sequence.tokens), std::move(sequence.pages)});
}

}  // namespace surety::engine
