#include "cli/load_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"

namespace surety::cli {
namespace {

Status Within(const char* flag, double value, double least, double most) {
  if (value >= least && value <= most) return OkStatus();
  return InvalidArgumentError(fmt::format("{}: {} is out of range, {} to {}", flag, value, least, most));
}

Status OneOf(const char* flag, const std::string& value, std::initializer_list<const char*> known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return OkStatus();
  return InvalidArgumentError(fmt::format("{}: '{}' is none of {}", flag, value, fmt::join(known, ", ")));
}

Status ParseLaw(const char* flag, const std::string& text, double least, double most, Distribution& law) {
  auto parsed = Distribution::Parse(text, least, most);
  if (!parsed) return parsed.error().WithContext(flag);
  law = *parsed;
  return OkStatus();
}

}  // namespace

Result<Slo> Slo::Parse(const std::string& text) {
  Slo slo;
  slo.text = text;
  const std::array<std::pair<const char*, std::optional<double>*>, 5> names = {
      {{"ttft_ms", &slo.ttft_ms},
       {"service_ttft_ms", &slo.service_ttft_ms},
       {"tpot_ms", &slo.tpot_ms},
       {"itl_ms", &slo.itl_ms},
       {"e2e_ms", &slo.e2e_ms}}};
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    const std::string pair = text.substr(from, comma - from);
    const size_t colon = pair.find(':');
    const auto found = std::find_if(names.begin(), names.end(), [&](const auto& name) {
      return colon != std::string::npos && pair.substr(0, colon) == name.first;
    });
    char* end = nullptr;
    const double limit = found == names.end() ? 0 : std::strtod(pair.c_str() + colon + 1, &end);
    if (found == names.end() || *end != '\0' || !(limit > 0) || !std::isfinite(limit)) {
      return Error(InvalidArgumentError(fmt::format(
          "--slo: '{}' is no limit such as ttft_ms:500; there are ttft_ms, service_ttft_ms, tpot_ms, itl_ms, e2e_ms",
          pair)));
    }
    *found->second = limit;
    from = comma + 1;
  }
  return slo;
}

void LoadOptions::Declare(Flags& flags) {
  flags.Group("Server");
  flags.Add("--url", url, "where it is: http://HOST:PORT or https://...; /v1 is added unless the path ends with it");
  flags.Add("-m,--model", model, "model to ask for; without it the first that the server lists");
  flags.Add("--endpoint", endpoint, "chat (/v1/chat/completions) or completions (/v1/completions)");
  flags.Add("--api-key-env", api_key_env, "environment variable that holds the API key, if there is one");
  flags.Add("--extra-body", extra_body, "JSON object whose members are put into every request");
  flags.Add("--ignore-eos", ignore_eos, "ask for answers of full length; needs a server that knows ignore_eos");
  flags.Add("--insecure", insecure, "do not check the server's certificate");
  flags.Add("--ca-file", ca_file, "certificates to trust, PEM; else the system's");
  flags.Add("--timeout", timeout_s, "seconds after which a request has failed, connecting included");
  flags.Group("What is sent");
  flags.Add("--prompt-tokens", prompt_tokens,
            "length of prompts: a number, uniform:LEAST:MOST, lognormal:MEAN:SIGMA or exponential:MEAN");
  flags.Add("--output-tokens", output_tokens, "length of answers (max_tokens), in the same way");
  flags.Add("--system-prompts", system_prompts, "shared prefixes, one chosen for each session; 0: none");
  flags.Add("--system-tokens", system_tokens, "length of each shared prefix");
  flags.Add("--turns", turns, "requests of a session, each with the answers so far; arrivals are sessions then");
  flags.Add("--think-time", think_time, "seconds from an answer to the session's next request, as --prompt-tokens");
  flags.Add("--tokens-per-word", tokens_per_word, "of the server's tokenizer, for lengths to come out right");
  flags.Add("--token-ids", token_ids, "send token ids below this number instead of text (completions); 0: text");
  flags.Add("--prompts", prompts, "JSONL file: a prompt or messages a line, max_tokens; used in order, then again");
  flags.Add("--trace", trace, "replay the requests of a trace");
  flags.Add("--trace-format", trace_format, "auto, mooncake, azure or jsonl");
  flags.Add("--time-scale", time_scale, "multiplies the trace's times: 0.5 is twice the rate");
  flags.Add("--trace-grid-ms", trace_grid_ms,
            "spread stamps over this grid, 0: leave them; else what the trace shows if that is 1000 or more");
  flags.Add("--clip-prompt", clip_prompt, "longest prompt, in tokens; longer ones are cut and counted");
  flags.Add("--clip-output", clip_output, "longest answer, in tokens");
  flags.Group("When");
  flags.Add("--arrivals", arrivals,
            "poisson, gamma, constant, ramp, burst (all at once), trace, or closed (a closed loop)");
  flags.Add("--rate", rate, "arrivals a second");
  flags.Add("--burstiness", burstiness, "shape of gamma gaps: 1 is poisson, below is burstier");
  flags.Add("--ramp-to", ramp_to, "rate at the end of the ramp");
  flags.Add("--concurrency", concurrency, "requests at a time in a closed loop");
  flags.Add("--duration", duration_s, "seconds that are measured; 60 unless --requests or a file says how much");
  flags.Add("--requests", requests, "requests (sessions) that are measured");
  flags.Add("--warmup", warmup_s, "seconds of arrivals beforehand that are not counted");
  flags.Add("--drain", drain_s, "seconds that unfinished requests get after the last arrival");
  flags.Add("--max-connections", max_connections, "a request that would need more is not sent, the run invalid");
  flags.Add("--warm-connections", warm_connections, "connections opened beforehand");
  flags.Add("--seed", seed, "of lengths, texts and arrivals");
  flags.Group("What is reported");
  flags.Add("--slo", slo, "limits that count together: ttft_ms:500,itl_ms:50; may be given several times");
  flags.Add("--find-capacity", find_capacity, "look for the highest rate that keeps the first --slo, with 3 seeds");
  flags.Add("--attainment", attainment, "share of arrivals that must keep it");
  flags.Add("--records", records, "write one JSON object a request to this file");
  flags.Add("--report", report, "write an HTML page with plots to this file");
  flags.Add("--label", label, "a name for the run, in the reports");
  flags.Add("--json", json, "one JSON object");
}

Status LoadOptions::Validate() {
  SURETY_RETURN_IF_ERROR(ValidateTarget());
  SURETY_RETURN_IF_ERROR(ValidateWorkload());
  SURETY_RETURN_IF_ERROR(ValidateArrivals());
  slos.clear();
  for (const std::string& text : slo) {
    SURETY_ASSIGN_OR_RETURN(Slo parsed, Slo::Parse(text));
    slos.push_back(std::move(parsed));
  }
  if (!find_capacity) return OkStatus();
  SURETY_RETURN_IF_ERROR(Within("--attainment", attainment, 0.01, 1));
  if (slos.empty()) return InvalidArgumentError("--find-capacity: say with --slo what the rate must keep");
  if (arrivals != "poisson" && arrivals != "gamma" && arrivals != "constant") {
    return InvalidArgumentError("--find-capacity: with --arrivals poisson, gamma or constant, whose rate it varies");
  }
  if (!records.empty() || !report.empty()) {
    return InvalidArgumentError("--find-capacity: --records and --report are of single runs");
  }
  return OkStatus();
}

Status LoadOptions::ValidateTarget() {
  SURETY_RETURN_IF_ERROR(OneOf("--endpoint", endpoint, {"chat", "completions"}));
  SURETY_RETURN_IF_ERROR(Within("--timeout", timeout_s, 0.001, 1e6));
  extra = {};
  if (extra_body.empty()) return OkStatus();
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(extra_body, error);
  if (error) return InvalidArgumentError(fmt::format("--extra-body: no JSON: {}", error.message()));
  if (!value.is_object()) return InvalidArgumentError("--extra-body: must be a JSON object");
  extra = std::move(value.as_object());
  for (const char* reserved : {"stream", "messages", "prompt"}) {
    if (extra.contains(reserved)) {
      return InvalidArgumentError(fmt::format("--extra-body: \"{}\" is set by the program itself", reserved));
    }
  }
  return OkStatus();
}

Status LoadOptions::ValidateWorkload() {
  SURETY_RETURN_IF_ERROR(ParseLaw("--prompt-tokens", prompt_tokens, 1, kMaxLoadTokens, prompt_law));
  SURETY_RETURN_IF_ERROR(ParseLaw("--output-tokens", output_tokens, 1, kMaxLoadTokens, output_law));
  SURETY_RETURN_IF_ERROR(ParseLaw("--think-time", think_time, 0, 1e6, think_law));
  SURETY_RETURN_IF_ERROR(Within("--system-prompts", system_prompts, 0, 1e9));
  SURETY_RETURN_IF_ERROR(Within("--system-tokens", system_tokens, 1, kMaxLoadTokens));
  SURETY_RETURN_IF_ERROR(Within("--turns", turns, 1, kMaxTurns));
  SURETY_RETURN_IF_ERROR(Within("--token-ids", token_ids, 0, 1e9));
  SURETY_RETURN_IF_ERROR(Within("--tokens-per-word", tokens_per_word, 0.1, 100));
  SURETY_RETURN_IF_ERROR(Within("--time-scale", time_scale, 1e-6, 1e6));
  SURETY_RETURN_IF_ERROR(Within("--trace-grid-ms", trace_grid_ms.value_or(0), 0, 1e9));
  SURETY_RETURN_IF_ERROR(Within("--clip-prompt", clip_prompt, 1, kMaxLoadTokens));
  SURETY_RETURN_IF_ERROR(Within("--clip-output", clip_output, 1, kMaxLoadTokens));
  SURETY_RETURN_IF_ERROR(OneOf("--trace-format", trace_format, {"auto", "mooncake", "azure", "jsonl"}));
  if (!prompts.empty() && !trace.empty()) return InvalidArgumentError("--prompts and --trace: one of them");
  const bool from_file = !prompts.empty() || !trace.empty();
  if (from_file && (turns > 1 || system_prompts > 0)) {
    return InvalidArgumentError("--turns and --system-prompts are for made-up prompts, not for those of a file");
  }
  if (token_ids > 0 && endpoint != "completions") {
    return InvalidArgumentError("--token-ids: needs --endpoint completions");
  }
  if (token_ids > 0 && (turns > 1 || !prompts.empty())) {
    return InvalidArgumentError("--token-ids: not with --turns or --prompts, which are text");
  }
  return OkStatus();
}

Status LoadOptions::ValidateArrivals() {
  if (arrivals.empty()) arrivals = trace.empty() ? "poisson" : "trace";
  SURETY_RETURN_IF_ERROR(
      OneOf("--arrivals", arrivals, {"poisson", "gamma", "constant", "ramp", "burst", "trace", "closed"}));
  SURETY_RETURN_IF_ERROR(Within("--rate", rate, 1e-6, 1e6));
  SURETY_RETURN_IF_ERROR(Within("--burstiness", burstiness, 0.001, 1e6));
  SURETY_RETURN_IF_ERROR(Within("--ramp-to", ramp_to.value_or(1), 1e-6, 1e6));
  SURETY_RETURN_IF_ERROR(Within("--duration", duration_s.value_or(1), 0.001, 1e7));
  SURETY_RETURN_IF_ERROR(Within("--requests", requests.value_or(1), 1, 1e8));
  SURETY_RETURN_IF_ERROR(Within("--warmup", warmup_s, 0, 1e7));
  SURETY_RETURN_IF_ERROR(Within("--drain", drain_s, 0, 1e7));
  SURETY_RETURN_IF_ERROR(Within("--concurrency", concurrency, 1, 1e6));
  SURETY_RETURN_IF_ERROR(Within("--max-connections", max_connections, 1, 1e6));
  SURETY_RETURN_IF_ERROR(Within("--warm-connections", warm_connections, 0, max_connections));
  if (arrivals == "trace" && trace.empty()) return InvalidArgumentError("--arrivals trace: needs --trace FILE");
  if (arrivals == "closed" && concurrency > max_connections) {
    return InvalidArgumentError("--concurrency: more than --max-connections");
  }
  if (arrivals == "ramp" && (!ramp_to || !duration_s)) {
    return InvalidArgumentError("--arrivals ramp: needs --ramp-to and --duration");
  }
  const bool bounded = arrivals == "trace" || requests || duration_s;
  if (arrivals == "burst" && !requests) return InvalidArgumentError("--arrivals burst: say how many with --requests");
  if (arrivals == "burst" && (warmup_s > 0 || duration_s)) {
    return InvalidArgumentError("--arrivals burst: all at once has neither --warmup nor --duration");
  }
  if (!bounded && prompts.empty()) duration_s = 60;
  const double last_s = warmup_s + duration_s.value_or(0);
  if (arrivals != "trace" && arrivals != "closed" && duration_s && last_s * std::max(rate, ramp_to.value_or(0)) > 1e8) {
    return InvalidArgumentError("--rate and --duration: more than 100 million requests");
  }
  return OkStatus();
}

boost::json::object LoadOptions::Describe() const {
  boost::json::object out;
  out["endpoint"] = endpoint;
  out["arrivals"] = arrivals;
  if (closed_loop()) {
    out["concurrency"] = concurrency;
  } else if (arrivals != "trace" && arrivals != "burst") {
    out["rate"] = rate;
  }
  if (arrivals == "gamma") out["burstiness"] = burstiness;
  if (ramp_to) out["ramp_to"] = *ramp_to;
  if (duration_s) out["duration_s"] = *duration_s;
  if (requests) out["requests"] = *requests;
  out["warmup_s"] = warmup_s;
  out["drain_s"] = drain_s;
  out["timeout_s"] = timeout_s;
  out["max_connections"] = max_connections;
  out["warm_connections"] = warm_connections;
  if (!trace.empty()) {
    out["trace"] = trace.substr(trace.rfind('/') + 1);
    out["time_scale"] = time_scale;
    if (trace_grid_ms) out["trace_grid_ms"] = *trace_grid_ms;
  } else if (!prompts.empty()) {
    out["prompts"] = prompts.substr(prompts.rfind('/') + 1);
  } else {
    out["prompt_tokens"] = prompt_tokens;
    out["turns"] = turns;
    out["think_time"] = think_time;
    out["system_prompts"] = system_prompts;
    if (system_prompts > 0) out["system_tokens"] = system_tokens;
  }
  out["output_tokens"] = output_tokens;
  if (clip_prompt < kMaxLoadTokens) out["clip_prompt"] = clip_prompt;
  if (clip_output < kMaxLoadTokens) out["clip_output"] = clip_output;
  out["tokens_per_word"] = tokens_per_word;
  out["token_ids"] = token_ids;
  out["ignore_eos"] = ignore_eos;
  if (!extra.empty()) out["extra_body"] = boost::json::serialize(extra);
  return out;
}

std::string LoadOptions::ConfigHash() const {
  const std::string text = boost::json::serialize(Describe());
  return HexOf(Sha256Of(std::as_bytes(std::span(text))));
}

}  // namespace surety::cli
