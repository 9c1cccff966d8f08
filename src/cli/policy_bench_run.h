// The time that a policy adds to requests: an open-loop run against the real governance with models that answer at
// once, and what it took by stage.
//
// Requests are sent at times that were drawn beforehand, whatever became of those before, and a latency is counted from
// the time at which the request should have been sent: neither a late sender nor a full queue hides anything.
// Threads: one calls Run; samples come on the governance's workers. Owns: the governance and what it keeps in `state`.
// Errors: those of the governance's parts; kCancelled on Ctrl-C before anything was measured.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "cli/load_arrivals.h"
#include "cli/policy_load.h"
#include "gateway/decision_record.h"

namespace surety::cli {

struct PolicyBenchOptions {
  std::string policy_path;
  std::string state;                  // a folder for this run alone
  ArrivalProcess arrivals;
  double warmup_s = 3, seconds = 20;
  int workers = 8, subjects = 100;
  gateway::EmbedTexts embed;          // empty: the policy embeds nothing
  FileSystem* files = nullptr;
  Clock* clock = nullptr;
  // Now and then: requests sent of all.
  std::function<void(int64_t sent, int64_t all)> progress;
  std::function<bool()> interrupted;
};

// One request. Times in nanoseconds.
struct PolicySample {
  std::string route, outcome, cache;
  bool ended = false;
  int64_t due_ns = 0;                 // when it should have been sent
  int64_t late_ns = 0;                // how much later it was
  int64_t total_ns = 0;               // from due_ns to the last event
  gateway::StageTimes times;
};

struct PolicyBenchRun {
  std::vector<PolicySample> samples;  // of the measured part, in the order of sending
  std::vector<int64_t> sync_ns;       // of the audit log, likewise
  int64_t rows = 0;                   // that those brought to the disk
  bool interrupted = false;
  double wall_s = 0;                  // from the first due time to the last event
  double cpu_s = 0, sender_cpu_s = 0; // of all threads but the sender; of the sender
  double load_before = 0, load_after = 0;   // the machine's load average of a minute
};

Result<PolicyBenchRun> RunPolicyBench(const PolicyBenchOptions& options, PolicyLoad load);

// What a sync of a row's size alone takes in this folder, `n` times. kIoError.
Result<std::vector<int64_t>> ProbeSync(const std::string& directory, int n, const Clock& clock);

// An embedder that looks nothing up: fixed unit vectors by the text. A classifier's own probe text gets its own vector.
// Empty where the policy embeds nothing. Errors: those of the classifiers' files and of the indexes.
Result<gateway::EmbedTexts> InstantEmbedder(const gateway::Policy& policy, FileSystem& files);

}  // namespace surety::cli
