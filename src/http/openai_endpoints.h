// Handlers of the API by kind; openai_api.cc puts them on their paths.
//
// Threads: each Handle... runs on a worker, any number at a time. Errors: sent to the writer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "base/clock.h"
#include "http/handler.h"
#include "http/model_registry.h"
#include "http/openai_error.h"
#include "http/params.h"
#include "observe/trace.h"

namespace surety::http {

struct Services {
  std::shared_ptr<ModelRegistry> models;
  Clock* clock;
  std::function<uint64_t()> draw_seed;
  observe::Tracer* tracer = nullptr;  // may be null
};

using Writer = std::shared_ptr<ResponseWriter>;
using Endpointer = void (*)(const Services&, const HttpRequest&, const Writer&);

// The body, checked against the table of parameters, and the model that it names.
struct Opened {
  boost::json::object body;
  RegisteredModel model;
};
Parsed<Opened> Open(const Services& services, const HttpRequest& request, Endpoint endpoint);
// Tells the request's trace, if it has one.
void TraceModel(ResponseWriter& writer, const Opened& opened);

void SendJson(const Writer& writer, std::string body, const std::string& model = {});

void HandleChat(const Services&, const HttpRequest&, const Writer&);
void HandleCompletions(const Services&, const HttpRequest&, const Writer&);
void HandleResponses(const Services&, const HttpRequest&, const Writer&);
void HandleEmbeddings(const Services&, const HttpRequest&, const Writer&);
void HandleTokenize(const Services&, const HttpRequest&, const Writer&);
void HandleDetokenize(const Services&, const HttpRequest&, const Writer&);
void HandleApplyTemplate(const Services&, const HttpRequest&, const Writer&);
void HandleModels(const Services&, const HttpRequest&, const Writer&);
void HandleModel(const Services&, const HttpRequest&, const Writer&);   // /v1/models/ID
void HandleOpenApi(const Services&, const HttpRequest&, const Writer&);

std::string OpenApiJson();

}  // namespace surety::http
