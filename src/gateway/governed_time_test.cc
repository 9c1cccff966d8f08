// Time and threads: one limit for the whole of a request, and no step that runs on a backend's thread.
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "base/worker_pool.h"
#include "gateway/governed_backend.h"
#include "gateway/testing/fake_store.h"
#include "gateway/testing/governed_world.h"

namespace surety::gateway {
namespace {

using api::FinishReason;

RouteSpec& TimedRoute(Policy& policy, std::string_view name) {
  for (RouteSpec& route : policy.routes) {
    if (route.name == name) return route;
  }
  ADD_FAILURE() << "no route " << name;
  return policy.routes.front();
}

TEST(GovernedTimeTest, ARepairHasWhatTheFirstAttemptLeftOfTheCallersTime) {
  Policy policy = WorldPolicy();
  policy.verifiers["promises"].fail = VerifierSpec::Action::kRepair;
  GovernedWorld world(policy);
  int n = 0;
  world.script = [&](const api::GenerationRequest&) {
    return ScriptedAnswer{.pieces = {n++ == 0 ? "we guarantee" : "we try"}, .delay_ms = 300};
  };
  api::GenerationRequest request = world.Ask("@route=held Tell me");
  request.timeout_ms = 30'000;
  EXPECT_EQ(world.Send(request).text, "we try");
  const auto requests = world.model->requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_LE(requests[0].timeout_ms, 30'000);
  EXPECT_LE(requests[1].timeout_ms, 30'000 - 300);
  EXPECT_GT(requests[1].timeout_ms, 10'000);   // the control: what is left is not nothing
}

TEST(GovernedTimeTest, AFallbackHasWhatIsLeftOfTheCallersTime) {
  Policy policy = WorldPolicy();
  TimedRoute(policy, "limited").deadline_ns = 60'000'000'000;
  TimedRoute(policy, "limited").fallback = {{"held", {}}};
  GovernedWorld world(policy);
  int n = 0;
  world.script = [&](const api::GenerationRequest&) {
    ScriptedAnswer answer{.pieces = {"An answer."}, .delay_ms = 300};
    if (n++ == 0) answer.finish = FinishReason::kTimeout;
    return answer;
  };
  api::GenerationRequest request = world.Ask("@route=limited Tell me");
  request.timeout_ms = 30'000;
  EXPECT_EQ(world.Send(request).text, "An answer.");
  EXPECT_LE(world.model->requests().at(1).timeout_ms, 30'000 - 300);
}

TEST(GovernedTimeTest, WaitingForAWorkerIsPartOfTheTime) {
  GovernedWorld world;
  std::atomic<bool> open = false;
  world.checks["promises"] = [&](const AnswerText&) {
    while (!open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Verdict::Outcome::kPass;
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {   // all workers
    callers.emplace_back([&] { EXPECT_EQ(world.Send("@route=held Tell me").text, "An answer."); });
  }
  while (world.model->n_requests() < 4) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  api::GenerationRequest request = world.Ask("@route=limited Tell me");
  request.timeout_ms = 50;
  Reply reply;
  std::thread late([&] { reply = world.Send(request); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  open = true;
  late.join();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(reply.text, "Please call us.");
  EXPECT_EQ(world.model->n_requests(), 4);   // the late one asked no model
}

TEST(GovernedTimeTest, ASearchIsCutOffByTheCallersTimeAndOneThatWaitedIsNotBegun) {
  Policy policy = WorldPolicy();
  RetrieverSpec handbook;
  handbook.name = "handbook";
  handbook.deadline_ns = 20'000'000'000;
  policy.retrievers["handbook"] = handbook;
  TimedRoute(policy, "limited").retrieve = "handbook";
  TimedRoute(policy, "limited").deadline_ns = 60'000'000'000;
  std::atomic<int> n_searches = 0;
  std::atomic<bool> open = false;
  GovernedWorld world(policy);
  auto parts = world.MakeParts(policy);
  parts->stores["handbook"] = std::make_unique<FakeStore>(std::vector{FakePassage("text")}, [&] {
    ++n_searches;
    while (!open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  world.backend->Use(parts);
  api::GenerationRequest request = world.Ask("@route=limited Tell me");
  for (int wave = 0; wave < 2; ++wave) {   // four workers, four search threads: those of the second wave only wait
    request.timeout_ms = 300;
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; ++i) {
      callers.emplace_back([&] { EXPECT_EQ(world.Send(request).text, "Please call us."); });
    }
    for (std::thread& caller : callers) caller.join();
  }
  open = true;
  request.timeout_ms = 0;
  EXPECT_EQ(world.Send(request).text, "An answer.");   // the control: with time the search is waited for
  EXPECT_LE(n_searches, 4 + 1);
}

// The search runs while the tools are asked, so what they take does not count against its deadline; its own time does.
TEST(GovernedTimeTest, ToolsThatTakeLongDoNotMakeASearchLate) {
  Policy policy = WorldPolicy();
  RetrieverSpec handbook;
  handbook.name = "handbook";
  handbook.deadline_ns = 150'000'000;
  policy.retrievers["handbook"] = handbook;
  TimedRoute(policy, "tools").retrieve = "handbook";
  TimedRoute(policy, "tools").invariants.clear();
  GovernedWorld world(policy);
  std::atomic<int> search_ms = 0;
  auto parts = world.MakeParts(policy);
  parts->stores["handbook"] = std::make_unique<FakeStore>(std::vector{FakePassage("text")}, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(search_ms));
  });
  for (const char* name : {"rail", "core"}) {
    world.tools[name] = [name](const ToolArguments&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      ToolResult result;
      result.tool = name;
      result.value = boost::json::object{};
      result.observed_at_ns = Clock::Real().WallNanos();
      return result;
    };
  }
  world.backend->Use(parts);
  const Reply in_time = world.Send(world.Ask("@route=tools Tell me"));
  EXPECT_EQ(in_time.decision().route, "tools");
  EXPECT_EQ(in_time.text, "An answer.") << in_time.last.error.ToString();
  search_ms = 1000;   // the control
  EXPECT_NE(world.Send(world.Ask("@route=tools Tell me")).text, "An answer.");
}

// The model's thread hands over and goes on, however many wait to begin.
TEST(GovernedTimeTest, WithAFullQueueNoStepRunsOnTheModelsThread) {
  GovernedWorld world(WorldPolicy());
  std::atomic<bool> open = false;
  std::mutex mutex;
  std::set<std::thread::id> judges, models;
  world.script = [&](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"x"}, .delay_ms = 100}; };
  world.checks["promises"] = [&](const AnswerText&) {
    {
      const std::lock_guard lock(mutex);
      judges.insert(std::this_thread::get_id());
    }
    while (!open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Verdict::Outcome::kPass;
  };
  constexpr int kAsked = 40;
  std::atomic<int> n_ended = 0;
  GovernedBackend::Options options;
  options.name = "narrow";
  options.n_workers = 2;
  options.max_waiting = 1;
  options.max_open = 30;
  options.clock = &world.clock;
  options.cache = world.cache;
  options.audit = world.audit;
  options.review = world.review;
  options.ledger = world.ledger;
  options.personal = [](std::string_view) { return std::vector<std::string>(); };
  auto made = GovernedBackend::Make(std::move(options), world.MakeParts(WorldPolicy()));
  ASSERT_TRUE(made.has_value());
  int n_taken = 0, n_refused = 0;
  for (int i = 0; i < kAsked; ++i) {
    const auto id = (*made)->Submit(world.Ask("@route=held Tell me"), [&](api::Event event) {
      if (event.finish != FinishReason::kNone) ++n_ended;
    });
    ++(id ? n_taken : n_refused);
    EXPECT_TRUE(id || id.error().status.code() == StatusCode::kResourceExhausted);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GT(n_refused, 0);
  EXPECT_LE(n_taken, 30);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  {
    const std::lock_guard lock(mutex);
    EXPECT_LE(judges.size(), 2u);   // workers alone, never a model's thread
    EXPECT_GE(judges.size(), 1u);
  }
  open = true;
  (*made)->Drain(20'000);
  EXPECT_EQ(n_ended, n_taken);
}

// Without it the model's thread is the last owner of the model, and the model would wait for itself.
TEST(GovernedTimeTest, AModelThatKeepsItsSinkDoesNotEndOnItsOwnThread) {
  for (int i = 0; i < 3; ++i) {
    auto world = std::make_unique<GovernedWorld>();
    world->script = [](const api::GenerationRequest&) {
      return ScriptedAnswer{.pieces = {"x"}, .linger_ms = 150};
    };
    EXPECT_EQ(world->Send("@route=held Tell me").text, "x");
    world.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
  }
}

TEST(WorkerPoolTest, TheNextStepGoesBeforeWhatWaitsAndIsNotRefused) {
  WorkerPool pool(1, 1);
  std::promise<void> held, begun;
  ASSERT_TRUE(pool.Post([&] {
    begun.set_value();
    held.get_future().wait();
  }));
  begun.get_future().wait();
  std::vector<int> order;
  std::promise<void> done;
  EXPECT_TRUE(pool.Post([&] {
    order.push_back(3);
    done.set_value();
  }));
  EXPECT_FALSE(pool.Post([&] { order.push_back(4); }));   // full
  EXPECT_TRUE(pool.PostNext([&] { order.push_back(1); }));
  EXPECT_TRUE(pool.PostNext([&] { order.push_back(2); }));
  held.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST(WorkerPoolTest, ATaskGoesOnOnItsThreadAndBeforeWhatWaits) {
  std::vector<int> order;
  std::set<std::thread::id> threads;
  const auto here = [&](int n) {
    order.push_back(n);
    threads.insert(std::this_thread::get_id());
  };
  {
    WorkerPool pool(1, 10), other(1, 10);
    std::promise<void> elsewhere, ended;
    ASSERT_TRUE(pool.Post([&] {
      EXPECT_TRUE(pool.Post([&] {
        here(5);
        ended.set_value();
      }));
      EXPECT_TRUE(pool.Continue([&] {
        here(2);
        EXPECT_TRUE(pool.Continue([&] { here(3); }));
      }));
      EXPECT_TRUE(pool.Continue([&] { here(4); }));   // a second one: as PostNext
      EXPECT_TRUE(other.Continue([&] { elsewhere.set_value(); }));   // another pool's: handed over
      elsewhere.get_future().wait();
      here(1);
    }));
    ended.get_future().wait();
  }
  EXPECT_EQ(order, (std::vector{1, 2, 3, 4, 5}));
  EXPECT_EQ(threads.size(), 1u);
}

}  // namespace
}  // namespace surety::gateway
