// The circumstances under which something computed for one caller may be reused for another: both must have equal
// scopes.
//
// Every field but `salt` comes from a verified identity or from the operator's configuration. `salt` may come from the
// caller: it splits a scope further and can never join two. Threads: a value.
#pragma once

#include <string>
#include <vector>

namespace surety::api {

struct Scope {
  std::string tenant;
  std::vector<std::string> permissions;  // a set: order and repetition do not matter
  std::string region;
  std::string product;
  std::string policy_version;
  std::string language;
  std::string eligibility;
  std::string effective_date;            // YYYY-MM-DD
  std::string salt;

  bool operator==(const Scope&) const = default;
};

}  // namespace surety::api
