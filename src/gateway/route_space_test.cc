#include "gateway/route_space.h"

#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/signal_conditions.h"
#include "gateway/signals.h"
#include "gateway/testing/policy_text.h"

namespace surety::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using policy_text::ReadEdited;

std::vector<RouteReach::Kind> Kinds(const RouteSpace& space) {
  std::vector<RouteReach::Kind> out;
  for (const RouteReach& reach : space.routes) out.push_back(reach.kind);
  return out;
}

TEST(RouteSpaceTest, KnowsLevelsAndIntentsOfEachRoute) {
  const auto policy = ReadEdited({});
  const RouteSpace space = SpaceOf(*policy);
  EXPECT_TRUE(space.exhaustive);
  EXPECT_THAT(space.routes[0].risks, ElementsAre(false, false, true));
  EXPECT_THAT(space.routes[1].risks, ElementsAre(true, false, false));
  EXPECT_THAT(space.routes[2].risks, ElementsAre(false, true, false));   // high went to the first
  EXPECT_THAT(space.routes[4].risks, ElementsAre(true, false, false));
  EXPECT_THAT(space.routes[1].intents, UnorderedElementsAre("hours", "card"));
  EXPECT_THAT(space.routes[4].intents, UnorderedElementsAre("none"));
}

TEST(RouteSpaceTest, AnAbstentionThatNoRuleNamesIsMediumAtLeast) {
  const auto policy = ReadEdited({{"intent: [loan, abstained]", "intent: loan"}});
  const RouteSpace space = SpaceOf(*policy);
  EXPECT_TRUE(space.routes[2].intents.contains("abstained"));
  EXPECT_FALSE(space.routes[1].intents.contains("abstained"));
}

// A space that is too large to be walked is judged without ever calling a route unreached that can be reached.
TEST(RouteSpaceTest, JudgesLargeSpacesSoundly) {
  const auto policy = ReadEdited({});
  const RouteSpace exact = SpaceOf(*policy), judged = SpaceOf(*policy, 1);
  EXPECT_FALSE(judged.exhaustive);
  for (size_t r = 0; r < exact.routes.size(); ++r) {
    EXPECT_EQ(judged.routes[r].kind, exact.routes[r].kind) << r;
    for (size_t level = 0; level < 3; ++level) {
      EXPECT_GE(judged.routes[r].risks[level], exact.routes[r].risks[level]) << r << " " << level;
    }
    for (const std::string& intent : exact.routes[r].intents) EXPECT_TRUE(judged.routes[r].intents.contains(intent));
  }
}

// By another program: every combination of signals is asked of the functions that choose routes at run time.
TEST(RouteSpaceTest, WordsThatLowerControlAreThoseThatTheRealFunctionsFollow) {
  auto policy = ReadEdited({{"signals:\n", "signals:\n  vip: {by: phrases, phrases: [i am staff]}\n"},
                            {"intent.group: faq}", "intent.group: faq, vip: true}"}});
  ASSERT_TRUE(policy) << policy.error().message();
  std::set<std::pair<size_t, size_t>> expected;
  const auto route_of = [&](const char* intent, const char* rights, const char* vip, const char* channel, double amount,
                            bool staff) {
    Signals signals;
    const auto put = [&](const char* name, std::string label) { signals.values[name].label = std::move(label); };
    put("intent", intent);
    put("rights", rights);
    put("vip", vip);
    put("channel", channel);
    put("amount", "none");
    if (amount > 0) signals.values["amount"] = {"number", amount, true, 1};
    RoutingFacts facts{.policy = &*policy, .signals = &signals, .dimensions = {}, .permissions = {}};
    if (staff) facts.permissions = {"staff"};
    signals.risk = LevelFor(policy->risk, facts);
    signals.complexity = LevelFor(policy->complexity, facts);
    return static_cast<size_t>(&ChooseRoute(facts) - policy->routes.data());
  };
  for (const char* intent : {"hours", "card", "loan", "none", "abstained"}) {
    for (const char* channel : {"app", "branch", "none"}) {
      for (const char* rights : {"true", "false"}) {
        for (const double amount : {0.0, 5.0, 20000.0}) {
          for (const bool staff : {false, true}) {
            const size_t from = route_of(intent, rights, "false", channel, amount, staff);
            const size_t to = route_of(intent, rights, "true", channel, amount, staff);
            if (ControlOf(policy->routes[to]) < ControlOf(policy->routes[from])) expected.emplace(from, to);
          }
        }
      }
    }
  }
  EXPECT_FALSE(expected.empty());
  for (const uint64_t cells : {uint64_t{1} << 20, uint64_t{1}}) {
    std::set<std::pair<size_t, size_t>> found;
    for (const ControlDrop& drop : SpaceOf(*policy, cells).drops) {
      EXPECT_EQ(drop.signal, "vip");
      found.emplace(drop.from, drop.to);
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(RouteSpaceTest, AClassifierThatIsNotGatedCountsAsWords) {
  auto policy = ReadEdited({});
  SignalSpec& intent = policy->signals[0];
  ASSERT_EQ(intent.name, "intent");
  intent.by = SignalSpec::By::kClassifier;
  intent.phrases.clear();
  intent.min_confidence = 0.8;
  EXPECT_TRUE(SpaceOf(*policy).drops.empty());
  intent.min_confidence = 0;
  EXPECT_FALSE(SpaceOf(*policy).drops.empty());
}

TEST(RouteSpaceTest, FindsRoutesThatEarlierOnesCover) {
  const auto policy = ReadEdited({{"  - name: advice\n",
                                   "  - {name: early, when: {risk: [medium, high]}, answer: refuse}\n"
                                   "  - name: advice\n"}});
  ASSERT_TRUE(policy) << policy.error().message();
  for (const uint64_t cells : {uint64_t{1} << 20, uint64_t{1}}) {
    const RouteSpace space = SpaceOf(*policy, cells);
    EXPECT_EQ(space.routes[3].kind, RouteReach::Kind::kNever);
    EXPECT_EQ(space.routes[2].kind, RouteReach::Kind::kReached);
  }
  EXPECT_THAT(SpaceOf(*policy, 1).routes[3].example, HasSubstr("goes to 'early'"));
}

TEST(RouteSpaceTest, NumbersAreToldApartAtEveryBound) {
  const auto policy =
      ReadEdited({{"when: {risk: low, intent.group: faq}", "when: {amount: {above: 5, below: 6}}"},
                  {"  - name: advice\n",
                   "  - {name: same, when: {amount: {above: 5, below: 6}}, answer: refuse}\n"
                   "  - {name: edge, when: {amount: {above: 4, below: 6}}, answer: refuse}\n"
                   "  - {name: empty, when: {amount: {above: 6, below: 6}}, answer: refuse}\n  - name: advice\n"}});
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_THAT(Kinds(SpaceOf(*policy)),
              ElementsAre(RouteReach::Kind::kReached, RouteReach::Kind::kReached, RouteReach::Kind::kNever,
                          RouteReach::Kind::kReached, RouteReach::Kind::kNever, RouteReach::Kind::kReached,
                          RouteReach::Kind::kReached, RouteReach::Kind::kReached));
}

// The router's own functions over random values never lead where the space says that nothing leads, nor at a level or
// with an intent that it leaves out; and together they reach all of it.
TEST(RouteSpaceTest, AgreesWithTheRouter) {
  const auto policy = ReadEdited({});
  const RouteSpace space = SpaceOf(*policy);
  std::mt19937 random(3);
  const auto pick = [&](std::vector<std::string> from) { return from[random() % from.size()]; };
  std::vector<std::set<std::string>> seen(policy->routes.size());
  for (int i = 0; i < 20'000; ++i) {
    Signals signals;
    signals.values["intent"].label = pick({"hours", "card", "loan", "none", "abstained"});
    signals.values["rights"].label = pick({"true", "false"});
    signals.values["channel"].label = pick({"app", "branch", "none"});
    SignalValue& amount = signals.values["amount"];
    amount.label = pick({"none", "abstained", "number"});
    amount.has_number = amount.label == "number";
    amount.number = static_cast<double>(random() % 20'001);
    RoutingFacts facts{.policy = &*policy, .signals = &signals, .dimensions = {}, .permissions = {}};
    if (random() % 2 == 0) facts.permissions = {"staff"};
    signals.risk = LevelFor(policy->risk, facts);
    signals.complexity = LevelFor(policy->complexity, facts);
    const auto route = static_cast<size_t>(&ChooseRoute(facts) - policy->routes.data());
    ASSERT_LT(route, space.routes.size());
    ASSERT_EQ(space.routes[route].kind, RouteReach::Kind::kReached);
    ASSERT_TRUE(space.routes[route].risks[static_cast<size_t>(signals.risk)]);
    ASSERT_TRUE(space.routes[route].intents.contains(signals.values["intent"].label));
    seen[route].insert(signals.values["intent"].label);
  }
  for (size_t r = 0; r < seen.size(); ++r) EXPECT_EQ(seen[r], space.routes[r].intents) << policy->routes[r].name;
}

}  // namespace
}  // namespace surety::gateway
