#include "http/request_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

namespace surety::http {
namespace {

constexpr size_t kMaxCourses = 16;  // answers of one request whose way is told by spans

// The double that is written as the float is: 0.7, not 0.699999988.
double AsWritten(float value) {
  std::array<char, 32> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  double result = value;
  (void)std::from_chars(text.data(), written.ptr, result);
  return result;
}

class TracingWriter : public ResponseWriter {
 public:
  TracingWriter(std::shared_ptr<ResponseWriter> inner, std::shared_ptr<RequestTrace> trace, std::string traceresponse)
      : inner_(std::move(inner)), trace_(std::move(trace)), traceresponse_(std::move(traceresponse)) {}
  ~TracingWriter() override {
    if (!trace_) return;
    trace_->Failed("internal_error", true);  // unanswered; after an answer this says nothing
    if (!started_) trace_->SetStatus(500);
    trace_->Ended();
  }

  void Send(int status, std::string_view content_type, std::string body, HeaderList headers) override {
    if (trace_) {
      trace_->SetStatus(status);
      trace_->Ended();  // first, so that no client can have its answer before the span's end
    }
    inner_->Send(status, content_type, std::move(body), WithTrace(std::move(headers)));
  }
  void StartStream(int status, std::string_view content_type, HeaderList headers) override {
    started_ = true;
    if (trace_) trace_->SetStatus(status);
    inner_->StartStream(status, content_type, WithTrace(std::move(headers)));
  }
  bool Write(std::string data) override {
    const bool stays = inner_->Write(std::move(data));
    if (!stays && trace_) trace_->Left();
    return stays;
  }
  void FinishStream() override {
    if (trace_) trace_->Ended();
    inner_->FinishStream();
  }
  void OnDisconnect(std::function<void()> callback) override {
    if (!trace_) return inner_->OnDisconnect(std::move(callback));
    inner_->OnDisconnect([weak = std::weak_ptr(trace_), callback = std::move(callback)] {
      if (const auto trace = weak.lock()) trace->Left();
      if (callback) callback();
    });
  }
  RequestTrace* trace() override { return trace_.get(); }

 private:
  HeaderList WithTrace(HeaderList headers) const {
    if (!traceresponse_.empty()) headers.emplace_back("traceresponse", traceresponse_);
    return headers;
  }

  const std::shared_ptr<ResponseWriter> inner_;
  const std::shared_ptr<RequestTrace> trace_;  // null: not recorded
  const std::string traceresponse_;            // empty: not asked for
  bool started_ = false;
};

}  // namespace

std::shared_ptr<ResponseWriter> Traced(observe::Tracer& tracer, const Clock& clock, const HttpRequest& request,
                                       const char* operation, std::shared_ptr<ResponseWriter> writer) {
  std::optional<observe::TraceContext> parent;
  const auto header = request.headers.find("traceparent");
  if (header != request.headers.end()) parent = observe::ParseTraceparent(header->second);
  const observe::TraceContext context = tracer.Begin(parent);
  if (!context.sampled() && !parent) return writer;
  std::shared_ptr<RequestTrace> trace;
  if (context.sampled()) trace = std::make_shared<RequestTrace>(tracer, clock, request, operation, context, parent);
  std::string traceresponse = parent ? observe::FormatTraceparent(context) : "";
  auto traced = std::make_shared<TracingWriter>(std::move(writer), std::move(trace), std::move(traceresponse));
  if (context.sampled()) traced->OnDisconnect({});  // also while the request waits for a worker
  return traced;
}

RequestTrace::RequestTrace(observe::Tracer& tracer, const Clock& clock, const HttpRequest& request,
                           std::string operation, const observe::TraceContext& context,
                           const std::optional<observe::TraceContext>& parent)
    : tracer_(tracer), clock_(clock), context_(context), operation_(std::move(operation)), parent_(parent),
      request_id_(request.request_id) {
  const int64_t now_ns = clock_.NowNanos();
  start_ns_ = request.start_ns > 0 ? std::min(request.start_ns, now_ns) : now_ns;
  wall_offset_ns_ = clock_.WallNanos() - now_ns;
  const auto state = request.headers.find("tracestate");
  if (parent_ && state != request.headers.end() && observe::IsSaneTracestate(state->second)) {
    trace_state_ = state->second;
  }
  attributes_ = {{"http.request.method", request.method},
                 {"url.path", request.path},
                 {"http.route", request.path},  // the API's traced routes have no variable part
                 {"gen_ai.operation.name", operation_},
                 {"gen_ai.provider.name", std::string("surety")}};
}

void RequestTrace::SetModel(std::string_view asked, const std::string& answering) {
  const std::lock_guard lock(mutex_);
  model_ = asked.empty() ? answering : asked;
  attributes_.emplace_back("gen_ai.request.model", model_);
  attributes_.emplace_back("gen_ai.response.model", answering);
}

void RequestTrace::SetCall(const GenerationCall& call, const std::string& answer_id) {
  const api::GenerationRequest& request = call.requests.front();
  const api::SamplingParams& sampling = request.sampling;
  const std::lock_guard lock(mutex_);
  const auto add = [&](const char* name, auto value) { attributes_.emplace_back(name, value); };
  add("gen_ai.response.id", answer_id);
  add("gen_ai.request.stream", call.stream);
  if (request.max_tokens >= 0) add("gen_ai.request.max_tokens", int64_t{request.max_tokens});
  add("gen_ai.request.temperature", AsWritten(sampling.temperature));
  add("gen_ai.request.top_p", AsWritten(sampling.top_p));
  if (sampling.top_k > 0) add("gen_ai.request.top_k", int64_t{sampling.top_k});
  if (sampling.frequency_penalty != 0) add("gen_ai.request.frequency_penalty", AsWritten(sampling.frequency_penalty));
  if (sampling.presence_penalty != 0) add("gen_ai.request.presence_penalty", AsWritten(sampling.presence_penalty));
  add("gen_ai.request.seed", static_cast<int64_t>(sampling.seed));
  if (call.n != 1) add("gen_ai.request.choice.count", int64_t{call.n});
}

void RequestTrace::SetEmbeddings(int64_t n_tokens, int64_t d_model) {
  const std::lock_guard lock(mutex_);
  usage_.prompt += n_tokens;
  has_usage_ = true;
  attributes_.emplace_back("gen_ai.embeddings.dimension.count", d_model);
}

void RequestTrace::OnEvent(int part, const api::Event& event) {
  const bool ends = event.finish != api::FinishReason::kNone;
  if (!ends && event.tool_calls.empty()) return;
  const int64_t now_ns = clock_.NowNanos();
  const std::lock_guard lock(mutex_);
  if (!event.tool_calls.empty()) with_calls_.emplace(part, event.choice);
  if (!ends) return;
  courses_.push_back({part, event.choice, event.finish, event.timings, now_ns});
  usage_.Add(event.choice, event.usage);
  has_usage_ = true;
}

void RequestTrace::Failed(std::string_view code, bool fault) {
  const std::lock_guard lock(mutex_);
  if (ended_ || !error_.empty()) return;
  error_ = code;
  fault_ = fault;
}

void RequestTrace::SetStatus(int status) {
  const std::lock_guard lock(mutex_);
  if (!ended_ && status_ == 0) status_ = status;
}

void RequestTrace::Ended() {
  const std::lock_guard lock(mutex_);
  EndLocked();
}

void RequestTrace::Left() {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  if (error_.empty()) error_ = "client_disconnected";
  EndLocked();
}

void RequestTrace::EndLocked() {
  if (ended_) return;
  ended_ = true;
  end_ns_ = clock_.NowNanos();
}

// The last owner's, so nobody else is there any more.
RequestTrace::~RequestTrace() {
  EndLocked();
  for (const Course& course : courses_) end_ns_ = std::max(end_ns_, course.end_ns);
  std::ranges::sort(courses_, {}, [](const Course& course) { return std::tuple(course.part, course.choice); });
  try {
    std::vector<observe::Span> spans = {ServerSpan()};
    for (size_t i = 0; i < std::min(courses_.size(), kMaxCourses); ++i) AppendCourse(courses_[i], spans);
    tracer_.Finish(std::move(spans));
  } catch (...) {  // out of memory: a trace is not worth more than that
  }
}

observe::Span RequestTrace::ServerSpan() const {
  observe::Span span;
  span.context = context_;
  if (parent_) {
    span.parent = parent_->span_id;
    span.parent_is_remote = true;
    span.trace_state = trace_state_;
  }
  span.name = model_.empty() ? operation_ : operation_ + " " + model_;
  span.kind = observe::SpanKind::kServer;
  span.start_unix_ns = Wall(start_ns_);
  span.end_unix_ns = Wall(end_ns_);
  span.attributes = attributes_;
  const auto add = [&](const char* name, auto value) { span.attributes.emplace_back(name, std::move(value)); };
  add("http.response.header.x-request-id", std::vector<std::string>{request_id_});
  if (status_ != 0) add("http.response.status_code", int64_t{status_});
  if (!courses_.empty()) {
    std::vector<std::string> reasons;
    for (const Course& course : courses_) {
      const bool has_calls = with_calls_.contains({course.part, course.choice});
      const bool calls = course.finish == api::FinishReason::kStop && has_calls;
      reasons.emplace_back(calls ? "tool_calls" : api::NameOf(course.finish));
    }
    add("gen_ai.response.finish_reasons", std::move(reasons));
  }
  if (has_usage_) {
    add("gen_ai.usage.input_tokens", usage_.prompt);
    if (!courses_.empty()) {
      add("gen_ai.usage.output_tokens", usage_.output);
      add("gen_ai.usage.cache_read.input_tokens", usage_.cached);
    }
  }
  const bool failed = status_ >= 400 || !error_.empty();
  if (failed) add("error.type", error_.empty() ? std::to_string(status_) : error_);
  if (fault_ || status_ >= 500) span.status = observe::SpanStatus::kError;
  return span;
}

// The three follow one another and end with the event that told of them. What does not fit into the request is cut off.
void RequestTrace::AppendCourse(const Course& course, std::vector<observe::Span>& spans) const {
  const api::Timings& t = course.timings;
  int64_t at_ns = std::max(start_ns_, course.end_ns - t.queue_ns - t.prefill_ns - t.decode_ns);
  for (const auto& [name, length_ns] : {std::pair{"queue", t.queue_ns}, std::pair{"prefill", t.prefill_ns},
                                        std::pair{"decode", t.decode_ns}}) {
    if (length_ns <= 0) continue;
    observe::Span span;
    span.context = context_;
    span.context.span_id = tracer_.NewSpanId();
    span.parent = context_.span_id;
    span.trace_state = trace_state_;
    span.name = name;
    span.start_unix_ns = Wall(at_ns);
    at_ns = std::min(at_ns + length_ns, course.end_ns);
    span.end_unix_ns = Wall(at_ns);
    if (courses_.size() > 1) {
      span.attributes.emplace_back("surety.prompt.index", int64_t{course.part});
      span.attributes.emplace_back("surety.choice.index", int64_t{course.choice});
    }
    spans.push_back(std::move(span));
  }
}

}  // namespace surety::http
