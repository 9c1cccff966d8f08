// surety inspect: what a model file or folder is, without loading it.
#include <algorithm>
#include <cstdio>
#include <map>

#include <fmt/format.h>

#include "base/file.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/json_out.h"
#include "cli/model_options.h"
#include "cli/models_store.h"
#include "cli/progress.h"
#include "model/model_source.h"

namespace surety::cli {
namespace {

struct TypeCount {
  int64_t tensors = 0, elements = 0, bytes = 0;
};

// How a token's KV bytes come about, with this model's numbers.
std::string KvFormula(const model::ModelConfig& config, const KvLayout& layout) {
  const std::string type(NameOf(layout.type));
  if (layout.latent) {
    return fmt::format("MLA: {} layers x (rank {} + rope {}) in {}", layout.n_layers, config.mla.kv_rank,
                       config.mla.rope_dim, type);
  }
  const char* kind = layout.n_kv_heads == config.n_heads ? "MHA" : layout.n_kv_heads == 1 ? "MQA" : "GQA";
  return fmt::format("{}: {} layers x {} KV heads x ({} + {}) in {}", kind, layout.n_layers, layout.n_kv_heads,
                     layout.k_dim, layout.v_dim, type);
}

std::string_view NameOfKind(model::TokenizerKind kind) {
  switch (kind) {
    case model::TokenizerKind::kByteBpe: return "byte-level BPE";
    case model::TokenizerKind::kSentencePieceBpe: return "SentencePiece BPE";
    case model::TokenizerKind::kUnigram: return "unigram";
    case model::TokenizerKind::kWordPiece: return "WordPiece";
  }
  return "unknown";
}

class InspectCommand final : public Command {
 public:
  std::string name() const override { return "inspect"; }
  std::string summary() const override { return "show what a model is: shapes, types, memory, template, digest"; }
  std::string examples() const override {
    return "  surety inspect qwen2.5-coder-0.5b-instruct --context 8192\n"
           "  surety inspect model.gguf --tensors\n"
           "  surety inspect model.gguf --template > template.jinja";
  }

  void Declare(Flags& flags) override {
    flags.Positional("MODEL", model_, true, "a path, or a name that 'surety models' lists");
    flags.Add("--context", context_, "work out the memory for this many tokens; 0: the model's limit, at most 4096");
    flags.Add("--kv-type", kv_.kv_type, "... with keys and values in f32, f16, bf16 or q8_0");
    flags.Add("--tensors", tensors_, "list every tensor");
    flags.Add("--template", template_, "print the chat template and nothing else");
    flags.Add("--digest", digest_, "compute the SHA-256 (reads the whole file)");
    flags.Add("--json", json_, "one JSON object");
  }

  int Run() override {
    if (const Status status = kv_.Validate(); !status.ok()) return ReportUsage(status);
    if (context_ < 0) return ReportUsage(InvalidArgumentError("--context: a number of tokens"));
    auto path = ResolveModel(model_);
    if (!path) return ReportFailure(path.error());
    auto source = model::OpenModelSource(FileSystem::Real(), *path);
    if (!source) return ReportFailure(source.error());
    if (template_) return PrintTemplate(**source);
    if (digest_) {
      auto digest = (*source)->Digest();
      if (!digest) return ReportFailure(digest.error());
      sha256_ = *std::move(digest);
    }
    auto report = Describe(**source);
    if (!report) return ReportFailure(report.error());
    if (json_) {
      PrintJson(*report);
    } else {
      PrintText(*report);
    }
    return kExitOk;
  }

 private:
  int PrintTemplate(const model::ModelSource& source) {
    if (source.chat_template().empty()) {
      return ReportFailure(NotFoundError(fmt::format("{} has no chat template", source.path())));
    }
    fmt::print("{}\n", source.chat_template());
    return kExitOk;
  }

  Result<boost::json::object> Describe(const model::ModelSource& source) const {
    const model::ModelConfig& config = source.config();
    boost::json::object out;
    out["path"] = source.path();
    out["format"] = source.format();
    out["architecture"] = config.architecture;
    out["name"] = config.name;
    out["kind"] = config.encoder ? "encoder" : "decoder";
    out["file_bytes"] = source.file_bytes();
    if (!sha256_.empty()) out["sha256"] = sha256_;
    out["shape"] = Shape(config);
    out["features"] = Features(config);
    DescribeWeights(source, out);
    DescribeMemory(source, out);
    auto tokenizer = source.LoadTokenizer();
    if (tokenizer) {
      out["tokenizer"] = {{"kind", NameOfKind(tokenizer->kind)},
                          {"source", tokenizer->source},
                          {"vocabulary", tokenizer->tokens.size()},
                          {"bos", tokenizer->bos},
                          {"eos", tokenizer->eos},
                          {"add_bos", tokenizer->add_bos}};
    } else {
      out["tokenizer"] = {{"error", tokenizer.error().message()}};
    }
    out["chat_template"] = !source.chat_template().empty();
    return out;
  }

  static boost::json::object Shape(const model::ModelConfig& config) {
    boost::json::object shape;
    shape["layers"] = config.n_layers;
    shape["d_model"] = config.d_model;
    shape["heads"] = config.n_heads;
    shape["kv_heads"] = config.n_kv_heads;
    shape["head_dim"] = config.head_dim;
    shape["d_ff"] = config.d_ff;
    shape["vocab_size"] = config.vocab_size;
    shape["max_context"] = config.max_context;
    if (config.moe.n_experts > 0) {
      shape["experts"] = config.moe.n_experts;
      shape["experts_used"] = config.moe.n_used;
    }
    return shape;
  }

  // What sets this model apart, in words.
  static boost::json::array Features(const model::ModelConfig& config) {
    boost::json::array features;
    if (config.rope.dim > 0) features.push_back(boost::json::string(fmt::format("RoPE theta {}", config.rope.base)));
    constexpr std::string_view kScaling[] = {"", "linear", "llama3", "yarn"};
    if (config.rope.scaling != model::RopeScaling::kNone) {
      features.push_back(boost::json::string(fmt::format(
          "{} RoPE scaling by {}", kScaling[static_cast<size_t>(config.rope.scaling)], config.rope.factor)));
    }
    const auto windowed = std::count_if(config.windows.begin(), config.windows.end(), [](int w) { return w > 0; });
    if (windowed > 0) {
      const int window = *std::max_element(config.windows.begin(), config.windows.end());
      features.push_back(boost::json::string(fmt::format("window of {} in {} layers", window, windowed)));
    }
    if (config.qk_norm) features.push_back("QK norm");
    if (config.post_norms) features.push_back("post norms");
    if (config.attention_soft_cap > 0) features.push_back("attention soft cap");
    if (config.logit_soft_cap > 0) features.push_back("logit soft cap");
    if (config.IsMla()) features.push_back("latent attention");
    if (config.moe.n_experts > 0) features.push_back("mixture of experts");
    return features;
  }

  void DescribeWeights(const model::ModelSource& source, boost::json::object& out) const {
    std::map<std::string, TypeCount> types;
    boost::json::array tensors;
    int64_t elements = 0;
    for (const TensorView& tensor : source.tensors()) {
      TypeCount& count = types[std::string(NameOf(tensor.dtype))];
      ++count.tensors;
      count.elements += tensor.ElementCount();
      count.bytes += static_cast<int64_t>(tensor.bytes.size());
      elements += tensor.ElementCount();
      if (!tensors_) continue;
      tensors.push_back(boost::json::object{{"name", tensor.name},
                                            {"type", NameOf(tensor.dtype)},
                                            {"shape", boost::json::array(tensor.shape.begin(), tensor.shape.end())}});
    }
    out["parameters"] = elements;
    boost::json::array rows;
    for (const auto& [type, count] : types) {
      rows.push_back(boost::json::object{
          {"type", type}, {"tensors", count.tensors}, {"elements", count.elements}, {"bytes", count.bytes}});
    }
    out["types"] = std::move(rows);
    if (tensors_) out["tensors"] = std::move(tensors);
  }

  void DescribeMemory(const model::ModelSource& source, boost::json::object& out) const {
    const model::ModelConfig& config = source.config();
    int64_t weight_bytes = 0;
    for (const TensorView& tensor : source.tensors()) weight_bytes += static_cast<int64_t>(tensor.bytes.size());
    if (config.encoder) {
      out["memory"] = {{"weight_bytes", weight_bytes}};
      return;
    }
    const KvLayout layout = config.KvLayoutFor(*kv_.Type(), 16);
    const int context = context_ > 0 ? context_ : std::min(config.max_context, 4096);
    const int64_t pages = (context + layout.page_tokens - 1) / layout.page_tokens;
    const int64_t kv_bytes = pages * layout.PageBytes();
    out["kv"] = {{"type", NameOf(layout.type)},
                 {"bytes_per_token", layout.BytesPerToken()},
                 {"formula", KvFormula(config, layout)}};
    out["memory"] = {{"context", context},
                     {"weight_bytes", weight_bytes},
                     {"kv_bytes", kv_bytes},
                     {"total_bytes", weight_bytes + kv_bytes}};
  }

  static std::string Plain(const boost::json::value& value) {
    return value.is_string() ? std::string(value.as_string()) : boost::json::serialize(value);
  }

  void PrintText(const boost::json::object& report) const {
    const auto line = [](std::string_view label, const std::string& text) { fmt::print("{:<14} {}\n", label, text); };
    line("path", Plain(report.at("path")));
    line("format", fmt::format("{}, {}", Plain(report.at("format")), HumanBytes(report.at("file_bytes").as_int64())));
    line("model", fmt::format("{} ({} {})", Plain(report.at("name")), Plain(report.at("architecture")),
                              Plain(report.at("kind"))));
    line("parameters", fmt::format("{:.2f} M", static_cast<double>(report.at("parameters").as_int64()) / 1e6));
    std::string shape;
    for (const auto& field : report.at("shape").as_object()) {
      shape += fmt::format("{}{} {}", shape.empty() ? "" : ", ", std::string(field.key()), Plain(field.value()));
    }
    line("shape", shape);
    std::string features;
    for (const auto& feature : report.at("features").as_array()) {
      features += (features.empty() ? "" : ", ") + Plain(feature);
    }
    if (!features.empty()) line("features", features);
    for (const auto& type : report.at("types").as_array()) {
      line("weights", fmt::format("{:<7} {:>5} tensors, {}", Plain(type.at("type")), Plain(type.at("tensors")),
                                  HumanBytes(type.at("bytes").as_int64())));
    }
    if (report.contains("kv")) {
      const auto& kv = report.at("kv").as_object();
      line("KV a token", fmt::format("{} bytes = {}", kv.at("bytes_per_token").as_double(), Plain(kv.at("formula"))));
      const auto& memory = report.at("memory").as_object();
      line("memory", fmt::format("{} for {} tokens: weights {}, KV {}, and working memory",
                                 HumanBytes(memory.at("total_bytes").as_int64()), Plain(memory.at("context")),
                                 HumanBytes(memory.at("weight_bytes").as_int64()),
                                 HumanBytes(memory.at("kv_bytes").as_int64())));
    }
    const auto& tokenizer = report.at("tokenizer").as_object();
    line("tokenizer", tokenizer.contains("error") ? Plain(tokenizer.at("error"))
                                                  : fmt::format("{}, {} tokens ({})", Plain(tokenizer.at("kind")),
                                                                Plain(tokenizer.at("vocabulary")),
                                                                Plain(tokenizer.at("source"))));
    line("chat template", report.at("chat_template").as_bool() ? "yes (--template prints it)" : "none");
    line("SHA-256", report.contains("sha256") ? Plain(report.at("sha256")) : "not computed (--digest does)");
    if (!report.contains("tensors")) return;
    for (const auto& tensor : report.at("tensors").as_array()) {
      fmt::print("  {:<44} {:<7} {}\n", Plain(tensor.at("name")), Plain(tensor.at("type")), Plain(tensor.at("shape")));
    }
  }

  std::string model_;
  KvFlags kv_;
  int context_ = 0;
  bool tensors_ = false, template_ = false, digest_ = false, json_ = false;
  std::string sha256_;
};

}  // namespace

std::unique_ptr<Command> MakeInspectCommand() { return std::make_unique<InspectCommand>(); }

}  // namespace surety::cli
