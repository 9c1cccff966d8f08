// Whether a model's tensors are those that its configuration needs.
#pragma once

#include "base/status.h"
#include "model/model_source.h"

namespace surety::model {

// Checks every tensor that the architecture's computation reads, before anything is packed. Work is bounded by the
// number of tensors, whatever counts the configuration claims.
// Errors: kNotFound (a needed tensor is absent), kInvalidArgument (its shape differs: name, expected and found shape),
// kUnimplemented (a tensor that the computation would ignore: the model is of another kind than it says).
Status ValidateTensors(const ModelSource& source);

}  // namespace surety::model
