// What a run of surety bench policy says: a table and JSON. Names are part of the interface (docs/cli.md): only ever
// added to.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "cli/policy_bench_run.h"

namespace surety::cli {

// One of a request's stages; what they take adds up to its total.
struct PolicyStage {
  const char* name;
  int64_t (*of)(const PolicySample& sample);
};
const std::vector<PolicyStage>& PolicyStages();

// One state folder's run.
struct PolicyBenchPass {
  std::string state;                 // "disk" or "memory"
  std::string directory, file_system;
  std::vector<int64_t> probe_ns;     // of syncs alone, before the run
  PolicyBenchRun run;
};

boost::json::object DescribePass(const PolicyBenchPass& pass);
std::string TableOf(const PolicyBenchPass& pass);

}  // namespace surety::cli
