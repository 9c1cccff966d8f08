// What `check` needs to know of a table of codes: where it is from and when each row holds. The form of the file is
// code_table.h's, read here by itself so that what is checked is the file and not its reader.
//
// Threads: any. Errors: kNotFound, kIoError; kInvalidArgument for what is no table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "gateway/policy.h"

namespace surety::gateway {

struct CheckedTable {
  std::string source, checked_on;                       // empty: not said
  std::map<std::string, std::vector<Validity>> rows;    // by code
};

// `name`: as the policy has it, relative to its folder.
Result<CheckedTable> ReadCheckedTable(const Policy& policy, FileSystem& files, const std::string& name);

}  // namespace surety::gateway
