// Does a head draft for this target at all? Heads fail silently where a hidden state is taken one layer off or a norm
// is left out, so a head is tried when it is loaded: the target writes some text, always its likeliest token, and the
// head says what follows each token of it from the target's own states. The share that it has right is its acceptance
// at depth 1 without sampling.
//
// Threads: one. Errors: CheckHead: kFailedPrecondition for a head below the floor, with the measured share, what a
// neighbouring recipe would give, and the floor; kResourceExhausted.
#pragma once

#include <string>

#include "engine/local_model.h"

namespace surety::engine {

struct HeadCheckResult {
  int n_tried = 0, n_held = 0;
  double share() const { return n_tried > 0 ? static_cast<double>(n_held) / n_tried : 0; }
};

// Tries the model's head. It uses the model's and the head's working memory, so both are reserved anew afterwards.
Result<HeadCheckResult> MeasureHead(LocalModel& model, const HeadCheckOptions& options);

// MeasureHead, and an error below the floor. `head`: how the model's head was loaded; a neighbour is loaded so.
Result<HeadCheckResult> CheckHead(FileSystem& files, LocalModel& model, const model::HeadOptions& head,
                                  const HeadCheckOptions& options);

}  // namespace surety::engine
