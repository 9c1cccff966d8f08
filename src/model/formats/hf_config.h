// A Hugging Face config.json as a ModelConfig; generation_config.json; the files of sentence-transformers.
//
// Both spellings are read: that of published checkpoints (rope_theta, rope_scaling, torch_dtype) and that of
// transformers 5 (rope_parameters, also one for each kind of layer; layer_types).
// Errors: kNotFound and kInvalidArgument name file and key; kUnimplemented names an unknown model type (and lists the
// known ones) or a variation that this build does not compute.
// Source: the configuration classes of Hugging Face transformers, which give keys their meaning and defaults.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "model/formats/json_fields.h"
#include "model/model_source.h"

namespace surety::model {

struct HfConfig {
  ModelConfig config;
  bool tied = false;  // the output matrix is the embedding
  std::vector<int32_t> eos_token_ids;
};

Result<HfConfig> ConfigFromHf(const boost::json::object& json, const std::string& path);

// The rotation's keys of config.json into c.rope and, where windowed layers differ, c.rope_local. dim is set before.
Status ReadHfRope(const JsonFields& fields, ModelConfig& c);

// eos_token_id, a number or a list of numbers; empty if absent.
Result<std::vector<int32_t>> EosTokenIds(const JsonFields& fields);

Result<GenerationDefaults> GenerationDefaultsFromHf(const boost::json::object& json, const std::string& path);

// The pooling of a sentence-transformers module's config.json.
Result<Pooling> PoolingFromHf(const boost::json::object& json, const std::string& path);

}  // namespace surety::model
