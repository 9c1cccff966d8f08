// The tables of codes that a policy names, read as `serve` reads them, but through the file system of the check.
//
// Threads: any. Errors: kNotFound, kIoError; kInvalidArgument for what is no table.
#pragma once

#include <string>

#include "base/file.h"
#include "base/status.h"
#include "gateway/code_table.h"
#include "gateway/policy.h"

namespace surety::gateway {

// `name`: as the policy has it, relative to its folder.
Result<CodeTable> ReadCheckedTable(const Policy& policy, FileSystem& files, const std::string& name);

}  // namespace surety::gateway
