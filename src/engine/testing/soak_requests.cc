#include "engine/testing/soak_requests.h"

#include <algorithm>
#include <cstring>

#include "base/file.h"

namespace surety::engine::testing {
namespace {

constexpr uint64_t kKnownBase = uint64_t{1} << 40;      // indices of requests whose answers are known
constexpr uint64_t kDocumentBase = uint64_t{1} << 41;   // and of the texts that prompts begin with
constexpr int kDocuments = 9;

void DrawTokens(SoakDraws& draws, int n, int vocabulary, std::vector<api::TokenId>& tokens) {
  for (int i = 0; i < n; ++i) tokens.push_back(static_cast<api::TokenId>(3 + draws.Below(vocabulary - 3)));
}

std::string DrawText(SoakDraws& draws, int words) {
  static constexpr const char* kWords[] = {"the ", "bank", " of", "a ", "é", "\n", "12", " loan", "<tool_call>", "e"};
  std::string text;
  for (int i = 0; i < words; ++i) text += kWords[draws.Below(10)];
  return text;
}

// The beginning of one of a few documents, then words of its own.
std::vector<api::TokenId> DrawPrompt(SoakDraws& draws, uint64_t seed, int vocabulary) {
  SoakDraws document(seed, kDocumentBase + static_cast<uint64_t>(draws.Below(kDocuments)));
  std::vector<api::TokenId> tokens;
  if (draws.Percent(80)) DrawTokens(document, draws.Below(92), vocabulary, tokens);
  DrawTokens(draws, draws.Percent(30) ? 1 : 1 + draws.Below(24), vocabulary, tokens);
  return tokens;
}

void DrawSampling(SoakDraws& draws, int vocabulary, api::SamplingParams& sampling) {
  sampling.seed = draws.Bits();
  sampling.temperature = draws.Percent(40) ? 0.0f : 0.9f;
  if (draws.Percent(20)) sampling.top_k = 1 + draws.Below(40);
  if (draws.Percent(20)) sampling.top_p = 0.8f;
  if (draws.Percent(10)) sampling.min_p = 0.05f;
  if (draws.Percent(5)) sampling.typical_p = 0.9f;
  if (draws.Percent(10)) sampling.repetition_penalty = 1.2f;
  if (draws.Percent(10)) sampling.frequency_penalty = 0.3f;
  if (draws.Percent(10)) sampling.presence_penalty = -0.3f;
  if (draws.Percent(5)) sampling.min_tokens = draws.Below(8);
  if (draws.Percent(5)) sampling.logit_bias.emplace_back(draws.Below(vocabulary), 2.5f);
}

void DrawShape(SoakDraws& draws, const SoakVocabulary& vocabulary, api::GenerationRequest& request) {
  const int kind = draws.Below(100);
  if (kind < 4) {
    request.constraint.kind = api::Constraint::Kind::kGrammar;
    request.constraint.grammar = "root ::= \"approve\" | \"decline\"";
  } else if (kind < 6) {
    request.constraint.kind = api::Constraint::Kind::kJsonSchema;
    request.constraint.schema = boost::json::parse(R"({"type":"object","properties":{"ok":{"type":"boolean"}},
        "required":["ok"],"additionalProperties":false})");
  } else if (kind < 7) {
    request.constraint.kind = api::Constraint::Kind::kJsonObject;
  } else if (kind < 11 && vocabulary.has_tools) {
    request.template_values["tools"] = boost::json::parse(R"([{"type":"function","function":{"name":"rate",
        "parameters":{"type":"object","properties":{"n":{"enum":[1,2]}},"required":["n"],
        "additionalProperties":false}}}])");
    request.tool_use.choice = static_cast<api::ToolUse::Choice>(1 + draws.Below(3));
    request.tool_use.name = request.tool_use.choice == api::ToolUse::Choice::kNamed ? "rate" : "";
    request.tool_use.parallel = draws.Percent(50);
  } else {
    request.ignore_end_of_text = draws.Percent(50);
  }
}

api::GenerationRequest Draw(SoakDraws& draws, uint64_t seed, const SoakVocabulary& vocabulary) {
  api::GenerationRequest request;
  const int form = draws.Below(10);
  if (form == 0) {
    request.has_prompt = true;
    request.prompt = DrawText(draws, 1 + draws.Below(12));
  } else if (form == 1) {
    request.has_messages = true;
    request.messages = {boost::json::object{{"role", "user"}, {"content", DrawText(draws, 1 + draws.Below(8))}}};
  } else {
    request.has_tokens = true;
    request.tokens = DrawPrompt(draws, seed, vocabulary.size);
  }
  DrawSampling(draws, vocabulary.size, request.sampling);
  DrawShape(draws, vocabulary, request);
  request.max_tokens = draws.Percent(2) ? -1 : 1 + draws.Below(draws.Percent(20) ? 60 : 10);
  if (request.tool_use.choice != api::ToolUse::Choice::kNone && draws.Percent(60)) request.max_tokens = -1;
  if (draws.Percent(20)) request.stop.push_back(draws.Percent(50) ? "e" : "the");
  if (draws.Percent(5)) request.stop.push_back(DrawText(draws, 3));
  if (draws.Percent(10)) request.stop_tokens.push_back(draws.Below(vocabulary.size));
  if (draws.Percent(10)) request.n_logprobs = draws.Below(6);
  if (draws.Percent(4)) request.n_prompt_logprobs = draws.Below(3);
  if (draws.Percent(20)) request.n_choices = 2 + draws.Below(3);
  request.priority = draws.Percent(20) ? draws.Below(4) - 1 : 0;
  return request;
}

void DrawScope(SoakDraws& draws, uint64_t index, SoakRequest& soak) {
  const std::vector<api::Scope> scopes = SoakScopes();
  const int n = draws.Percent(40) ? 1 : static_cast<int>(scopes.size());  // one is busier than the others
  soak.request.scope = scopes[static_cast<size_t>(draws.Below(n))];
  soak.lonely = draws.Percent(4);
  if (soak.lonely) soak.request.scope.salt = "lonely-" + std::to_string(index);
}

void DrawCancel(SoakDraws& draws, SoakRequest& soak) {
  const int kind = draws.Below(100);
  if (kind < 10) {
    soak.cancel = SoakCancel::kAtOnce;
  } else if (kind < 25) {
    soak.cancel = SoakCancel::kAfterTime;
    soak.micros = draws.Below(draws.Percent(50) ? 1000 : 30'000);
  } else if (kind < 37) {
    soak.cancel = SoakCancel::kAtEvent;
    soak.event = draws.Below(6);
  } else if (kind < 40) {
    soak.cancel = SoakCancel::kAfterEnd;
  } else if (kind < 41) {
    soak.cancel = SoakCancel::kTwice;
    soak.micros = draws.Below(5000);
  }
}

void Spoil(SoakDraws& draws, const SoakVocabulary& vocabulary, api::GenerationRequest& request) {
  switch (draws.Below(7)) {
    case 0: request.n_choices = kSoakPlaces + 1; break;
    case 1: request.max_tokens = 0; break;
    case 2: request.sampling.temperature = -1; break;
    case 3: request.stop_tokens = {vocabulary.size}; break;
    case 4:
      request.constraint.kind = api::Constraint::Kind::kGrammar;
      request.constraint.grammar = "root ::= (";
      break;
    case 5:
      request.has_messages = request.has_prompt = false;
      request.has_tokens = true;
      request.tokens.assign(kSoakContext, 5);
      break;
    default:
      request.has_messages = request.has_prompt = false;
      request.has_tokens = true;
      request.tokens = {vocabulary.size};
  }
}

}  // namespace

std::vector<api::Scope> SoakScopes() {
  std::vector<api::Scope> scopes;
  for (const char* tenant : {"a", "b", "c"}) {
    for (const char* salt : {"", "s", "t"}) {
      api::Scope scope;
      scope.tenant = tenant;
      scope.salt = salt;
      scopes.push_back(scope);
      scope.permissions = {"cases"};
      scope.region = "eu";
      scopes.push_back(scope);
    }
  }
  return scopes;
}

api::GenerationRequest MakeKnownRequest(uint64_t seed, int known, const SoakVocabulary& vocabulary) {
  SoakDraws draws(seed, kKnownBase + static_cast<uint64_t>(known));
  api::GenerationRequest request = Draw(draws, seed, vocabulary);
  request.max_tokens = 4 + draws.Below(24);
  request.scope.tenant = "a";
  return request;
}

SoakRequest MakeSoakRequest(uint64_t seed, uint64_t index, const SoakVocabulary& vocabulary) {
  SoakDraws draws(seed, index);
  SoakRequest soak;
  if (draws.Percent(4)) {
    soak.known = draws.Below(kSoakKnown);
    soak.request = MakeKnownRequest(seed, soak.known, vocabulary);
    DrawScope(draws, index, soak);
    soak.request.priority = draws.Below(3);
    return soak;
  }
  soak.request = Draw(draws, seed, vocabulary);
  DrawScope(draws, index, soak);
  DrawCancel(draws, soak);
  if (draws.Percent(5)) soak.request.timeout_ms = 1 + draws.Below(60);
  if (draws.Percent(1)) Spoil(draws, vocabulary, soak.request);
  return soak;
}

std::string DescribeSoakRequest(const SoakRequest& soak) {
  const api::GenerationRequest& r = soak.request;
  std::string text = r.prompt + boost::json::serialize(r.messages) + r.constraint.grammar + r.scope.tenant + "/" +
                     r.scope.region + "/" + r.scope.salt;
  for (const api::TokenId token : r.tokens) text += "," + std::to_string(token);
  for (const std::string& stop : r.stop) text += ";" + stop;
  for (const int64_t n : {int64_t{r.max_tokens}, int64_t{r.n_choices}, int64_t{r.priority}, r.timeout_ms,
                          static_cast<int64_t>(r.sampling.seed), int64_t{r.n_logprobs}, int64_t{soak.event},
                          int64_t{soak.micros}, static_cast<int64_t>(soak.cancel), int64_t{soak.known}}) {
    text += " " + std::to_string(n);
  }
  return text;
}

// A GGUF text is its length in 8 bytes and its bytes. The tensors' data begin at a multiple of 32, so adding such a
// number of bytes leaves their place in order.
Status WriteModelWithTools(const std::string& from, const std::string& to) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  constexpr std::string_view kComment = "{# <tool_call> <tool_response>#}";
  static_assert(kComment.size() == 32);
  SURETY_ASSIGN_OR_RETURN(std::string file, FileSystem::Real().ReadAll(from, 1 << 24));
  const size_t key = file.find(kKey);
  const size_t length_at = key + kKey.size() + 4;  // after the value's type
  if (key == std::string::npos || length_at + 8 > file.size()) return FailedPreconditionError(from + ": no template");
  uint64_t length = 0;
  std::memcpy(&length, file.data() + length_at, 8);
  if (length > file.size() - length_at - 8) return FailedPreconditionError(from + ": no template");
  file.insert(length_at + 8 + length, kComment);
  length += kComment.size();
  std::memcpy(file.data() + length_at, &length, 8);
  return FileSystem::Real().WriteAll(to, file);
}

}  // namespace surety::engine::testing
