// What a route promises is kept on every way out of it: by fallbacks, by levels of risk, by people, by tools. Each
// fault is planted into a policy that has none.
#include <functional>
#include <string>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/policy_check.h"
#include "gateway/policy_values.h"
#include "gateway/testing/policy_text.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using policy_text::GoodPolicyFiles;
using policy_text::MemoryFiles;
using policy_text::ReadEdited;

enum class Lines { kFaults, kWarnings };

// Of the good policy as `edit` leaves it: the lines of an obligation, or of all.
std::string LinesAfter(const std::function<void(Policy&)>& edit, Lines which = Lines::kFaults,
                       MemoryFiles files = GoodPolicyFiles()) {
  Policy policy = *ReadEdited({});
  edit(policy);
  std::string out;
  const auto obligations = CheckPolicy(CheckInput{.policy = policy, .files = files,
                                                  .now_ns = *ParseInstant("2026-03-01"), .space = SpaceOf(policy)});
  for (const Obligation& obligation : obligations) {
    for (const std::string& line : which == Lines::kFaults ? obligation.faults : obligation.warnings) {
      out += fmt::format("{}: {}\n", obligation.number, line);
    }
  }
  return out;
}

RouteSpec& RouteNamed(Policy& policy, std::string_view name) {
  return *std::ranges::find(policy.routes, name, &RouteSpec::name);
}

void AddTools(RouteSpec& route) {
  route.tools = {"profile", "ledger"};
  route.invariants = {"agree"};
  route.queue = "desk";
}

TEST(PolicyControlsTest, AFallbackKeepsToolsInvariantsAndWhatIsForbidden) {
  EXPECT_EQ(LinesAfter([](Policy&) {}), "");
  const auto both = [](Policy& policy) {
    AddTools(RouteNamed(policy, "advice"));
    AddTools(RouteNamed(policy, "careful"));
  };
  EXPECT_EQ(LinesAfter(both), "");
  EXPECT_THAT(LinesAfter([&](Policy& policy) {
                both(policy);
                RouteNamed(policy, "careful").tools = {"profile"};
                RouteNamed(policy, "careful").invariants = {};
              }), HasSubstr("9: route 'advice' falls back to 'careful', which does not ask tool 'ledger'"));
  EXPECT_THAT(LinesAfter([&](Policy& policy) {
                both(policy);
                RouteNamed(policy, "careful").invariants = {};
              }), HasSubstr("9: route 'advice' falls back to 'careful', which lacks invariant 'agree'"));
  EXPECT_THAT(LinesAfter([](Policy& policy) {
                policy.contexts["open"] = policy.contexts["normal"];
                policy.contexts["open"].forbidden = {"card"};
                RouteNamed(policy, "careful").context = "open";
              }), HasSubstr("9: route 'advice' falls back to 'careful', whose context does not keep 'ssn' out"));
  EXPECT_THAT(LinesAfter([](Policy& policy) {
                RouteNamed(policy, "careful").release.audience = ReleaseSpec::Audience::kCustomer;
              }), HasSubstr("9: route 'advice' falls back to 'careful', which answers customers where internal"));
  EXPECT_EQ(LinesAfter([](Policy& policy) { RouteNamed(policy, "advice").fallback[0].to = "otherwise"; }), "");
  // A template on the way loses nothing, and gives nothing either.
  const auto behind_a_template = [](std::vector<std::string> verify) {
    return LinesAfter([&](Policy& policy) {
      RouteNamed(policy, "advice").fallback = {{"ready", {FallbackSpec::Cause::kError}}};
      RouteNamed(policy, "ready").fallback = {{"careful", {FallbackSpec::Cause::kError}}};
      RouteNamed(policy, "careful").verify = verify;
    });
  };
  EXPECT_EQ(behind_a_template({"promises", "citations"}), "");
  EXPECT_THAT(behind_a_template({"citations"}),
              HasSubstr("9: route 'advice' falls back to 'careful', which lacks verifier 'promises'"));
}

TEST(PolicyControlsTest, ATemplateMayFallBackToAModelThatCosts) {
  EXPECT_EQ(LinesAfter([](Policy& policy) {
              RouteNamed(policy, "ready").fallback = {{"careful", {FallbackSpec::Cause::kError}}};
            }), "");
}

TEST(PolicyControlsTest, NothingGeneratesBehindABudgetThatRanOut) {
  const auto behind = [](FallbackSpec::Cause cause, bool leads_on) {
    return [=](Policy& policy) {
      RouteNamed(policy, "advice").fallback = {{"ready", {cause}}};
      if (leads_on) RouteNamed(policy, "ready").fallback = {{"careful", {FallbackSpec::Cause::kError}}};
    };
  };
  EXPECT_THAT(LinesAfter(behind(FallbackSpec::Cause::kBudget, true)),
              HasSubstr("11: route 'advice': over a budget it falls back to 'ready', and from there 'careful' could be "
                        "reached, which would generate without a reservation"));
  EXPECT_EQ(LinesAfter(behind(FallbackSpec::Cause::kBudget, false)), "");
  EXPECT_EQ(LinesAfter(behind(FallbackSpec::Cause::kTimeout, true)), "");
  EXPECT_THAT(LinesAfter([](Policy& policy) {
                RouteNamed(policy, "advice").fallback = {{"careful", {FallbackSpec::Cause::kBudget}}};
              }, Lines::kWarnings),
              HasSubstr("11: route 'advice': over a budget the fallback to 'careful' is not taken"));
}

TEST(PolicyControlsTest, ALevelIsCheckedByAllThatLowerOnesAreCheckedBy) {
  EXPECT_THAT(LinesAfter([](Policy& policy) { RouteNamed(policy, "controlled").verify = {"citations", "codes"}; }),
              HasSubstr("8: route 'controlled' can be taken at high risk and lacks verifier 'promises', by which route "
                        "'advice' is checked at a lower one"));
  // Or by what the policy declares for each level, and that alone.
  const auto declared = [](std::vector<std::string> high) {
    return [high](Policy& policy) {
      policy.risk.verify.emplace();
      (*policy.risk.verify)[static_cast<size_t>(Level::kMedium)] = {"citations"};
      (*policy.risk.verify)[static_cast<size_t>(Level::kHigh)] = high;
      RouteNamed(policy, "controlled").verify = {"citations", "codes"};
    };
  };
  EXPECT_EQ(LinesAfter(declared({"codes"})), "");
  EXPECT_THAT(LinesAfter(declared({"promises"})),
              HasSubstr("8: route 'controlled' can be taken at high risk and lacks verifier 'promises', which "
                        "risk.verify asks for from high on"));
  EXPECT_THAT(LinesAfter([&](Policy& policy) {
                declared({})(policy);
                RouteNamed(policy, "controlled").verify = {"codes"};
              }), HasSubstr("lacks verifier 'citations', which risk.verify asks for from medium on"));
  const auto read = ReadEdited({{"risk:\n  base: low",
                                 "risk:\n  verify: {medium: [citations], high: [codes]}\n  base: low"}});
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_TRUE(read->risk.verify);
  EXPECT_THAT((*read->risk.verify)[static_cast<size_t>(Level::kHigh)], ::testing::ElementsAre("codes"));
  EXPECT_THAT(ReadEdited({{"risk:\n  base: low", "risk:\n  verify: {high: [code]}\n  base: low"}}).error().message(),
              HasSubstr("did you mean 'codes'?"));
  EXPECT_FALSE(ReadEdited({{"complexity:\n", "complexity:\n  verify: {high: [codes]}\n"}}));
}

TEST(PolicyControlsTest, AnInvariantLooksAtToolsThatItsRouteAsks) {
  EXPECT_THAT(LinesAfter([](Policy& policy) { RouteNamed(policy, "controlled").tools = {"profile"}; }),
              HasSubstr("8: route 'controlled': invariant 'agree' looks at 'ledger', which this route does not ask"));
  EXPECT_THAT(LinesAfter([](Policy& policy) { RouteNamed(policy, "controlled").tools = {"ledger"}; }),
              HasSubstr("looks at 'profile', which this route does not ask"));
  EXPECT_THAT(LinesAfter([](Policy& policy) { AddTools(RouteNamed(policy, "ready")); }),
              HasSubstr("8: route 'ready' has no model, so its tools are not asked and its invariants enforce"));
  EXPECT_THAT(LinesAfter([](Policy& policy) { policy.invariants["agree"].when = "profile.state ="; }),
              HasSubstr("8: invariant 'agree': "));
}

TEST(PolicyControlsTest, AnIdentityToolIsAskedWithWhatIsVerified) {
  const auto asked_with = [](std::vector<std::string> arguments) {
    return LinesAfter([&](Policy& policy) { policy.tools["profile"].arguments = arguments; });
  };
  EXPECT_EQ(asked_with({}), "");
  EXPECT_EQ(asked_with({"subject", "tenant", "region", "permissions", "effective_date", "policy_version"}), "");
  for (const char* argument : {"customer", "account", "product", "language", "channel", "eligibility"}) {
    EXPECT_THAT(asked_with({"subject", argument}),
                HasSubstr(fmt::format("3: identity.eligibility comes from the tool 'profile', which is asked with '{}'",
                                      argument)));
  }
  for (const Dimension dimension : {Dimension::kTenant, Dimension::kPermissions}) {
    EXPECT_THAT(LinesAfter([&](Policy& policy) {
                  DimensionSource& source = policy.identity[static_cast<size_t>(dimension)];
                  source.from = DimensionSource::From::kTool;
                  source.name = "ledger";
                  source.field = "x";
                }), HasSubstr(fmt::format("3: identity.{} comes from a tool; who somebody is", NameOf(dimension))));
  }
}

TEST(PolicyControlsTest, WhereAPersonDecidesAQueueIsNamed) {
  const auto careful = [](const std::function<void(Policy&, RouteSpec&)>& edit) {
    return LinesAfter([&](Policy& policy) {
      RouteNamed(policy, "careful").queue = "";
      edit(policy, RouteNamed(policy, "careful"));
    });
  };
  EXPECT_THAT(careful([](Policy&, RouteSpec&) {}),
              HasSubstr("8: route 'careful': verifier 'citations' sends what it cannot judge to a person (error: "
                        "review), and it names no queue"));
  const auto closed = [](Policy& policy, RouteSpec&) {
    for (auto& [name, verifier] : policy.verifiers) {
      verifier.fail = verifier.error = VerifierSpec::Action::kBlock;
    }
  };
  EXPECT_EQ(careful(closed), "");
  EXPECT_THAT(careful([&](Policy& policy, RouteSpec& route) {
                closed(policy, route);
                policy.verifiers["promises"].fail = VerifierSpec::Action::kRepair;
              }), HasSubstr("verifier 'promises' sends what fails to a person (fail: repair)"));
  EXPECT_THAT(careful([&](Policy& policy, RouteSpec& route) {
                closed(policy, route);
                route.tools = {"ledger"};
              }), HasSubstr("without a result of the tool 'ledger' a person answers"));
  EXPECT_THAT(careful([&](Policy& policy, RouteSpec& route) {
                closed(policy, route);
                route.answer = RouteSpec::Answer::kTools;
                route.tools = {"ledger"};
              }), HasSubstr("the facts of its tools go to a person"));
  EXPECT_EQ(careful([&](Policy& policy, RouteSpec& route) {
              closed(policy, route);
              route.tools = {"ledger"};
              policy.tools["ledger"].mandatory = false;
            }), "");
  EXPECT_EQ(careful([](Policy&, RouteSpec& route) { route.queue = "desk"; }), "");
  EXPECT_EQ(careful([](Policy&, RouteSpec& route) { route.release.review = "desk"; }), "");
}

TEST(PolicyControlsTest, QueuesSayWhoMayDecideInThem) {
  EXPECT_THAT(LinesAfter([](Policy&) {}, Lines::kWarnings),
              HasSubstr("8: review queue 'desk' names no permission: administrators alone decide in it"));
  EXPECT_THAT(LinesAfter([](Policy& policy) { policy.review["desk"].permission = ""; }),
              HasSubstr("8: review queue 'desk' has no permission: every caller of the tenant could decide"));
  EXPECT_THAT(LinesAfter([](Policy& policy) { policy.review["desk"].permission = "decide"; }, Lines::kWarnings),
              Not(HasSubstr("queue 'desk'")));
  EXPECT_THAT(LinesAfter([](Policy& policy) { policy.review["desk"].exclude_author = false; }, Lines::kWarnings),
              HasSubstr("8: route 'controlled': in queue 'desk' who asked may approve an answer of high risk"));
  const auto writes = [](int approvals) {
    return LinesAfter([=](Policy& policy) {
      ToolSpec& refund = policy.tools["refund"] = policy.tools["ledger"];
      refund.name = "refund";
      refund.kind = ToolSpec::Kind::kWrite;
      refund.four_eyes = true;
      policy.review["desk"].approvals = approvals;
      RouteNamed(policy, "controlled").tools.push_back("refund");
    });
  };
  EXPECT_EQ(writes(2), "");
  EXPECT_THAT(writes(1), HasSubstr("8: route 'controlled': its writes need four eyes, and queue 'desk' asks for 1"));
}

TEST(PolicyControlsTest, ATemplateHasATextOrAWayOnThatIsTakenOnError) {
  using Cause = FallbackSpec::Cause;
  const auto without_text = [](std::vector<FallbackSpec> fallback) {
    return LinesAfter([&](Policy& policy) {
      policy.templates["faq"].texts.erase("card");
      RouteNamed(policy, "ready").fallback = fallback;
    });
  };
  EXPECT_THAT(without_text({}), HasSubstr("12: route 'ready': template 'faq' has no text for the intent 'card'"));
  EXPECT_THAT(without_text({{"otherwise", {Cause::kTimeout, Cause::kVerifier}}}),
              HasSubstr("12: route 'ready': template 'faq' has no text for the intent 'card'"));
  EXPECT_EQ(without_text({{"otherwise", {Cause::kTimeout, Cause::kError}}}), "");
  EXPECT_EQ(without_text({{"otherwise", {}}}), "");
  const auto for_half_the_time = [](std::vector<FallbackSpec> fallback) {
    return LinesAfter([&](Policy& policy) {
      policy.templates["faq"].validity.to_ns = *ParseInstant("2026-06-01");
      RouteNamed(policy, "ready").fallback = fallback;
    });
  };
  EXPECT_THAT(for_half_the_time({}), HasSubstr("6: route 'ready': template 'faq' holds from"));
  EXPECT_THAT(for_half_the_time({{"otherwise", {Cause::kTimeout}}}), HasSubstr("and outside nothing answers"));
  EXPECT_EQ(for_half_the_time({{"otherwise", {Cause::kError}}}), "");
}

TEST(PolicyControlsTest, AKeyDoesNotTravelInTheOpen) {
  const auto remote = [](std::string base, std::string key, Lines which = Lines::kFaults) {
    return LinesAfter([&](Policy& policy) {
      ModelSpec& strong = policy.models["strong"];
      strong.engine = ModelSpec::Engine::kRemote;
      strong.api_base = base;
      strong.api_key.variable = key;
      policy.contexts["normal"].force_citations = true;
    }, which);
  };
  EXPECT_THAT(remote("http://models.example/v1", "KEY"),
              HasSubstr("3: model 'strong': its key would go to http://models.example/v1 unencrypted; use https://"));
  EXPECT_THAT(remote("http://127.0.0.1.example/v1", "KEY"), HasSubstr("unencrypted"));
  EXPECT_EQ(remote("https://models.example/v1", "KEY"), "");
  EXPECT_EQ(remote("http://models.example/v1", ""), "");
  for (const char* own : {"http://127.0.0.1:8000/v1", "http://localhost:8000/v1", "http://[::1]:8000/v1"}) {
    EXPECT_EQ(remote(own, "KEY"), "") << own;
  }
  EXPECT_THAT(remote("https://models.example/v1", "KEY", Lines::kWarnings),
              HasSubstr("3: route 'controlled': force_citations holds only where https://models.example/v1 keeps"));
}

TEST(PolicyControlsTest, WhatIsNotWhatItSeemsIsNoted) {
  EXPECT_THAT(LinesAfter([](Policy& policy) { policy.verifiers["citations"].fail = VerifierSpec::Action::kRepair; },
                         Lines::kWarnings),
              HasSubstr("10: route 'advice': its answer is out as a draft before verifier 'citations' could ask"));
  const auto classifier = [](double confidence, bool asked) {
    return LinesAfter([=](Policy& policy) {
      policy.signals[0].by = SignalSpec::By::kClassifier;
      policy.signals[0].min_confidence = confidence;
      if (!asked) std::erase(policy.risk.rules[0].when[0].any_of, "abstained");
    }, Lines::kWarnings);
  };
  EXPECT_THAT(classifier(0, false), HasSubstr("3: signal 'intent': a classifier without min_confidence"));
  EXPECT_THAT(classifier(0, true), Not(HasSubstr("a classifier without min_confidence")));
  EXPECT_THAT(classifier(0.5, false), Not(HasSubstr("a classifier without min_confidence")));
}

// Each is refused when `serve` makes its parts; `check` makes them too.
TEST(PolicyControlsTest, WhatCannotBeServedDoesNotPass) {
  const auto with = [](VerifierSpec::Kind kind, const std::function<void(VerifierSpec&)>& edit) {
    return LinesAfter([&](Policy& policy) {
      VerifierSpec& spec = policy.verifiers["more"];
      spec.name = "more";
      spec.kind = kind;
      spec.phrases = {"we promise"};
      spec.schema = boost::json::parse(R"({"type": "string"})");
      edit(spec);
    });
  };
  using Kind = VerifierSpec::Kind;
  for (const Kind kind : {Kind::kCitations, Kind::kNumbers, Kind::kPhrases, Kind::kPii, Kind::kSchema}) {
    EXPECT_EQ(with(kind, [](VerifierSpec&) {}), "") << static_cast<int>(kind);
  }
  EXPECT_THAT(with(Kind::kSchema, [](VerifierSpec& spec) {
                spec.schema = boost::json::parse(R"({"type": "string", "pattern": "("})");
              }), HasSubstr("12: verifier 'more': "));
  EXPECT_THAT(with(Kind::kPii, [](VerifierSpec& spec) { spec.kinds = {"cards"}; }), HasSubstr("did you mean 'card'?"));
  EXPECT_THAT(with(Kind::kPhrases, [](VerifierSpec& spec) { spec.phrases = {"!!!"}; }),
              HasSubstr("'!!!' holds no letter"));
  EXPECT_THAT(with(Kind::kPhrases, [](VerifierSpec& spec) { spec.patterns = {"x*"}; }), HasSubstr("the empty text"));
  EXPECT_THAT(with(Kind::kCitations, [](VerifierSpec& spec) { spec.min_quote = 5000; }), HasSubstr("must be 1 to 200"));
  EXPECT_THAT(with(Kind::kHttp, [](VerifierSpec& spec) { spec.url = "ftp://x"; }),
              HasSubstr("12: verifier 'more': url"));
  EXPECT_THAT(with(Kind::kTable, [](VerifierSpec&) {}), HasSubstr("12: verifier 'more': table is missing"));
  EXPECT_THAT(LinesAfter([](Policy& policy) { policy.signals[1].phrases[""] = {"?"}; }),
              HasSubstr("12: signal 'rights': phrase '?' holds no letter"));
  EXPECT_THAT(LinesAfter([](Policy& policy) { policy.tools["ledger"].url = "http://127.0.0.1:9/{case}"; }),
              HasSubstr("12: tool 'ledger': 'http://127.0.0.1:9/{case}': 'case' is not in the tool's arguments"));
  const auto program = [](const std::string& path, Lines which) {
    return LinesAfter([&](Policy& policy) {
      policy.tools["ledger"].by = ToolSpec::By::kCommand;
      policy.tools["ledger"].command = {path};
    }, which);
  };
  EXPECT_EQ(program("/bin/sh", Lines::kFaults), "");
  EXPECT_EQ(program("/nowhere/at/all", Lines::kFaults), "");
  EXPECT_THAT(program("/nowhere/at/all", Lines::kWarnings), HasSubstr("where it is served it must be there"));
  EXPECT_THAT(program("/bin/../bin/sh", Lines::kFaults), HasSubstr("12: tool 'ledger': "));
}

std::string TableFault(std::string_view before, std::string_view after) {
  MemoryFiles files = GoodPolicyFiles();
  std::string& table = files.contents["p/codes.json"];
  const size_t at = table.find(before);
  if (at == std::string::npos) return "no such text";
  table.replace(at, before.size(), after);
  return LinesAfter([](Policy&) {}, Lines::kFaults, files);
}

TEST(PolicyControlsTest, ATableSpeaksOfThePolicysWholeTime) {
  EXPECT_EQ(TableFault("\"codes\"", "\"codes\""), "");
  EXPECT_THAT(TableFault("\"name\": \"codes\",", ""), HasSubstr("12: verifier 'codes', table 'codes.json': "));
  EXPECT_THAT(TableFault("\"version\": \"1\",", ""), HasSubstr("'version' must be a text"));
  EXPECT_THAT(TableFault("\"pattern\"", "\"colour\": 1, \"pattern\""), HasSubstr("unknown member 'colour'"));
  EXPECT_THAT(TableFault("\"titles\": [\"closed\"], \"effective_from\": \"2019-01-01\"", "\"titles\": [\"closed\"]"),
              HasSubstr("code R02 has no effective_from"));
  EXPECT_EQ(TableFault("\"titles\": [\"closed\"], \"effective_from\": \"2019-01-01\"}]",
                       "\"titles\": [\"closed\"]}], \"effective_from\": \"2019-01-01\""), "");
  const std::string closed = "\"titles\": [\"closed\"], \"effective_from\": \"2019-01-01\"";
  EXPECT_THAT(TableFault(closed, closed + ", \"effective_to\": \"2026-05-01\""),
              HasSubstr("code R02 ends on 2026-05-01T00:00:00Z, before the policy does"));
  EXPECT_EQ(TableFault(closed, closed + ", \"effective_to\": \"2026-05-01\", \"withdrawn\": true"), "");
  EXPECT_EQ(TableFault(closed, closed + ", \"effective_to\": \"2027-01-01\""), "") << "when the policy ends";
  EXPECT_THAT(TableFault(closed, closed + ", \"withdrawn\": true"), HasSubstr("withdrawn needs effective_to"));
  EXPECT_THAT(TableFault("\"2019-01-01\"", "\"2026-05-01\""),
              HasSubstr("code R02 holds from 2026-05-01T00:00:00Z only, and the policy from 2026-01-01T00:00:00Z"));
  EXPECT_EQ(TableFault("\"2019-01-01\"", "\"2026-05-01\", \"introduced\": true"), "");
  EXPECT_THAT(TableFault("\"titles\": [\"closed\"]", "\"titles\": [\"closed\"], \"introduced\": 1"),
              HasSubstr("'introduced' must be true or false"));
}

TEST(PolicyControlsTest, WhereNoToolGivesReasonsNoneCanBeComplete) {
  const auto with = [](bool complete, bool asks) {
    return LinesAfter([&](Policy& policy) {
      policy.verifiers.at("codes").complete = complete;
      for (RouteSpec& route : policy.routes) {
        const bool checked = std::ranges::find(route.verify, "codes") != route.verify.end();
        if (checked && !asks) route.tools.clear();
        if (checked && asks && route.tools.empty()) route.tools = {"ledger"};
      }
    });
  };
  EXPECT_THAT(with(true, false), HasSubstr("complete wants the codes of a tool, and route 'controlled' asks none"));
  EXPECT_THAT(with(true, true), Not(HasSubstr("complete wants")));
  EXPECT_THAT(with(false, false), Not(HasSubstr("complete wants")));
}

TEST(PolicyControlsTest, ATemplateThatAnswersByCodeAnswersEachOrSendsItOn) {
  const auto texts = [](std::map<std::string, std::string> by_label, bool goes_on) {
    return LinesAfter([&](Policy& policy) {
      for (auto& [label, text] : by_label) policy.templates["faq"].texts[label] = text;
      if (goes_on) RouteNamed(policy, "ready").fallback = {{"otherwise", {}}};
    });
  };
  EXPECT_THAT(texts({{"R01", "It came back."}}, false),
              HasSubstr("code R02 has no text in template 'faq' of route 'ready'"));
  EXPECT_EQ(texts({{"R01", "It came back."}}, true), "");
  EXPECT_EQ(texts({{"R01", "It came back."}, {"R02", "It is closed."}}, false), "");
  EXPECT_EQ(texts({{"R01", "It came back."}, {"default", "Please call us."}}, false), "");
}

}  // namespace
}  // namespace surety::gateway
