#include <utility>

#include "http/governance_note.h"
#include "http/openai_answer.h"
#include "http/sse.h"

namespace surety::http {
namespace {

std::string HeadJson(const AnswerHead& head, const char* object) {
  return "{\"id\":" + JsonString(head.id) + ",\"object\":\"" + object + "\",\"created\":" +
         std::to_string(head.created_unix_s) + ",\"model\":" + JsonString(head.model) + ",\"system_fingerprint\":" +
         JsonString(head.fingerprint) +
         (head.lossy.empty() ? std::string() : ",\"verification\":" + JsonString(head.lossy));
}

class ChatStream : public Answer {
 public:
  ChatStream(AnswerHead head, const GenerationCall& call)
      : head_(std::move(head)),
        begin_("data: " + HeadJson(head_, "chat.completion.chunk") + ",\"choices\":["),
        end_(call.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n"),
        include_usage_(call.include_usage),
        include_stop_text_(call.include_stop_text),
        logprobs_(call.output_logprobs),
        timings_wanted_(call.timings),
        prediction_(call.prediction),
        choices_(static_cast<size_t>(call.n)) {}

  bool streams() const override { return true; }

  void Add(int, const api::Event& event, std::string& out) override {
    State& state = choices_[static_cast<size_t>(event.choice)];
    const std::string text = TextOf(event, include_stop_text_);
    if (!std::exchange(state.begun, true)) {
      // Not "": the role comes before any text, and an answer of calls never has one.
      Chunk(out, event, "{\"role\":\"assistant\",\"content\":null,\"refusal\":null}", nullptr);
    }
    const bool tokens = logprobs_ && !event.logprobs.empty();
    if (!text.empty() || tokens) {
      Chunk(out, event, "{\"content\":" + JsonString(text) + "}", tokens ? &event.logprobs : nullptr);
    }
    for (const api::ToolCallDelta& delta : event.tool_calls) Chunk(out, event, CallDelta(state, event, delta), nullptr);
    if (event.finish == api::FinishReason::kNone) return;
    usage_.Add(event.choice, event.usage);
    Longest(event.timings, timings_);
    out += begin_ + "{\"index\":" + std::to_string(event.choice);
    out += ",\"delta\":{},\"logprobs\":null,\"finish_reason\":\"";
    out += FinishName(event.finish, state.n_calls > 0);
    out += "\",\"stop_reason\":" + StopReasonJson(event.finish, event.stop_text) + "}";
    out += event.decision == nullptr ? end_ : "]" + GovernanceMember(event.decision) + end_.substr(1);
  }

  std::string Finish() override {
    std::string out;
    if (include_usage_) {
      out = begin_ + "],\"usage\":" + UsageJson(usage_, prediction_);
      if (timings_wanted_) out += ",\"timings\":" + TimingsJson(timings_, usage_);
      out += "}\n\n";
    }
    out += kSseDone;
    return out;
  }

 private:
  struct State {
    bool begun = false;
    int n_calls = 0;
  };

  void Chunk(std::string& out, const api::Event& event, const std::string& delta,
             const std::vector<api::TokenLogprob>* logprobs) const {
    out += begin_ + "{\"index\":" + std::to_string(event.choice) + ",\"delta\":" + delta + ",\"logprobs\":";
    if (logprobs == nullptr) {
      out += "null";
    } else {
      out += "{\"content\":[";
      AppendLogprobs(out, *logprobs, *head_.backend);
      out += "],\"refusal\":null}";
    }
    out += ",\"finish_reason\":null}" + end_;
  }

  std::string CallDelta(State& state, const api::Event& event, const api::ToolCallDelta& delta) const {
    std::string json = "{\"tool_calls\":[{\"index\":" + std::to_string(delta.index);
    if (delta.index >= state.n_calls) {
      state.n_calls = delta.index + 1;
      json += ",\"id\":\"" + CallId(head_.request_id, event.choice, delta.index) + "\",\"type\":\"function\"";
      json += ",\"function\":{\"name\":" + JsonString(delta.name) + ",";
    } else {
      json += ",\"function\":{";
    }
    return json + "\"arguments\":" + JsonString(delta.arguments) + "}}]}";
  }

  const AnswerHead head_;
  const std::string begin_, end_;  // of each chunk
  const bool include_usage_, include_stop_text_, logprobs_, timings_wanted_, prediction_;
  std::vector<State> choices_;
  TotalUsage usage_;
  api::Timings timings_;
};

class ChatBody : public Answer {
 public:
  ChatBody(AnswerHead head, const GenerationCall& call)
      : head_(std::move(head)),
        include_stop_text_(call.include_stop_text),
        logprobs_(call.output_logprobs),
        prompt_logprobs_(call.prompt_logprobs),
        timings_wanted_(call.timings),
        prediction_(call.prediction),
        choices_(static_cast<size_t>(call.n)) {}

  bool streams() const override { return false; }

  void Add(int, const api::Event& event, std::string&) override {
    choices_[static_cast<size_t>(event.choice)].Add(event, include_stop_text_);
    if (event.finish == api::FinishReason::kNone) return;
    usage_.Add(event.choice, event.usage);
    Longest(event.timings, timings_);
  }

  std::string Finish() override {
    std::string out = HeadJson(head_, "chat.completion") + ",\"choices\":[";
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) out += ',';
      AppendChoice(out, static_cast<int>(i), choices_[i]);
    }
    out += "],\"usage\":" + UsageJson(usage_, prediction_);
    if (prompt_logprobs_) out += ",\"prompt_logprobs\":" + PromptLogprobs();
    if (timings_wanted_) out += ",\"timings\":" + TimingsJson(timings_, usage_);
    out += GovernanceMember(choices_.front().decision);
    return out + "}";
  }

  HeaderList Headers() const override { return TimingHeaders(timings_); }

 private:
  // Whichever choice brought them.
  std::string PromptLogprobs() const {
    for (const Collected& choice : choices_) {
      if (!choice.prompt_logprobs.empty()) return PromptLogprobsJson(choice.prompt_logprobs, *head_.backend);
    }
    return "null";
  }

  void AppendChoice(std::string& out, int index, const Collected& choice) const {
    out += "{\"index\":" + std::to_string(index) + ",\"message\":{\"role\":\"assistant\",\"content\":";
    const bool none = choice.text.empty() && (!choice.calls.empty() || choice.finish == api::FinishReason::kFiltered);
    out += none ? "null" : JsonString(choice.text);
    out += ",\"refusal\":null";
    if (!choice.calls.empty()) {
      out += ",\"tool_calls\":[";
      for (size_t k = 0; k < choice.calls.size(); ++k) {
        if (k > 0) out += ',';
        out += "{\"id\":\"" + CallId(head_.request_id, index, static_cast<int>(k)) +
               "\",\"type\":\"function\",\"function\":{\"name\":" + JsonString(choice.calls[k].name) +
               ",\"arguments\":" + JsonString(choice.calls[k].arguments) + "}}";
      }
      out += ']';
    }
    out += "},\"logprobs\":";
    if (logprobs_) {
      out += "{\"content\":[";
      AppendLogprobs(out, choice.logprobs, *head_.backend);
      out += "],\"refusal\":null}";
    } else {
      out += "null";
    }
    out += ",\"finish_reason\":\"";
    out += FinishName(choice.finish, !choice.calls.empty());
    out += "\",\"stop_reason\":" + StopReasonJson(choice.finish, choice.stop_text) + "}";
  }

  const AnswerHead head_;
  const bool include_stop_text_, logprobs_, prompt_logprobs_, timings_wanted_, prediction_;
  std::vector<Collected> choices_;
  TotalUsage usage_;
  api::Timings timings_;
};

}  // namespace

std::unique_ptr<Answer> MakeChatAnswer(AnswerHead head, const GenerationCall& call) {
  if (call.stream) return std::make_unique<ChatStream>(std::move(head), call);
  return std::make_unique<ChatBody>(std::move(head), call);
}

}  // namespace surety::http
