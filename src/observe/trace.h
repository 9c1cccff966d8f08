// Traces: the ids that requests carry from program to program, and spans, pieces of work with a beginning and an end.
//
// A Tracer decides whether a request is recorded, makes ids, and hands finished spans to a sink.
// Units: span times are nanoseconds since the Unix epoch. Threads: a Tracer from any; values are values. Owns: the
// tracer owns nothing; its sink must outlive it. Errors: a header that is not valid is as good as none.
// Source: W3C Trace Context (traceparent, tracestate); OpenTelemetry's data model of spans.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace surety::observe {

using TraceId = std::array<uint8_t, 16>;  // all zero: none
using SpanId = std::array<uint8_t, 8>;    // all zero: none

inline constexpr uint8_t kTraceSampled = 1;  // the caller may have recorded, and asks for the same
inline constexpr uint8_t kTraceRandom = 2;   // the last seven bytes of the trace's id are random

// What one program tells the next.
struct TraceContext {
  TraceId trace_id = {};
  SpanId span_id = {};
  uint8_t flags = 0;

  bool sampled() const { return (flags & kTraceSampled) != 0; }
  bool operator==(const TraceContext&) const = default;
};

// Version 00 as it is written, later versions by the fields that they share with it; ff, capitals, ids of zeros and
// anything else: nothing.
std::optional<TraceContext> ParseTraceparent(std::string_view header);
// "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".
std::string FormatTraceparent(const TraceContext& context);
// A tracestate that can be passed on as it is: at most 512 characters of printable ASCII.
bool IsSaneTracestate(std::string_view header);

// Lower-case hex.
std::string TraceIdText(const TraceId& id);
std::string SpanIdText(const SpanId& id);

using AttributeValue = std::variant<std::string, bool, int64_t, double, std::vector<std::string>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

// Numbers as OTLP has them.
enum class SpanKind : uint8_t { kInternal = 1, kServer = 2 };
enum class SpanStatus : uint8_t { kUnset = 0, kError = 2 };

struct Span {
  TraceContext context;         // its own ids
  SpanId parent = {};
  bool parent_is_remote = false;
  std::string trace_state;      // as the caller gave it
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  int64_t start_unix_ns = 0, end_unix_ns = 0;
  Attributes attributes;
  SpanStatus status = SpanStatus::kUnset;
  std::string status_message;
};

// Takes finished spans. Threads: any; does not block. Spans that it has no room for are gone.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  virtual void Take(std::vector<Span> spans) = 0;
};

class Tracer {
 public:
  // `ratio`: the share of traces recorded that begin here, 0 to 1. Ids are a function of `seed` and their number.
  Tracer(SpanSink& sink, double ratio, uint64_t seed) : sink_(sink), ratio_(ratio), seed_(seed) {}

  // The ids of the work that a request is. With a parent: its trace, recorded as the parent is. Without: a new trace,
  // recorded by its id, so that others who sample by the same share keep the same traces.
  TraceContext Begin(const std::optional<TraceContext>& parent);
  SpanId NewSpanId();
  void Finish(std::vector<Span> spans) { sink_.Take(std::move(spans)); }

 private:
  SpanSink& sink_;
  const double ratio_;
  const uint64_t seed_;
  std::atomic<uint64_t> next_ = 0;
};

}  // namespace surety::observe
