#include "gateway/signal_conditions.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::gateway {
namespace {

Condition AnyOf(const std::string& subject, std::vector<std::string> names) {
  return {subject, std::move(names), {}, {}, {}};
}
Condition Above(const std::string& subject, double limit) { return {subject, {}, limit, {}, {}}; }
Condition Below(const std::string& subject, double limit) { return {subject, {}, {}, limit, {}}; }
Condition AtLeast(const std::string& subject, Level level) { return {subject, {}, {}, {}, level}; }

class SignalConditionsTest : public testing::Test {
 protected:
  SignalConditionsTest() {
    SignalSpec intent;
    intent.name = "intent";
    intent.groups = {{"faq", {"hours", "greeting"}}, {"money", {"dispute"}}};
    SignalSpec amount, rights;
    amount.name = "amount";
    rights.name = "rights";
    policy_.signals = {intent, amount, rights};
    signals_.values["intent"] = {"hours", 0, false, 0.9};
    signals_.values["amount"] = {"500", 500, true, 1};
    signals_.values["rights"] = {"false", 0, false, 1};
    signals_.risk = Level::kMedium;
    signals_.complexity = Level::kLow;
    facts_ = {&policy_, &signals_, {{"region", "US-NY"}}, {"card.read", "loan.read"}};
  }
  bool Hold(const Condition& condition) const { return Holds({condition}, facts_); }

  Policy policy_;
  Signals signals_;
  RoutingFacts facts_;
};

TEST_F(SignalConditionsTest, EachKindOfConditionHoldsWhereItShouldAndNowhereElse) {
  const std::vector<Condition> hold = {
      AnyOf("intent", {"greeting", "hours"}), AnyOf("intent.group", {"faq"}), AnyOf("risk", {"medium"}),
      AnyOf("complexity", {"low", "high"}), AtLeast("risk", Level::kMedium), AtLeast("risk", Level::kLow),
      Above("amount", 499), Below("amount", 501), AnyOf("rights", {"false"}), AnyOf("region", {"US-NY"}),
      AnyOf("permissions", {"x", "loan.read"}), {"amount", {}, 100, 1000, {}}};
  for (const Condition& condition : hold) EXPECT_TRUE(Hold(condition)) << condition.subject;
  EXPECT_TRUE(Holds(hold, facts_));
  const std::vector<Condition> fail = {
      AnyOf("intent", {"dispute"}), AnyOf("intent.group", {"money"}), AnyOf("risk", {"low", "high"}),
      AtLeast("risk", Level::kHigh), Above("amount", 500), Below("amount", 500), AnyOf("rights", {"true"}),
      AnyOf("region", {"us-ny"}), AnyOf("permissions", {"card"}), {"amount", {}, 100, 400, {}},
      {"amount", {"501"}, 100, {}, {}}};
  for (const Condition& condition : fail) {
    EXPECT_FALSE(Hold(condition)) << condition.subject;
    When one_of_many = hold;
    one_of_many.push_back(condition);
    EXPECT_FALSE(Holds(one_of_many, facts_)) << condition.subject;
  }
}

TEST_F(SignalConditionsTest, WhatCanNotBeEvaluatedDoesNotHold) {
  const Condition nothing{"intent", {}, {}, {}, {}};
  for (const Condition& condition : {
           nothing, AnyOf("nobody", {"none", "false", "low", ""}), Above("intent", -1e300), Below("intent", 1e300),
           AtLeast("intent", Level::kLow), AnyOf("nobody.group", {"none"}), Above("risk", -1),
           AtLeast("region", Level::kLow), AnyOf("language", {""}), Below("permissions", 1e300),
           AtLeast("amount", Level::kLow), Above("amount", NAN)}) {
    EXPECT_FALSE(Hold(condition)) << condition.subject;
  }
  signals_.values["amount"] = {"nan", NAN, true, 1};
  EXPECT_FALSE(Hold(Above("amount", 0)) || Hold(Below("amount", 0)));
  facts_.signals = nullptr;
  EXPECT_FALSE(Hold(AnyOf("risk", {"low", "medium", "high"})));
  EXPECT_FALSE(Hold(AnyOf("intent", {"hours"})));
}

TEST_F(SignalConditionsTest, AnAbstentionIsFoundOnlyByThoseWhoAskForIt) {
  signals_.values["intent"].label = kAbstained;
  for (const char* subject : {"intent", "intent.group"}) {
    EXPECT_FALSE(Hold(AnyOf(subject, {"faq", "money", "hours", "greeting", "dispute", "none"}))) << subject;
    EXPECT_TRUE(Hold(AnyOf(subject, {"faq", "abstained"}))) << subject;
  }
  signals_.values["intent"].label = "unheard of";
  EXPECT_TRUE(Hold(AnyOf("intent.group", {"none"})));
  EXPECT_FALSE(Hold(AnyOf("intent.group", {"abstained", "faq", "money"})));
}

TEST_F(SignalConditionsTest, LevelsAreTheHighestRuleAndAnAbstentionIsAtLeastMedium) {
  LevelSpec spec;
  spec.rules = {{{AnyOf("intent.group", {"money"})}, Level::kHigh}, {{Above("amount", 400)}, Level::kMedium}};
  EXPECT_EQ(LevelFor(spec, facts_), Level::kMedium);
  signals_.values["amount"].number = 10;
  EXPECT_EQ(LevelFor(spec, facts_), Level::kLow);
  signals_.values["intent"].label = "dispute";
  EXPECT_EQ(LevelFor(spec, facts_), Level::kHigh);
  signals_.values["intent"].label = kAbstained;
  EXPECT_EQ(LevelFor(spec, facts_), Level::kMedium);
  spec.base = Level::kHigh;
  EXPECT_EQ(LevelFor(spec, facts_), Level::kHigh) << "an abstention never lowers";
  spec.base = Level::kLow;
  // The policy's own word for it, in any rule of the level, is what counts.
  spec.rules.push_back({{AnyOf("intent", {"abstained"})}, Level::kHigh});
  EXPECT_EQ(LevelFor(spec, facts_), Level::kHigh);
  spec.rules.back().level = Level::kLow;
  EXPECT_EQ(LevelFor(spec, facts_), Level::kLow);
  // Of another signal it is not.
  signals_.values["amount"] = {std::string(kAbstained), 0, false, 1};
  EXPECT_EQ(LevelFor(spec, facts_), Level::kMedium);
  // A signal that no rule reads says nothing of the level.
  spec.rules = {{{AnyOf("rights", {"true"})}, Level::kHigh}};
  EXPECT_EQ(LevelFor(spec, facts_), Level::kLow);
}

TEST_F(SignalConditionsTest, RulesOfLevelsReadSignalsAlone) {
  LevelSpec spec;
  const auto fault = [&](const char* level) { return CheckLevelSubjects(policy_, spec, level).message(); };
  spec.rules = {{{AnyOf("intent.group", {"money"}), Above("amount", 1)}, Level::kHigh}};
  EXPECT_EQ(fault("risk"), "");
  spec.rules[0].when[0].subject = "intnet";
  EXPECT_THAT(fault("risk"), testing::HasSubstr("no signal 'intnet'; did you mean 'intent'?"));
  spec.rules[0].when[0].subject = "region";
  EXPECT_NE(fault("risk"), "");
  spec.rules[0].when[0].subject = "risk";
  EXPECT_NE(fault("risk"), "");
  EXPECT_EQ(fault("complexity"), "");
}

TEST_F(SignalConditionsTest, EveryRequestHasTheFirstRouteThatHolds) {
  // All values of all signals, over random lists of routes that end in "always".
  const char* intents[] = {"hours", "greeting", "dispute", "abstained", "none", "other"};
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    uint64_t at = 0;
    const auto draw = [&](int n) { return static_cast<int>(RandomUniform({.seed = seed, .position = at++}) * n) % n; };
    policy_.routes.clear();
    for (int i = 0; i < 4; ++i) {
      RouteSpec route;
      route.name = std::to_string(i);
      for (int c = draw(3); c >= 0; --c) {
        const Condition kinds[] = {AnyOf("intent", {intents[draw(6)], intents[draw(6)]}),
                                   AnyOf("intent.group", {"faq"}), Above("amount", draw(3) * 400),
                                   AtLeast("risk", static_cast<Level>(draw(3))),
                                   AnyOf("unknown", {"x"})};
        route.when.push_back(kinds[draw(5)]);
      }
      policy_.routes.push_back(route);
    }
    RouteSpec last;
    last.name = "otherwise";
    last.always = true;
    policy_.routes.push_back(last);
    for (const char* intent : intents) {
      for (const double amount : {-1.0, 100.0, 900.0}) {
        signals_.values["intent"].label = intent;
        signals_.values["amount"] = {"", amount, amount >= 0, 1};
        const RouteSpec& chosen = ChooseRoute(facts_);
        for (const RouteSpec& route : policy_.routes) {
          const bool is_chosen = &route == &chosen;
          EXPECT_EQ(route.always || Holds(route.when, facts_), is_chosen) << route.name;
          if (is_chosen) break;
        }
      }
    }
  }
}

}  // namespace
}  // namespace surety::gateway
