#include "http/openai_endpoints.h"

#include <array>
#include <span>
#include <utility>

#include "base/hash.h"
#include "http/json_body.h"
#include "http/openai_exchange.h"
#include "http/openai_generation.h"
#include "http/request_trace.h"

namespace surety::http {
namespace {

namespace json = boost::json;

// Equal while weights and program are.
std::string Fingerprint(const api::ModelDescription& model) {
  std::string text = std::string(SURETY_VERSION) + "/" + (model.digest.empty() ? model.name : model.digest);
  const Sha256Digest digest = Sha256Of(std::as_bytes(std::span(text)));
  return "fp_" + HexOf(std::span(digest).first(6));
}

Parsed<GenerationCall> Map(Endpoint endpoint, const json::object& body, const CallContext& context) {
  switch (endpoint) {
    case kChat: return MapChat(body, context);
    case kCompletions: return MapCompletions(body, context);
    default: return MapResponses(body, context);
  }
}

std::string AnswerId(Endpoint endpoint, const std::string& request_id) {
  switch (endpoint) {
    case kChat: return "chatcmpl-" + request_id;
    case kCompletions: return "cmpl-" + request_id;
    default: return "resp_" + request_id;
  }
}

std::unique_ptr<Answer> MakeAnswer(Endpoint endpoint, AnswerHead head, const GenerationCall& call) {
  switch (endpoint) {
    case kChat: return MakeChatAnswer(std::move(head), call);
    case kCompletions: return MakeCompletionAnswer(std::move(head), call);
    default: return MakeResponsesAnswer(std::move(head), call);
  }
}

// What a backend's refusal means to the caller. A prompt that does not fit is counted, so that the caller can cut it.
ApiError Explain(const api::Refusal& refusal, size_t part, Endpoint endpoint, const Opened& opened,
                 const Identity& identity) {
  const std::string field = refusal.param.empty() ? "" : BodyField(refusal.param, endpoint, opened.body);
  ApiError error = ErrorOf(refusal, field);
  if (error.code != "context_length_exceeded") return error;
  if (error.param.empty()) error.param = BodyField("messages", endpoint, opened.body);
  if (endpoint == kCompletions && refusal.param.empty()) error.param = "prompt";
  const api::Backend& backend = *opened.model.backend;
  error.more["n_ctx"] = backend.description().context_tokens;
  const auto again = Map(endpoint, opened.body, {identity, backend.description(), 0});
  if (!again || part >= again->requests.size()) return error;
  const auto tokens = backend.Tokenize(again->requests[part]);
  if (tokens) error.more["n_prompt_tokens"] = tokens->size();
  return error;
}

void Generate(Endpoint endpoint, const Services& services, const HttpRequest& request, const Writer& writer) {
  auto opened = Open(services, request, endpoint);
  if (!opened) return SendError(*writer, opened.error());
  TraceModel(*writer, *opened);
  const std::shared_ptr<api::Backend> backend = opened->model.backend;
  if (!backend->description().generates) {
    return SendError(*writer, BadField("model", "model " + Quoted(opened->model.name) + " does not generate text",
                                       "unsupported_by_model").error());
  }
  const uint64_t seed = Member(opened->body, "seed") != nullptr && IntOr(opened->body, "seed", -1) != -1
                            ? 0
                            : services.draw_seed();
  auto call = Map(endpoint, opened->body, {request.identity, backend->description(), seed});
  if (!call) return SendError(*writer, call.error());
  if (backend->description().governed && call->requests.size() > 1) {
    return SendError(*writer, BadField("prompt", "prompt has " + std::to_string(call->requests.size()) +
                                                     " prompts, but a governed model decides about one a request; "
                                                     "send them one by one", "unsupported_by_model").error());
  }
  for (api::GenerationRequest& one : call->requests) one.wants_progress = call->stream;
  const std::string answer_id = AnswerId(endpoint, request.request_id);
  if (RequestTrace* trace = writer->trace()) trace->SetCall(*call, answer_id);
  AnswerHead head{request.request_id, answer_id, opened->model.name, Fingerprint(backend->description()),
                  services.clock->WallNanos() / 1'000'000'000, backend.get()};
  if (call->requests.front().verification == api::Verification::kLossyTypical) head.lossy = "typical";
  ApiExchange::Setup setup;
  setup.writer = writer;
  setup.answer = MakeAnswer(endpoint, std::move(head), *call);
  setup.headers = {{"x-surety-model", opened->model.name}};
  // Called while Run submits, so that what it refers to is there.
  setup.explain = [&opened, endpoint, &request](const api::Refusal& refusal, size_t part) {
    return Explain(refusal, part, endpoint, *opened, request.identity);
  };
  ApiExchange::Run(std::move(setup), backend, std::move(call->requests));
}

}  // namespace

Parsed<Opened> Open(const Services& services, const HttpRequest& request, Endpoint endpoint) {
  auto body = ParseJsonBody(request.body);
  if (!body) return std::unexpected(body.error());
  if (auto ok = CheckParameters(*body, endpoint); !ok) return std::unexpected(ok.error());
  auto model = services.models->Find(StringOr(*body, "model", ""));
  if (!model) {
    ApiError error = ErrorOf(model.error(), "model");
    error.code = "model_not_found";
    return std::unexpected(std::move(error));
  }
  return Opened{*std::move(body), *std::move(model)};
}

void TraceModel(ResponseWriter& writer, const Opened& opened) {
  if (RequestTrace* trace = writer.trace()) trace->SetModel(StringOr(opened.body, "model", ""), opened.model.name);
}

void SendJson(const Writer& writer, std::string body, const std::string& model) {
  HeaderList headers;
  if (!model.empty()) headers.emplace_back("x-surety-model", model);
  writer->Send(200, "application/json", std::move(body), std::move(headers));
}

void HandleChat(const Services& services, const HttpRequest& request, const Writer& writer) {
  Generate(kChat, services, request, writer);
}

void HandleCompletions(const Services& services, const HttpRequest& request, const Writer& writer) {
  Generate(kCompletions, services, request, writer);
}

void HandleResponses(const Services& services, const HttpRequest& request, const Writer& writer) {
  Generate(kResponses, services, request, writer);
}

}  // namespace surety::http
