// What the command line of `surety load` asks for, checked.
//
// Errors: kInvalidArgument that names the flag.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "base/status.h"
#include "cli/flags.h"
#include "cli/load_random.h"

namespace surety::cli {

inline constexpr int kMaxLoadTokens = 10'000'000;
inline constexpr int kMaxTurns = 4096;

// A set of limits that a request meets or misses; a limit that is not set is met.
struct Slo {
  std::optional<double> ttft_ms, service_ttft_ms, tpot_ms, itl_ms, e2e_ms;
  std::string text;  // as given

  // "ttft_ms:500,itl_ms:50"
  static Result<Slo> Parse(const std::string& text);
};

struct LoadOptions {
  std::string url = "http://127.0.0.1:8080", model, endpoint = "chat", api_key_env = "OPENAI_API_KEY";
  std::string extra_body, ca_file;
  bool insecure = false, ignore_eos = false;
  double timeout_s = 600;

  std::string prompt_tokens = "256", output_tokens = "64", think_time = "0";
  int system_prompts = 0, system_tokens = 1024, turns = 1, token_ids = 0;
  double tokens_per_word = 1;
  std::string prompts, trace, trace_format = "auto";
  double time_scale = 1;
  std::optional<double> trace_grid_ms;
  int clip_prompt = kMaxLoadTokens, clip_output = kMaxLoadTokens;

  std::string arrivals;  // Validate fills it in
  double rate = 1, burstiness = 1;
  std::optional<double> ramp_to, duration_s;
  std::optional<int> requests;
  int concurrency = 1, max_connections = 1024, warm_connections = 0;
  double warmup_s = 0, drain_s = 60;
  uint64_t seed = 0;

  std::vector<std::string> slo;
  bool find_capacity = false;
  double attainment = 0.99;
  std::string records, report, label;
  bool json = false;

  void Declare(Flags& flags);
  Status Validate();

  bool closed_loop() const { return arrivals == "closed"; }
  // Everything that decides what is sent and when, under stable names. The seed stands beside it in the report.
  boost::json::object Describe() const;
  std::string ConfigHash() const;  // SHA-256 of Describe() as JSON, in hex

  // After Validate.
  std::vector<Slo> slos;
  Distribution prompt_law, output_law, think_law;
  boost::json::object extra;

 private:
  Status ValidateTarget();
  Status ValidateWorkload();
  Status ValidateArrivals();
};

}  // namespace surety::cli
