// Medusa: residual blocks x + SiLU(W x + b) on the final hidden state, then an output matrix, for each head.
#include <string>

#include "base/check.h"
#include "model/heads/draft_head.h"

namespace surety::model {
namespace {

class MedusaHeadImpl final : public MedusaHead {
 public:
  MedusaHeadImpl(HeadRecipe recipe, const HeadTarget& target, kernels::Ops& ops)
      : target_(target.model), ops_(ops) {
    recipe_ = std::move(recipe);
  }

  Status Load(HeadWeights& weights, bool as_q8) {
    const bool vllm = recipe_.vllm_names;
    const int64_t d = recipe_.d_model;
    const std::string why = "the target's hidden states are " + std::to_string(d) + " wide";
    if (recipe_.own_output) SURETY_RETURN_IF_ERROR(FindVocabulary(weights));
    SURETY_ASSIGN_OR_RETURN(target_ids_, ReadTargetIds(weights, recipe_));
    for (int i = 0; i < recipe_.n_medusa_heads; ++i) {
      Head head;
      const int n_layers = recipe_.medusa_layers[static_cast<size_t>(i)];
      for (int j = 0; j < n_layers; ++j) {
        const std::string name = vllm ? "blocks." + std::to_string(i) + ".layers." + std::to_string(j)
                                      : std::to_string(i) + "." + std::to_string(j) + ".linear";
        Block block;
        SURETY_ASSIGN_OR_RETURN(block.weight, weights.Pack(name + ".weight", d, d, why, ops_, as_q8));
        SURETY_ASSIGN_OR_RETURN(block.bias, weights.OptionalFloats(name + ".bias", d, why));
        head.blocks.push_back(std::move(block));
      }
      const std::string output = OutputName(weights, i);
      if (recipe_.own_output && !(i > 0 && output == OutputName(weights, 0))) {
        SURETY_ASSIGN_OR_RETURN(head.output, weights.Pack(output, recipe_.draft_vocab_size, d, why, ops_, as_q8));
      }
      heads_.push_back(std::move(head));
    }
    SURETY_RETURN_IF_ERROR(weights.CheckAllUsed("a Medusa head", false));
    weight_bytes_ = weights.packed_bytes();
    weights.ReleaseAll();
    return OkStatus();
  }

  int64_t workspace_bytes() const override { return workspace_.size_bytes(); }

  Status Reserve(int max_rows, int max_context) override {
    workspace_.Clear();
    x_ = workspace_.Declare(max_rows, recipe_.d_model);
    y_ = workspace_.Declare(max_rows, recipe_.d_model);

    SURETY_RETURN_IF_ERROR(workspace_.Allocate());
    return ops_.Reserve(max_rows, recipe_.d_model, max_context);
  }

  void Forward(int head, ConstMatrixF states, MatrixF logits) override {
    const Head& h = heads_[static_cast<size_t>(head)];
    MatrixF x = workspace_.Get(x_, states.rows), y = workspace_.Get(y_, states.rows);
    ops_.CopyHeads(states, 1, 0, recipe_.d_model, x, 0);
    for (const Block& block : h.blocks) {
      const kernels::MatMulTask task = {block.weight.get(), y, block.bias.empty() ? nullptr : block.bias.data()};
      ops_.MatMul(x, {&task, 1});
      ops_.Activate(kernels::Activation::kSilu, y);
      ops_.Add(x, y);
    }
    if (!recipe_.own_output) return target_.Logits(x, logits);
    const Head& owner = h.output != nullptr ? h : heads_[0];
    const kernels::MatMulTask task = {owner.output.get(), logits};
    ops_.MatMul(x, {&task, 1});
  }

 private:
  struct Block {
    std::unique_ptr<kernels::PackedMatrix> weight;
    std::vector<float> bias;
  };
  struct Head {
    std::vector<Block> blocks;
    std::unique_ptr<kernels::PackedMatrix> output;  // null: the first head's, or the target's
  };

  std::string OutputName(const HeadWeights& weights, int i) const {
    if (!recipe_.vllm_names) {
      return std::to_string(i) + "." + std::to_string(recipe_.medusa_layers[static_cast<size_t>(i)]) + ".weight";
    }
    const std::string own = "lm_heads." + std::to_string(i) + ".weight";
    if (weights.Has(own)) return own;
    // One matrix for all heads: under a name of its own, or as the first one.
    return weights.Has("lm_head.weight") ? "lm_head.weight" : "lm_heads.0.weight";
  }

  // All tokens, or those of the token_map.
  Status FindVocabulary(HeadWeights& weights) {
    const int64_t rows = weights.Rows(OutputName(weights, 0));
    if (!weights.Has("token_map") || rows == recipe_.vocab_size) return OkStatus();
    SURETY_ASSIGN_OR_RETURN(const std::vector<int64_t> map, weights.Integers("token_map"));
    recipe_.draft_vocab_size = static_cast<int>(std::min<size_t>(map.size(), static_cast<size_t>(recipe_.vocab_size)));
    return OkStatus();
  }

  Model& target_;
  kernels::Ops& ops_;
  std::vector<Head> heads_;
  Workspace workspace_;
  WorkspaceSlot x_, y_;
};

}  // namespace

Result<std::unique_ptr<DraftHead>> LoadMedusaHead(std::unique_ptr<HeadWeights> weights, HeadRecipe recipe,
                                                  const HeadOptions& options, const HeadTarget& target,
                                                  kernels::Ops& ops) {
  auto head = std::make_unique<MedusaHeadImpl>(std::move(recipe), target, ops);
  SURETY_RETURN_IF_ERROR(head->Load(*weights, options.round_weights));
  return head;
}

}  // namespace surety::model
