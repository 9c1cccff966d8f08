#include "engine/make_drafters.h"

#include <utility>

#include "engine/draft_model.h"
#include "engine/head_drafter.h"

namespace surety::engine {

KvLayout LayoutWithDrafts(const LocalModel& model, const KvLayout& layout, bool drafts) {
  if (!drafts) return layout;
  if (model.draft() != nullptr) return DraftModel::LayoutWith(model, layout);
  if (model.head() != nullptr) return HeadDrafter::LayoutWith(model, layout);
  return layout;
}

Status KeepHiddenStates(LocalModel& model, bool drafts) {
  if (model.head() == nullptr || !drafts) return model.model().SetTaps({});
  return model.model().SetTaps(model.head()->recipe().taps);
}

Result<std::vector<std::unique_ptr<Drafter>>> MakeDrafters(LocalModel& model, kv::PagePool& pool, int max_sequences,
                                                           int context_tokens, bool drafts) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  if (model.draft() != nullptr && drafts) {
    SURETY_ASSIGN_OR_RETURN(auto drafter, DraftModel::Make(model, pool, max_sequences, context_tokens));
    drafters.push_back(std::move(drafter));
  }
  if (model.head() != nullptr && drafts) {
    SURETY_ASSIGN_OR_RETURN(auto drafter, HeadDrafter::Make(model, pool, max_sequences, context_tokens));
    drafters.push_back(std::move(drafter));
  }
  return drafters;
}

}  // namespace surety::engine
