// A caller's words and body against what is verified: tool arguments, scopes, facts, templates, fields.
#include <gtest/gtest.h>

#include "gateway/governed_backend.h"
#include "gateway/testing/governed_world.h"
#include "gateway/verifier_set.h"

namespace surety::gateway {
namespace {

using api::FinishReason;
using api::Outcome;

RouteSpec& WordsRoute(Policy& policy, std::string_view name) {
  for (RouteSpec& route : policy.routes) {
    if (route.name == name) return route;
  }
  ADD_FAILURE() << "no route " << name;
  return policy.routes.front();
}

ToolResult ToolSays(boost::json::object value) {
  ToolResult result;
  result.value = std::move(value);
  result.digest = "d";
  return result;
}

TEST(GovernedWordsTest, MetadataDoesNotOverrideWhatIsVerifiedInToolArguments) {
  Policy policy = WorldPolicy();
  for (auto& [name, tool] : policy.tools) {
    tool.arguments = {"product", "region", "permissions", "subject", "tenant", "card_number", "intent"};
  }
  GovernedWorld world(policy);
  ToolArguments given;
  world.tools["rail"] = [&](const ToolArguments& arguments) {
    given = arguments;
    return ToolSays({{"status", "sent"}});
  };
  world.tools["core"] = [](const ToolArguments&) { return ToolSays({{"reversed", true}}); };
  api::Caller caller = GovernedWorld::Anna();
  for (const char* name : {"product", "region", "permissions", "subject", "tenant", "intent"}) {
    caller.metadata[name] = "forged";
  }
  caller.metadata["card_number"] = "1234";
  EXPECT_EQ(world.Send("@route=tools @intent=transfer Where is it?", caller).text, "An answer.");
  const ToolArguments expected = {{"product", "card"}, {"region", "US-NY"}, {"permissions", "cases"},
                                  {"subject", "anna"}, {"tenant", "acme"},  {"intent", "transfer"},
                                  {"card_number", "1234"}};   // the control: what nobody vouches for comes through
  EXPECT_EQ(given, expected);
  // A dimension that has a source and no value in this request is not what the body says either.
  caller.claims.erase("product");
  world.Send("@route=tools @intent=transfer Where is it?", caller);
  EXPECT_FALSE(given.contains("product"));
}

TEST(GovernedWordsTest, AToolOfTheIdentityIsAskedWithTheVerifiedDimensions) {
  Policy policy = WorldPolicy();
  DimensionSource& eligibility = policy.identity[static_cast<size_t>(Dimension::kEligibility)];
  eligibility = {};
  eligibility.from = DimensionSource::From::kTool;
  eligibility.name = "rail";
  eligibility.field = "eligibility";
  policy.tools["rail"].arguments = {"product", "subject", "intent"};
  GovernedWorld world(policy);
  ToolArguments given;
  world.tools["rail"] = [&](const ToolArguments& arguments) {
    given = arguments;
    return ToolSays({{"eligibility", "retail"}});
  };
  api::Caller caller = GovernedWorld::Anna();
  caller.metadata["product"] = "forged";
  EXPECT_EQ(world.Send("@route=held @intent=ask Tell me", caller).text, "An answer.");
  const ToolArguments expected = {{"product", "card"}, {"subject", "anna"}, {"intent", "ask"}};
  EXPECT_EQ(given, expected);
}

TEST(GovernedWordsTest, NoSaltOfACallerIsAnotherOnesScope) {
  GovernedWorld world;   // "held" is bound to the subject, "cached" is not
  int n = 0;
  const auto salt_of = [&](const std::string& route, const std::string& subject, const std::string& salt) {
    api::GenerationRequest request = world.Ask("@route=" + route + " Tell me " + std::to_string(n++));
    request.caller.subject = subject;
    request.scope.salt = salt;
    EXPECT_EQ(world.Send(request).text, "An answer.");
    return world.model->requests().back().scope.salt;
  };
  const std::string alice = salt_of("held", "alice", "");
  EXPECT_EQ(alice, salt_of("held", "alice", ""));   // the control: one scope for one subject
  for (const std::string& forged : {std::string("\x1f") + "alice", std::string("alice"), alice}) {
    EXPECT_NE(salt_of("cached", "mallory", forged), alice);
    EXPECT_NE(salt_of("held", "mallory", forged), alice);
  }
  EXPECT_NE(salt_of("held", "b", "a"), salt_of("held", "a\x1f" "b", ""));
  EXPECT_EQ(salt_of("cached", "alice", "s"), salt_of("cached", "bert", "s"));   // declared to be for all
}

TEST(GovernedWordsTest, CallersWithoutANameAreNotOneSubject) {
  Policy policy = WorldPolicy();
  WordsRoute(policy, "cached").cache.subject_bound = true;
  GovernedWorld world(policy);
  api::Caller nobody = GovernedWorld::Anna();
  nobody.subject.clear();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(world.Send("@route=cached What is it?", nobody).decision().cache, "bypass:no_subject");
  }
  const auto requests = world.model->requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_NE(requests[0].scope, requests[1].scope);
  EXPECT_EQ(world.Send("@route=cached What is it?").decision().cache, "miss");
  EXPECT_EQ(world.Send("@route=cached What is it?").decision().cache, "hit");   // the control
}

TEST(GovernedWordsTest, TheCustomersOwnNumberIsNoEvidence) {
  Policy policy = WorldPolicy();
  VerifierSpec numbers;
  numbers.name = "promises";
  numbers.kind = VerifierSpec::Kind::kNumbers;
  policy.verifiers["promises"] = numbers;
  GovernedWorld world(policy);
  auto parts = world.MakeParts(policy);
  auto verifier = MakeVerifier(numbers, ".", world.clock);
  ASSERT_TRUE(verifier.has_value());
  std::vector<std::unique_ptr<Verifier>> verifiers;
  verifiers.push_back(*std::move(verifier));
  parts->verifiers = MakeVerifierSet(std::move(verifiers), world.clock);
  world.backend->Use(parts);
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"Your fee is $35."}}; };
  EXPECT_EQ(world.Send("@route=held @amount=35 @length=35 Is my fee 35?").last.finish, FinishReason::kFiltered);
  world.tools["rail"] = [](const ToolArguments&) { return ToolSays({{"fee", 35}}); };
  world.tools["core"] = [](const ToolArguments&) { return ToolSays({{"reversed", true}}); };
  EXPECT_EQ(world.Send("@route=tools Is my fee 35?").text, "Your fee is $35.");   // the control: a tool says so
}

TEST(GovernedWordsTest, ATemplateFillsAllThatTheReaderTakesAndShowsNoPlaceholder) {
  Policy policy = WorldPolicy();
  policy.templates["faq"].texts = {{"default", "Risk {risk}, {complexity}; {channel}, {region}, {topic}. {not one"}};
  SignalSpec channel;
  channel.name = "by_channel";
  channel.by = SignalSpec::By::kMetadata;
  channel.key = "channel";
  policy.signals.push_back(channel);
  WordsRoute(policy, "faq").fallback = {{"held", {}}};
  GovernedWorld world(policy);
  api::Caller caller = GovernedWorld::Anna();
  caller.metadata["channel"] = "app";
  caller.metadata["region"] = "forged";
  EXPECT_EQ(world.Send("@route=faq @topic=cards x", caller).text, "Risk low, low; app, US-NY, cards. {not one");
  EXPECT_EQ(world.Send("@route=faq @topic=cards x").text, "An answer.");            // no channel: on to the fallback
  EXPECT_EQ(world.Send("@route=faq @topic=abstained x", caller).text, "An answer.");
  caller.metadata["channel"] = 7;
  EXPECT_EQ(world.Send("@route=faq @topic=cards x", caller).text, "An answer.");
}

TEST(GovernedWordsTest, ARequestCannotSwitchOffForcedCitations) {
  Policy policy = WorldPolicy();
  policy.contexts["cited"].name = "cited";
  policy.contexts["cited"].force_citations = true;
  WordsRoute(policy, "held").context = "cited";
  GovernedWorld world(policy);
  const auto sent = [&](const std::string& route, const std::function<void(api::GenerationRequest&)>& change) {
    api::GenerationRequest request = world.Ask("@route=" + route + " Tell me");
    change(request);
    const Reply reply = world.Send(request);
    return reply.last.error.ok() ? reply.text : reply.last.error.ToString();
  };
  using Kind = api::Constraint::Kind;
  const auto with = [](Kind kind) { return [kind](api::GenerationRequest& r) { r.constraint.kind = kind; }; };
  const auto tools = [](api::GenerationRequest& r) {
    r.template_values["tools"] = boost::json::array{boost::json::object{{"type", "function"}}};
    r.tool_use.choice = api::ToolUse::Choice::kAuto;
  };
  const auto starts = [](const std::string& text, const char* head) { return text.starts_with(head); };
  for (const Kind kind : {Kind::kJsonObject, Kind::kJsonSchema}) {
    EXPECT_PRED2(starts, sent("held", with(kind)), "INVALID_ARGUMENT: 'response_format'");
  }
  EXPECT_PRED2(starts, sent("held", with(Kind::kGrammar)), "INVALID_ARGUMENT: 'grammar'");
  EXPECT_PRED2(starts, sent("held", tools), "INVALID_ARGUMENT: 'tools'");
  EXPECT_EQ(world.model->n_requests(), 0);
  EXPECT_EQ(sent("held", [](api::GenerationRequest&) {}), "An answer.");   // the controls
  EXPECT_EQ(sent("cached", with(Kind::kJsonObject)), "An answer.");
  EXPECT_EQ(sent("cached", tools), "An answer.");
}

}  // namespace
}  // namespace surety::gateway
