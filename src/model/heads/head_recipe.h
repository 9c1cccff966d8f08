// How a draft head computes: found in its config.json and its tensors, checked against the target, printed at load.
// Where files disagree about a count the tensors are right.
//
// The hidden states that an EAGLE-3 head reads are named here by the layer that they *enter* (residual stream, before
// that layer's norm). Files with explicit layer ids mean the same unless options say that they name the layer whose
// output it is; without explicit ids they are 2, L/2 and L-3. Norms follow the tensors: input_norm before fc, fc_norm
// for each state, and the keys norm_before_residual (the residual is the normed state) and norm_output (the next step
// reads the normed output).
//
// Shapes: H the head's width, Ht the target's, V the target's vocabulary, Vd the head's.
// Threads: values. Errors: ReadHeadRecipe: kNotFound, kInvalidArgument, kUnimplemented, each with file, key or tensor,
// what was found and what would be right.
// Source: Cai et al. 2024 (Medusa); Li et al. 2024 (EAGLE, EAGLE-2), 2025 (EAGLE-3); the public files of their heads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/arch/model.h"
#include "model/config.h"
#include "model/heads/head_weights.h"

namespace surety::model {

// EAGLE-2 is EAGLE-1's file with a tree made as it goes.
enum class HeadMethod : uint8_t { kMedusa, kEagle1, kEagle3 };
std::string_view NameOf(HeadMethod method);  // "Medusa", "EAGLE-1/2", "EAGLE-3"

struct HeadOptions {
  std::string path = {};
  std::vector<int> entering_layers = {};              // instead of the file's; empty: as the file says
  bool layer_ids_are_outputs = false;                 // the file's explicit ids: of the layer whose output it is
  std::optional<bool> norm_before_residual = {};      // instead of the file's
  bool round_weights = true;                          // large matrices to Q8_0: drafts need not be exact
};

struct HeadRecipe {
  HeadMethod method = HeadMethod::kEagle3;
  std::string path = {};
  std::vector<HiddenTap> taps;  // in the order in which the head takes them
  int target_dim = 0;           // Ht
  int d_model = 0;              // H; Medusa: Ht
  int d_ff = 0;
  int n_heads = 0, n_kv_heads = 0, head_dim = 0;
  int vocab_size = 0;           // V
  int draft_vocab_size = 0;     // Vd
  int max_context = 0;
  float norm_eps = 1e-6f;
  RopeConfig rope;
  bool norm_before_residual = false, input_norm = false, fc_norm = false, norm_output = false;
  bool own_embedding = false;   // else the target's
  bool own_output = false;      // else the target's output matrix
  int n_medusa_heads = 0;
  std::vector<int> medusa_layers = {};  // residual blocks of each head
  bool vllm_names = false;      // Medusa: blocks.{i}.layers.{j}, lm_heads.{i}
  std::string note = {};        // where config.json was wrong; empty: nowhere

  int feature_dim() const { return static_cast<int>(taps.size()) * target_dim; }
  // Of the head's one layer; Medusa has none.
  KvLayout KvLayoutFor(KvType type, int page_tokens) const;
  std::string Describe() const;  // one line
};

Result<HeadRecipe> ReadHeadRecipe(const HeadWeights& weights, const ModelConfig& target, const HeadOptions& options);

}  // namespace surety::model
