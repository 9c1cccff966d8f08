#include "gateway/ledger.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <thread>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/ledger_series.h"
#include "gateway/ledger_sums.h"
#include "gateway/quantile_sketch.h"
#include "gateway/slo_window.h"

namespace surety::gateway {
namespace {

constexpr int64_t kLedgerSecond = 1'000'000'000;

class LedgerClock final : public Clock {
 public:
  int64_t NowNanos() const override { return now_ns; }
  int64_t WallNanos() const override { return now_ns + 1'800'000'000 * kLedgerSecond; }
  void SleepNanos(int64_t nanos) override { now_ns += nanos; }
  int64_t now_ns = 17 * kLedgerSecond;
};

double LedgerExactQuantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::max<size_t>(rank, 1) - 1];
}

TEST(QuantileSketchTest, IsWithinOnePerCentOfTheLedgerExactQuantile) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  const std::vector<std::function<double()>> laws = {
      [&] { return uniform(random); },
      [&] { return -std::log(1 - uniform(random)); },
      [&] { return std::exp(std::normal_distribution<double>(0, 3)(random)); },
      [&] { return uniform(random) < 0.9 ? 0.01 : 30.0; },
      [&] { return std::pow(10, uniform(random) * 11 - 6); },
  };
  for (const auto& draw : laws) {
    for (const int n : {1, 2, 10, 5000}) {
      QuantileSketch sketch, half;
      std::vector<double> values;
      for (int i = 0; i < n; ++i) {
        values.push_back(std::clamp(draw(), QuantileSketch::kLeast, QuantileSketch::kMost));
        (i % 2 == 0 ? sketch : half).Add(values.back());
      }
      sketch.Merge(half);
      ASSERT_EQ(sketch.n(), n);
      for (const double q : {0.001, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0}) {
        const double exact = LedgerExactQuantile(values, q);
        ASSERT_NEAR(sketch.Quantile(q), exact, exact * 0.01) << "q " << q << " of " << n;
      }
    }
  }
}

TEST(QuantileSketchTest, ValuesOutsideItsRangeStayAtItsEnds) {
  QuantileSketch sketch;
  EXPECT_EQ(sketch.Quantile(0.5), 0);
  for (const double value : {0.0, -1.0, 1e-7, std::nan("")}) sketch.Add(value);
  EXPECT_EQ(sketch.Quantile(1), 0);
  sketch.Add(1e9);
  EXPECT_NEAR(sketch.Quantile(1), QuantileSketch::kMost, QuantileSketch::kMost * 0.01);
}

TEST(SloWindowTest, BurnRatesAreThoseOfTheRequestsInTheWindow) {
  std::mt19937_64 random(4);
  SloWindow window(0.05);
  struct Asked {
    int64_t at_ns;
    bool bad;
  };
  std::deque<Asked> all;
  int64_t now_ns = 0;
  for (int i = 0; i < 20'000; ++i) {
    now_ns += static_cast<int64_t>(random() % (4 * kLedgerSecond));
    const bool bad = random() % 100 < (i / 2000 % 2 == 0 ? 2 : 40);
    window.Count(now_ns, bad);
    all.push_back({now_ns, bad});
    if (i % 101 != 0) continue;
    for (const int64_t window_ns : {kFiveMinutesNs, kHourNs, kSixHoursNs}) {
      // The window is of whole slices of 15 s, the present one among them.
      const int64_t slice_ns = 15 * kLedgerSecond;
      const int64_t from_ns = (now_ns / slice_ns - window_ns / slice_ns + 1) * slice_ns;
      double n = 0, n_bad = 0;
      for (const Asked& asked : all) {
        n += asked.at_ns >= from_ns ? 1 : 0;
        n_bad += asked.at_ns >= from_ns && asked.bad ? 1 : 0;
      }
      ASSERT_DOUBLE_EQ(window.BurnRate(now_ns, window_ns), n_bad / n / 0.05);
    }
  }
}

TEST(SloWindowTest, AlertsNeedBothWindowsAndTheBudgetRunsOut) {
  const double allowed = 0.01;
  SloWindow window(allowed);
  int64_t now_ns = 0;
  const auto run = [&](int seconds, int bad_of_100) {
    for (int i = 0; i < seconds; ++i) {
      now_ns += kLedgerSecond;
      window.Count(now_ns, i % 100 < bad_of_100);
    }
  };
  run(6 * 3600, 0);
  EXPECT_EQ(window.Alert(now_ns), "none");
  EXPECT_DOUBLE_EQ(window.BudgetLeft(now_ns), 1);
  run(300, 100);  // five minutes of nothing but faults: over the hour 300 of 3600 are 8 times what is allowed
  EXPECT_GT(window.BurnRate(now_ns, kFiveMinutesNs), 14.4);
  EXPECT_EQ(window.Alert(now_ns), "none");
  run(600, 100);
  EXPECT_EQ(window.Alert(now_ns), "fast");
  run(300, 0);    // over: the short window says so at once
  EXPECT_EQ(window.Alert(now_ns), "none");
  SloWindow slow(allowed);
  now_ns = 0;
  for (int i = 0; i < 6 * 3600; ++i) slow.Count(now_ns += kLedgerSecond, i % 100 < 8);
  EXPECT_EQ(slow.Alert(now_ns), "slow");
  EXPECT_NEAR(slow.BudgetLeft(now_ns), 1 - 8, 1e-9);
  EXPECT_DOUBLE_EQ(slow.BudgetLeft(now_ns + 31 * 24 * kHourNs), 1);
}

Policy LedgerPolicy() {
  Policy policy;
  policy.id = "retail";
  policy.version = "2026.1";
  for (const char* name : {"faq", "answer", "high"}) {
    policy.routes.emplace_back();
    policy.routes.back().name = name;
  }
  policy.slos.push_back({"answer", {{"ttfu", 0.95, 1'500'000'000}, {"total", 0.99, 6'000'000'000}}, 0.005, 0});
  return policy;
}

DecisionRecord DrawLedgerRecord(std::mt19937_64& random) {
  static const std::vector<std::string> kRoutes = {"faq", "answer", "high", "unheard-of"};
  static const std::vector<std::string> kCaches = {"hit", "miss", "bypass:off", "bypass:no_subject"};
  static const std::vector<std::string> kErrors = {"", "", "", "", "DEADLINE_EXCEEDED: late", "CANCELLED: left",
                                                   "UNAVAILABLE: away", "PERMISSION_DENIED: no"};
  DecisionRecord record;
  record.decision.id = "dec";
  record.decision.route = kRoutes[random() % kRoutes.size()];
  record.decision.outcome = static_cast<api::Outcome>(random() % 6);
  record.decision.cache = kCaches[random() % kCaches.size()];
  record.decision.verifier = random() % 5 == 0 ? "promises" : "";
  record.error = kErrors[random() % kErrors.size()];
  const auto money = [&] { return static_cast<double>(random() % 1'000'000) * 1e-7; };
  record.cost = {money(), money(), money(), money(), money(), random() % 3 == 0 ? money() : 0};
  record.avoided_cost = record.decision.cache == "hit" ? money() : 0;
  record.usage.prompt_tokens = static_cast<int>(random() % 1000) + 1;
  record.usage.cached_tokens = static_cast<int>(random() % static_cast<uint64_t>(record.usage.prompt_tokens));
  record.usage.output_tokens = static_cast<int>(random() % 300);
  record.times.total_ns = static_cast<int64_t>(random() % (8 * kLedgerSecond)) + 1;
  record.times.first_useful_ns = random() % 4 == 0 ? 0 : record.times.total_ns / 3;
  record.times.queue_ns = record.times.total_ns / 10;
  record.attempts = {"answer:fast:timeout", "answer:fast:ok"};
  if (random() % 2 == 0) record.attempts = {"answer:org/fast:7b:overload", "high::ok"};
  for (size_t n = random() % 3; n > 0; --n) {
    record.verdicts.push_back({"promises", "1", static_cast<Verdict::Outcome>(random() % 3), "", {}, 1000});
  }
  return record;
}

double LedgerNumber(const boost::json::value& json, std::string_view pointer) {
  return json.at_pointer(pointer).to_number<double>();
}

TEST(LedgerTest, CostPerAcceptedTaskIsAllSpendByAllThatWasAccepted) {
  LedgerClock clock;
  const auto registry = observe::Registry::Make();
  const auto ledger = Ledger::Make(LedgerPolicy(), *registry, clock);
  std::mt19937_64 random(5);
  double spend = 0, accepted = 0, parts = 0;
  for (int i = 0; i < 3000; ++i) {
    const DecisionRecord record = DrawLedgerRecord(random);
    ledger->Record(record);
    spend += record.cost.total();
    const auto outcome = record.decision.outcome;
    const bool left = outcome == api::Outcome::kStreamed || outcome == api::Outcome::kHeld ||
                      outcome == api::Outcome::kTemplate;
    accepted += left && record.error.empty() && record.decision.verifier.empty() ? 1 : 0;
    if (i % 4 != 0) continue;
    const ReviewOutcome review{"high", "supervisor", i % 8 == 0, i % 16 == 0 ? 0.25 : 0.0, kLedgerSecond * 90, 0.75};
    ledger->Record(review);
    spend += review.cost;
    accepted += review.approved ? 1 : 0;
  }
  const boost::json::value report = ledger->Report();
  for (const char* window : {"5m", "1h", "6h", "start"}) {
    const std::string at = fmt::format("/all/windows/{}", window);
    EXPECT_EQ(LedgerNumber(report, at + "/accepted"), accepted);
    EXPECT_NEAR(LedgerNumber(report, at + "/cost/total"), spend, spend * 1e-12);
    EXPECT_NEAR(LedgerNumber(report, at + "/cost/per_accepted_task"), spend / accepted, spend / accepted * 1e-12);
    parts = 0;
    for (const auto& part : report.at_pointer(at + "/cost/parts").as_object()) parts += part.value().as_double();
    EXPECT_NEAR(parts, spend, spend * 1e-12);
  }
  EXPECT_NEAR(LedgerNumber(report, "/cost_identity/sum_of_parts"), spend, spend * 1e-12);
  EXPECT_NEAR(LedgerNumber(report, "/cost_identity/total"), spend, spend * 1e-12);
  double routes = 0;
  for (const auto& route : report.at("routes").as_array()) routes += LedgerNumber(route, "/windows/start/cost/total");
  EXPECT_NEAR(routes, spend, spend * 1e-12);
}

TEST(LedgerTest, CountsAreThoseOfTheRecords) {
  LedgerClock clock;
  const auto registry = observe::Registry::Make();
  const auto ledger = Ledger::Make(LedgerPolicy(), *registry, clock);
  std::mt19937_64 random(6);
  std::vector<DecisionRecord> records;
  for (int i = 0; i < 2000; ++i) {
    records.push_back(DrawLedgerRecord(random));
    ledger->Record(records.back());
  }
  ledger->Record(ReviewOutcome{"high", "q", true, 0, 60 * kLedgerSecond, 1});
  ledger->Record(ReviewOutcome{"high", "q", true, 0.5, 60 * kLedgerSecond, 1});
  ledger->Record(ReviewOutcome{"high", "q", false, 0.9, 120 * kLedgerSecond, 1});
  const auto count = [&](auto holds) { return static_cast<double>(std::ranges::count_if(records, holds)); };
  const boost::json::value report = ledger->Report();
  const auto all = [&](std::string_view what) { return LedgerNumber(report, fmt::format("/all/windows/1h/{}", what)); };
  const double hits = count([](const auto& r) { return r.decision.cache == "hit"; });
  const double misses = count([](const auto& r) { return r.decision.cache == "miss"; });
  EXPECT_EQ(all("decisions"), 2000);
  EXPECT_DOUBLE_EQ(all("response_cache/hit_rate"), hits / (hits + misses));
  const auto error_is = [&](std::string_view code) {
    return count([&](const auto& r) { return r.error.starts_with(code); });
  };
  EXPECT_EQ(all("failed"), error_is("DEADLINE_EXCEEDED") + error_is("UNAVAILABLE"));
  EXPECT_EQ(all("timeouts/request"), error_is("DEADLINE_EXCEEDED"));
  EXPECT_EQ(all("timeouts/generate"), count([](const auto& r) { return r.attempts[0].ends_with("timeout"); }));
  EXPECT_EQ(all("retries"), count([](const auto& r) { return r.attempts[0].ends_with("timeout"); }));
  EXPECT_EQ(all("fallbacks"), count([](const auto& r) { return r.attempts[0].ends_with("overload"); }));
  EXPECT_EQ(report.at_pointer("/fallbacks/0/from").as_string(), "answer");
  EXPECT_EQ(report.at_pointer("/fallbacks/0/to").as_string(), "high");
  EXPECT_EQ(report.at_pointer("/fallbacks/0/cause").as_string(), "overload");
  EXPECT_EQ(LedgerNumber(report, "/fallbacks/0/count"), all("fallbacks"));
  EXPECT_EQ(LedgerNumber(report, "/cache_bypasses/no_subject"),
            count([](const auto& r) { return r.decision.cache == "bypass:no_subject"; }));
  EXPECT_EQ(all("people/escalations"),
            count([](const auto& r) { return r.decision.outcome == api::Outcome::kReview; }));
  EXPECT_EQ(all("people/approved"), 2);
  EXPECT_EQ(all("people/overrides"), 2);
  EXPECT_DOUBLE_EQ(all("people/override_rate"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(all("people/edit_distance"), 0.25);
  EXPECT_DOUBLE_EQ(all("people/review_seconds"), 80);
  double share = 0;
  for (const auto& route : report.at("routes").as_array()) {
    const std::string name(route.at("route").as_string());
    const std::string route_name = name == "other" ? "unheard-of" : name;
    const double n = count([&](const auto& r) { return r.decision.route == route_name; });
    EXPECT_DOUBLE_EQ(LedgerNumber(route, "/windows/1h/share"), n / 2000) << name;
    share += LedgerNumber(route, "/windows/1h/share");
  }
  EXPECT_DOUBLE_EQ(share, 1);
  // Quantiles of all totals, against the records.
  std::vector<double> totals;
  for (const auto& record : records) totals.push_back(NanosToSeconds(record.times.total_ns));
  const double p95 = LedgerExactQuantile(totals, 0.95);
  EXPECT_NEAR(LedgerNumber(report, "/all/latency/total/p95_seconds"), p95, p95 * 0.01);
}

TEST(LedgerTest, ObjectivesCountWhatTheServiceMissed) {
  LedgerClock clock;
  const auto registry = observe::Registry::Make();
  const auto ledger = Ledger::Make(LedgerPolicy(), *registry, clock);
  const auto record = [&](double ttfu_s, double total_s, std::string error) {
    DecisionRecord decision;
    decision.decision.id = "dec";
    decision.decision.route = "answer";
    decision.decision.outcome = api::Outcome::kHeld;
    decision.times.first_useful_ns = SecondsToNanos(ttfu_s);
    decision.times.total_ns = SecondsToNanos(total_s);
    decision.error = std::move(error);
    ledger->Record(decision);
  };
  for (int i = 0; i < 90; ++i) record(1, 2, "");
  for (int i = 0; i < 4; ++i) record(1.6, 2, "");                         // too late for ttfu
  for (int i = 0; i < 2; ++i) record(1, 7, "");                           // for total
  for (int i = 0; i < 3; ++i) record(0, 3, "");                           // refused: nothing to be first
  for (int i = 0; i < 50; ++i) record(0, 60, "CANCELLED: the caller left");  // counts for nothing
  record(0, 1, "UNAVAILABLE: gone");                                      // misses all
  const boost::json::value report = ledger->Report();
  struct Expected {
    double n, bad, allowed;
  };
  const std::map<std::string, Expected> expected = {
      {"ttfu_p95", {97, 5, 0.05}}, {"total_p99", {100, 3, 0.01}}, {"errors", {100, 1, 0.005}}};
  ASSERT_EQ(report.at("objectives").as_array().size(), 3u);
  for (const auto& objective : report.at("objectives").as_array()) {
    const auto& [n, bad, allowed] = expected.at(std::string(objective.at("objective").as_string()));
    EXPECT_EQ(LedgerNumber(objective, "/burn/5m/requests"), n);
    EXPECT_EQ(LedgerNumber(objective, "/burn/5m/bad"), bad);
    EXPECT_NEAR(LedgerNumber(objective, "/burn/1h/rate"), bad / n / allowed, 1e-9);
    EXPECT_NEAR(LedgerNumber(objective, "/budget_left"), 1 - bad / n / allowed, 1e-9);
  }
  // The same objective goes on counting after a reload; one that was changed begins anew.
  Policy changed = LedgerPolicy();
  changed.slos[0].objectives[1].limit_ns *= 2;
  ledger->UsePolicy(changed);
  const boost::json::value after = ledger->Report();
  for (const auto& objective : after.at("objectives").as_array()) {
    const std::string name(objective.at("objective").as_string());
    EXPECT_EQ(LedgerNumber(objective, "/burn/1h/requests"), name == "total_p99" ? 0 : expected.at(name).n) << name;
  }
}

TEST(LedgerTest, WindowsForgetAndTheStartDoesNot) {
  LedgerClock clock;
  const auto registry = observe::Registry::Make();
  const auto ledger = Ledger::Make(LedgerPolicy(), *registry, clock);
  std::mt19937_64 random(7);
  for (int i = 0; i < 100; ++i) ledger->Record(DrawLedgerRecord(random));
  const auto decisions = [&](std::string_view window) {
    return LedgerNumber(ledger->Report(), fmt::format("/all/windows/{}/decisions", window));
  };
  EXPECT_EQ(decisions("5m"), 100);
  clock.now_ns += 301 * kLedgerSecond;
  EXPECT_EQ(decisions("5m"), 0);
  EXPECT_EQ(decisions("1h"), 100);
  EXPECT_EQ(LedgerNumber(ledger->Report(), "/all/latency/total/n"), 100);
  clock.now_ns += 3600 * kLedgerSecond;
  EXPECT_EQ(decisions("1h"), 0);
  EXPECT_EQ(LedgerNumber(ledger->Report(), "/all/latency/total/n"), 0);
  EXPECT_TRUE(ledger->Report().at("all").at_pointer("/latency/total/p95_seconds").is_null());
  clock.now_ns += 6 * 3600 * kLedgerSecond;
  EXPECT_EQ(decisions("6h"), 0);
  EXPECT_EQ(decisions("start"), 100);
}

TEST(LedgerTest, SeriesAddUpToTheReportAndLabelsAreBounded) {
  LedgerClock clock;
  const auto registry = observe::Registry::Make();
  {
    const auto ledger = Ledger::Make(LedgerPolicy(), *registry, clock);
    DecisionRecord record;
    record.decision.id = "dec";
    record.decision.outcome = api::Outcome::kHeld;
    record.decision.cache = "miss";
    record.cost.decode = 0.25;
    record.cost.prefill = std::nan("");
    record.usage.prompt_tokens = 100;
    for (int i = 0; i < 300; ++i) {
      record.decision.route = i % 2 == 0 ? "faq" : fmt::format("route-{}", i);
      record.model = fmt::format("model-{}", i);
      record.verdicts = {{fmt::format("verifier-{}", i), "1", Verdict::Outcome::kPass, "", {}, 5}};
      record.attempts = {fmt::format("a{}:m:cause{}", i, i), fmt::format("b{}:m:ok", i)};
      ledger->Record(record);
    }
    ledger->Record(ReviewOutcome{"faq", "q", true, 0.5, kLedgerSecond, 0.5});
    using Shadow = ShadowOutcome::Result;
    for (const Shadow result : {Shadow::kSame, Shadow::kDifferent, Shadow::kDropped}) {
      ledger->Record(ShadowOutcome{"faq", result, 0.125});
    }
    const auto report = ledger->Report();
    EXPECT_EQ(LedgerNumber(report, "/all/windows/start/cost/parts/shadow"), 0.375);
    EXPECT_EQ(LedgerNumber(report, "/all/windows/start/cost/total"), 300 * 0.25 + 0.5 + 0.375);
    EXPECT_EQ(LedgerNumber(report, "/all/windows/start/decisions"), 300);
    EXPECT_EQ(LedgerNumber(report, "/all/windows/start/response_cache/shadow_different"), 1);
    const std::string text = registry->Expose();
    EXPECT_NE(text.find("surety_route_total{outcome=\"held\",route=\"faq\"} 150"), std::string::npos) << text;
    EXPECT_NE(text.find("surety_route_total{outcome=\"held\",route=\"other\"} 150"), std::string::npos);
    EXPECT_NE(text.find("surety_task_cost_total{component=\"decode\",route=\"faq\"} 37.5"), std::string::npos);
    EXPECT_NE(text.find("surety_task_cost_total{component=\"review\",route=\"faq\"} 0.5"), std::string::npos);
    EXPECT_NE(text.find("surety_task_cost_total{component=\"shadow\",route=\"faq\"} 0.375"), std::string::npos);
    EXPECT_NE(text.find("surety_cache_shadow_total{outcome=\"dropped\",route=\"faq\"} 1"), std::string::npos);
    EXPECT_NE(text.find("surety_verifier_seconds_count{route=\"faq\",verdict=\"pass\",verifier=\"verifier-0\"} 1"),
              std::string::npos);
    EXPECT_NE(text.find("surety_tasks_accepted_total{route=\"faq\"} 151"), std::string::npos);
    EXPECT_NE(text.find("surety_review_total{outcome=\"edited\",route=\"faq\"} 1"), std::string::npos);
    EXPECT_NE(text.find("surety_quality_score{route=\"faq\",set=\"verifier_pass_rate\"} 1"), std::string::npos);
    EXPECT_NE(text.find("surety_slo_burn_rate{objective=\"ttfu_p95\",route=\"answer\",window=\"1h\"} 0"),
              std::string::npos);
    EXPECT_NE(text.find("gen_ai_workflow_duration_seconds_count{error_type=\"\",gen_ai_workflow_name=\"faq\"} 150"),
              std::string::npos);
    EXPECT_EQ(text.find("route-"), std::string::npos);
    EXPECT_EQ(text.find("verifier-100"), std::string::npos);
    EXPECT_EQ(text.find("cause100"), std::string::npos);
    EXPECT_NE(text.find("verifier=\"other\""), std::string::npos);
    EXPECT_LT(std::ranges::count(text, '\n'), 8000);
  }
  EXPECT_FALSE(registry->Expose().empty());  // the collector outlives the ledger
}

TEST(LedgerTest, ThreadsRecordReportAndReloadTogether) {
  const auto registry = observe::Registry::Make();
  const auto ledger = Ledger::Make(LedgerPolicy(), *registry, Clock::Real());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      for (int i = 0; i < 200; ++i) {
        ledger->Record(DrawLedgerRecord(random));
        if (i % 50 == 0) (void)ledger->Report();
        if (i % 50 == 10) (void)registry->Expose();
        if (i % 50 == 20) ledger->UsePolicy(LedgerPolicy());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(LedgerNumber(ledger->Report(), "/all/windows/start/decisions"), 800);
}

// A fresh LedgerSeries finds every series by its labels.
TEST(LedgerSeriesTest, SeriesThatAreHeldAreThoseThatAreFound) {
  const auto held = observe::Registry::Make(), found = observe::Registry::Make();
  LedgerSeries kept(*held);
  std::mt19937_64 random(5);
  const auto below = [&](size_t n) { return random() % n; };
  const std::vector<std::string> caches = {"hit", "miss", "bypass:off", "bypass:tools", ""};
  const std::vector<std::string> errors = {"", "", "DEADLINE_EXCEEDED: late", "UNAVAILABLE", "what the customer said"};
  for (int i = 0; i < 400; ++i) {
    DecisionRecord record;
    record.decision.outcome = static_cast<api::Outcome>(below(6));
    record.decision.cache = caches[below(caches.size())];
    record.error = errors[below(errors.size())];
    record.cost = {0.25 * static_cast<double>(below(3)), 0, 1, 0, 0, 2};
    record.times.queue_ns = static_cast<int64_t>(below(1'000'000'000)) - 1000;
    record.times.first_useful_ns = static_cast<int64_t>(below(2)) * 5'000'000;
    record.times.total_ns = static_cast<int64_t>(below(3'000'000'000));
    record.usage.output_tokens = static_cast<int>(below(2)) * 7;
    const std::string route = "route_" + std::to_string(below(3));
    kept.Record(record, route);
    LedgerSeries(*found).Record(record, route);
    if (i % 100 == 0) {
      ASSERT_EQ(held->Expose(), found->Expose()) << i;
    }
  }
  EXPECT_EQ(held->Expose(), found->Expose());
  EXPECT_NE(held->Expose().find("route=\"route_2\""), std::string::npos);
}

}  // namespace
}  // namespace surety::gateway
