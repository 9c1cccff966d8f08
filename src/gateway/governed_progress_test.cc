// What a caller is told while an answer is held: at which stage it is, and nothing of the answer.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "gateway/testing/governed_world.h"

namespace surety::gateway {
namespace {

using api::FinishReason;
using api::Stage;

constexpr int64_t kProgressMs = 1'000'000;

Policy ProgressPolicy(int64_t every_ns) {
  Policy policy = WorldPolicy();
  for (RouteSpec& route : policy.routes) route.release.progress_ns = every_ns;
  policy.slos.push_back({"held", {{"ttfu", 0.95, 1'500 * kProgressMs}, {"queue", 0.5, 1}}, 0.01, 0});
  return policy;
}

api::GenerationRequest ProgressAsk(const GovernedWorld& world, const char* question) {
  api::GenerationRequest request = world.Ask(question);
  request.wants_progress = true;
  return request;
}

// All that an event of progress holds, as text.
std::string ProgressText(const api::Event& event) {
  const api::Decision& d = *event.decision;
  std::string text = std::string(api::NameOf(d.stage)) + "/" + d.route + "/" + d.policy_version + "/" + d.cache + "/" +
                     std::string(api::NameOf(d.outcome)) + "/" + d.verifier + "/" + std::to_string(d.attempts) + "/" +
                     std::to_string(d.cost) + "/" + std::to_string(event.usage.output_tokens) + "/" +
                     std::to_string(event.usage.prompt_tokens) + "/" + event.text + "/" + event.stop_text + "/" +
                     std::to_string(event.tool_calls.size()) + "/" + std::to_string(event.timings.decode_ns);
  for (const api::Objective& objective : d.slo) {
    text += "/" + objective.name + "=" + std::to_string(objective.limit_ns);
  }
  return text;
}

// A caller who sees events as they come, so that model and checks can wait until a stage has been told.
class ProgressCaller {
 public:
  api::EventSink Sink() {
    return [this](api::Event event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
      changed_.notify_all();
    };
  }
  // False: it was not told within a time that is far too long.
  bool Await(Stage stage) {
    return Await([stage](const api::Event& event) { return event.progress && event.decision->stage == stage; });
  }
  std::vector<api::Event> AwaitEnd() {
    EXPECT_TRUE(Await([](const api::Event& event) { return event.finish != FinishReason::kNone; }));
    const std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  bool Await(const std::function<bool(const api::Event&)>& which) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return std::ranges::any_of(events_, which); });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<api::Event> events_;
};

// One request whose model says `answer` once "generating" was told, and whose check waits for "verifying".
std::vector<api::Event> ToldEvents(GovernedWorld& world, const char* question, const std::string& answer) {
  const auto caller = std::make_shared<ProgressCaller>();
  world.script = [caller, answer](const api::GenerationRequest&) {
    EXPECT_TRUE(caller->Await(Stage::kGenerating));
    ScriptedAnswer scripted{.pieces = {answer.substr(0, answer.size() / 2), answer.substr(answer.size() / 2)}};
    scripted.usage.output_tokens = static_cast<int>(answer.size());
    return scripted;
  };
  world.checks["promises"] = [caller](const AnswerText& text) {
    EXPECT_TRUE(caller->Await(Stage::kVerifying));
    return text.text.find("we guarantee") == std::string::npos ? Verdict::Outcome::kPass : Verdict::Outcome::kFail;
  };
  EXPECT_TRUE(world.backend->Submit(ProgressAsk(world, question), caller->Sink()));
  return caller->AwaitEnd();
}

TEST(GovernedProgressTest, AHeldAnswerIsPrecededByItsStagesAndFollowedByNothing) {
  GovernedWorld world(ProgressPolicy(kProgressMs));
  const auto events = ToldEvents(world, "@route=held What is it?", "An answer.");
  std::vector<Stage> stages;
  for (const api::Event& event : events) {
    const bool last = &event == &events.back();
    EXPECT_EQ(event.progress, !last);
    EXPECT_EQ(event.finish == FinishReason::kNone, !last);
    EXPECT_EQ(event.decision->id, events.back().decision->id);
    EXPECT_EQ(event.decision->route, "held");
    if (!last) stages.push_back(event.decision->stage);
  }
  EXPECT_TRUE(std::ranges::is_sorted(stages));
  EXPECT_EQ(stages.back(), Stage::kVerifying);
  EXPECT_EQ(events.back().text, "An answer.");
}

TEST(GovernedProgressTest, ItSaysNothingOfTheAnswer) {
  std::map<std::string, std::set<std::string>> told;  // by answer: the distinct things that were told
  for (const std::string& answer : {std::string("No."), std::string(5000, 'y'), std::string("we guarantee")}) {
    GovernedWorld world(ProgressPolicy(kProgressMs));
    for (const api::Event& event : ToldEvents(world, "@route=held What is it?", answer)) {
      if (event.progress && event.decision->stage != Stage::kGathering) told[answer].insert(ProgressText(event));
    }
  }
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told["No."].size(), 2u);  // generating and verifying: the control
  EXPECT_EQ(told["No."], told[std::string(5000, 'y')]);
  EXPECT_EQ(told["No."], told["we guarantee"]);
  EXPECT_TRUE(told["No."].begin()->ends_with("/ttfu_p95=1500000000"));  // of the objectives, what a caller feels
}

TEST(GovernedProgressTest, NothingIsToldWithinTheQuietPeriodOrToWhoDoesNotAsk) {
  GovernedWorld quiet(ProgressPolicy(60'000 * kProgressMs));
  EXPECT_EQ(quiet.Send(ProgressAsk(quiet, "@route=held What is it?")).events.size(), 1u);
  GovernedWorld world(ProgressPolicy(kProgressMs));
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"x"}, .delay_ms = 30}; };
  EXPECT_EQ(world.Send("@route=held What is it?").events.size(), 1u);
  EXPECT_GT(ToldEvents(world, "@route=held What is it?", "x").size(), 1u);  // the control
}

TEST(GovernedProgressTest, AReviewAndARefusalEndIt) {
  GovernedWorld world(ProgressPolicy(kProgressMs));
  auto events = ToldEvents(world, "@route=reviewed Dispute", "we try");
  EXPECT_TRUE(events.front().progress);
  EXPECT_EQ(events.back().decision->outcome, api::Outcome::kReview);
  EXPECT_EQ(events.back().text, "");
  events = ToldEvents(world, "@route=held What?", "we guarantee");
  EXPECT_TRUE(events.front().progress);
  EXPECT_EQ(events.back().finish, FinishReason::kFiltered);
  EXPECT_EQ(events.back().text, "");
}

TEST(GovernedProgressTest, ADraftThatStreamsIsNotInterruptedByIt) {
  GovernedWorld world(ProgressPolicy(kProgressMs));
  ProgressCaller caller;
  world.script = [&](const api::GenerationRequest&) {
    EXPECT_TRUE(caller.Await(Stage::kGenerating));  // while it waits it is told
    return ScriptedAnswer{.pieces = {"a", "b"}};
  };
  world.checks["promises"] = [](const AnswerText&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // thirty intervals
    return Verdict::Outcome::kPass;
  };
  ASSERT_TRUE(world.backend->Submit(ProgressAsk(world, "@route=stream Tell me"), caller.Sink()));
  std::string text;
  for (const api::Event& event : caller.AwaitEnd()) {
    text += event.text;
    EXPECT_FALSE(!text.empty() && event.progress);
  }
  EXPECT_EQ(text, "ab");
}

TEST(GovernedProgressTest, CancelledItEndsOnceAndNothingComesAfter) {
  GovernedWorld world(ProgressPolicy(kProgressMs));
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"x"}, .delay_ms = 60'000}; };
  constexpr int kRequests = 16;
  struct Seen {
    std::atomic<int> progress = 0, last = 0, after = 0;
  };
  std::array<Seen, kRequests> seen;
  std::vector<api::RequestId> ids;
  for (Seen& one : seen) {
    const auto id = world.backend->Submit(ProgressAsk(world, "@route=held x"), [&one](api::Event event) {
      if (one.last > 0) ++one.after;
      ++(event.finish == FinishReason::kNone ? one.progress : one.last);
    });
    ASSERT_TRUE(id);
    ids.push_back(*id);
  }
  for (Seen& one : seen) {
    while (one.progress < 3) std::this_thread::yield();
  }
  for (const api::RequestId id : ids) world.backend->Cancel(id);
  world.backend->Drain(10'000);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // twenty intervals
  for (Seen& one : seen) {
    EXPECT_EQ(one.last, 1);
    EXPECT_EQ(one.after, 0);
  }
}

}  // namespace
}  // namespace surety::gateway
