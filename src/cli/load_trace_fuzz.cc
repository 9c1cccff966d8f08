// Bytes as a trace in each format: rows within their bounds, in order, or an error that says where.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cli/load_trace.h"

namespace surety::cli {
namespace {

void OneInput(std::string_view text) {
  for (const char* format : {"auto", "mooncake", "azure", "jsonl"}) {
    auto trace = ParseTrace(text, "fuzz", format);
    if (!trace) {
      SURETY_CHECK(trace.error().message().starts_with("fuzz:"));
      continue;
    }
    SURETY_CHECK(!trace->rows.empty());
    if (trace->grid_s > 0) SpreadOverGrid(*trace, trace->grid_s, 1);
    double last = 0;
    for (const TraceRow& row : trace->rows) {
      SURETY_CHECK(std::isfinite(row.arrival_s) && row.arrival_s >= last);
      last = row.arrival_s;
      SURETY_CHECK(row.prompt_tokens >= 0 && row.prompt_tokens <= kMaxTraceTokens);
      SURETY_CHECK(row.output_tokens >= 0 && row.output_tokens <= kMaxTraceTokens);
    }
  }
}

}  // namespace
}  // namespace surety::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::cli::OneInput(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
