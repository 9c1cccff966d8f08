// What the parts of a step cost in proportion to each other, from a model's shape: starting points of what is measured.
// Threads: any. Owns: nothing.
#pragma once

#include "engine/local_model.h"
#include "tensor/kv_layout.h"

namespace surety::engine {

// Attended tokens whose scores and values cost as many multiply-adds as one row of the weight matrices.
double AttendedPerRow(const model::Model& model);
// What a token of context is to attention, of what a row is to the weights: in bytes that are read.
double ContextShare(const model::Model& model, const KvLayout& layout);

}  // namespace surety::engine
