// "Did you mean": the known name closest to an unknown one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace surety {

// The candidate with the smallest edit distance to `name`; empty if none is within half of name's length (at least 2).
std::string NearestName(std::string_view name, std::span<const std::string> candidates);

}  // namespace surety
