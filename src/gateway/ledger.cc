#include "gateway/ledger.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "gateway/ledger_series.h"
#include "gateway/ledger_sums.h"
#include "gateway/quantile_sketch.h"
#include "gateway/slo_window.h"
#include "gateway/time_slices.h"

namespace surety::gateway {
namespace {

using boost::json::array;
using boost::json::object;

constexpr size_t kMaxLedgerRoutes = 128;       // further ones are "other"
constexpr size_t kMaxCauses = 256;             // of fallbacks, and reasons of bypasses
constexpr int64_t kLedgerSliceNs = 300'000'000'000;
constexpr std::array<std::string_view, 4> kTimeNames = {"total", "ttft", "ttfu", "queue"};
constexpr std::array<std::pair<std::string_view, int64_t>, 3> kLedgerWindows = {
    {{"5m", kFiveMinutesNs}, {"1h", kHourNs}, {"6h", kSixHoursNs}}};

using Sketches = std::array<QuantileSketch, kTimeNames.size()>;

// In the order of kTimeNames; negative: the decision has none, as nothing left.
std::array<int64_t, kTimeNames.size()> TimesOf(const DecisionRecord& record) {
  const StageTimes& times = record.times;
  return {times.total_ns, times.first_token_ns > 0 ? times.first_token_ns : -1,
          times.first_useful_ns > 0 ? times.first_useful_ns : -1, times.queue_ns};
}

struct RouteBook {
  LedgerSums since_start;
  TimeSlices<LedgerSums> recent{kSixHoursNs / kLedgerSliceNs, kLedgerSliceNs};
  TimeSlices<Sketches> sketches{kHourNs / kLedgerSliceNs, kLedgerSliceNs};

  void Add(const LedgerSums& sums, int64_t now_ns) {
    since_start.Add(sums);
    recent.Now(now_ns).Add(sums);
  }
  LedgerSums Over(int64_t now_ns, int64_t window_ns) const {
    LedgerSums sums;
    recent.Visit(now_ns, window_ns, [&](const LedgerSums& slice) { sums.Add(slice); });
    return sums;
  }
  QuantileSketch SketchOf(size_t time, int64_t now_ns) const {
    QuantileSketch sketch;
    sketches.Visit(now_ns, kHourNs, [&](const Sketches& slice) { sketch.Merge(slice[time]); });
    return sketch;
  }
};

// An objective of the policy, or "errors" of a route that has any.
struct SloKey {
  std::string route, name;
  double quantile = 0;
  int64_t limit_ns = 0;
  double allowed = 0;
  auto operator<=>(const SloKey&) const = default;
  std::string label() const {
    return name == "errors" ? name : fmt::format("{}_p{:g}", name, std::round(quantile * 1e6) / 1e4);
  }
};

struct SloBook {
  SloWindow window;
  std::array<observe::Gauge*, kLedgerWindows.size()> burn{};
  observe::Gauge* left = nullptr;
};

struct RouteGauges {
  observe::Gauge *acceptance, *verifier_pass, *edit_distance, *cost_per_accepted;
};

// All that the collector needs; it may outlive the ledger.
class LedgerBooks {
 public:
  LedgerBooks(observe::Registry& registry, const Clock& clock) : registry_(registry), clock_(clock) {}

  void UsePolicy(const Policy& policy);
  std::string Add(const DecisionRecord& record);
  template <typename Outcome>
  std::string Add(const Outcome& outcome);   // of a review, of a shadow
  object Report() const;
  void SetGauges();

 private:
  std::string KnownRoute(const std::string& route) const { return books_.contains(route) ? route : "other"; }
  void AddRoute(const std::string& route);
  void AddObjective(const SloKey& key, std::map<SloKey, SloBook>& kept);
  void CountCauses(const DecisionRecord& record);
  void CountObjectives(const DecisionRecord& record, const std::string& route, int64_t now_ns);
  object WindowsOf(const RouteBook& book, int64_t now_ns) const;
  array Routes(int64_t now_ns) const;
  array Objectives(int64_t now_ns) const;
  object Identity() const;

  observe::Registry& registry_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::string policy_id_, policy_version_, policy_digest_, currency_;
  int64_t started_ns_ = clock_.NowNanos();
  RouteBook all_;
  std::map<std::string, RouteBook> books_;
  std::map<std::string, RouteGauges> gauges_;
  std::map<SloKey, SloBook> objectives_;
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> fallbacks_;
  std::map<std::string, int64_t> bypasses_;
};

void LedgerBooks::AddRoute(const std::string& route) {
  if (books_.contains(route) || (books_.size() >= kMaxLedgerRoutes && route != "other")) return;
  books_.try_emplace(route);
  const std::string quality = "surety_quality_score", help = "Quality of a route's answers over the last hour, by set.";
  gauges_[route] = {&registry_.AddGauge(quality, help, {{"route", route}, {"set", "acceptance"}}),
                    &registry_.AddGauge(quality, help, {{"route", route}, {"set", "verifier_pass_rate"}}),
                    &registry_.AddGauge(quality, help, {{"route", route}, {"set", "edit_distance"}}),
                    &registry_.AddGauge("surety_cost_per_accepted_task",
                                        "All spend of the last hour, by accepted tasks.", {{"route", route}})};
}

// What an objective has seen so far counts on, as long as it asks for the same.
void LedgerBooks::AddObjective(const SloKey& key, std::map<SloKey, SloBook>& kept) {
  if (const auto found = objectives_.find(key); found != objectives_.end()) {
    kept.insert(objectives_.extract(found));
    return;
  }
  SloBook book{SloWindow(key.allowed)};
  observe::Labels labels = {{"route", key.route}, {"objective", key.label()}};
  book.left = &registry_.AddGauge("surety_slo_budget_left", "Share of 30 days' error budget that is left.", labels);
  for (size_t i = 0; i < kLedgerWindows.size(); ++i) {
    labels["window"] = kLedgerWindows[i].first;
    book.burn[i] = &registry_.AddGauge("surety_slo_burn_rate", "How many times faster than allowed.", labels);
  }
  kept.emplace(key, std::move(book));
}

void LedgerBooks::UsePolicy(const Policy& policy) {
  std::lock_guard lock(mutex_);
  policy_id_ = policy.id;
  policy_version_ = policy.version;
  policy_digest_ = policy.digest;
  currency_ = policy.currency;
  AddRoute("other");
  for (const RouteSpec& route : policy.routes) AddRoute(route.name);
  std::map<SloKey, SloBook> kept;
  for (const SloSpec& slo : policy.slos) {
    for (const SloSpec::Objective& objective : slo.objectives) {
      AddObjective({slo.route, objective.name, objective.quantile, objective.limit_ns, 1 - objective.quantile}, kept);
    }
    AddObjective({slo.route, "errors", 0, 0, slo.error_budget}, kept);
  }
  for (const auto& [key, book] : objectives_) {  // those that the policy has no longer
    book.left->Set(std::nan(""));
    for (observe::Gauge* burn : book.burn) burn->Set(std::nan(""));
  }
  objectives_ = std::move(kept);
}

void LedgerBooks::CountCauses(const DecisionRecord& record) {
  const std::vector<Attempt> attempts = AttemptsOf(record);
  for (size_t i = 1; i < attempts.size(); ++i) {
    if (attempts[i].route == attempts[i - 1].route) continue;
    auto key = std::make_tuple(attempts[i - 1].route, attempts[i].route, attempts[i - 1].outcome);
    if (fallbacks_.size() >= kMaxCauses && !fallbacks_.contains(key)) key = {"other", "other", "other"};
    ++fallbacks_[key];
  }
  if (!record.decision.cache.starts_with("bypass")) return;
  std::string reason = record.decision.cache.substr(std::min<size_t>(7, record.decision.cache.size()));
  if (bypasses_.size() >= kMaxCauses && !bypasses_.contains(reason)) reason = "other";
  ++bypasses_[reason];
}

void LedgerBooks::CountObjectives(const DecisionRecord& record, const std::string& route, int64_t now_ns) {
  const bool failed = ServiceFailed(record);
  if (!failed && !record.error.empty()) return;  // the caller's doing; it says nothing of the service
  const auto times = TimesOf(record);
  for (auto& [key, book] : objectives_) {
    if (key.route != route) continue;
    const auto time = std::ranges::find(kTimeNames, key.name);
    if (time == kTimeNames.end()) {
      book.window.Count(now_ns, failed);
      continue;
    }
    const int64_t took_ns = times[static_cast<size_t>(time - kTimeNames.begin())];
    if (took_ns >= 0 || failed) book.window.Count(now_ns, failed || took_ns > key.limit_ns);
  }
}

std::string LedgerBooks::Add(const DecisionRecord& record) {
  const LedgerSums sums = SumsOf(record);
  const int64_t now_ns = clock_.NowNanos();
  std::lock_guard lock(mutex_);
  const std::string route = KnownRoute(record.decision.route);
  const auto times = TimesOf(record);
  for (RouteBook* book : {&all_, &books_.at(route)}) {
    book->Add(sums, now_ns);
    Sketches& sketches = book->sketches.Now(now_ns);
    for (size_t i = 0; i < times.size(); ++i) {
      if (times[i] >= 0) sketches[i].Add(NanosToSeconds(times[i]));
    }
  }
  CountCauses(record);
  CountObjectives(record, route, now_ns);
  return route;
}

template <typename Outcome>
std::string LedgerBooks::Add(const Outcome& outcome) {
  const LedgerSums sums = SumsOf(outcome);
  const int64_t now_ns = clock_.NowNanos();
  std::lock_guard lock(mutex_);
  const std::string route = KnownRoute(outcome.route);
  all_.Add(sums, now_ns);
  books_.at(route).Add(sums, now_ns);
  return route;
}

object LedgerBooks::WindowsOf(const RouteBook& book, int64_t now_ns) const {
  object out;
  for (const auto& [name, window_ns] : kLedgerWindows) {
    out[name] = ReportOf(book.Over(now_ns, window_ns), all_.Over(now_ns, window_ns)[Sum::kDecisions]);
  }
  out["start"] = ReportOf(book.since_start, all_.since_start[Sum::kDecisions]);
  object latency;
  for (size_t i = 0; i < kTimeNames.size(); ++i) {
    const QuantileSketch sketch = book.SketchOf(i, now_ns);
    object quantiles{{"n", sketch.n()}};
    for (const auto& [name, q] : {std::pair("p50_seconds", 0.5), {"p95_seconds", 0.95}, {"p99_seconds", 0.99}}) {
      quantiles[name] = sketch.n() == 0 ? boost::json::value(nullptr) : sketch.Quantile(q);
    }
    latency[kTimeNames[i]] = std::move(quantiles);
  }
  return {{"windows", std::move(out)}, {"latency", std::move(latency)}};
}

array LedgerBooks::Routes(int64_t now_ns) const {
  array out;
  for (const auto& [route, book] : books_) {
    if (route == "other" && book.since_start[Sum::kDecisions] == 0) continue;
    object entry{{"route", route}};
    for (auto& member : WindowsOf(book, now_ns)) entry[member.key()] = std::move(member.value());
    out.push_back(std::move(entry));
  }
  return out;
}

array LedgerBooks::Objectives(int64_t now_ns) const {
  array out;
  for (const auto& [key, book] : objectives_) {
    object entry{{"route", key.route}, {"objective", key.label()}, {"allowed_bad_share", book.window.allowed()}};
    const auto time = std::ranges::find(kTimeNames, key.name);
    const auto route = books_.find(key.route);
    if (time != kTimeNames.end()) {
      entry["limit_seconds"] = NanosToSeconds(key.limit_ns);
      if (route != books_.end()) {
        const auto sketch = route->second.SketchOf(static_cast<size_t>(time - kTimeNames.begin()), now_ns);
        entry["seconds"] = sketch.n() == 0 ? boost::json::value(nullptr) : sketch.Quantile(key.quantile);
      }
    }
    object burn;
    for (const auto& [name, window_ns] : kLedgerWindows) {
      const SloWindow::Seen seen = book.window.Over(now_ns, window_ns);
      burn[name] = object{{"requests", seen.n}, {"bad", seen.bad}, {"rate", book.window.BurnRate(now_ns, window_ns)}};
    }
    entry["burn"] = std::move(burn);
    entry["budget_left"] = book.window.BudgetLeft(now_ns);
    entry["alert"] = book.window.Alert(now_ns);
    out.push_back(std::move(entry));
  }
  return out;
}

// Every amount is booked twice: by part and route, and in one sum. That the two agree is the ledger's own proof.
object LedgerBooks::Identity() const {
  double parts = 0;
  for (const auto& [route, book] : books_) parts += book.since_start.SumOfParts();
  const double total = all_.since_start[Sum::kSpend];
  const LedgerSums& all = all_.since_start;
  const double n = all[Sum::kDecisions] + all[Sum::kApproved] + all[Sum::kRejected] + all[Sum::kShadowSame] +
                   all[Sum::kShadowDifferent] + all[Sum::kShadowDropped];
  // Each of at most 8 n additions on either side rounds by half a unit of 2^-52 at most.
  const double allowed = total * 16 * (n + 1) * 0x1p-53;
  SURETY_CHECK_MSG(std::abs(parts - total) <= allowed, "the parts of all costs are not their total");
  return {{"sum_of_parts", parts}, {"total", total}};
}

object LedgerBooks::Report() const {
  const int64_t now_ns = clock_.NowNanos();
  std::lock_guard lock(mutex_);
  object out;
  out["policy"] = object{{"id", policy_id_}, {"version", policy_version_}, {"digest", policy_digest_}};
  out["currency"] = currency_;
  out["time_ns"] = clock_.WallNanos();
  out["uptime_seconds"] = NanosToSeconds(now_ns - started_ns_);
  out["all"] = WindowsOf(all_, now_ns);
  out["routes"] = Routes(now_ns);
  out["objectives"] = Objectives(now_ns);
  array fallbacks;
  for (const auto& [key, n] : fallbacks_) {
    fallbacks.push_back(object{{"from", std::get<0>(key)}, {"to", std::get<1>(key)}, {"cause", std::get<2>(key)},
                               {"count", n}});
  }
  out["fallbacks"] = std::move(fallbacks);
  object bypasses;
  for (const auto& [reason, n] : bypasses_) bypasses[reason.empty() ? "unsaid" : reason] = n;
  out["cache_bypasses"] = std::move(bypasses);
  out["cost_identity"] = Identity();
  return out;
}

void LedgerBooks::SetGauges() {
  const int64_t now_ns = clock_.NowNanos();
  const auto share = [](double part, double whole) { return whole > 0 ? part / whole : std::nan(""); };
  std::lock_guard lock(mutex_);
  for (const auto& [route, gauges] : gauges_) {
    const LedgerSums sums = books_.at(route).Over(now_ns, kHourNs);
    gauges.acceptance->Set(share(sums[Sum::kAccepted], sums[Sum::kDecisions]));
    gauges.verifier_pass->Set(share(sums[Sum::kPass], sums[Sum::kPass] + sums[Sum::kFail] + sums[Sum::kError]));
    gauges.edit_distance->Set(share(sums[Sum::kEditDistance], sums[Sum::kApproved]));
    gauges.cost_per_accepted->Set(share(sums[Sum::kSpend], sums[Sum::kAccepted]));
  }
  for (const auto& [key, book] : objectives_) {
    book.left->Set(book.window.BudgetLeft(now_ns));
    for (size_t i = 0; i < kLedgerWindows.size(); ++i) {
      book.burn[i]->Set(book.window.BurnRate(now_ns, kLedgerWindows[i].second));
    }
  }
}

class RealLedger final : public Ledger {
 public:
  RealLedger(const Policy& policy, observe::Registry& registry, const Clock& clock)
      : books_(std::make_shared<LedgerBooks>(registry, clock)), series_(registry) {
    books_->UsePolicy(policy);
    registry.AddCollector([books = std::weak_ptr(books_)] {
      if (const auto held = books.lock()) held->SetGauges();
    });
  }
  void Record(const DecisionRecord& record) override { series_.Record(record, books_->Add(record)); }
  void Record(const ReviewOutcome& outcome) override { series_.Record(outcome, books_->Add(outcome)); }
  void Record(const ShadowOutcome& outcome) override { series_.Record(outcome, books_->Add(outcome)); }
  void UsePolicy(const Policy& policy) override { books_->UsePolicy(policy); }
  object Report() const override { return books_->Report(); }

 private:
  std::shared_ptr<LedgerBooks> books_;
  LedgerSeries series_;
};

}  // namespace

std::unique_ptr<Ledger> Ledger::Make(const Policy& policy, observe::Registry& metrics, const Clock& clock) {
  return std::make_unique<RealLedger>(policy, metrics, clock);
}

}  // namespace surety::gateway
