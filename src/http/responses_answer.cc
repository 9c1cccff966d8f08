// /v1/responses: output items opened and closed in the order in which the model makes them. A body is the last event's
// response object; the events in front of it are then not sent.
//
// Source: OpenAI API reference, Responses: object and streaming events.
#include <utility>

#include "http/governance_note.h"
#include "http/openai_answer.h"
#include "http/sse.h"

namespace surety::http {
namespace {

namespace json = boost::json;

class ResponsesAnswer : public Answer {
 public:
  ResponsesAnswer(AnswerHead head, const GenerationCall& call)
      : head_(std::move(head)), streams_(call.stream), logprobs_(call.output_logprobs) {
    Describe(call);
  }

  bool streams() const override { return streams_; }

  void Add(int, const api::Event& event, std::string& out) override {
    std::string unsent;
    std::string& to = streams_ ? out : unsent;
    if (!std::exchange(begun_, true)) {
      Emit(to, "response.created", "\"response\":" + Response("in_progress"));
      Emit(to, "response.in_progress", "\"response\":" + Response("in_progress"));
    }
    if (!event.text.empty() || (logprobs_ && !event.logprobs.empty())) AddText(to, event);
    for (const api::ToolCallDelta& delta : event.tool_calls) AddCall(to, delta);
    if (event.finish == api::FinishReason::kNone) return;
    finish_ = event.finish;
    decision_ = event.decision;
    usage_.Add(event.choice, event.usage);
    timings_ = event.timings;
    if (items_.empty()) OpenMessage(to);
    Close(to);
  }

  std::string Finish() override {
    const bool complete = finish_ == api::FinishReason::kStop;
    const std::string response = Response(complete ? "completed" : "incomplete");
    if (!streams_) return response;
    std::string out;
    Emit(out, complete ? "response.completed" : "response.incomplete", "\"response\":" + response);
    return out;
  }

  std::string Fail(const ApiError& error) override {
    // A draft that a check kept back is not said again.
    if (error.code == "content_filter") items_.clear();
    const auto governed = error.more.find("governance");
    const bool has_note = governed != error.more.end();
    // OpenAI has few codes; what a policy decided keeps its own.
    const std::string code = has_note ? error.code : error.status == 429 ? "rate_limit_exceeded" : "server_error";
    error_ = "{\"code\":" + JsonString(code) + ",\"message\":" + JsonString(error.message);
    if (has_note) error_ += ",\"governance\":" + boost::json::serialize(governed->value());
    error_ += "}";
    std::string out;
    Emit(out, "response.failed", "\"response\":" + Response("failed"));
    return out;
  }

  HeaderList Headers() const override { return TimingHeaders(timings_); }

 private:
  struct Item {
    bool is_call = false, done = false;
    int call_index = 0;
    std::string id, call_id, name;
    std::string text;      // of the message, or the call's arguments
    std::string logprobs;  // JSON, comma-separated
  };

  void Describe(const GenerationCall& call) {
    const json::object& body = call.body;
    const api::GenerationRequest& request = call.requests[0];
    const auto raw = [&](const char* name, std::string fallback) {
      const json::value* value = Member(body, name);
      described_ += std::string(",\"") + name + "\":" + (value != nullptr ? json::serialize(*value) : fallback);
    };
    raw("instructions", "null");
    raw("max_output_tokens", "null");
    raw("metadata", "{}");
    raw("parallel_tool_calls", "true");
    raw("temperature", "1");
    raw("top_p", "1");
    raw("top_logprobs", "0");
    raw("tools", "[]");
    raw("tool_choice", "\"auto\"");
    raw("user", "null");
    json::object text{{"format", {{"type", "text"}}}};
    if (const json::value* given = Member(body, "text")) {
      if (const json::value* format = Member(given->get_object(), "format")) text["format"] = *format;
    }
    described_ += ",\"text\":" + json::serialize(text);
    described_ += ",\"seed\":" + std::to_string(request.sampling.seed);
    described_ += ",\"previous_response_id\":null,\"reasoning\":{\"effort\":null,\"summary\":null},\"store\":false"
                  ",\"background\":false,\"service_tier\":\"default\",\"truncation\":\"disabled\"";
  }

  std::string Response(std::string_view status) const {
    std::string out = "{\"id\":" + JsonString(head_.id) + ",\"object\":\"response\",\"created_at\":" +
                      std::to_string(head_.created_unix_s) + ",\"status\":\"";
    out.append(status).append("\",\"error\":").append(error_.empty() ? "null" : error_);
    out += ",\"incomplete_details\":";
    const bool filtered = finish_ == api::FinishReason::kFiltered;
    out += status != "incomplete" ? "null"
                                  : filtered ? "{\"reason\":\"content_filter\"}" : "{\"reason\":\"max_output_tokens\"}";
    out += ",\"model\":" + JsonString(head_.model) + described_ + ",\"output\":[";
    for (size_t i = 0; status != "in_progress" && i < items_.size(); ++i) {
      if (i > 0) out += ',';
      out += ItemJson(items_[i], items_[i].done ? ItemStatus(items_[i]) : "incomplete");
    }
    out += "],\"usage\":";
    if (status == "in_progress" || status == "failed") return out + "null}";
    out += "{\"input_tokens\":" + std::to_string(usage_.prompt) + ",\"input_tokens_details\":{\"cached_tokens\":" +
           std::to_string(usage_.cached) + ",\"cache_write_tokens\":0},\"output_tokens\":" +
           std::to_string(usage_.output) + ",\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":" +
           std::to_string(usage_.prompt + usage_.output) + "}";
    if (finish_ == api::FinishReason::kTimeout) out += ",\"stop_reason\":\"timeout\"";
    return out + GovernanceMember(decision_) + "}";
  }

  // The item in which a limit cut the answer is incomplete; those before it are not.
  const char* ItemStatus(const Item& item) const {
    const bool cut = finish_ != api::FinishReason::kStop && finish_ != api::FinishReason::kNone;
    return cut && &item == &items_.back() ? "incomplete" : "completed";
  }

  std::string PartJson(const Item& item) const {
    return "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[" + item.logprobs + "],\"text\":" +
           JsonString(item.text) + "}";
  }

  std::string ItemJson(const Item& item, std::string_view status) const {
    std::string out = "{\"id\":" + JsonString(item.id) + ",\"type\":\"";
    out.append(item.is_call ? "function_call" : "message").append("\",\"status\":\"").append(status);
    if (item.is_call) {
      return out + "\",\"arguments\":" + JsonString(item.text) + ",\"call_id\":\"" + item.call_id + "\",\"name\":" +
             JsonString(item.name) + "}";
    }
    const bool opening = status == "in_progress";
    return out + "\",\"role\":\"assistant\",\"content\":[" + (opening ? "" : PartJson(item)) + "]}";
  }

  void Emit(std::string& out, std::string_view type, const std::string& members) {
    std::string data = "{\"type\":\"";
    data.append(type).append("\",\"sequence_number\":").append(std::to_string(sequence_++)).append(",");
    AppendSseEvent(out, data + members + "}", type);
  }

  std::string Where(bool content) const {
    std::string where = "\"item_id\":" + JsonString(items_.back().id) + ",\"output_index\":" +
                        std::to_string(items_.size() - 1);
    if (content) where += ",\"content_index\":0";
    return where;
  }

  void Open(std::string& out, Item item) {
    Close(out);
    item.id = (item.is_call ? "fc_" : "msg_") + head_.request_id + "_" + std::to_string(items_.size());
    items_.push_back(std::move(item));
    Emit(out, "response.output_item.added", "\"output_index\":" + std::to_string(items_.size() - 1) + ",\"item\":" +
                                                ItemJson(items_.back(), "in_progress"));
  }

  void OpenMessage(std::string& out) {
    Open(out, {});
    Emit(out, "response.content_part.added", Where(true) + ",\"part\":" + PartJson(items_.back()));
  }

  void AddText(std::string& out, const api::Event& event) {
    if (items_.empty() || items_.back().is_call || items_.back().done) {
      // Tokens that belong to a call's markup are no reason for a message.
      if (event.text.empty() && !items_.empty()) return;
      OpenMessage(out);
    }
    Item& item = items_.back();
    std::string logprobs;
    if (logprobs_) AppendLogprobs(logprobs, event.logprobs, *head_.backend);
    item.text += event.text;
    if (!logprobs.empty()) item.logprobs += (item.logprobs.empty() ? "" : ",") + logprobs;
    Emit(out, "response.output_text.delta", Where(true) + ",\"delta\":" + JsonString(event.text) + ",\"logprobs\":[" +
                                                logprobs + "]");
  }

  void AddCall(std::string& out, const api::ToolCallDelta& delta) {
    const bool open = !items_.empty() && items_.back().is_call && !items_.back().done &&
                      items_.back().call_index == delta.index;
    if (!open) {
      Item item;
      item.is_call = true;
      item.call_index = delta.index;
      item.call_id = CallId(head_.request_id, 0, delta.index);
      item.name = delta.name;
      Open(out, std::move(item));
    }
    if (delta.arguments.empty()) return;
    items_.back().text += delta.arguments;
    Emit(out, "response.function_call_arguments.delta", Where(false) + ",\"delta\":" + JsonString(delta.arguments));
  }

  void Close(std::string& out) {
    if (items_.empty() || items_.back().done) return;
    Item& item = items_.back();
    item.done = true;
    if (item.is_call) {
      Emit(out, "response.function_call_arguments.done",
           Where(false) + ",\"name\":" + JsonString(item.name) + ",\"arguments\":" + JsonString(item.text));
    } else {
      Emit(out, "response.output_text.done", Where(true) + ",\"text\":" + JsonString(item.text) + ",\"logprobs\":[" +
                                                 item.logprobs + "]");
      Emit(out, "response.content_part.done", Where(true) + ",\"part\":" + PartJson(item));
    }
    Emit(out, "response.output_item.done", "\"output_index\":" + std::to_string(items_.size() - 1) + ",\"item\":" +
                                               ItemJson(item, ItemStatus(item)));
  }

  const AnswerHead head_;
  const bool streams_, logprobs_;
  std::string described_;  // members that do not change, each with a comma in front
  std::string error_;
  bool begun_ = false;
  int64_t sequence_ = 0;
  std::vector<Item> items_;
  api::FinishReason finish_ = api::FinishReason::kNone;
  std::shared_ptr<const api::Decision> decision_;
  TotalUsage usage_;
  api::Timings timings_;
};

}  // namespace

std::unique_ptr<Answer> MakeResponsesAnswer(AnswerHead head, const GenerationCall& call) {
  return std::make_unique<ResponsesAnswer>(std::move(head), call);
}

}  // namespace surety::http
