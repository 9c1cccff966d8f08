// What a training needs: a folder for the head, memory. Checked before it begins, as hours follow.
//
// Threads: any. Errors: kFailedPrecondition (a file in the way), kPermissionDenied,
// kResourceExhausted, kIoError.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "train/head_shape.h"

namespace surety::cli {

// Makes the folder if it is absent and sees that files can be made in it. Unless `may_replace`, none that a training
// writes may be there.
Status MakeOutputFolder(const std::string& folder, bool may_replace);
std::string AbsolutePath(const std::string& path);

// Two checkpoints: one is kept until the next is written.
int64_t CheckpointBytes(const train::HeadShape& shape);
Status CheckTrainingMemory(const train::HeadShape& shape);

}  // namespace surety::cli
