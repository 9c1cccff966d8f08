#include "gateway/tool_time.h"

#include <charconv>
#include <chrono>
#include <cmath>

#include <boost/json.hpp>

#include "gateway/policy_values.h"

namespace surety::gateway {

Result<int64_t> ObservedAt(const boost::json::value& result, int64_t otherwise_ns) {
  const boost::json::object* object = result.if_object();
  const boost::json::value* value = object == nullptr ? nullptr : object->if_contains("observed_at");
  if (value == nullptr || value->is_null()) return otherwise_ns;
  const auto in_context = [](Status status) { return Error(status.WithContext("observed_at")); };
  if (value->is_string()) {
    Result<int64_t> instant = ParseInstant(std::string_view(value->get_string()));
    if (!instant) return in_context(instant.error());
    // Ages are differences: of instants since the epoch they fit 64 bits, and no system observed anything before it.
    if (*instant < 0) return in_context(InvalidArgumentError("is before 1970"));
    return instant;
  }
  const double seconds = value->is_number() ? value->to_number<double>() : -1;
  if (!(seconds >= 0 && seconds < 9.2e9)) return in_context(InvalidArgumentError("is neither an instant nor seconds"));
  if (value->is_int64()) return value->get_int64() * 1'000'000'000;
  return static_cast<int64_t>(std::llround(seconds * 1e9));
}

}  // namespace surety::gateway
