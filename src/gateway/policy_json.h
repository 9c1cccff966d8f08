// A policy as JSON with the file's own names: for comparing two of them and for showing one in force.
//
// Threads: any. Secrets: none, a policy holds only the names of variables with keys.
#pragma once

#include <boost/json/object.hpp>

#include "gateway/policy.h"

namespace surety::gateway {

// Parts by name; routes by name too, their order in "route_order". Durations and instants as the file writes them.
boost::json::object PolicyJson(const Policy& policy);

}  // namespace surety::gateway
