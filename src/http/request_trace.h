// What a trace tells of one request of the API: a SERVER span named by the GenAI conventions ("chat MODEL"), and under
// it the spans queue, prefill and decode of each of its answers. No text of requests or answers, no name of a caller.
//
// Threads: any; backends and I/O threads report at the same time. Owns: nothing; tracer and clock must outlive it.
// Invariants: (1) one trace makes its spans once, when its last owner lets go of it, whatever became of the request.
// (2) Spans of a request lie within its own. (3) What comes after the request's end changes no outcome; only what
// the backend's last events say is still taken in, and the span ends with them.
// Source: OpenTelemetry semantic conventions for HTTP servers and for generative AI (inference and embeddings).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/request.h"
#include "base/clock.h"
#include "http/handler.h"
#include "http/openai_answer.h"
#include "http/openai_generation.h"
#include "observe/trace.h"

namespace surety::http {

class RequestTrace {
 public:
  // `context`: its own ids; `parent`: as the caller gave it.
  RequestTrace(observe::Tracer& tracer, const Clock& clock, const HttpRequest& request, std::string operation,
               const observe::TraceContext& context, const std::optional<observe::TraceContext>& parent);
  ~RequestTrace();
  RequestTrace(const RequestTrace&) = delete;
  RequestTrace& operator=(const RequestTrace&) = delete;

  // The model that the request names (empty: none), and the one that answers.
  void SetModel(std::string_view asked, const std::string& answering);
  void SetCall(const GenerationCall& call, const std::string& answer_id);
  void SetEmbeddings(int64_t n_tokens, int64_t d_model);
  void OnEvent(int part, const api::Event& event);

  // The first of these counts. `code`: as the caller is told; `fault`: the server's.
  void Failed(std::string_view code, bool fault);
  void SetStatus(int status);  // of HTTP, with the answer's beginning
  void Ended();                // the answer is complete, and handed to the transport
  void Left();                 // the client, before that

 private:
  // One answer's way through the engine, as its last event tells it.
  struct Course {
    int part = 0, choice = 0;
    api::FinishReason finish = api::FinishReason::kNone;
    api::Timings timings;
    int64_t end_ns = 0;
  };

  void EndLocked();
  observe::Span ServerSpan() const;
  void AppendCourse(const Course& course, std::vector<observe::Span>& spans) const;
  int64_t Wall(int64_t mono_ns) const { return wall_offset_ns_ + mono_ns; }

  observe::Tracer& tracer_;
  const Clock& clock_;
  const observe::TraceContext context_;
  const std::string operation_;
  std::optional<observe::TraceContext> parent_;
  std::string trace_state_, request_id_, model_;
  int64_t start_ns_, wall_offset_ns_;

  mutable std::mutex mutex_;
  observe::Attributes attributes_;
  std::vector<Course> courses_;
  std::set<std::pair<int, int>> with_calls_;  // (part, choice)
  TotalUsage usage_;
  bool has_usage_ = false;
  std::string error_;
  bool fault_ = false, ended_ = false;
  int status_ = 0;
  int64_t end_ns_ = 0;
};

// The writer that tells of the request's end and, where the caller brought a traceparent, answers with traceresponse.
// `writer` itself where there is nothing to record and nothing to answer.
std::shared_ptr<ResponseWriter> Traced(observe::Tracer& tracer, const Clock& clock, const HttpRequest& request,
                                       const char* operation, std::shared_ptr<ResponseWriter> writer);

}  // namespace surety::http
