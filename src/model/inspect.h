// What a model file holds and what it will cost: the contents of `surety inspect`.
//
// The JSON form is a contract: names are stable, new ones may be added. All sizes are bytes.
//   path, format, file_bytes, name, digest (absent if not asked for)
//   architecture, encoder, layers, d_model, heads, kv_heads, head_dim, d_ff, vocab, max_context
//   attention {kind "MHA"|"GQA"|"MQA"|"MLA", windowed_layers, window, soft_cap}, latent {kv_rank, q_rank, nope_dim,
//     rope_dim, v_dim} (MLA only)
//   experts {total, used, shared, d_ff, dense_layers, scoring} (mixtures only)
//   rope {base, dim, scaling, factor, interleaved} (decoders only), pooling {mode, normalised} (encoders only)
//   tensors {count, bytes, parameters, types [{type, count, bytes, parameters}], list [{name, type, shape, bytes}] (if
//     asked for)}, tied_output
//   kv {type, bytes_per_token, formula} (zero and empty for encoders)
//   memory {context, weights, kv, buffers, total}
//   tokenizer {kind, tokens, source} or {error}, chat_template (null if none)
//   generation {temperature, top_p, min_p, top_k, repetition_penalty, eos_token_ids} (those that the file gives)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model_source.h"
#include "tensor/kv_layout.h"

namespace surety::model {

enum class AttentionKind : uint8_t { kMha, kGqa, kMqa, kMla };
AttentionKind AttentionKindOf(const ModelConfig& config);
std::string_view NameOf(AttentionKind kind);  // "MHA", ...

struct InspectOptions {
  int context = 0;             // 0: the model's own maximum
  KvType kv_type = KvType::kF16;
  int64_t buffers_bytes = 0;   // the caller's estimate of working memory
  bool digest = false;         // reads the whole file
  bool tokenizer = true;
  bool list_tensors = false;
};

struct TensorEntry {
  std::string name, type;
  std::vector<int64_t> shape;  // slowest first
  int64_t bytes = 0;
};

struct TensorTypeCount {
  std::string type;
  int64_t count = 0;
  int64_t bytes = 0;
  int64_t parameters = 0;
};

struct ModelReport {
  std::string path, format;
  ModelConfig config;
  AttentionKind attention = AttentionKind::kMha;
  std::vector<TensorTypeCount> types;  // most bytes first
  std::vector<TensorEntry> tensors;  // in file order; empty if not asked for
  int64_t n_tensors = 0, tensor_bytes = 0, n_parameters = 0, file_bytes = 0;
  bool tied_output = false;
  KvType kv_type = KvType::kF16;
  double kv_bytes_per_token = 0;
  std::string kv_formula;  // "2 * 24 layers * 2 heads * 64 * 2 bytes"
  int context = 0;
  int64_t kv_bytes = 0, buffers_bytes = 0, total_bytes = 0;
  std::string tokenizer_kind, tokenizer_source, tokenizer_error;
  int64_t n_tokens = 0;
  std::string chat_template;
  std::string digest;
  GenerationDefaults generation;
};

// Errors: kInvalidArgument for a context that is negative or past the model's own; the digest's. A tokenizer that
// cannot be read is part of the report.
Result<ModelReport> Inspect(const ModelSource& source, const InspectOptions& options);

// For people: lines of at most 100 columns (but for tensors' names), the chat template cut unless `whole_template`.
std::string ReportText(const ModelReport& report, bool whole_template = false);
// For programs: one object, indented by two spaces, ending with a line feed.
std::string ReportJson(const ModelReport& report);

}  // namespace surety::model
