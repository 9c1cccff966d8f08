// A head on disk in the public EAGLE-3 form: model.safetensors with the published tensor names, and config.json. And
// where its first weights come from.
//
// Threads: values. Errors: the file system's; InitialWeights: kNotFound and kInvalidArgument for tensors of the target.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "model/model_source.h"
#include "train/head_shape.h"

namespace surety::train {

enum class HeadNumbers : uint8_t { kF32, kF16, kBF16 };
Result<HeadNumbers> HeadNumbersFromName(std::string_view name);  // "f32", "f16", "bf16"

struct HeadDescription {
  HeadShape shape;
  std::vector<int> tap_layers;      // entering them: the convention of eagle_aux_hidden_state_layer_ids
  std::vector<int32_t> draft_ids;   // target ids, ascending
  int vocab_size = 0;               // the target's
  int max_context = 0;              // the target's
  std::string target;               // its name, for people
  HeadNumbers numbers = HeadNumbers::kBF16;
};

// Writes both files into the folder, config.json last.
Status WriteHead(FileSystem& files, const std::string& folder, const HeadDescription& head,
                 std::span<const float> weights);

// The head's first weights. Random matrices of the spread that keeps a row's size, from the seed; the output matrix and
// the norm before it are the target's own, so that the head begins with words that mean something, and fc passes on the
// last of the hidden states.
Result<std::vector<float>> InitialWeights(const HeadShape& shape, const model::ModelSource& target,
                                          std::span<const int32_t> draft_ids, uint64_t seed);

}  // namespace surety::train
