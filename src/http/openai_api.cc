#include "http/openai_api.h"

#include <exception>
#include <memory>
#include <random>
#include <utility>

#include "http/openai_endpoints.h"
#include "http/request_trace.h"

namespace surety::http {
namespace {

uint64_t SystemSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

ApiError Overloaded() {
  ApiError error;
  error.status = 503;
  error.message = "too many requests wait to be read; try again later";
  error.type = "server_error";
  error.code = "overloaded";
  error.retry_after_s = 1;
  return error;
}

// No exception leaves the module: libraries throw where memory ends.
void Guarded(Endpointer handle, const Services& services, const HttpRequest& request, const Writer& writer) {
  try {
    handle(services, request, writer);
  } catch (const std::exception& e) {
    SendError(*writer, ErrorOf(InternalError(std::string("the server could not handle the request: ") + e.what())));
  }
}

}  // namespace

std::vector<Route> OpenAiRoutes(OpenAiOptions options) {
  if (!options.post) options.post = [](Task task) { return task(), true; };
  if (!options.post_slow) options.post_slow = options.post;
  const auto services = std::make_shared<const Services>(Services{
      options.models, options.clock, options.draw_seed ? options.draw_seed : std::function<uint64_t()>(SystemSeed),
      options.tracer});
  std::vector<Route> routes;
  // `operation`: what traces call it; null: not traced.
  const auto add = [&](const char* method, const char* path, Endpointer handle, const PostTask& post,
                       const char* operation = nullptr) {
    Handler handler = [services, handle, post, operation](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
      if (services->tracer != nullptr && operation != nullptr) {
        writer = Traced(*services->tracer, *services->clock, request, operation, std::move(writer));
      }
      if (!post) return Guarded(handle, *services, request, writer);
      const auto shared = std::make_shared<HttpRequest>(std::move(request));
      const bool posted = post([services, handle, shared, writer] { Guarded(handle, *services, *shared, writer); });
      if (!posted) SendError(*writer, Overloaded());
    };
    routes.push_back({method, path, Role::kUser, std::move(handler)});
  };
  struct Entry {
    const char* path;      // also without /v1, as llama-server has it
    Endpointer handle;
    const char* operation = nullptr;
  };
  for (const Entry& e : {Entry{"/v1/chat/completions", HandleChat, "chat"},
                         Entry{"/v1/completions", HandleCompletions, "text_completion"},
                         Entry{"/v1/responses", HandleResponses, "chat"}}) {
    add("POST", e.path, e.handle, options.post, e.operation);
    add("POST", e.path + 3, e.handle, options.post, e.operation);
  }
  add("POST", "/v1/embeddings", HandleEmbeddings, options.post_slow, "embeddings");
  add("POST", "/embeddings", HandleEmbeddings, options.post_slow, "embeddings");
  for (const Entry& e : {Entry{"/tokenize", HandleTokenize}, Entry{"/detokenize", HandleDetokenize},
                         Entry{"/apply-template", HandleApplyTemplate}}) {
    add("POST", e.path, e.handle, options.post);
  }
  // Short look-ups, answered at once.
  add("GET", "/v1/models", HandleModels, {});
  add("GET", "/models", HandleModels, {});
  add("GET", "/v1/models/*", HandleModel, {});
  add("GET", "/openapi.json", HandleOpenApi, {});
  return routes;
}

}  // namespace surety::http
