#include "http/openai_answer.h"

#include <algorithm>
#include <cstdio>
#include <span>

#include "base/hash.h"
#include "http/sse.h"

namespace surety::http {
namespace {

void AppendToken(std::string& out, const std::string& bytes, float logprob) {
  out += "{\"token\":";
  AppendJsonString(out, LossyUtf8(bytes));
  out += ",\"logprob\":";
  AppendJsonNumber(out, logprob);
  out += ",\"bytes\":[";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

std::string Millis(int64_t nanos) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(nanos) * 1e-6);
  return text;
}

}  // namespace

std::string Answer::Fail(const ApiError& error) {
  std::string out;
  AppendSseEvent(out, ErrorBody(error));
  return out;
}

std::string TextOf(const api::Event& event, bool include_stop_text) {
  return include_stop_text ? event.text + event.stop_text : event.text;
}

void Collected::Add(const api::Event& event, bool include_stop_text) {
  text += TextOf(event, include_stop_text);
  logprobs.insert(logprobs.end(), event.logprobs.begin(), event.logprobs.end());
  prompt_logprobs.insert(prompt_logprobs.end(), event.prompt_logprobs.begin(), event.prompt_logprobs.end());
  for (const api::ToolCallDelta& delta : event.tool_calls) {
    if (delta.index < 0) continue;
    if (static_cast<size_t>(delta.index) >= calls.size()) calls.resize(static_cast<size_t>(delta.index) + 1);
    CollectedCall& call = calls[static_cast<size_t>(delta.index)];
    call.name += delta.name;
    call.arguments += delta.arguments;
  }
  if (event.decision != nullptr) decision = event.decision;
  if (event.finish == api::FinishReason::kNone) return;
  finish = event.finish;
  stop_text = event.stop_text;
  usage = event.usage;
  timings = event.timings;
}

void TotalUsage::Add(int choice, const api::Usage& usage) {
  output += usage.output_tokens;
  drafted += usage.draft_tokens;
  accepted += usage.accepted_tokens;
  if (choice != 0) return;
  prompt += usage.prompt_tokens;
  cached += usage.cached_tokens;
}

std::string UsageJson(const TotalUsage& usage, bool prediction) {
  std::string json = "{\"prompt_tokens\":" + std::to_string(usage.prompt) + ",\"completion_tokens\":" +
                     std::to_string(usage.output) + ",\"total_tokens\":" +
                     std::to_string(usage.prompt + usage.output) +
                     ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.cached) +
                     "},\"completion_tokens_details\":{\"reasoning_tokens\":0";
  if (prediction) {
    json += ",\"accepted_prediction_tokens\":" + std::to_string(usage.accepted) +
            ",\"rejected_prediction_tokens\":" + std::to_string(usage.drafted - usage.accepted);
  }
  return json + "}}";
}

void Longest(const api::Timings& timings, api::Timings& longest) {
  longest.queue_ns = std::max(longest.queue_ns, timings.queue_ns);
  longest.prefill_ns = std::max(longest.prefill_ns, timings.prefill_ns);
  longest.decode_ns = std::max(longest.decode_ns, timings.decode_ns);
}

std::string TimingsJson(const api::Timings& timings, const TotalUsage& usage) {
  std::string json = "{\"queue_ms\":" + Millis(timings.queue_ns) + ",\"prefill_ms\":" + Millis(timings.prefill_ns) +
                     ",\"decode_ms\":" + Millis(timings.decode_ns);
  if (usage.drafted > 0) {
    json += ",\"draft_n\":" + std::to_string(usage.drafted) + ",\"draft_n_accepted\":" +
            std::to_string(usage.accepted);
  }
  return json + "}";
}

HeaderList TimingHeaders(const api::Timings& timings) {
  return {{"server-timing", "queue;dur=" + Millis(timings.queue_ns) + ", prefill;dur=" + Millis(timings.prefill_ns) +
                                ", decode;dur=" + Millis(timings.decode_ns)}};
}

std::string_view FinishName(api::FinishReason finish, bool has_calls) {
  if (finish == api::FinishReason::kStop) return has_calls ? "tool_calls" : "stop";
  return finish == api::FinishReason::kFiltered ? "content_filter" : "length";
}

std::string StopReasonJson(api::FinishReason finish, std::string_view stop_text) {
  if (finish == api::FinishReason::kTimeout) return "\"timeout\"";
  return stop_text.empty() ? "null" : JsonString(stop_text);
}

void AppendLogprobs(std::string& out, const std::vector<api::TokenLogprob>& list, const api::Backend& backend) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ',';
    AppendToken(out, backend.TokenBytes(list[i].token), list[i].logprob);
    out += ",\"top_logprobs\":[";
    for (size_t k = 0; k < list[i].top.size(); ++k) {
      if (k > 0) out += ',';
      AppendToken(out, backend.TokenBytes(list[i].top[k].first), list[i].top[k].second);
      out += '}';
    }
    out += "]}";
  }
}

std::string PromptLogprobsJson(const std::vector<api::TokenLogprob>& list, const api::Backend& backend) {
  std::string out = "[";
  const auto entry = [&](api::TokenId token, float logprob, size_t rank) {
    out.append("\"").append(std::to_string(token)).append("\":{\"logprob\":");
    AppendJsonNumber(out, logprob);
    out += ",\"rank\":" + (rank == 0 ? "null" : std::to_string(rank)) + ",\"decoded_token\":";
    AppendJsonString(out, LossyUtf8(backend.TokenBytes(token)));
    out += '}';
  };
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ',';
    if (i == 0) {
      out += "null";  // nothing comes before the first token
      continue;
    }
    const auto& top = list[i].top;
    size_t rank = 0;
    for (size_t k = 0; k < top.size() && rank == 0; ++k) rank = top[k].first == list[i].token ? k + 1 : 0;
    out += '{';
    entry(list[i].token, list[i].logprob, rank);
    for (size_t k = 0; k < top.size(); ++k) {
      if (top[k].first == list[i].token) continue;
      out += ',';
      entry(top[k].first, top[k].second, k + 1);
    }
    out += '}';
  }
  return out + "]";
}

std::string CallId(std::string_view request_id, int choice, int index) {
  std::string name(request_id);
  name += '\0';
  name += std::to_string(choice) + "/" + std::to_string(index);
  const Sha256Digest digest = Sha256Of(std::as_bytes(std::span(name)));
  return "call_" + HexOf(std::span(digest).first(12));
}

}  // namespace surety::http
