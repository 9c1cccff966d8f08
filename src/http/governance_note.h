// What a caller is told of a governed backend's decision: response headers, and a member "governance" of bodies, of the
// last chunk of a stream and of errors. The key of a cache is never among it.
//
// Threads: pure functions.
#pragma once

#include <memory>
#include <string>

#include <boost/json/object.hpp>

#include "api/decision.h"
#include "http/handler.h"
#include "http/openai_error.h"

namespace surety::http {

// x-surety-decision-id, -route, -policy-version, -cache, -release, -attempts, -cost, -draft where it is one, and -slo
// where the route has objectives; x-ratelimit-{limit,remaining,reset}-{requests,tokens} where budgets count them. With
// progress: id, route, version and objectives, which are known by then.
HeaderList GovernanceHeaders(const api::Decision& decision);
boost::json::object GovernanceObject(const api::Decision& decision);
// Of an event of progress: {"governance":{"decision_id","route","state","slo"}} as a comment of the stream.
std::string ProgressComment(const api::Decision& decision);
// ",\"governance\":{...}"; nothing for null.
std::string GovernanceMember(const std::shared_ptr<const api::Decision>& decision);

// Adds the object to an error; 409 review_pending where the answer waits for a person.
void AddGovernance(const std::shared_ptr<const api::Decision>& decision, ApiError& error);
// The answer was kept back by a check, after the response began or where a body cannot say so.
ApiError FilteredError(const std::shared_ptr<const api::Decision>& decision);

}  // namespace surety::http
