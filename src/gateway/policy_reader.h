// Reads a policy file: strict YAML in, a Policy whose names all lead somewhere out, or what is wrong with it, where, and
// what would be right.
//
// The form is one table (policy_form.h), from which the JSON schema for editors comes too; docs/policy.md describes it.
// Threads: any. Errors: kInvalidArgument: one line a fault, "FILE:LINE:COLUMN: key: what"; kNotFound, kIoError for the
// file itself. Files that it names are read as well; what is wrong with them is a fault at the place that names them.
// Invariants: (1) policy.h's. (2) Equal digests mean equal files: the digest is over name, length and bytes of the
// policy and of each file that it names, so that no two of them can be cut differently to the same sum.
#pragma once

#include <string>
#include <string_view>

#include <boost/json/object.hpp>

#include "base/file.h"
#include "base/status.h"
#include "gateway/policy.h"

namespace surety::gateway {

Result<Policy> ReadPolicy(FileSystem& files, const std::string& path);
// `text` as if it stood at `path`, whose folder is where the files lie that it names.
Result<Policy> ReadPolicyText(FileSystem& files, const std::string& path, std::string_view text);

// JSON Schema, draft 2020-12. Numbers and texts stay apart as YAML 1.2 has them.
boost::json::object PolicySchema();

}  // namespace surety::gateway
