#include "gateway/remote_answer.h"

#include <algorithm>
#include <limits>

#include "gateway/remote_error.h"
#include "gateway/strict_json.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr size_t kMaxCalls = 128;

const json::value* AnswerMember(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Status NoAnswer(std::string_view what) {
  return InternalError("the answer is no chat completion: " + std::string(what));
}

Result<json::value> ParseAnswer(std::string_view text) {
  Result<json::value> value = ParseStrictJson(text);
  if (!value) return Error(NoAnswer(value.error().message()));
  if (!value->is_object()) return Error(NoAnswer("it is no JSON object"));
  return value;
}

// A count of tokens; `otherwise` where it is missing or none.
int CountOf(const json::object& object, std::string_view name, int otherwise) {
  const json::value* value = AnswerMember(object, name);
  if (value == nullptr || !value->is_number()) return otherwise;
  boost::system::error_code ec;
  const int64_t count = value->to_number<int64_t>(ec);
  return ec || count < 0 ? otherwise : static_cast<int>(std::min<int64_t>(count, std::numeric_limits<int>::max()));
}

Status AppendText(const json::object& object, std::string_view name, std::string& text) {
  const json::value* value = AnswerMember(object, name);
  if (value == nullptr) return OkStatus();
  if (!value->is_string()) return NoAnswer(std::string(name) + " is no text");
  text += value->get_string();
  return OkStatus();
}

// llama-cpp-python says a call that was required in both forms, so that it is read once and nothing is passed over.
bool SaysTheSame(const json::value& old_form, const json::value* calls) {
  if (!old_form.is_object() || calls == nullptr || !calls->is_array() || calls->get_array().size() != 1) return false;
  const json::object* call = calls->get_array().front().if_object();
  const json::value* function = call == nullptr ? nullptr : AnswerMember(*call, "function");
  return function != nullptr && *function == old_form;
}

}  // namespace

int EstimatedTokens(size_t n_bytes) { return static_cast<int>(std::min<size_t>((n_bytes + 2) / 3, 1 << 30)); }

bool RemoteAnswer::all_finished() const {
  return std::ranges::all_of(choices_, [](const Choice& choice) { return choice.finish != api::FinishReason::kNone; });
}

Status RemoteAnswer::Chunk(std::string_view data, std::vector<api::Event>& events) {
  if (data == "[DONE]") {
    done_ = true;
    return OkStatus();
  }
  SURETY_ASSIGN_OR_RETURN(const json::value chunk, ParseAnswer(data));
  return Apply(chunk, false, events);
}

Status RemoteAnswer::Whole(std::string_view body, std::vector<api::Event>& events) {
  SURETY_ASSIGN_OR_RETURN(const json::value whole, ParseAnswer(body));
  SURETY_RETURN_IF_ERROR(Apply(whole, true, events));
  done_ = true;
  return OkStatus();
}

Status RemoteAnswer::Apply(const json::value& chunk, bool whole, std::vector<api::Event>& events) {
  const json::object& object = chunk.get_object();
  if (const json::value* error = AnswerMember(object, "error")) {
    return StreamedFailure(*error, secrets_ == nullptr ? std::vector<std::string>() : *secrets_);
  }
  if (const json::value* usage = AnswerMember(object, "usage")) ReadUsage(*usage);
  const json::value* choices = AnswerMember(object, "choices");
  if (choices == nullptr) return OkStatus();  // a chunk of usage, or a server's own extension
  if (!choices->is_array()) return NoAnswer("choices is no list");
  for (const json::value& choice : choices->get_array()) {
    if (!choice.is_object()) return NoAnswer("a choice is no object");
    SURETY_RETURN_IF_ERROR(ApplyChoice(choice.get_object(), whole, events));
  }
  return OkStatus();
}

Status RemoteAnswer::ApplyChoice(const json::object& object, bool whole, std::vector<api::Event>& events) {
  const json::value* index = AnswerMember(object, "index");
  int64_t at = 0;
  if (index != nullptr) {
    boost::system::error_code ec;
    at = index->is_number() ? index->to_number<int64_t>(ec) : -1;
    if (ec) at = -1;
  }
  if (at < 0 || at >= static_cast<int64_t>(choices_.size())) {
    return NoAnswer("choice " + json::serialize(*index) + " of " + std::to_string(choices_.size()));
  }
  Choice& choice = choices_[static_cast<size_t>(at)];
  api::Event event;
  event.choice = static_cast<int>(at);
  SURETY_RETURN_IF_ERROR(AppendText(object, "text", event.text));
  if (const json::value* delta = AnswerMember(object, whole ? "message" : "delta")) {
    if (!delta->is_object()) return NoAnswer("a delta is no object");
    SURETY_RETURN_IF_ERROR(AppendText(delta->get_object(), "content", event.text));
    SURETY_RETURN_IF_ERROR(AppendText(delta->get_object(), "refusal", event.text));  // it is what a reader would see
    const json::value* calls = AnswerMember(delta->get_object(), "tool_calls");
    const json::value* old_form = AnswerMember(delta->get_object(), "function_call");
    if (old_form != nullptr && !SaysTheSame(*old_form, calls)) {
      return NoAnswer("a call in the form of function_call, which is not asked for");
    }
    if (calls != nullptr) {
      SURETY_RETURN_IF_ERROR(ApplyCalls(*calls, choice, event));
    }
  }
  const bool has_content = !event.text.empty() || !event.tool_calls.empty();
  if (has_content && choice.finish != api::FinishReason::kNone) return NoAnswer("text behind the end of a choice");
  choice.n_bytes += event.text.size();
  for (const api::ToolCallDelta& call : event.tool_calls) choice.n_bytes += call.name.size() + call.arguments.size();
  if (has_content) events.push_back(std::move(event));
  const json::value* reason = AnswerMember(object, "finish_reason");
  return reason == nullptr ? OkStatus() : Finish(*reason, object, choice);
}

// Pieces of calls. A server that leaves the index out tells calls apart by their ids.
Status RemoteAnswer::ApplyCalls(const json::value& calls, Choice& choice, api::Event& event) {
  if (!calls.is_array()) return NoAnswer("tool_calls is no list");
  for (const json::value& value : calls.get_array()) {
    const json::object* call = value.if_object();
    if (call == nullptr) return NoAnswer("a tool call is no object");
    std::string id;
    SURETY_RETURN_IF_ERROR(AppendText(*call, "id", id));
    std::vector<std::string>& known = choice.call_ids;
    const json::value* index = AnswerMember(*call, "index");
    int64_t at = 0;
    if (index != nullptr) {
      boost::system::error_code ec;
      at = index->is_number() ? index->to_number<int64_t>(ec) : -1;
      if (ec) at = -1;
    } else if (known.empty() || (!id.empty() && id != known.back())) {
      at = static_cast<int64_t>(known.size());
    } else {
      at = static_cast<int64_t>(known.size()) - 1;
    }
    const bool is_new = at == static_cast<int64_t>(known.size());
    if (at < 0 || at > static_cast<int64_t>(known.size()) || (is_new && known.size() >= kMaxCalls)) {
      return NoAnswer(is_new ? "too many tool calls" : "tool calls out of order");
    }
    api::ToolCallDelta delta;
    delta.index = static_cast<int>(at);
    if (const json::value* function = AnswerMember(*call, "function")) {
      if (!function->is_object()) return NoAnswer("a tool call's function is no object");
      SURETY_RETURN_IF_ERROR(AppendText(function->get_object(), "name", delta.name));
      SURETY_RETURN_IF_ERROR(AppendText(function->get_object(), "arguments", delta.arguments));
    }
    if (is_new && delta.name.empty()) return NoAnswer("a tool call without a name");
    if (is_new) known.push_back(id);
    else delta.name.clear();  // some servers repeat it
    event.tool_calls.push_back(std::move(delta));
  }
  return OkStatus();
}

Status RemoteAnswer::Finish(const json::value& reason, const json::object& object, Choice& choice) {
  const std::string_view name = reason.is_string() ? std::string_view(reason.get_string()) : std::string_view();
  using api::FinishReason;
  FinishReason finish = FinishReason::kNone;
  if (name == "stop" || name == "tool_calls" || name == "eos_token") {
    finish = FinishReason::kStop;
  } else if (name == "length") {
    finish = FinishReason::kLength;
  } else if (name == "content_filter") {
    finish = FinishReason::kFiltered;
  } else {
    return NoAnswer("a finish_reason that is not known: " + json::serialize(reason).substr(0, 40));
  }
  choice.finish = finish;
  const json::value* stop = AnswerMember(object, "stop_reason");
  if (stop == nullptr || !stop->is_string()) return OkStatus();
  if (finish == FinishReason::kLength && stop->get_string() == "timeout") choice.finish = FinishReason::kTimeout;
  else if (finish == FinishReason::kStop) choice.stop_text = stop->get_string();
  return OkStatus();
}

void RemoteAnswer::ReadUsage(const json::value& value) {
  const json::object* usage = value.if_object();
  if (usage == nullptr) return;
  has_usage_ = true;
  usage_.prompt_tokens = CountOf(*usage, "prompt_tokens", usage_.prompt_tokens);
  usage_.output_tokens = CountOf(*usage, "completion_tokens", usage_.output_tokens);
  const json::value* details = AnswerMember(*usage, "prompt_tokens_details");
  if (details != nullptr && details->is_object()) {
    const int cached = CountOf(details->get_object(), "cached_tokens", usage_.cached_tokens);
    usage_.cached_tokens = std::min(cached, usage_.prompt_tokens);
  }
}

api::Usage RemoteAnswer::UsageOf(int index) const {
  api::Usage usage = usage_;
  const auto at = static_cast<size_t>(index);
  if (!has_usage_) {
    usage.prompt_tokens = EstimatedTokens(prompt_bytes_);
    usage.output_tokens = EstimatedTokens(choices_[at].n_bytes);
    return usage;
  }
  // Shares end where the running sum of lengths ends, so they add up whatever is rounded. A byte more for each choice
  // keeps the sum positive.
  int64_t before = 0, all = 0;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const auto length = static_cast<int64_t>(choices_[i].n_bytes) + 1;
    if (i < at) before += length;
    all += length;
  }
  const int64_t after = before + static_cast<int64_t>(choices_[at].n_bytes) + 1;
  const auto share = [&](int64_t upto) {
    return static_cast<int64_t>(static_cast<__int128>(usage_.output_tokens) * upto / all);
  };
  usage.output_tokens = static_cast<int>(share(after) - share(before));
  return usage;
}

}  // namespace surety::gateway
