#include "model/inspect.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace surety::model {
namespace {

std::string_view TokenizerKindName(TokenizerKind kind) {
  switch (kind) {
    case TokenizerKind::kByteBpe: return "byte-level BPE";
    case TokenizerKind::kCharBpe: return "BPE over characters";
    case TokenizerKind::kSentencePieceBpe: return "SentencePiece BPE";
    case TokenizerKind::kUnigram: return "unigram";
    case TokenizerKind::kWordPiece: return "WordPiece";
  }
  return "?";
}

void CountTensors(const ModelSource& source, bool list, ModelReport& report) {
  std::map<std::string, TensorTypeCount> types;
  for (const TensorView& tensor : source.tensors()) {
    TensorTypeCount& type = types[std::string(NameOf(tensor.dtype))];
    const int64_t elements = tensor.ElementCount();
    ++type.count;
    type.bytes += static_cast<int64_t>(tensor.bytes.size());
    type.parameters += elements;
    if (list) {
      report.tensors.push_back({tensor.name, std::string(NameOf(tensor.dtype)), tensor.shape,
                                static_cast<int64_t>(tensor.bytes.size())});
    }
    ++report.n_tensors;
    report.tensor_bytes += static_cast<int64_t>(tensor.bytes.size());
    report.n_parameters += elements;
  }
  for (auto& [name, type] : types) {
    type.type = name;
    report.types.push_back(type);
  }
  std::stable_sort(report.types.begin(), report.types.end(),
                   [](const TensorTypeCount& a, const TensorTypeCount& b) { return a.bytes > b.bytes; });
}

std::string KvFormula(const KvLayout& kv) {
  const std::string bytes = kv.type == KvType::kQ8_0 ? "1.0625 bytes" : std::to_string(kv.ElementBytes()) + " bytes";
  const std::string layers = std::to_string(kv.n_layers) + " layers * ";
  if (kv.latent) {
    return layers + "(" + std::to_string(kv.v_dim) + " latent + " + std::to_string(kv.k_dim - kv.v_dim) +
           " rotated key) * " + bytes;
  }
  return "2 (K, V) * " + layers + std::to_string(kv.n_kv_heads) + " KV heads * " + std::to_string(kv.k_dim) + " * " +
         bytes;
}

// An encoder keeps no cache between steps, so a context costs it nothing here.
void CountKv(const InspectOptions& options, ModelReport& report) {
  report.kv_type = options.kv_type;
  report.buffers_bytes = options.buffers_bytes;
  if (!report.config.encoder) {
    const KvLayout kv = report.config.KvLayoutFor(options.kv_type, kKvLaneTokens);
    report.kv_bytes_per_token = kv.BytesPerToken();
    report.kv_formula = KvFormula(kv);
    report.kv_bytes = static_cast<int64_t>(std::ceil(report.kv_bytes_per_token * report.context));
  }
  report.total_bytes = report.tensor_bytes + report.kv_bytes + report.buffers_bytes;
}

}  // namespace

AttentionKind AttentionKindOf(const ModelConfig& config) {
  if (config.IsMla()) return AttentionKind::kMla;
  if (config.n_kv_heads == config.n_heads) return AttentionKind::kMha;
  return config.n_kv_heads == 1 ? AttentionKind::kMqa : AttentionKind::kGqa;
}

std::string_view NameOf(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kMha: return "MHA";
    case AttentionKind::kGqa: return "GQA";
    case AttentionKind::kMqa: return "MQA";
    case AttentionKind::kMla: return "MLA";
  }
  return "?";
}

Result<ModelReport> Inspect(const ModelSource& source, const InspectOptions& options) {
  ModelReport report;
  report.path = source.path();
  report.format = source.format();
  report.config = source.config();
  report.file_bytes = source.file_bytes();
  const int max_context = report.config.max_context;
  if (options.context < 0 || options.context > max_context) {
    return Error(InvalidArgumentError("a context of " + std::to_string(options.context) + " tokens: '" +
                                      report.path + "' takes 1 to " + std::to_string(max_context)));
  }
  report.context = options.context == 0 ? max_context : options.context;
  report.attention = AttentionKindOf(report.config);
  report.tied_output = !report.config.encoder && source.Find("output.weight") == nullptr;
  CountTensors(source, options.list_tensors, report);
  CountKv(options, report);
  report.chat_template = source.chat_template();
  report.generation = source.generation_defaults();
  if (options.tokenizer) {
    if (const auto tokenizer = source.LoadTokenizer()) {
      report.tokenizer_kind = std::string(TokenizerKindName(tokenizer->kind));
      report.tokenizer_source = tokenizer->source;
      report.n_tokens = static_cast<int64_t>(tokenizer->tokens.size());
    } else {
      report.tokenizer_error = tokenizer.error().message();
    }
  }
  if (options.digest) {
    SURETY_ASSIGN_OR_RETURN(report.digest, source.Digest());
  }
  return report;
}

}  // namespace surety::model
