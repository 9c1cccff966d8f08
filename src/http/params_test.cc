#include "http/params.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace surety::http {
namespace {

namespace json = boost::json;

constexpr Endpoint kAll[] = {kChat, kCompletions, kResponses, kEmbeddings, kTokenize, kDetokenize, kApplyTemplate};

json::value Parse(std::string_view text) { return json::parse(json::string_view(text.data(), text.size())); }

// The endpoints of a row.
std::vector<Endpoint> EndpointsOf(const Parameter& p) {
  std::vector<Endpoint> list;
  for (const Endpoint e : kAll) {
    if ((p.endpoints & e) != 0) list.push_back(e);
  }
  return list;
}

// The body that has `value` at the parameter's place.
json::object BodyWith(const Parameter& p, json::value value) {
  const std::string_view parent = ParentOf(p, EndpointsOf(p).at(0));
  const auto key = [](std::string_view name) { return json::string_view(name.data(), name.size()); };
  if (parent.empty()) return {{key(p.name), std::move(value)}};
  return {{key(parent), json::object{{key(p.name.substr(parent.size() + 1)), std::move(value)}}}};
}

std::string Refusal(const Parameter& p, Endpoint e, const json::value& value) {
  const auto ok = CheckParameters(BodyWith(p, value), e);
  if (ok) return "";
  EXPECT_EQ(ok.error().param, p.name) << ok.error().message;
  EXPECT_NE(ok.error().message.find(p.name), std::string::npos) << ok.error().message;
  EXPECT_EQ(ok.error().status, 400);
  return ok.error().code;
}

TEST(ParametersTest, EveryRowIsWellFormed) {
  std::set<std::pair<std::string, Endpoint>> seen;
  for (const Parameter& p : Parameters()) {
    SCOPED_TRACE(p.name);
    EXPECT_FALSE(p.text.empty());
    EXPECT_NE(p.endpoints, 0u);
    EXPECT_NE(p.types, 0u);
    EXPECT_LE(p.min, p.max);
    for (const Endpoint e : EndpointsOf(p)) {
      EXPECT_TRUE(seen.emplace(p.name, e).second) << "twice";
      EXPECT_EQ(FindParameter(p.name, e), &p);
      if (!p.fallback.empty()) {
        EXPECT_EQ(Refusal(p, e, Parse(p.fallback)), "") << p.fallback;
      }
      // A dotted name is that of a member of an object; llama-server's have the dot in the key.
      if (p.name.find('.') != std::string_view::npos && !p.name.starts_with("speculative.")) {
        EXPECT_NE(ParentOf(p, e), "");
      }
    }
  }
}

TEST(ParametersTest, TheEdgesOfEachRangeAreInAndWhatIsBeyondIsOut) {
  int n_edges = 0;
  for (const Parameter& p : Parameters()) {
    if ((p.types & (kInt | kNumber)) == 0 || p.use != Use::kHonoured) continue;
    SCOPED_TRACE(p.name);
    const bool whole = (p.types & kNumber) == 0;
    for (const Endpoint e : EndpointsOf(p)) {
      const auto in = [&](double x) { EXPECT_EQ(Refusal(p, e, whole ? json::value(int64_t(x)) : json::value(x)), ""); };
      const auto out = [&](double x) { EXPECT_EQ(Refusal(p, e, x), "invalid_value") << x; };
      if (p.min == kAboveZero) {
        in(1e-3);
        out(0);
        out(-1e-300);
      } else if (std::isfinite(p.min)) {
        in(p.min);
        out(whole ? p.min - (p.min < -1e15 ? 1e4 : 1) : std::nextafter(p.min, -1e300));
      }
      if (std::abs(p.max) < 1e15) {
        in(p.max);
        out(whole ? p.max + 1 : std::nextafter(p.max, 1e300));
      }
      out(1e300);
      out(-1e300);
      if (whole) {
        EXPECT_EQ(Refusal(p, e, 1.5), "invalid_type");
        EXPECT_EQ(Refusal(p, e, json::value(2.0)), p.max >= 2 ? "" : "invalid_value");
        EXPECT_EQ(Refusal(p, e, json::value(uint64_t(-1))), "invalid_value");
      }
      ++n_edges;
    }
  }
  EXPECT_GT(n_edges, 50);
}

TEST(ParametersTest, EachParameterRefusesOtherTypesAndTakesNull) {
  const std::pair<unsigned, json::value> samples[] = {
      {kBool, true}, {kInt | kNumber, 1}, {kNumber, 0.5}, {kString, "x"}, {kArray, {1, 2}}, {kObject, {{"zz", 1}}}};
  for (const Parameter& p : Parameters()) {
    SCOPED_TRACE(p.name);
    for (const Endpoint e : EndpointsOf(p)) {
      EXPECT_EQ(Refusal(p, e, nullptr), "");
      for (const auto& [types, value] : samples) {
        if ((p.types & types) != 0) continue;
        const std::string code = Refusal(p, e, value);
        EXPECT_TRUE(code == "invalid_type" || (p.use == Use::kOnly && code == "unsupported_parameter")) << code;
      }
    }
  }
}

TEST(ParametersTest, ARefusedParameterTakesItsNeutralValuesAlone) {
  int n_refused = 0;
  for (const Parameter& p : Parameters()) {
    if (p.use != Use::kOnly) continue;
    SCOPED_TRACE(p.name);
    ++n_refused;
    for (const Endpoint e : EndpointsOf(p)) {
      json::array neutral;
      if (!p.values.empty()) neutral = Parse(p.values).as_array();
      for (const json::value& value : neutral) EXPECT_TRUE(CheckParameters(BodyWith(p, value), e)) << value;
      json::value other = "another";
      if ((p.types & kBool) != 0) other = !neutral.empty() && neutral[0] == false;
      if ((p.types & (kInt | kNumber)) != 0) other = 12345;
      if ((p.types & kArray) != 0) other = json::array{"another", 5};
      if (p.types == kObject) other = json::object{{"another", 5}};
      const auto refused = CheckParameters(BodyWith(p, other), e);
      ASSERT_FALSE(refused) << other;
      EXPECT_EQ(refused.error().param, p.name);
      EXPECT_TRUE(refused.error().code.starts_with("unsupported_")) << refused.error().code;
      EXPECT_NE(refused.error().message.find(p.text), std::string::npos) << "does not say why";
    }
  }
  EXPECT_GT(n_refused, 50);
}

// The request fields of OpenAI's published API reference (late 2026).
TEST(ParametersTest, KnowsEveryFieldOfTheReference) {
  const std::pair<Endpoint, const char*> fields[] = {
      {kChat, "messages model audio frequency_penalty function_call functions logit_bias logprobs "
              "max_completion_tokens max_tokens metadata modalities moderation n parallel_tool_calls prediction "
              "presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort "
              "response_format safety_identifier seed service_tier stop store stream stream_options temperature "
              "tool_choice tools top_logprobs top_p user verbosity web_search_options"},
      {kCompletions, "model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty "
                     "seed stop stream stream_options suffix temperature top_p user"},
      {kResponses, "background context_management conversation include input instructions max_output_tokens "
                   "max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt "
                   "prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier "
                   "service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p "
                   "truncation user"},
      {kEmbeddings, "input model dimensions encoding_format user"}};
  for (const auto& [endpoint, names] : fields) {
    std::istringstream list{std::string(names)};
    for (std::string name; list >> name;) EXPECT_NE(FindParameter(name, endpoint), nullptr) << name;
  }
}

TEST(ParametersTest, AnUnknownParameterNamesTheNearest) {
  const auto message = [](const char* body, Endpoint e) {
    const auto ok = CheckParameters(Parse(body).as_object(), e);
    EXPECT_FALSE(ok);
    if (ok) return std::string();
    EXPECT_EQ(ok.error().code, "unknown_parameter");
    return ok.error().param + "|" + ok.error().message;
  };
  EXPECT_EQ(message(R"({"temprature":1})", kChat),
            "temprature|unknown parameter 'temprature'; did you mean 'temperature'?");
  EXPECT_EQ(message(R"({"stream_options":{"include_usag":true}})", kChat),
            "stream_options.include_usag|unknown parameter 'stream_options.include_usag'; did you mean "
            "'stream_options.include_usage'?");
  EXPECT_EQ(message(R"({"best_of":2})", kResponses),
            "best_of|unknown parameter 'best_of': /v1/responses does not have it");
  EXPECT_EQ(message(R"({"speculative.n_mx":1})", kChat),
            "speculative.n_mx|unknown parameter 'speculative.n_mx'; did you mean 'speculative.n_max'?");
  EXPECT_EQ(message(R"({"speculative":{"n_max":1}})", kChat).substr(0, 12), "speculative|");  // the key has the dot
  // A key that looks like a path is none.
  EXPECT_NE(message(R"({"stream_options.include_usage":true})", kChat).find("unknown"), std::string::npos);
  EXPECT_NE(message(R"({"zzzzzzzzzzzzzzz":1})", kEmbeddings).find("unknown"), std::string::npos);
}

std::string TypesOf(unsigned types) {
  std::string text;
  for (const auto& [bit, name] : {std::pair{kBool, "bool"}, {kInt, "int"}, {kNumber, "number"}, {kString, "string"},
                                  {kArray, "array"}, {kObject, "object"}}) {
    if ((types & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

std::string RangeOf(const Parameter& p) {
  const auto number = [](double x) { return json::serialize(json::value(static_cast<int64_t>(x))); };
  if (p.use != Use::kHonoured && p.use != Use::kAccepted) return "";
  if (std::abs(p.max) > 1e15 && (std::abs(p.min) > 1e15 || p.min <= 0)) return p.min == kAboveZero ? "> 0" : "";
  const std::string low = p.min == kAboveZero ? std::string("> 0") : number(p.min);
  if (std::isinf(p.max)) return low + " or more";
  return low + " .. " + number(p.max);
}

// The table of docs/http_api.md as the code has it.
std::string TableText() {
  std::string text = "| Parameter | Endpoints | Type | Range, size | Default | Use |\n|---|---|---|---|---|---|\n";
  for (const Parameter& p : Parameters()) {
    std::string endpoints;
    for (const auto& [e, name] : {std::pair{kChat, "chat"}, {kCompletions, "completions"}, {kResponses, "responses"},
                                  {kEmbeddings, "embeddings"}, {kTokenize, "tokenize"}, {kDetokenize, "detokenize"},
                                  {kApplyTemplate, "apply-template"}}) {
      if ((p.endpoints & e) != 0) endpoints += (endpoints.empty() ? "" : ", ") + std::string(name);
    }
    std::string use(p.text);
    if (p.use == Use::kAccepted) use.insert(0, "*accepted, not looked at*: ");
    if (p.use == Use::kOnly) use.insert(0, "**refused**: ");
    if (p.use == Use::kOnly && !p.values.empty()) use += " (taken: `" + std::string(p.values) + "`)";
    std::string fallback;
    if (!p.fallback.empty()) fallback.append("`").append(p.fallback).append("`");
    text += "| `" + std::string(p.name) + "` | " + endpoints + " | " + TypesOf(p.types) + " | " + RangeOf(p) + " | " +
            fallback + " | " + use + " |\n";
  }
  return text;
}

TEST(ParametersTest, TheDocumentHasTheTable) {
  const std::string path = std::string(SURETY_TESTDATA) + "/../docs/http_api.md";
  std::stringstream document;
  document << std::ifstream(path).rdbuf();
  const std::string text = document.str(), begin = "<!-- parameters -->\n", end = "<!-- end of parameters -->";
  const size_t from = text.find(begin), to = text.find(end);
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos) << path;
  const size_t at = from + begin.size();
  if (std::getenv("SURETY_UPDATE_DOCS") != nullptr) {
    std::ofstream(path) << text.substr(0, at) << TableText() << text.substr(to);
    return;
  }
  EXPECT_TRUE(text.substr(at, to - at) == TableText()) << "the table differs; SURETY_UPDATE_DOCS=1 writes it anew";
}

}  // namespace
}  // namespace surety::http
