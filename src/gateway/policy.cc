#include "gateway/policy.h"

#include <algorithm>

namespace surety::gateway {

std::string_view NameOf(Level level) {
  switch (level) {
    case Level::kLow: return "low";
    case Level::kMedium: return "medium";
    case Level::kHigh: return "high";
  }
  return "unknown";
}

std::string_view NameOf(Dimension dimension) {
  static constexpr std::array<std::string_view, kDimensionCount> kNames = {
      "tenant", "permissions", "region", "product", "policy_version", "language", "eligibility", "effective_date"};
  return kNames[static_cast<size_t>(dimension)];
}

Validity Validity::Intersect(const Validity& other) const {
  return {std::max(from_ns, other.from_ns), std::min(to_ns, other.to_ns)};
}

const RouteSpec* Policy::FindRoute(std::string_view name) const {
  const auto found = std::ranges::find(routes, name, &RouteSpec::name);
  return found == routes.end() ? nullptr : &*found;
}

}  // namespace surety::gateway
