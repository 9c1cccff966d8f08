// ModelReport as text and as JSON.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "model/formats/text.h"
#include "model/inspect.h"

namespace surety::model {
namespace {

std::string_view Name(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone: return "none";
    case RopeScaling::kLinear: return "linear";
    case RopeScaling::kLlama3: return "llama3";
    case RopeScaling::kYarn: return "yarn";
  }
  return "?";
}

std::string_view Name(Pooling pooling) {
  switch (pooling) {
    case Pooling::kNone: return "none";
    case Pooling::kMean: return "mean";
    case Pooling::kCls: return "cls";
    case Pooling::kLast: return "last";
  }
  return "?";
}

std::string_view Name(ExpertScoring scoring) { return scoring == ExpertScoring::kSigmoid ? "sigmoid" : "softmax"; }

struct Windows {
  int layers = 0;  // with a window
  int tokens = 0;  // the largest window
};
Windows WindowsOf(const ModelConfig& config) {
  Windows out;
  for (int window : config.windows) {
    out.layers += window > 0;
    out.tokens = std::max(out.tokens, window);
  }
  return out;
}

// "1,234,567".
std::string Grouped(int64_t n) {
  std::string digits = std::to_string(n);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string Number(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

// "468.6 MiB (491,400,064 bytes)".
std::string Bytes(double bytes) {
  if (bytes < 1 << 10) return Grouped(static_cast<int64_t>(std::llround(bytes))) + " bytes";
  const char* unit = bytes >= 1 << 30 ? "GiB" : bytes >= 1 << 20 ? "MiB" : "KiB";
  const double scale = bytes >= 1 << 30 ? 1 << 30 : bytes >= 1 << 20 ? 1 << 20 : 1 << 10;
  char text[80];
  std::snprintf(text, sizeof(text), "%.1f %s (%s bytes)", bytes / scale, unit,
                Grouped(static_cast<int64_t>(std::llround(bytes))).c_str());
  return text;
}

class Lines {
 public:
  void Add(std::string_view name, const std::string& value) {
    if (value.empty()) return;
    text_ += std::string(name) + std::string(name.size() < 16 ? 16 - name.size() : 1, ' ') + value + "\n";
  }
  std::string Take() { return std::move(text_); }
  std::string& raw() { return text_; }

 private:
  std::string text_;
};

void AddShape(const ModelReport& report, Lines& lines) {
  const ModelConfig& c = report.config;
  lines.Add("architecture", Printable(c.architecture) + (c.encoder ? " (encoder)" : " (decoder)"));
  lines.Add("shape", Grouped(c.n_layers) + " layers, model " + Grouped(c.d_model) + ", FFN " + Grouped(c.d_ff) +
                         ", vocabulary " + Grouped(c.vocab_size));
  std::string attention = std::string(NameOf(report.attention)) + ", " + std::to_string(c.n_heads) + " heads";
  if (c.IsMla()) {
    attention += ", latent " + std::to_string(c.mla.kv_rank) + " + " + std::to_string(c.mla.rope_dim) + " rotated";
  } else {
    attention += ", " + std::to_string(c.n_kv_heads) + " KV heads of " + std::to_string(c.head_dim);
  }
  if (c.qk_norm) attention += ", QK-norm";
  if (c.attention_soft_cap > 0) attention += ", soft cap " + Number(c.attention_soft_cap);
  lines.Add("attention", attention);
  if (const Windows windows = WindowsOf(c); windows.layers > 0) {
    lines.Add("windows", std::to_string(windows.layers) + " of " + std::to_string(c.n_layers) + " layers see " +
                             Grouped(windows.tokens) + " tokens");
  }
  if (c.moe.n_experts > 0) {
    lines.Add("experts", std::to_string(c.moe.n_used) + " of " + std::to_string(c.moe.n_experts) + " a token, " +
                             std::to_string(c.moe.n_shared) + " shared, FFN " + Grouped(c.moe.d_ff_expert) + ", " +
                             std::string(Name(c.moe.scoring)) + ", first " + std::to_string(c.moe.n_dense_layers) +
                             " layers dense");
  }
  if (c.encoder) {
    lines.Add("pooling", std::string(Name(c.pooling)) + (c.normalise_embedding ? ", normalised" : ""));
  } else {
    std::string rope = "base " + Number(c.rope.base) + ", " + std::to_string(c.rope.dim) + " dimensions";
    if (c.rope.scaling != RopeScaling::kNone) {
      rope += ", " + std::string(Name(c.rope.scaling)) + " scaling by " + Number(c.rope.factor);
    }
    if (c.rope_local.dim > 0) rope += "; windowed layers base " + Number(c.rope_local.base);
    lines.Add("rotation", rope);
  }
}

void AddTensors(const ModelReport& report, Lines& lines) {
  lines.Add("parameters", Grouped(report.n_parameters) + " in " + Grouped(report.n_tensors) + " tensors" +
                              (report.tied_output ? ", output tied to the embedding" : ""));
  for (const TensorTypeCount& type : report.types) {
    lines.Add("", type.type + std::string(type.type.size() < 8 ? 8 - type.type.size() : 1, ' ') +
                      Grouped(type.count) + " tensors, " + Bytes(static_cast<double>(type.bytes)));
  }
}

void AddGeneration(const GenerationDefaults& defaults, Lines& lines) {
  std::string text;
  const auto add = [&text](const char* name, const std::optional<double>& value) {
    if (value) text += (text.empty() ? "" : ", ") + std::string(name) + " " + Number(*value);
  };
  add("temperature", defaults.temperature);
  add("top_p", defaults.top_p);
  add("min_p", defaults.min_p);
  if (defaults.top_k) add("top_k", static_cast<double>(*defaults.top_k));
  add("repetition_penalty", defaults.repetition_penalty);
  lines.Add("recommended", text);
  std::string ids;
  for (int32_t id : defaults.eos_token_ids) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
  lines.Add("end tokens", ids);
}

boost::json::object AttentionJson(const ModelReport& report) {
  const Windows windows = WindowsOf(report.config);
  return {{"kind", NameOf(report.attention)},
          {"windowed_layers", windows.layers},
          {"window", windows.tokens},
          {"soft_cap", report.config.attention_soft_cap}};
}

void AddVariationJson(const ModelConfig& c, boost::json::object& out) {
  if (c.IsMla()) {
    out["latent"] = {{"kv_rank", c.mla.kv_rank},
                     {"q_rank", c.mla.q_rank},
                     {"nope_dim", c.mla.nope_dim},
                     {"rope_dim", c.mla.rope_dim},
                     {"v_dim", c.mla.v_dim}};
  }
  if (c.moe.n_experts > 0) {
    out["experts"] = {{"total", c.moe.n_experts},   {"used", c.moe.n_used},
                      {"shared", c.moe.n_shared},   {"d_ff", c.moe.d_ff_expert},
                      {"dense_layers", c.moe.n_dense_layers}, {"scoring", Name(c.moe.scoring)}};
  }
  if (c.encoder) {
    out["pooling"] = {{"mode", Name(c.pooling)}, {"normalised", c.normalise_embedding}};
  } else {
    out["rope"] = {{"base", c.rope.base},
                   {"dim", c.rope.dim},
                   {"scaling", Name(c.rope.scaling)},
                   {"factor", c.rope.factor},
                   {"interleaved", c.rope.interleaved}};
  }
}

boost::json::object TensorsJson(const ModelReport& report) {
  boost::json::array types;
  for (const TensorTypeCount& type : report.types) {
    types.push_back(boost::json::object{
        {"type", type.type}, {"count", type.count}, {"bytes", type.bytes}, {"parameters", type.parameters}});
  }
  boost::json::object out = {{"count", report.n_tensors},
                             {"bytes", report.tensor_bytes},
                             {"parameters", report.n_parameters},
                             {"types", std::move(types)}};
  if (report.tensors.empty()) return out;
  boost::json::array& list = (out["list"] = boost::json::array()).get_array();
  for (const TensorEntry& tensor : report.tensors) {
    list.push_back(boost::json::object{{"name", tensor.name},
                                       {"type", tensor.type},
                                       {"shape", boost::json::array(tensor.shape.begin(), tensor.shape.end())},
                                       {"bytes", tensor.bytes}});
  }
  return out;
}

boost::json::object GenerationJson(const GenerationDefaults& defaults) {
  boost::json::object out;
  if (defaults.temperature) out["temperature"] = *defaults.temperature;
  if (defaults.top_p) out["top_p"] = *defaults.top_p;
  if (defaults.min_p) out["min_p"] = *defaults.min_p;
  if (defaults.top_k) out["top_k"] = *defaults.top_k;
  if (defaults.repetition_penalty) out["repetition_penalty"] = *defaults.repetition_penalty;
  out["eos_token_ids"] = boost::json::array(defaults.eos_token_ids.begin(), defaults.eos_token_ids.end());
  return out;
}

void Indent(const boost::json::value& value, int depth, std::string& out) {
  const std::string pad(static_cast<size_t>(depth) * 2 + 2, ' ');
  const std::string end(static_cast<size_t>(depth) * 2, ' ');
  const char* separator = "\n";
  if (value.is_object() && !value.get_object().empty()) {
    out += "{";
    for (const auto& [key, element] : value.get_object()) {
      out += separator + pad + boost::json::serialize(boost::json::string_view(key)) + ": ";
      Indent(element, depth + 1, out);
      separator = ",\n";
    }
    out += "\n" + end + "}";
  } else if (value.is_array() && !value.get_array().empty() && value.get_array()[0].is_structured()) {
    out += "[";
    for (const boost::json::value& element : value.get_array()) {
      out += separator + pad;
      Indent(element, depth + 1, out);
      separator = ",\n";
    }
    out += "\n" + end + "]";
  } else if (value.is_double()) {
    char number[32];
    const auto end_of_number = std::to_chars(number, number + sizeof(number), value.get_double());
    out.append(number, end_of_number.ptr);  // shortest exact form; Validate has excluded infinities
  } else {
    out += boost::json::serialize(value);
  }
}

// JSON text must be UTF-8, which bytes from a file need not be.
std::string ValidUtf8(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >= 0xC2 && lead < 0xE0 ? 2 : lead >= 0xE0 && lead < 0xF0 ? 3
                          : lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
    bool valid = length > 0 && i + length <= text.size();
    for (size_t k = 1; valid && k < length; ++k) valid = (static_cast<unsigned char>(text[i + k]) & 0xC0) == 0x80;
    if (valid && length > 2) {  // no overlong forms, no surrogates, nothing past U+10FFFF
      const auto second = static_cast<unsigned char>(text[i + 1]);
      valid = !(lead == 0xE0 && second < 0xA0) && !(lead == 0xED && second > 0x9F) &&
              !(lead == 0xF0 && second < 0x90) && !(lead == 0xF4 && second > 0x8F);
    }
    out += valid ? std::string(text.substr(i, length)) : "\xEF\xBF\xBD";
    i += valid ? length : 1;
  }
  return out;
}

}  // namespace

std::string ReportText(const ModelReport& report, bool whole_template) {
  constexpr size_t kTemplateBytes = 400;
  Lines lines;
  lines.Add("file", Printable(report.path) + " (" + report.format + ", " +
                        Bytes(static_cast<double>(report.file_bytes)) + ")");
  lines.Add("name", Printable(report.config.name));
  lines.Add("SHA-256", report.digest);
  AddShape(report, lines);
  lines.Add("context", Grouped(report.config.max_context) + " tokens");
  AddTensors(report, lines);
  if (!report.config.encoder) {
    lines.Add("KV a token", Bytes(report.kv_bytes_per_token) + " in " + std::string(NameOf(report.kv_type)));
    lines.Add("", report.kv_formula);
  }
  lines.Add("memory", Bytes(static_cast<double>(report.total_bytes)) + " for a context of " + Grouped(report.context));
  lines.Add("", "weights " + Bytes(static_cast<double>(report.tensor_bytes)));
  if (report.kv_bytes > 0) lines.Add("", "KV cache " + Bytes(static_cast<double>(report.kv_bytes)));
  if (report.buffers_bytes > 0) lines.Add("", "buffers " + Bytes(static_cast<double>(report.buffers_bytes)));
  if (!report.tokenizer_kind.empty()) {
    lines.Add("tokenizer", report.tokenizer_kind + ", " + Grouped(report.n_tokens) + " tokens (" +
                               Printable(report.tokenizer_source) + ")");
  }
  if (!report.tokenizer_error.empty()) lines.Add("tokenizer", "unreadable: " + report.tokenizer_error);
  AddGeneration(report.generation, lines);
  const std::string valid = ValidUtf8(report.chat_template);
  if (valid.empty()) {
    lines.Add("chat template", "none");
  } else {
    lines.Add("chat template", Grouped(static_cast<int64_t>(report.chat_template.size())) + " bytes");
    const bool cut = !whole_template && valid.size() > kTemplateBytes;
    std::string shown = cut ? ValidUtf8(valid.substr(0, kTemplateBytes)) + "..." : valid;
    for (char& c : shown) {
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') c = '?';  // no terminal control from a file
    }
    lines.raw() += shown + "\n";
  }
  return lines.Take();
}

std::string ReportJson(const ModelReport& report) {
  const ModelConfig& c = report.config;
  boost::json::object out = {{"path", ValidUtf8(report.path)},
                             {"format", report.format},
                             {"name", ValidUtf8(c.name)},
                             {"file_bytes", report.file_bytes},
                             {"architecture", c.architecture},
                             {"encoder", c.encoder},
                             {"layers", c.n_layers},
                             {"d_model", c.d_model},
                             {"heads", c.n_heads},
                             {"kv_heads", c.n_kv_heads},
                             {"head_dim", c.head_dim},
                             {"d_ff", c.d_ff},
                             {"vocab", c.vocab_size},
                             {"max_context", c.max_context},
                             {"attention", AttentionJson(report)}};
  if (!report.digest.empty()) out["digest"] = report.digest;
  AddVariationJson(c, out);
  out["tensors"] = TensorsJson(report);
  out["tied_output"] = report.tied_output;
  out["kv"] = {{"type", NameOf(report.kv_type)},
               {"bytes_per_token", report.kv_bytes_per_token},
               {"formula", report.kv_formula}};
  out["memory"] = {{"context", report.context},
                   {"weights", report.tensor_bytes},
                   {"kv", report.kv_bytes},
                   {"buffers", report.buffers_bytes},
                   {"total", report.total_bytes}};
  if (!report.tokenizer_kind.empty()) {
    out["tokenizer"] = {{"kind", report.tokenizer_kind},
                        {"tokens", report.n_tokens},
                        {"source", ValidUtf8(report.tokenizer_source)}};
  } else if (!report.tokenizer_error.empty()) {
    out["tokenizer"] = {{"error", ValidUtf8(report.tokenizer_error)}};
  }
  out["chat_template"] = nullptr;
  if (!report.chat_template.empty()) out["chat_template"] = ValidUtf8(report.chat_template);
  out["generation"] = GenerationJson(report.generation);
  std::string text;
  Indent(out, 0, text);
  return text + "\n";
}

}  // namespace surety::model
