// A request's dimensions, each from where the policy says and from nowhere else.
//
// Threads: pure functions. Errors: kPermissionDenied: a required dimension is missing or a value is not allowed, naming
// the dimension (the value itself is not repeated: it may be somebody's secret).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "api/caller.h"
#include "base/status.h"
#include "gateway/evidence.h"
#include "gateway/partition.h"
#include "gateway/policy.h"
#include "gateway/signals.h"

namespace surety::gateway {

// `signals` and `tools` may be null: dimensions from there are then without a value, and are not yet required.
// A dimension that is not given is nullopt. Metadata can pick one of the listed values; where the identity carries a
// claim of the dimension's name too, metadata must be that value (or, for permissions, a subset): it narrows, never
// widens.
Result<Circumstances> ReadCircumstances(const Policy& policy, const api::Caller& caller, int64_t as_of_ns,
                                        const Signals* signals, const std::vector<ToolResult>* tools);

// Some dimensions alone, of a caller who asks about a decision or reviews one, so without signals, tools or a request.
Result<Circumstances> ReadDimensions(const Policy& policy, const api::Caller& caller, int64_t as_of_ns,
                                     std::span<const Dimension> dimensions);

// The instant that the answer is about: now, or the date that metadata names where the policy allows it.
Result<int64_t> AsOf(const Policy& policy, const api::Caller& caller, int64_t now_wall_ns);

// "2026-11-30" in UTC, and an instant as RFC 3339.
std::string UtcDate(int64_t wall_ns);
std::string UtcInstant(int64_t wall_ns);

// By name, for conditions and templates.
std::map<std::string, std::string> DimensionTexts(const Circumstances& circumstances);

}  // namespace surety::gateway
