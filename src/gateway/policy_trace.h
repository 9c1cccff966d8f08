// Which route a recorded request takes: for comparing two policies over the same requests.
//
// Dimensions come from claims, metadata, signals, constants and the clock; those that come from tools have no value
// here. Threads: one. Errors: Make: as SignalReader::Make (a classifier needs an embedding model, which is not at hand
// here); a line that is no request: kInvalidArgument with its number.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "api/caller.h"
#include "base/status.h"
#include "gateway/policy.h"
#include "gateway/signals.h"

namespace surety::gateway {

struct TracedRequest {
  std::string text;
  api::Caller caller;
};

// Lines of JSON: {"text": ..., "claims": {...}, "metadata": {...}}; the last two may be missing.
Result<std::vector<TracedRequest>> ParseRequestTrace(std::string_view text);

class TraceRouter {
 public:
  // `policy` must outlive it.
  static Result<std::unique_ptr<TraceRouter>> Make(const Policy& policy, int64_t now_ns);
  std::string RouteOf(const TracedRequest& request) const;

 private:
  TraceRouter(const Policy& policy, int64_t now_ns) : policy_(policy), now_ns_(now_ns) {}
  const Policy& policy_;
  int64_t now_ns_;
  std::unique_ptr<SignalReader> reader_;
};

// {requests, moved, moves: {"OLD > NEW": n}, lines: [{request, old, new}]}; requests count from 1.
Result<boost::json::object> CompareTraces(const Policy& old_policy, const Policy& new_policy,
                                          const std::vector<TracedRequest>& requests, int64_t now_ns);

}  // namespace surety::gateway
