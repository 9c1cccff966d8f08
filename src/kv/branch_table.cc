#include "kv/branch_table.h"

#include "base/check.h"

namespace surety::kv {

std::optional<BranchTable> BranchTable::Make(PagePool& pool, std::span<const int32_t> beside, int first_position,
                                             int n_tokens, bool zero_on_release) {
  const int n_own = PagesFor(pool.layout(), first_position, n_tokens);
  const auto n_shared = static_cast<size_t>(first_position / pool.layout().page_tokens);
  SURETY_CHECK(n_own > 0 && n_shared <= beside.size());
  if (pool.n_free() < n_own) return std::nullopt;
  BranchTable table;
  table.first_copied_ = static_cast<int>(n_shared) * pool.layout().page_tokens;
  table.pages_.assign(beside.begin(), beside.begin() + static_cast<std::ptrdiff_t>(n_shared));
  for (int i = 0; i < n_own; ++i) {
    table.own_.push_back(pool.Allocate());
    if (zero_on_release) table.own_.back().MarkZeroOnRelease();
    table.pages_.push_back(table.own_.back().page());
  }
  return table;
}

}  // namespace surety::kv
