// The fields of an identity as they stand in a key file and in a token: one reader for both, so that both are equally
// strict.
//
// Threads: any (no state). Errors: kInvalidArgument naming the field, what it holds and what would be right.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "http/handler.h"

namespace surety::http {

// tenant, permissions, region, product, policy_version, language, eligibility, effective_date, role, priority.
std::span<const std::string> IdentityFieldNames();

// Sets the field of `identity`. Texts: 1 to 256 bytes of UTF-8 without control characters and without a space at either
// end, so that two spellings of one value cannot pass for two values. Permissions: an array of texts, or one text with
// spaces between. A null is an error: a scope with a hole would be shared by all who have the hole.
Status ReadIdentityField(std::string_view field, const boost::json::value& value, Identity& identity);

// "2027-01-31" (its first moment) or "2027-01-31T12:00:00Z", in seconds since the Unix epoch.
Result<int64_t> ParseUtcTime(std::string_view text);

Result<std::string> ReadText(const boost::json::value& value);

}  // namespace surety::http
