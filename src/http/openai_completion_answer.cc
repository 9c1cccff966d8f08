#include <algorithm>
#include <cstdio>
#include <numeric>
#include <set>
#include <utility>

#include "http/governance_note.h"
#include "http/openai_answer.h"
#include "http/sse.h"

namespace surety::http {
namespace {

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// The legacy form of logprobs: parallel arrays. text_offset counts characters; a token that begins inside a character
// has the offset of that character. Tokens that are no whole text are written "bytes:\xe4\xb8".
class LegacyLogprobs {
 public:
  LegacyLogprobs(const api::Backend& backend, int n_top) : backend_(backend), n_top_(n_top) {}

  // `in_text` false: the token's text stands nowhere (a beginning-of-text mark).
  void Add(const api::TokenLogprob& token, bool first_of_prompt, bool in_text) {
    const std::string bytes = backend_.TokenBytes(token.token);
    Separate();
    AppendJsonString(tokens_, Show(bytes));
    const bool inside = !bytes.empty() && IsContinuation(bytes[0]) && n_characters_ > 0;
    offsets_ += std::to_string(n_characters_ - (inside ? 1 : 0));
    if (in_text) n_characters_ += std::ranges::count_if(bytes, [](char b) { return !IsContinuation(b); });
    if (first_of_prompt) {
      logprobs_ += "null";
      top_ += "null";
      return;
    }
    AppendJsonNumber(logprobs_, token.logprob);
    AppendTop(token);
  }

  // What was added since the last call; offsets go on.
  std::string Take() {
    std::string json = "{\"tokens\":[" + std::exchange(tokens_, {}) + "],\"token_logprobs\":[" +
                       std::exchange(logprobs_, {}) + "],\"top_logprobs\":" +
                       (n_top_ > 0 ? "[" + top_ + "]" : "null") + ",\"text_offset\":[" + std::exchange(offsets_, {}) +
                       "]}";
    top_.clear();
    return json;
  }

  // Text in front that no token was given for.
  void Skip(std::string_view text) {
    n_characters_ += std::ranges::count_if(text, [](char b) { return !IsContinuation(b); });
  }

 private:
  void Separate() {
    if (tokens_.empty()) return;
    for (std::string* list : {&tokens_, &logprobs_, &top_, &offsets_}) *list += ',';
  }

  static std::string Show(const std::string& bytes) {
    if (FirstInvalidUtf8(bytes) == bytes.size()) return bytes;
    std::string shown = "bytes:";
    for (const char b : bytes) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(b));
      shown += hex;
    }
    return shown;
  }

  // An object by text: of two tokens with the same text the likelier one stands.
  void AppendTop(const api::TokenLogprob& token) {
    top_ += '{';
    std::set<std::string> seen;
    const auto add = [&](api::TokenId id, float logprob) {
      std::string text = Show(backend_.TokenBytes(id));
      if (seen.contains(text)) return;
      if (!seen.empty()) top_ += ',';
      AppendJsonString(top_, text);
      top_ += ':';
      AppendJsonNumber(top_, logprob);
      seen.insert(std::move(text));
    };
    const size_t n = std::min(token.top.size(), static_cast<size_t>(std::max(0, n_top_)));
    for (size_t k = 0; k < n; ++k) add(token.top[k].first, token.top[k].second);
    if (n_top_ > 0) add(token.token, token.logprob);  // the chosen one is always there
    top_ += '}';
  }

  const api::Backend& backend_;
  const int n_top_;
  int64_t n_characters_ = 0;
  std::string tokens_, logprobs_, top_, offsets_;
};

struct Options {
  explicit Options(const GenerationCall& call)
      : n(call.n),
        best_of(call.requests[0].n_choices),
        n_top(call.requests[0].n_logprobs),
        logprobs(call.output_logprobs),
        prompt_logprobs(call.prompt_logprobs),
        include_usage(call.include_usage),
        include_stop_text(call.include_stop_text),
        echo(call.echo),
        drop_output(call.drop_output),
        timings(call.timings) {
    for (const api::GenerationRequest& request : call.requests) {
      tokens.push_back(echo ? request.tokens : std::vector<api::TokenId>());
    }
    if (echo) texts = call.prompt_texts;
    n_parts = call.requests.size();
  }

  // What echo gives back for a prompt.
  std::string EchoText(size_t part, const api::Backend& backend) const {
    if (!echo) return "";
    if (tokens[part].empty()) return texts[part];
    std::string bytes;
    for (const api::TokenId id : tokens[part]) bytes += backend.TokenBytes(id);
    return LossyUtf8(bytes);
  }

  int n, best_of, n_top;
  bool logprobs, prompt_logprobs, include_usage, include_stop_text, echo, drop_output, timings;
  size_t n_parts = 0;
  std::vector<std::string> texts;
  std::vector<std::vector<api::TokenId>> tokens;
};

std::string HeadJson(const AnswerHead& head) {
  return "{\"id\":" + JsonString(head.id) + ",\"object\":\"text_completion\",\"created\":" +
         std::to_string(head.created_unix_s) + ",\"model\":" + JsonString(head.model) + ",\"system_fingerprint\":" +
         JsonString(head.fingerprint) +
         (head.lossy.empty() ? std::string() : ",\"verification\":" + JsonString(head.lossy));
}

api::Event WithoutOutput(const api::Event& event) {
  api::Event bare;
  bare.choice = event.choice;
  bare.prompt_logprobs = event.prompt_logprobs;
  bare.finish = event.finish == api::FinishReason::kNone ? event.finish : api::FinishReason::kLength;
  bare.usage = event.usage;
  bare.usage.output_tokens = 0;
  bare.timings = event.timings;
  return bare;
}

class CompletionStream : public Answer {
 public:
  CompletionStream(AnswerHead head, const GenerationCall& call)
      : head_(std::move(head)),
        options_(call),
        begin_("data: " + HeadJson(head_) + ",\"choices\":["),
        end_(call.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n") {
    for (size_t i = 0; i < options_.n_parts * static_cast<size_t>(options_.n); ++i) {
      choices_.push_back({LegacyLogprobs(*head_.backend, options_.n_top)});
    }
  }

  bool streams() const override { return true; }

  void Add(int part, const api::Event& whole, std::string& out) override {
    const api::Event event = options_.drop_output ? WithoutOutput(whole) : whole;
    const size_t index = static_cast<size_t>(part * options_.n + event.choice);
    State& state = choices_[index];
    std::string text;
    if (!std::exchange(state.begun, true)) {
      text = options_.EchoText(static_cast<size_t>(part), *head_.backend);
      state.logprobs.Skip(text);
    }
    text += TextOf(event, options_.include_stop_text);
    const bool tokens = options_.logprobs && !event.logprobs.empty();
    const bool ends = event.finish != api::FinishReason::kNone;
    if (text.empty() && !tokens && !ends) return;
    out += begin_ + "{\"index\":" + std::to_string(index) + ",\"text\":";
    AppendJsonString(out, text);
    out += ",\"logprobs\":";
    if (tokens) {
      for (const api::TokenLogprob& token : event.logprobs) state.logprobs.Add(token, false, true);
      out += state.logprobs.Take();
    } else {
      out += "null";
    }
    out += ",\"finish_reason\":";
    if (ends) {
      out.append("\"").append(FinishName(event.finish, false)).append("\"");
      out += ",\"stop_reason\":" + StopReasonJson(event.finish, event.stop_text) + GovernanceMember(event.decision);
      usage_.Add(event.choice, event.usage);
      Longest(event.timings, timings_);
    } else {
      out += "null";
    }
    out += "}" + end_;
  }

  std::string Finish() override {
    std::string out;
    if (options_.include_usage) {
      out = begin_ + "],\"usage\":" + UsageJson(usage_);
      if (options_.timings) out += ",\"timings\":" + TimingsJson(timings_, usage_);
      out += "}\n\n";
    }
    out += kSseDone;
    return out;
  }

 private:
  struct State {
    LegacyLogprobs logprobs;
    bool begun = false;
  };

  const AnswerHead head_;
  const Options options_;
  const std::string begin_, end_;
  std::vector<State> choices_;
  TotalUsage usage_;
  api::Timings timings_;
};

class CompletionBody : public Answer {
 public:
  CompletionBody(AnswerHead head, const GenerationCall& call)
      : head_(std::move(head)), options_(call),
        parts_(options_.n_parts, std::vector<Collected>(static_cast<size_t>(options_.best_of))) {}

  bool streams() const override { return false; }

  void Add(int part, const api::Event& whole, std::string&) override {
    const api::Event event = options_.drop_output ? WithoutOutput(whole) : whole;
    parts_[static_cast<size_t>(part)][static_cast<size_t>(event.choice)].Add(event, options_.include_stop_text);
    if (event.finish == api::FinishReason::kNone) return;
    usage_.Add(event.choice, event.usage);
    Longest(event.timings, timings_);
  }

  std::string Finish() override {
    std::string out = HeadJson(head_) + ",\"choices\":[";
    int index = 0;
    for (size_t part = 0; part < parts_.size(); ++part) {
      for (const size_t best : Best(parts_[part])) {
        if (index > 0) out += ',';
        AppendChoice(out, index++, part, parts_[part][best]);
      }
    }
    out += "],\"usage\":" + UsageJson(usage_);
    if (options_.timings) out += ",\"timings\":" + TimingsJson(timings_, usage_);
    return out + "}";
  }

  HeaderList Headers() const override { return TimingHeaders(timings_); }

 private:
  // The n with the highest mean logprob, best first; all of them in their order where there is nothing to choose.
  std::vector<size_t> Best(const std::vector<Collected>& choices) const {
    std::vector<size_t> order(choices.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (choices.size() == static_cast<size_t>(options_.n)) return order;
    std::vector<double> mean(choices.size(), -1e30);  // an answer without a token comes last
    for (size_t i = 0; i < choices.size(); ++i) {
      if (choices[i].logprobs.empty()) continue;
      double sum = 0;
      for (const api::TokenLogprob& token : choices[i].logprobs) sum += std::max(token.logprob, -9999.0f);
      mean[i] = sum / static_cast<double>(choices[i].logprobs.size());
    }
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return mean[a] > mean[b]; });
    order.resize(static_cast<size_t>(options_.n));
    return order;
  }

  const std::vector<api::TokenLogprob>& PromptLogprobs(size_t part) const {
    for (const Collected& choice : parts_[part]) {
      if (!choice.prompt_logprobs.empty()) return choice.prompt_logprobs;
    }
    return parts_[part][0].prompt_logprobs;
  }

  void AppendChoice(std::string& out, int index, size_t part, const Collected& choice) const {
    const std::string echo = options_.EchoText(part, *head_.backend);
    out += "{\"index\":" + std::to_string(index) + ",\"text\":" + JsonString(echo + choice.text) + ",\"logprobs\":";
    if (options_.logprobs) {
      LegacyLogprobs list(*head_.backend, options_.n_top);
      const auto& prompt = PromptLogprobs(part);
      if (options_.echo && prompt.empty()) list.Skip(echo);
      for (size_t i = 0; options_.echo && i < prompt.size(); ++i) {
        // A text's beginning mark is a token, but none of its characters.
        const bool mark =
            i == 0 && options_.tokens[part].empty() && prompt[i].token == head_.backend->description().bos;
        list.Add(prompt[i], i == 0, !mark);
      }
      for (const api::TokenLogprob& token : choice.logprobs) list.Add(token, false, true);
      out += list.Take();
    } else {
      out += "null";
    }
    out += ",\"finish_reason\":\"";
    out += FinishName(choice.finish, false);
    out += "\",\"stop_reason\":" + StopReasonJson(choice.finish, choice.stop_text);
    if (options_.prompt_logprobs) {
      out += ",\"prompt_logprobs\":" + PromptLogprobsJson(PromptLogprobs(part), *head_.backend);
    }
    out += GovernanceMember(choice.decision) + "}";
  }

  const AnswerHead head_;
  const Options options_;
  std::vector<std::vector<Collected>> parts_;
  TotalUsage usage_;
  api::Timings timings_;
};

}  // namespace

std::unique_ptr<Answer> MakeCompletionAnswer(AnswerHead head, const GenerationCall& call) {
  if (call.stream) return std::make_unique<CompletionStream>(std::move(head), call);
  return std::make_unique<CompletionBody>(std::move(head), call);
}

}  // namespace surety::http
