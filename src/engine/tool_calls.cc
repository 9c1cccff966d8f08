#include "engine/tool_calls.h"

#include <algorithm>

namespace surety::engine {
namespace json = boost::json;
namespace {

constexpr std::string_view kHermesOpen = "<tool_call>", kHermesClose = "</tool_call>";
constexpr std::string_view kPythonTag = "<|python_tag|>", kMistralOpen = "[TOOL_CALLS]";
constexpr std::string_view kCallId = "[CALL_ID]", kArgs = "[ARGS]";
constexpr size_t kMaxHeadBytes = 256;  // a name and an id

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

size_t SkipSpace(std::string_view text, size_t at) {
  while (at < text.size() && IsSpace(text[at])) ++at;
  return at;
}

// Behind a JSON value that begins at `at`; the text is valid JSON.
size_t SkipValue(std::string_view text, size_t at) {
  int depth = 0;
  for (bool in_string = false; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\')
        ++at;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at;
      --depth;
    } else if (c == ',' && depth == 0) {
      return at;
    } else {
      continue;
    }
    if (depth == 0 && !in_string && (c == '"' || c == '}' || c == ']')) return at + 1;
  }
  return at;
}

// The text of each element of an array or each value of an object, with the place where it begins.
struct Part {
  std::string_view key;  // as it stands in the text, quotes included; objects only
  std::string_view value;
};
std::vector<Part> PartsOf(std::string_view text) {
  std::vector<Part> parts;
  const bool is_object = text.front() == '{';
  for (size_t at = SkipSpace(text, 1); at < text.size() && text[at] != '}' && text[at] != ']';) {
    Part part;
    if (is_object) {
      const size_t end = SkipValue(text, at);
      part.key = text.substr(at, end - at);
      at = SkipSpace(text, SkipSpace(text, end) + 1);  // the colon
    }
    size_t end = SkipValue(text, at);
    const size_t next = SkipSpace(text, end);
    while (end > at && IsSpace(text[end - 1])) --end;
    part.value = text.substr(at, end - at);
    parts.push_back(part);
    at = next < text.size() && text[next] == ',' ? SkipSpace(text, next + 1) : next;
  }
  return parts;
}

bool IsObject(std::string_view text) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 64;
  const json::value value = json::parse(text, error, {}, options);
  return !error && value.is_object();
}

// How much of the end of `text` may be the beginning of `marker`.
size_t UnfinishedMarker(std::string_view text, std::string_view marker) {
  for (size_t n = std::min(marker.size() - 1, text.size()); n > 0; --n) {
    if (text.substr(text.size() - n) == marker.substr(0, n)) return n;
  }
  return 0;
}

}  // namespace

// The JSON value of a call as far as it was read.
struct ToolCallParser::Json {
  json::stream_parser parser;
  size_t begin, read;
  bool done = false;
  static json::parse_options Options() {
    json::parse_options options;
    options.max_depth = 66;
    return options;
  }
  explicit Json(size_t at) : parser(json::storage_ptr(), Options()), begin(at), read(at) {}
};

std::string_view NameOf(ToolFamily family) {
  switch (family) {
    case ToolFamily::kNone:
      return "none";
    case ToolFamily::kHermes:
      return "hermes";
    case ToolFamily::kLlama:
      return "llama";
    case ToolFamily::kMistral:
      return "mistral";
    case ToolFamily::kMistralArgs:
      return "mistral-args";
  }
  return "none";
}

ToolFamily ToolFamilyOf(std::string_view source) {
  const auto has = [source](std::string_view text) { return source.find(text) != std::string_view::npos; };
  if (has(kHermesOpen)) {
    // Others put XML within the same markers.
    return has("<function=") || has("<arg_key>") ? ToolFamily::kNone : ToolFamily::kHermes;
  }
  if (has(kMistralOpen)) return has(kArgs) ? ToolFamily::kMistralArgs : ToolFamily::kMistral;
  if (has("\"parameters\": ") && has("\"name\": ") && has("ipython")) return ToolFamily::kLlama;
  return ToolFamily::kNone;
}

std::vector<std::string> ToolMarkers(ToolFamily family) {
  switch (family) {
    case ToolFamily::kNone:
      return {};
    case ToolFamily::kHermes:
      return {std::string(kHermesOpen), std::string(kHermesClose)};
    case ToolFamily::kLlama:
      return {std::string(kPythonTag)};
    case ToolFamily::kMistral:
      return {std::string(kMistralOpen)};
    case ToolFamily::kMistralArgs:
      return {std::string(kMistralOpen), std::string(kCallId), std::string(kArgs)};
  }
  return {};
}

ToolCallParser::ToolCallParser(ToolFamily family, std::vector<std::string> tool_names)
    : family_(family), names_(std::move(tool_names)) {
  if (family != ToolFamily::kNone) markers_ = {ToolMarkers(family).front()};
}
ToolCallParser::~ToolCallParser() = default;
ToolCallParser::ToolCallParser(ToolCallParser&&) noexcept = default;
ToolCallParser& ToolCallParser::operator=(ToolCallParser&&) noexcept = default;

ToolCallText ToolCallParser::Push(std::string_view piece) {
  ToolCallText out;
  held_ += piece;
  Run(false, out);
  return out;
}

ToolCallText ToolCallParser::Finish() {
  ToolCallText out;
  Run(true, out);
  return out;
}

void ToolCallParser::Run(bool last, ToolCallText& out) {
  while (in_call_ ? RunCall(last, out) : RunText(last, out)) {
  }
}

void ToolCallParser::Emit(size_t n, ToolCallText& out) {
  if (n == 0) return;
  if (SkipSpace(std::string_view(held_).substr(0, n), 0) < n) at_start_ = after_call_ = false;
  out.text.append(held_, 0, n);
  held_.erase(0, n);
}

void ToolCallParser::BeginCall(size_t body) {
  in_call_ = true;
  body_ = body;
  json_.reset();
}

// Text up to the next place where a call may begin. True if there is such a place.
bool ToolCallParser::RunText(bool last, ToolCallText& out) {
  if (after_call_) {
    size_t n = 0;
    while (n < held_.size() && (IsSpace(held_[n]) || (family_ == ToolFamily::kLlama && held_[n] == ';'))) ++n;
    held_.erase(0, n);
  }
  const size_t first = SkipSpace(held_, 0);
  if (family_ == ToolFamily::kLlama && (at_start_ || after_call_) && first < held_.size() && held_[first] == '{') {
    BeginCall(first);
    return true;
  }
  size_t marker_at = std::string::npos, marker_size = 0, keep = 0;
  for (const std::string& marker : markers_) {
    if (const size_t at = held_.find(marker); at < marker_at) {
      marker_at = at;
      marker_size = marker.size();
    }
    keep = std::max(keep, UnfinishedMarker(held_, marker));
  }
  const bool found = marker_at != std::string::npos;
  size_t n = found ? marker_at : held_.size() - (last ? 0 : keep);
  // White space goes with the call that may follow it.
  if ((found || !last) && !markers_.empty()) {
    while (n > 0 && IsSpace(held_[n - 1])) --n;
  }
  Emit(n, out);
  if (!found) return false;
  BeginCall(marker_at + marker_size - n);
  return true;
}

bool ToolCallParser::RunCall(bool last, ToolCallText& out) {
  size_t end = 0;
  std::vector<Call> calls;
  Outcome outcome = ReadCall(last, end, calls);
  if (outcome == Outcome::kMore) {
    if (!last && held_.size() <= kMaxHeldBytes) return false;
    outcome = Outcome::kText;
  }
  if (outcome == Outcome::kCall && end > kMaxHeldBytes) outcome = Outcome::kText;
  in_call_ = false;
  json_.reset();
  if (outcome == Outcome::kText) {
    // The marker is text; behind it a call may begin again. Without a marker, the first character is.
    Emit(std::max<size_t>(body_, SkipSpace(held_, 0) + 1), out);
    return !held_.empty();
  }
  for (Call& call : calls) {
    out.calls.push_back({n_calls_, std::move(call.name), ""});
    out.calls.push_back({n_calls_++, "", std::move(call.arguments)});
  }
  held_.erase(0, end);
  at_start_ = false;
  after_call_ = true;
  return !held_.empty();
}

ToolCallParser::Outcome ToolCallParser::ReadCall(bool last, size_t& end, std::vector<Call>& calls) {
  size_t begin = SkipSpace(held_, body_);
  std::string name;
  if (family_ == ToolFamily::kMistralArgs) {
    begin = body_;
    const Outcome head = ReadMistralHead(begin, name);
    if (head != Outcome::kCall) return head;
  }
  size_t json_end = 0;
  const Outcome read = ReadJson(family_ == ToolFamily::kMistral ? '[' : '{', begin, json_end);
  if (read != Outcome::kCall) return read;
  begin = json_->begin;
  const std::string_view text = std::string_view(held_).substr(begin, json_end - begin);
  end = json_end;
  if (family_ == ToolFamily::kHermes) {
    const Outcome closing = ReadClosing(last, json_end, end);
    if (closing != Outcome::kCall) return closing;
  }
  if (family_ == ToolFamily::kMistralArgs) {
    Call call{std::move(name), std::string(text)};
    calls.push_back(std::move(call));
    return std::find(names_.begin(), names_.end(), calls.back().name) != names_.end() ? Outcome::kCall : Outcome::kText;
  }
  if (family_ != ToolFamily::kMistral) return TakeCall(text, calls) ? Outcome::kCall : Outcome::kText;
  for (const Part& part : PartsOf(text)) {
    if (part.value.empty() || part.value.front() != '{' || !TakeCall(part.value, calls)) return Outcome::kText;
  }
  return calls.empty() ? Outcome::kText : Outcome::kCall;
}

// Reads on in the JSON value where the last piece ended.
ToolCallParser::Outcome ToolCallParser::ReadJson(char open, size_t begin, size_t& end) {
  if (json_ == nullptr) {
    if (begin >= held_.size()) return Outcome::kMore;
    if (held_[begin] != open) return Outcome::kText;
    json_ = std::make_unique<Json>(begin);
  }
  if (!json_->done && json_->read < held_.size()) {
    boost::system::error_code error;
    json_->read += json_->parser.write_some(held_.data() + json_->read, held_.size() - json_->read, error);
    if (error) return Outcome::kText;
    json_->done = json_->parser.done();
    // The parser takes white space behind the value if it is there already.
    while (json_->done && IsSpace(held_[json_->read - 1])) --json_->read;
  }
  if (!json_->done) return Outcome::kMore;
  end = json_->read;
  return Outcome::kCall;
}

// The closing marker, which may be missing at the very end of an answer.
ToolCallParser::Outcome ToolCallParser::ReadClosing(bool last, size_t json_end, size_t& end) const {
  const size_t at = SkipSpace(held_, json_end);
  const std::string_view rest = std::string_view(held_).substr(at);
  if (rest.starts_with(kHermesClose)) {
    end = at + kHermesClose.size();
    return Outcome::kCall;
  }
  if (rest.empty() && last) {
    end = held_.size();
    return Outcome::kCall;
  }
  return kHermesClose.starts_with(rest) ? Outcome::kMore : Outcome::kText;
}

// name [CALL_ID] id [ARGS]; afterwards `begin` is where the arguments begin.
ToolCallParser::Outcome ToolCallParser::ReadMistralHead(size_t& begin, std::string& name) const {
  const std::string_view rest = std::string_view(held_).substr(begin);
  const size_t args = rest.substr(0, kMaxHeadBytes).find(kArgs);
  if (args == std::string_view::npos) return rest.size() < kMaxHeadBytes ? Outcome::kMore : Outcome::kText;
  std::string_view head = rest.substr(0, args);
  head = head.substr(0, head.find(kCallId));
  while (!head.empty() && IsSpace(head.back())) head.remove_suffix(1);
  name = head.substr(SkipSpace(head, 0));
  begin = SkipSpace(held_, begin + args + kArgs.size());
  return Outcome::kCall;
}

bool ToolCallParser::TakeCall(std::string_view text, std::vector<Call>& calls) const {
  Call call;
  bool has_name = false, has_arguments = false;
  for (const Part& part : PartsOf(text)) {
    boost::system::error_code error;
    const json::value key = json::parse(part.key, error);
    if (error || !key.is_string()) return false;
    if (key.get_string() == "name") {
      const json::value name = json::parse(part.value, error);
      if (error || !name.is_string() || has_name) return false;
      call.name = name.get_string();
      has_name = true;
    } else if (key.get_string() == "arguments" || key.get_string() == "parameters") {
      if (has_arguments || !TakeArguments(part.value, call)) return false;
      has_arguments = true;
    }
  }
  if (!has_name || std::find(names_.begin(), names_.end(), call.name) == names_.end()) return false;
  if (!has_arguments) call.arguments = "{}";
  calls.push_back(std::move(call));
  return true;
}

// An object, or a string that holds one.
bool ToolCallParser::TakeArguments(std::string_view raw, Call& call) const {
  if (!raw.empty() && raw.front() == '{') {
    call.arguments = raw;
    return true;
  }
  boost::system::error_code error;
  const json::value value = json::parse(raw, error);
  if (error || !value.is_string() || !IsObject(value.get_string())) return false;
  call.arguments = value.get_string();
  return true;
}

}  // namespace surety::engine
