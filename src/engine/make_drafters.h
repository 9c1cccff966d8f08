// The drafters that a model brings along: its draft model, or its draft head.
// Threads: the engine's. Errors: as DraftModel::Make and HeadDrafter::Make.
#pragma once

#include <memory>
#include <vector>

#include "engine/drafter.h"
#include "engine/local_model.h"
#include "kv/page_pool.h"

namespace surety::engine {

// The layout of the target's pages with room for what drafts for it.
KvLayout LayoutWithDrafts(const LocalModel& model, const KvLayout& layout, bool drafts);
// Has the model keep the hidden states that its head reads; none where nothing is drafted. Before Model::Reserve.
Status KeepHiddenStates(LocalModel& model, bool drafts);
Result<std::vector<std::unique_ptr<Drafter>>> MakeDrafters(LocalModel& model, kv::PagePool& pool, int max_sequences,
                                                           int context_tokens, bool drafts);

}  // namespace surety::engine
