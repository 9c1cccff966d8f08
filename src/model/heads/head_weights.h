// The files of a draft head: a folder with config.json and safetensors, or one .safetensors file with or without a
// config.json beside it. Tensors are found under common names: a leading "model.", "medusa_head." or "medusa_heads." is
// dropped, "midlayer." is "layers.0.". Messages have the names of the file.
//
// Owns: the maps behind the views; a view is valid while the HeadWeights lives. Threads: one while loading.
// Errors: kNotFound (no file, no tensor), kInvalidArgument (a shape, with the one needed and why; a pickle, with the
// way to convert it; a tensor without a place), kUnimplemented (a type that is not read), and those of the reader.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "kernels/ops.h"
#include "model/formats/json_fields.h"
#include "model/formats/safetensors.h"

namespace surety::model {

class HeadWeights {
 public:
  static Result<std::unique_ptr<HeadWeights>> Open(FileSystem& files, const std::string& path);

  const std::string& path() const { return path_; }
  bool has_config() const { return has_config_; }
  JsonFields config() const { return JsonFields(config_, "'" + config_path_ + "'"); }

  bool Has(const std::string& name) const { return tensors_.contains(name) || other_.contains(name); }
  bool HasPrefix(const std::string& prefix) const;
  // Rows and columns of a matrix; 0 without one of that name.
  int64_t Rows(const std::string& name) const;
  int64_t Cols(const std::string& name) const;

  // `why` ends the message about a shape: what the sizes come from.
  Result<TensorView> Matrix(const std::string& name, int64_t rows, int64_t cols, const std::string& why);
  // With `as_q8` the matrix is rounded to Q8_0 where its columns allow it.
  Result<std::unique_ptr<kernels::PackedMatrix>> Pack(const std::string& name, int64_t rows, int64_t cols,
                                                      const std::string& why, kernels::Ops& ops, bool as_q8);
  Result<std::vector<float>> Floats(const std::string& name, int64_t n, const std::string& why);
  Result<std::vector<float>> OptionalFloats(const std::string& name, int64_t n, const std::string& why);
  // Of type I64, I32, U8 or BOOL.
  Result<std::vector<int64_t>> Integers(const std::string& name);

  // kInvalidArgument for a tensor that no call above has asked for. `rotates`: what frequencies a layer turned with may
  // lie beside it (rotary_emb.inv_freq); they are worked out from the configuration.
  Status CheckAllUsed(const std::string& kind, bool rotates) const;
  void Ignore(const std::string& name) { used_[name] = true; }
  int64_t packed_bytes() const { return packed_bytes_; }
  // The maps' memory may go back, but for single rows of tables.
  void ReleaseAll() const;

 private:
  HeadWeights() = default;
  Status OpenFolder(FileSystem& files, const std::string& folder);
  Status OpenFile(FileSystem& files, const std::string& path);
  Status ReadConfig(FileSystem& files, const std::string& path);
  Status Missing(const std::string& name, const std::string& why) const;

  std::string path_, config_path_;
  boost::json::object config_;
  bool has_config_ = false;
  std::vector<std::unique_ptr<SafetensorsFile>> maps_;
  std::map<std::string, TensorView> tensors_;                // by common name
  std::map<std::string, SafetensorsFile::Unread> other_;
  std::map<std::string, bool> used_;
  int64_t packed_bytes_ = 0;
};

}  // namespace surety::model
