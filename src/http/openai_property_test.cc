// A stream adds up to the body of the same events; a mutated request is answered, never mishandled.
#include <array>
#include <cstdlib>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "base/random.h"
#include "http/params.h"
#include "http/testing/openai_rig.h"

namespace surety::http {
namespace {

using namespace testing;  // NOLINT: the rig's words
namespace json = boost::json;
using api::FinishReason;

// ---- Streams and bodies.

struct Added {
  std::string text, finish;
  json::array logprobs;
  std::vector<std::array<std::string, 3>> calls;  // id, name, arguments

  bool operator==(const Added&) const = default;
};

constexpr uint64_t kRounds = 200;

// Reproducible choices of one round.
class Draws {
 public:
  explicit Draws(uint64_t round) : round_(round) {}
  int Int(int from, int to) {  // from .. to - 1
    return from + static_cast<int>(RandomBits({.seed = round_, .purpose = RandomPurpose::kTest}, index_++) %
                                   static_cast<uint64_t>(to - from));
  }

 private:
  const uint64_t round_;
  uint32_t index_ = 0;
};

const char* const kPieces[] = {"", "a", "Hello ", "\n\n", "\r", "ü", "😀", "\"\\", "\xE2\x80\xA8", "data: x\n", "\x01"};

FakeBackend::Script RandomScript(Draws& draws, int n_choices, bool calls) {
  std::vector<FakeBackend::Script> lanes;
  for (int choice = 0; choice < n_choices; ++choice) {
    FakeBackend::Script lane;
    const int n = draws.Int(0, 8);
    int n_calls = 0;
    for (int i = 0; i < n; ++i) {
      api::Event event = Text(kPieces[draws.Int(0, static_cast<int>(std::size(kPieces)))], choice);
      const int n_tokens = draws.Int(0, 3);
      for (int t = 0; t < n_tokens; ++t) {
        const api::TokenId id = draws.Int(0, kVocabulary);
        event.tokens.push_back(id);
        event.logprobs.push_back({id, -0.25f * static_cast<float>(t + 1), {{id, -0.25f}, {kHalf, -3}}});
      }
      if (calls && draws.Int(0, 3) == 0) {
        const bool starts = n_calls == 0 || (draws.Int(0, 2) == 1);
        event.tool_calls.push_back({starts ? n_calls : n_calls - 1, starts ? "f" : "", "{\"x\":\n1}"});
        n_calls += starts;
      }
      lane.push_back(std::move(event));
    }
    const FinishReason ends[] = {FinishReason::kStop, FinishReason::kLength};
    const int drafted = draws.Int(0, 8);
    lane.push_back(End(ends[draws.Int(0, 2)], choice,
                       {10, draws.Int(0, 10), n, drafted, draws.Int(0, drafted + 1)}));
    if (draws.Int(0, 2) == 1) {  // the end comes with the last text
      lane.back().text = "end";
    }
    lanes.push_back(std::move(lane));
  }
  FakeBackend::Script script;  // interleaved; each lane in its order
  while (!lanes.empty()) {
    const int pick = draws.Int(0, static_cast<int>(lanes.size()));
    auto& lane = lanes[static_cast<size_t>(pick)];
    script.push_back(lane.front());
    lane.erase(lane.begin());
    if (lane.empty()) lanes.erase(lanes.begin() + pick);
  }
  return script;
}

void AddLogprobs(Added& added, const json::value& logprobs) {
  if (logprobs.is_null()) return;
  for (const json::value& one : logprobs.at("content").as_array()) added.logprobs.push_back(one);
}

void AddDelta(Added& added, const json::value& choice) {
  const json::object& delta = choice.at("delta").as_object();
  if (const json::value* text = delta.if_contains("content"); text != nullptr && text->is_string()) {
    added.text += text->as_string();
  }
  if (const json::value* calls = delta.if_contains("tool_calls")) {
    for (const json::value& call : calls->as_array()) {
      const auto index = static_cast<size_t>(call.at("index").as_int64());
      if (index >= added.calls.size()) added.calls.resize(index + 1);
      const json::object& object = call.as_object();
      if (object.contains("id")) added.calls[index][0] = object.at("id").as_string();
      const json::object& function = object.at("function").as_object();
      if (function.contains("name")) added.calls[index][1] = function.at("name").as_string();
      added.calls[index][2] += function.at("arguments").as_string();
    }
  }
  AddLogprobs(added, choice.at("logprobs"));
  if (choice.at("finish_reason").is_string()) {
    EXPECT_TRUE(added.finish.empty());
    added.finish = choice.at("finish_reason").as_string();
  }
}

Added OfMessage(const json::value& choice) {
  Added added;
  const json::object& message = choice.at("message").as_object();
  if (message.at("content").is_string()) added.text = message.at("content").as_string();
  if (const json::value* calls = message.if_contains("tool_calls")) {
    for (const json::value& call : calls->as_array()) {
      added.calls.push_back({std::string(call.at("id").as_string()),
                             std::string(call.at("function").at("name").as_string()),
                             std::string(call.at("function").at("arguments").as_string())});
    }
  }
  AddLogprobs(added, choice.at("logprobs"));
  added.finish = choice.at("finish_reason").as_string();
  return added;
}

TEST(StreamPropertyTest, AChatsChunksAddUpToItsBody) {
  for (uint64_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    Draws draws(round);
    const int n = draws.Int(1, 4);
    const FakeBackend::Script script = RandomScript(draws, n, true);
    ApiRig rig;
    rig.backend->scripts = {script, script};
    const std::string body = R"({"messages":[{"role":"user","content":"x"}],"logprobs":true,"timings":true,
        "prediction":{"type":"content","content":"x"},"n":)" + std::to_string(n);
    const json::object whole = rig.Post("/v1/chat/completions", body + "}")->Json();
    bool done;
    const auto chunks = Chunks(rig.Post("/v1/chat/completions",
                                        body + R"(,"stream":true,"stream_options":{"include_usage":true}})")->body,
                               done);
    ASSERT_TRUE(done);
    std::vector<Added> added(static_cast<size_t>(n));
    for (const auto& chunk : chunks) {
      for (const json::value& choice : chunk.at("choices").as_array()) {
        AddDelta(added[static_cast<size_t>(choice.at("index").as_int64())], choice);
      }
    }
    for (int i = 0; i < n; ++i) {
      ASSERT_TRUE(added[static_cast<size_t>(i)] == OfMessage(whole.at("choices").at(static_cast<size_t>(i))));
    }
    ASSERT_TRUE(chunks.back().at("usage") == whole.at("usage"));
    ASSERT_TRUE(chunks.back().at("timings") == whole.at("timings"));
  }
}

TEST(StreamPropertyTest, ACompletionsChunksAddUpToItsBody) {
  for (uint64_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    Draws draws(round);
    const int n = draws.Int(1, 4);
    const FakeBackend::Script script = RandomScript(draws, n, false);
    ApiRig rig;
    rig.backend->scripts = {script, script};
    const std::string body = R"({"prompt":"pü","logprobs":2,"n":)" + std::to_string(n);
    const json::object whole = rig.Post("/v1/completions", body + "}")->Json();
    bool done;
    const auto chunks = Chunks(rig.Post("/v1/completions", body + R"(,"stream":true})")->body, done);
    ASSERT_TRUE(done);
    const char* const kLists[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    for (int i = 0; i < n; ++i) {
      std::string text, finish;
      json::object lists;
      for (const char* name : kLists) lists[name] = json::array();
      for (const auto& chunk : chunks) {
        const json::value& choice = chunk.at("choices").at(0);
        if (choice.at("index") != i) continue;
        text += choice.at("text").as_string();
        if (choice.at("finish_reason").is_string()) finish = choice.at("finish_reason").as_string();
        if (choice.at("logprobs").is_null()) continue;
        for (const char* name : kLists) {
          for (const json::value& one : choice.at("logprobs").at(name).as_array()) {
            lists[name].as_array().push_back(one);
          }
        }
      }
      const json::value& other = whole.at("choices").at(static_cast<size_t>(i));
      // Offsets in a stream count from the answer's beginning, as in a body without echo.
      ASSERT_TRUE(text == std::string(other.at("text").as_string()));
      ASSERT_TRUE(finish == std::string(other.at("finish_reason").as_string()));
      ASSERT_TRUE(json::value(lists) == other.at("logprobs"));
    }
  }
}

TEST(StreamPropertyTest, AResponsesEventsAddUpToItsBody) {
  for (uint64_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    Draws draws(round);
    const FakeBackend::Script script = RandomScript(draws, 1, true);
    ApiRig rig;
    rig.backend->scripts = {script, script};
    const std::string body = R"({"input":"x","include":["message.output_text.logprobs"])";
    const json::object whole = rig.Post("/v1/responses", body + "}")->Json();
    bool done;
    std::vector<std::string> names;
    const auto events = Chunks(rig.Post("/v1/responses", body + R"(,"stream":true})")->body, done, &names);
    ASSERT_TRUE(!done);
    std::map<int64_t, std::string> texts;   // by output_index
    std::vector<std::string> open;          // kinds of what is open
    for (size_t i = 0; i < events.size(); ++i) {
      const std::string type(events[i].at("type").as_string());
      ASSERT_TRUE(type == names[i]);
      ASSERT_TRUE(events[i].at("sequence_number") == i);
      if (type.ends_with(".added")) open.push_back(type.substr(0, type.size() - 6));
      if (type == "response.content_part.done" || type == "response.output_item.done") {
        ASSERT_TRUE(!open.empty() && open.back() == type.substr(0, type.size() - 5));
        open.pop_back();
      }
      if (type.ends_with(".delta")) {
        texts[events[i].at("output_index").as_int64()] += events[i].at("delta").as_string();
      }
    }
    ASSERT_TRUE(open.empty());
    ASSERT_TRUE(names.at(0) == "response.created" && names.at(1) == "response.in_progress");
    ASSERT_TRUE(json::value(whole) == events.back().at("response"));
    const json::array& output = whole.at("output").as_array();
    for (size_t k = 0; k < output.size(); ++k) {
      const bool call = output[k].at("type") == "function_call";
      const json::value& text = call ? output[k].at("arguments") : output[k].at("content").at(0).at("text");
      ASSERT_TRUE(std::string(text.as_string()) == texts[static_cast<int64_t>(k)]);
    }
  }
}

// ---- Requests.

struct Seed {
  const char *path, *body;
};
const Seed kSeeds[] = {
    {"/v1/chat/completions", R"({"model":"tiny","messages":[{"role":"system","content":"s"},{"role":"user","content":
      [{"type":"text","text":"h\u00fc"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function",
      "function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}],"temperature":0.5,
      "n":2,"stop":["a"],"logit_bias":{"5":-1},"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],
      "tool_choice":"auto","stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":3,
      "response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},"seed":1,
      "speculative.n_max":4,"prediction":{"type":"content","content":[{"type":"text","text":"p"}]}})"},
    {"/v1/completions", R"({"prompt":[[1,2],[3]],"max_tokens":3,"echo":true,"logprobs":2,"best_of":3,"n":2,
      "stop":"x","user":"u","timeout":1.5,"priority":3,"cache_salt":"s","stop_token_ids":[1]})"},
    {"/v1/responses", R"({"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"function_call",
      "call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"o"}],
      "text":{"format":{"type":"json_object"}},"store":false,"tools":[{"type":"function","name":"f"}],"stream":true,
      "metadata":{"a":"b"},"max_output_tokens":5,"instructions":"i","include":["message.output_text.logprobs"]})"},
    {"/v1/embeddings", R"({"input":["a","b"],"encoding_format":"base64","dimensions":3,"model":"tiny"})"},
    {"/tokenize", R"({"messages":[{"role":"user","content":"x"}],"add_generation_prompt":true})"},
    {"/tokenize", R"({"content":"x","with_pieces":true,"add_special":true})"},
    {"/detokenize", R"({"tokens":[1,2,258]})"},
    {"/apply-template", R"({"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"a":1}})"},
};

// All values of a tree.
void Collect(json::value& value, std::vector<json::value*>& list) {
  list.push_back(&value);
  if (value.is_array()) {
    for (json::value& one : value.get_array()) Collect(one, list);
  } else if (value.is_object()) {
    for (auto& member : value.get_object()) Collect(member.value(), list);
  }
}

std::string Mutated(const Seed& seed, uint64_t salt) {
  uint32_t index = 0;
  const auto draw = [&](size_t n) {
    return static_cast<size_t>(RandomBits({.seed = salt, .purpose = RandomPurpose::kTest}, index++) % n);
  };
  static const json::value kOdd[] = {nullptr, true, -1, 0, 1e300, -1e-300, 5.5, 2147483648.0, uint64_t(-1), INT64_MIN,
                                     "", "x", "\xEF\xBF\xBF", json::array(), json::array({nullptr}), json::object(),
                                     json::object({{"type", "text"}}), json::string(300, 'y'), json::array({1, "a"})};
  json::value tree = json::parse(seed.body);
  for (size_t n = draw(3); n > 0; --n) {
    std::vector<json::value*> values;
    Collect(tree, values);
    json::value& at = *values[draw(values.size())];
    const size_t how = draw(4);
    if (how == 0 && at.is_object() && !at.get_object().empty()) {
      auto it = at.get_object().begin();
      std::advance(it, static_cast<std::ptrdiff_t>(draw(at.get_object().size())));
      at.get_object().erase(it);
    } else if (how == 1 && at.is_object()) {
      const auto parameters = Parameters();
      const std::string_view name = parameters[draw(parameters.size())].name;
      at.get_object()[json::string_view(name.data(), name.size())] = kOdd[draw(std::size(kOdd))];
    } else if (how == 2 && at.is_array() && !at.get_array().empty()) {
      at.get_array().push_back(at.get_array()[draw(at.get_array().size())]);
    } else {
      at = kOdd[draw(std::size(kOdd))];
    }
  }
  std::string text = json::serialize(tree);
  for (size_t n = draw(4) == 0 ? draw(4) : 0; n > 0 && !text.empty(); --n) {
    const size_t at = draw(text.size());
    switch (draw(3)) {
      case 0: text[at] = static_cast<char>(draw(256)); break;
      case 1: text.erase(at, draw(5)); break;
      default: text.insert(at, text.substr(draw(text.size()), draw(8)));
    }
  }
  return text;
}

TEST(RequestPropertyTest, AMutatedRequestIsAnsweredOnce) {
  const char* rounds_text = std::getenv("SURETY_MUTATIONS");
  const int rounds = rounds_text != nullptr ? std::atoi(rounds_text) : 4000;
  int n_good = 0, n_bad = 0;
  for (int i = 0; i < rounds; ++i) {
    const Seed& seed = kSeeds[static_cast<size_t>(i) % std::size(kSeeds)];
    const std::string body = Mutated(seed, static_cast<uint64_t>(i));
    ApiRig rig;
    const auto record = rig.Post(seed.path, body);
    std::vector<api::GenerationRequest> requests = rig.backend->requests;
    for (size_t r = 0; r < requests.size(); ++r) {
      const api::GenerationRequest& request = requests[r];
      ASSERT_TRUE(request.sampling.Validate(kVocabulary).ok()) << body;
      ASSERT_EQ(request.has_messages + request.has_prompt + request.has_tokens, 1) << body;
      ASSERT_TRUE(request.n_choices >= 1 && request.n_choices <= 128 && request.max_tokens != 0) << body;
      for (int choice = 0; choice < request.n_choices; ++choice) {
        rig.backend->Emit(r + 1, Text("t", choice));
        rig.backend->Emit(r + 1, End(FinishReason::kStop, choice));
      }
    }
    ASSERT_EQ(record->n_answers, 1) << body;
    ASSERT_TRUE(record->finished) << body;
    ASSERT_TRUE(record->status == 200 || (record->status >= 400 && record->status < 500)) << record->status << body;
    if (record->status == 200) {
      ++n_good;
      bool done;
      const bool well_formed = record->streamed ? !Chunks(record->body, done).empty() : !record->Json().empty();
      ASSERT_TRUE(well_formed) << body;
      continue;
    }
    ++n_bad;
    const json::value error = record->Json().at("error");
    ASSERT_FALSE(error.at("message").as_string().empty()) << body;
    ASSERT_FALSE(error.at("code").as_string().empty()) << body;
    ASSERT_TRUE(requests.empty()) << body;
  }
  EXPECT_GT(n_good, rounds / 10);
  EXPECT_GT(n_bad, rounds / 10);
}

}  // namespace
}  // namespace surety::http
