// Sends the requests of a probe: rounds of prompts that nobody has sent before, from two callers, in an order that
// changes from round to round, one at a time.
//
// Threads: one. Owns: its connections.
// Errors: as LoadLoop::Make and FirstModelOf; kUnavailable (a request failed, with the server's word), kCancelled.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/load_client.h"
#include "cli/load_record.h"
#include "cli/probe_verdict.h"

namespace surety::cli {

struct ProbeOptions {
  LoadTarget target;            // with the first key
  std::string other_key;
  std::string model;            // empty: the server's first
  std::string endpoint = "completions";
  int rounds = 30;
  int prompt_tokens = 512;      // about: words
  bool with_salt = true;
};

class ProbeRun {
 public:
  static Result<std::unique_ptr<ProbeRun>> Make(const ProbeOptions& options);

  // To the end. `watch` is called before each round.
  Result<std::vector<ProbeRound>> Run(const std::function<void(int rounds_done)>& watch);
  // False once the server has refused cache_salt.
  bool with_salt() const { return with_salt_; }
  const std::string& model() const { return options_.model; }

 private:
  explicit ProbeRun(const ProbeOptions& options) : options_(options), with_salt_(options.with_salt) {}
  std::string FreshPrompt();
  std::string BodyOf(const std::string& prompt, const std::string& salt) const;
  Result<LoadRecord> Ask(LoadLoop& loop, const std::string& prompt, const std::string& salt);
  Result<ProbeSample> Measure(LoadLoop& loop, const std::string& prompt, const std::string& salt);
  Status WarmUp();
  Result<ProbeRound> RunRound(int number);

  ProbeOptions options_;
  bool with_salt_;
  std::unique_ptr<LoadLoop> first_, other_;
  uint64_t seed_ = 0;         // of the prompts: drawn anew for every run, or an earlier one's would be cached
  uint64_t next_prompt_ = 0;
};

}  // namespace surety::cli
