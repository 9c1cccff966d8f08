// Who asks, as the transport verified it, and what the request says about itself.
//
// Threads: a value.
#pragma once

#include <string>

#include <boost/json/object.hpp>

namespace surety::api {

struct Caller {
  std::string subject;            // for audit and review: the key's name or the token's sub; empty: nobody was asked
  bool is_admin = false;
  boost::json::object claims;     // verified: the token's claims, or the fields of the key's entry
  boost::json::object metadata;   // of the body, unverified: it may narrow what the caller may do, never widen it
};

}  // namespace surety::api
