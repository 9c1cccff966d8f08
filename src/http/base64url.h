// Base64 in the alphabet of URLs, without padding. Source: RFC 4648, section 5; RFC 7515, section 2. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace surety::http {

std::string Base64UrlEncode(std::span<const uint8_t> bytes);
// Strict: no padding, no other characters, no length that cannot be, no stray bits at the end, so that a value has one
// spelling. Empty optional otherwise.
std::optional<std::string> Base64UrlDecode(std::string_view text);

}  // namespace surety::http
