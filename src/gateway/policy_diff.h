// What changes from one policy to the next: its parts by name, and which answers that were cached can still be found.
//
// Threads: any. Errors: none.
#pragma once

#include <boost/json/object.hpp>

#include "gateway/policy.h"

namespace surety::gateway {

// {old_version, new_version, changes: [line], parts: {PART: {added, removed, changed: {NAME: [keys]}}},
//  caches: [line], dying: [route]}. Whether entries die is asked of the real key function.
boost::json::object DiffPolicies(const Policy& old_policy, const Policy& new_policy);

}  // namespace surety::gateway
