// /v1/embeddings.
#include <bit>
#include <cstring>
#include <utility>

#include "http/openai_endpoints.h"
#include "http/openai_generation.h"
#include "http/request_trace.h"
#include "http/sse.h"

namespace surety::http {
namespace {

namespace json = boost::json;

constexpr size_t kMaxInputs = 2048;

static_assert(std::endian::native == std::endian::little, "base64 vectors are little-endian");

std::string Base64(const std::vector<float>& values) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    unsigned word = 0;
    for (size_t k = 0; k < 3; ++k) word = word << 8 | (k < n ? bytes[i + k] : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

struct Inputs {
  std::vector<std::string> texts;
  std::vector<std::vector<api::TokenId>> tokens;  // one of the two is empty
};

Parsed<void> AddInput(const json::value& value, const std::string& path, int vocab_size, Inputs& inputs) {
  if (value.is_string()) {
    if (value.get_string().empty()) return BadField(path, path + " is empty");
    inputs.texts.emplace_back(value.get_string());
  } else if (value.is_array()) {
    if (value.get_array().empty()) return BadField(path, path + " is empty");
    auto tokens = MapTokens(value.get_array(), path, vocab_size);
    if (!tokens) return std::unexpected(tokens.error());
    inputs.tokens.push_back(*std::move(tokens));
  } else {
    return BadField(path, path + " must be a text or a list of token ids, but is " + std::string(TypeName(value)),
                    "invalid_type");
  }
  if (!inputs.texts.empty() && !inputs.tokens.empty()) {
    return BadField(path, path + " is of another kind than those before it; give texts or lists of ids",
                    "invalid_type");
  }
  return {};
}

Parsed<Inputs> MapInputs(const json::object& body, int vocab_size) {
  Inputs inputs;
  const json::value* input = Member(body, "input");
  if (input == nullptr) return BadField("input", "input is missing", "missing_required_parameter");
  const json::array* list = input->if_array();
  if (list == nullptr || (!list->empty() && (*list)[0].is_number())) {
    if (auto ok = AddInput(*input, "input", vocab_size, inputs); !ok) return std::unexpected(ok.error());
    return inputs;
  }
  if (list->size() > kMaxInputs) {
    return BadField("input", "input has " + std::to_string(list->size()) + " texts, but may have at most 2048");
  }
  for (size_t i = 0; i < list->size(); ++i) {
    auto ok = AddInput((*list)[i], "input[" + std::to_string(i) + "]", vocab_size, inputs);
    if (!ok) return std::unexpected(ok.error());
  }
  return inputs;
}

std::string EmbeddingsJson(const std::vector<api::EmbeddingResult>& results, const std::string& model, bool base64) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  int64_t n_tokens = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (i > 0) out += ',';
    out += "{\"object\":\"embedding\",\"index\":" + std::to_string(i) + ",\"embedding\":";
    if (base64) {
      out += '"' + Base64(results[i].values) + '"';
    } else {
      out += '[';
      for (size_t k = 0; k < results[i].values.size(); ++k) {
        if (k > 0) out += ',';
        AppendJsonNumber(out, results[i].values[k]);
      }
      out += ']';
    }
    out += '}';
    n_tokens += results[i].n_tokens;
  }
  const std::string count = std::to_string(n_tokens);
  return out + "],\"model\":" + JsonString(model) + ",\"usage\":{\"prompt_tokens\":" + count + ",\"total_tokens\":" +
         count + "}}";
}

}  // namespace

void HandleEmbeddings(const Services& services, const HttpRequest& request, const Writer& writer) {
  const auto opened = Open(services, request, kEmbeddings);
  if (!opened) return SendError(*writer, opened.error());
  TraceModel(*writer, *opened);
  api::Backend& backend = *opened->model.backend;
  const api::ModelDescription& model = backend.description();
  const auto refuse = [&](const auto& error) { SendError(*writer, error); };
  if (!model.embeds) {
    return refuse(BadField("model", "model " + Quoted(opened->model.name) + " makes no embeddings",
                           "unsupported_by_model").error());
  }
  const int64_t dimensions = IntOr(opened->body, "dimensions", model.d_model);
  if (dimensions != model.d_model) {
    return refuse(BadField("dimensions", "dimensions is " + std::to_string(dimensions) + ", but " +
                                             Quoted(opened->model.name) + " makes vectors of " +
                                             std::to_string(model.d_model) + ", and they are not cut",
                           "unsupported_value").error());
  }
  const auto inputs = MapInputs(opened->body, model.vocab_size);
  if (!inputs) return refuse(inputs.error());
  const auto results = inputs->tokens.empty() ? backend.Embed(inputs->texts) : backend.EmbedTokens(inputs->tokens);
  if (!results) {
    ApiError error = ErrorOf(results.error(), results.error().code() == StatusCode::kOutOfRange ? "input" : "");
    if (results.error().code() == StatusCode::kOutOfRange) {
      error.code = "context_length_exceeded";
      error.more["n_ctx"] = model.context_tokens;
    }
    if (error.status == 429 || error.status == 503) error.retry_after_s = 1;
    return refuse(error);
  }
  if (RequestTrace* trace = writer->trace()) {
    int64_t n_tokens = 0;
    for (const api::EmbeddingResult& result : *results) n_tokens += result.n_tokens;
    trace->SetEmbeddings(n_tokens, model.d_model);
  }
  const bool base64 = StringOr(opened->body, "encoding_format", "float") == "base64";
  SendJson(writer, EmbeddingsJson(*results, opened->model.name, base64), opened->model.name);
}

}  // namespace surety::http
