#include <algorithm>
#include <atomic>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include "gateway/http_access.h"
#include "gateway/http_client.h"
#include "gateway/strict_json.h"
#include "gateway/text_folding.h"
#include "gateway/verifier_kinds.h"

namespace surety::gateway {
namespace {

namespace bjson = boost::json;

constexpr size_t kMaxJudgeBytes = 16 << 10;
constexpr size_t kMaxReasonCharacters = 2000;

std::string JudgeRequest(const VerifierSpec& spec, const AnswerText& answer, const Evidence& evidence) {
  bjson::array calls, passages, tools;
  for (const AnswerText::Call& call : answer.calls) {
    calls.push_back(bjson::object{{"name", call.name}, {"arguments", call.arguments}});
  }
  for (const Passage& passage : evidence.passages) {
    passages.push_back(bjson::object{{"document", passage.document}, {"chunk", passage.chunk},
                                     {"version", passage.version}, {"title", passage.title}, {"text", passage.text}});
  }
  for (const ToolResult& result : evidence.tools) {
    if (result.status.ok()) tools.push_back(bjson::object{{"tool", result.tool}, {"value", result.value}});
  }
  bjson::object facts;
  for (const auto& [name, text] : evidence.facts) facts[name] = text;
  bjson::object signals;
  for (const auto& [name, text] : evidence.signals) signals[name] = text;
  return bjson::serialize(bjson::object{
      {"verifier", spec.name},
      {"answer", bjson::object{{"text", answer.text}, {"reasoning", answer.reasoning}, {"calls", std::move(calls)}}},
      {"evidence", bjson::object{{"passages", std::move(passages)}, {"tools", std::move(tools)},
                                 {"facts", std::move(facts)}, {"signals", std::move(signals)},
                                 {"as_of_ns", evidence.as_of_ns}}}});
}

class HttpVerifier : public SpecVerifier {
 public:
  HttpVerifier(const VerifierSpec& spec, HttpCredentials credentials, const Clock& clock)
      : SpecVerifier(spec, VerifierVersion(1, spec.url), clock), credentials_(std::move(credentials)) {}

  Verdict Check(const AnswerText& answer, const Evidence& evidence, int64_t deadline_ns) const override {
    const int64_t left_ns = deadline_ns - clock_.NowNanos();
    if (left_ns <= 0) return ErrorVerdict("late: no time was left for the call");
    HttpCall call;
    call.method = "POST";
    call.url = spec().url;
    call.headers = {{"Content-Type", "application/json"}, {"Accept", "application/json"}};
    UseCredentials(credentials_, call);
    call.body = JudgeRequest(spec(), answer, evidence);
    call.deadline_ns = Clock::Real().NowNanos() + left_ns;
    call.max_body_bytes = kMaxJudgeBytes;
    call.stop = [this] { return stopped_.load(std::memory_order_relaxed); };
    const auto reply = CallHttp(call);
    if (!reply) return ErrorVerdict("the judge gave no answer: " + reply.error().message());
    if (reply->status != 200) return ErrorVerdict(fmt::format("the judge answered with HTTP status {}", reply->status));
    if (clock_.NowNanos() > deadline_ns) return ErrorVerdict("late: the judge's answer came after the deadline");
    return Read(reply->body);
  }

  void Stop() override { stopped_ = true; }

 private:
  // Exactly {"verdict": "pass" or "fail", "reason": text}. A judge that says anything else has not judged.
  Verdict Read(std::string_view body) const {
    const auto value = ParseStrictJson(body, /*max_depth=*/4);
    if (!value) return ErrorVerdict("the judge's answer is no verdict: " + value.error().message());
    const bjson::object* object = value->if_object();
    const bjson::value* said = object == nullptr ? nullptr : object->if_contains("verdict");
    const bjson::value* why = object == nullptr ? nullptr : object->if_contains("reason");
    if (said == nullptr || why == nullptr || object->size() != 2 || !said->is_string() || !why->is_string()) {
      return ErrorVerdict(R"(the judge's answer is not {"verdict": "pass" or "fail", "reason": text} alone)");
    }
    const std::string_view verdict = said->get_string();
    if (verdict != "pass" && verdict != "fail") {
      return ErrorVerdict("the judge's verdict is neither \"pass\" nor \"fail\"");
    }
    std::string reason(std::string_view(why->get_string()));
    if (CharacterCount(reason) > kMaxReasonCharacters) return ErrorVerdict("the judge's reason is too long");
    std::ranges::replace_if(reason, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    if (verdict == "pass") return VerdictOf({});
    Verdict failed = VerdictOf({{"the judge: " + reason, "text", 0, 0}});
    failed.reason = reason.empty() ? "the judge gave no reason" : reason;
    return failed;
  }

  const HttpCredentials credentials_;
  std::atomic<bool> stopped_{false};
};

}  // namespace

MadeVerifier MakeHttpVerifier(const VerifierSpec& spec, const std::string& directory, const Clock& clock) {
  if (const auto address = ParseHttpAddress(spec.url); !address) {
    return Error(SpecError(spec, "url: " + address.error().message()));
  }
  auto credentials = ReadCredentials(spec.access, directory);
  if (!credentials) return Error(SpecError(spec, credentials.error().message()));
  return std::make_unique<HttpVerifier>(spec, *std::move(credentials), clock);
}

}  // namespace surety::gateway
