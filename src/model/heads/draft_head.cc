#include "model/heads/draft_head.h"

#include <string>

namespace surety::model {
namespace {

template <typename T>
std::string Number(T n) {
  return std::to_string(n);
}

// Each of the head's tokens is one of the target's, and no two are the same.
Status CheckTargetIds(const std::vector<int64_t>& ids, const HeadRecipe& recipe, const std::string& name,
                      const std::string& what_it_holds) {
  std::vector<bool> seen(static_cast<size_t>(recipe.vocab_size));
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t id = ids[i];
    const bool known = id >= 0 && id < recipe.vocab_size;
    if (known && !seen[static_cast<size_t>(id)]) {
      seen[static_cast<size_t>(id)] = true;
      continue;
    }
    return InvalidArgumentError("'" + recipe.path + "': tensor '" + name + "' makes token " + Number(i) +
                                " of the head token " + Number(id) + " of the target, which " +
                                (known ? "another one is already" : "has " + Number(recipe.vocab_size) + " tokens") +
                                "; " + what_it_holds);
  }
  return OkStatus();
}

Status WrongCount(const HeadRecipe& recipe, const std::string& name, size_t found, int64_t needed) {
  return InvalidArgumentError("'" + recipe.path + "': tensor '" + name + "' has " + Number(found) +
                              " elements, but " + Number(needed) + " are needed");
}

}  // namespace

Result<std::vector<int32_t>> ReadTargetIds(HeadWeights& weights, const HeadRecipe& recipe) {
  const auto n = static_cast<size_t>(recipe.draft_vocab_size);
  const bool same = recipe.draft_vocab_size == recipe.vocab_size;
  const bool medusa = recipe.method == HeadMethod::kMedusa;
  std::vector<int64_t> ids, mask;
  std::string name = medusa ? "token_map" : "d2t", holds = "token_map holds the target's tokens";
  if (!medusa && weights.Has("t2d")) {
    SURETY_ASSIGN_OR_RETURN(mask, weights.Integers("t2d"));
    if (mask.size() != static_cast<size_t>(recipe.vocab_size)) {
      return Error(WrongCount(recipe, "t2d", mask.size(), recipe.vocab_size));
    }
  }
  if (weights.Has(name)) {
    SURETY_ASSIGN_OR_RETURN(ids, weights.Integers(name));
    if (medusa && same) return std::vector<int32_t>();  // its output matrices cover all tokens, so nothing is left out
    if (ids.size() != n) return Error(WrongCount(recipe, name, ids.size(), recipe.draft_vocab_size));
    if (!medusa) holds = "d2t holds offsets: token i of the head is token i + d2t[i] of the target";
    for (size_t i = 0; i < n && !medusa; ++i) {
      if (ids[i] < -recipe.vocab_size || ids[i] > recipe.vocab_size) {
        return Error(InvalidArgumentError("'" + recipe.path + "': tensor 'd2t' has offset " + Number(ids[i]) +
                                          " for token " + Number(i) + " of the head, but the target has " +
                                          Number(recipe.vocab_size) + " tokens; " + holds));
      }
      ids[i] += static_cast<int64_t>(i);
    }
  } else if (!mask.empty()) {
    name = holds = "t2d";
    for (size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] != 0) ids.push_back(static_cast<int64_t>(i));
    }
    if (ids.size() != n) {
      return Error(InvalidArgumentError("'" + recipe.path + "': tensor 't2d' marks " + Number(ids.size()) +
                                        " tokens, but draft_vocab_size is " + Number(recipe.draft_vocab_size)));
    }
  } else if (!same) {
    return Error(NotFoundError("'" + recipe.path + "': tensor '" + name + "' is missing; it says which of the " +
                               Number(recipe.vocab_size) + " tokens of the target the head's " +
                               Number(recipe.draft_vocab_size) + " are"));
  } else {
    return std::vector<int32_t>();
  }
  SURETY_RETURN_IF_ERROR(CheckTargetIds(ids, recipe, name, holds));
  for (size_t i = 0; i < ids.size() && !mask.empty(); ++i) {
    if (mask[static_cast<size_t>(ids[i])] != 0) continue;
    return Error(InvalidArgumentError("'" + recipe.path + "': token " + Number(ids[i]) + " of the target is token " +
                                      Number(i) + " of the head by d2t, but none by t2d"));
  }
  return std::vector<int32_t>(ids.begin(), ids.end());
}

Result<std::unique_ptr<DraftHead>> LoadDraftHead(FileSystem& files, const HeadOptions& options,
                                                 const HeadTarget& target, kernels::Ops& ops) {
  SURETY_ASSIGN_OR_RETURN(auto weights, HeadWeights::Open(files, options.path));
  SURETY_ASSIGN_OR_RETURN(HeadRecipe recipe, ReadHeadRecipe(*weights, target.source.config(), options));
  if (recipe.method == HeadMethod::kMedusa) {
    return LoadMedusaHead(std::move(weights), std::move(recipe), options, target, ops);
  }
  return LoadEagleHead(std::move(weights), std::move(recipe), options, target, ops);
}

}  // namespace surety::model
