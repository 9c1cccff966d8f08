// What model sources of every format have in common: the tensor table by name and the values read at open.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/formats/text.h"
#include "model/model_source.h"

namespace surety::model {

class SourceBase : public ModelSource {
 public:
  const std::string& path() const override { return path_; }
  const ModelConfig& config() const override { return config_; }
  std::span<const TensorView> tensors() const override { return tensors_; }
  const TensorView* Find(std::string_view canonical_name) const override {
    const auto found = by_name_.find(canonical_name);
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
  }
  const std::string& chat_template() const override { return chat_template_; }
  const GenerationDefaults& generation_defaults() const override { return generation_defaults_; }

 protected:
  explicit SourceBase(std::string path) : path_(std::move(path)) {}

  // Takes the table. kDataLoss if two tensors have the same canonical name.
  Status SetTensors(std::vector<TensorView> tensors) {
    tensors_ = std::move(tensors);
    by_name_.reserve(tensors_.size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!by_name_.emplace(tensors_[i].name, i).second) {
        return DataLossError("'" + path_ + "': two tensors are '" + Printable(tensors_[i].name) + "'");
      }
    }
    return OkStatus();
  }

  std::string path_;
  ModelConfig config_;
  std::string chat_template_;
  GenerationDefaults generation_defaults_;

 private:
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;  // keys lie in tensors_
};

}  // namespace surety::model
