#include "gateway/quota.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/testing/partition_fixture.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;
using QuotaReservations = std::vector<std::unique_ptr<Quota::Reservation>>;

constexpr int64_t kQuotaSecond = 1'000'000'000, kQuotaDay = 86'400 * kQuotaSecond;

QuotaSubject QuotaWho(const std::string& tenant = "t", const std::string& subject = "s") {
  return {tenant, subject, "route", "model"};
}

BudgetSpec QuotaMoneyBudget(double limit) {
  BudgetSpec spec;
  spec.max_budget = limit;
  return spec;
}

// The row of State for `limit_name` of the first budget; `key` of all if empty.
boost::json::object QuotaRow(const Quota& quota, std::string_view limit_name, std::string_view key = {}) {
  for (const boost::json::value& row : quota.State()) {
    if (row.at("limit_name").as_string() == limit_name && (key.empty() || row.at("key").as_string() == key)) {
      return row.as_object();
    }
  }
  return {};
}

class QuotaTest : public ::testing::Test {
 protected:
  bool Fits(double money, int64_t tokens = 0) { return quota_->Reserve(QuotaWho(), {money, tokens}).has_value(); }
  std::unique_ptr<Quota::Reservation> Take(double money, int64_t tokens = 0) {
    auto taken = quota_->Reserve(QuotaWho(), {money, tokens});
    EXPECT_TRUE(taken.has_value());
    return taken ? *std::move(taken) : nullptr;
  }
  void Make(BudgetSpec spec) { quota_ = Quota::Make({std::move(spec)}, clock_); }

  PartitionTestClock clock_;
  std::unique_ptr<Quota> quota_;
};

// Acceptance test 5 of the design, money.
TEST_F(QuotaTest, Of200AtOnceThoseAreAdmittedWhoseReservationsFit) {
  Make(QuotaMoneyBudget(10));
  std::barrier all(200);
  std::atomic<int> n_admitted = 0, n_denied = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 200; ++i) {
    threads.emplace_back([&, i] {
      all.arrive_and_wait();
      auto taken = quota_->Reserve(QuotaWho(), {1.0, 100});
      ++(taken ? n_admitted : n_denied);
      all.arrive_and_wait();  // nobody settles before all have asked
      if (taken) (*taken)->Settle({i % 2 ? 1.0 : 0.5, 10});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_admitted, 10);
  EXPECT_EQ(n_denied, 190);
  const auto row = QuotaRow(*quota_, "max_budget");
  EXPECT_LE(row.at("used").as_double(), 10);
  EXPECT_GE(row.at("used").as_double(), 5);
  EXPECT_EQ(row.at("reserved").as_double(), 0);
}

TEST_F(QuotaTest, ManyThreadsThatSettleLessNeverPassTheLimit) {
  BudgetSpec spec = QuotaMoneyBudget(64);
  spec.max_parallel_requests = 5;
  Make(spec);
  std::atomic<int> n_running = 0, most = 0;
  std::atomic<int64_t> settled_64ths = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int n = 0; n < 500; ++n) {
        auto taken = quota_->Reserve(QuotaWho(), {0.25, 0});
        if (!taken) continue;
        const int running = ++n_running;
        for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
        }
        --n_running;
        const int used = static_cast<int>(random() % 17);  // of 16 sixty-fourths: some give back, none pass
        if (used == 16) continue;
        settled_64ths += used;
        (*taken)->Settle({used / 64.0, 0});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 5);
  EXPECT_GT(settled_64ths, 60 * 64);  // the control: the budget was used
  EXPECT_LE(settled_64ths, 64 * 64);
  const auto row = QuotaRow(*quota_, "max_budget");
  EXPECT_EQ(row.at("used").as_double(), static_cast<double>(settled_64ths) / 64);
  EXPECT_EQ(row.at("reserved").as_double(), 0);
}

TEST_F(QuotaTest, ALimitOf0AllowsNothingAndNoneAllowsAll) {
  Make({});
  EXPECT_TRUE(Fits(1e12, 1'000'000'000'000));
  for (int which = 0; which < 4; ++which) {
    BudgetSpec none, one;
    if (which == 0) none.max_budget = 0, one.max_budget = 1;
    if (which == 1) none.rpm_limit = 0, one.rpm_limit = 1;
    if (which == 2) none.tpm_limit = 0, one.tpm_limit = 1;
    if (which == 3) none.max_parallel_requests = 0, one.max_parallel_requests = 1;
    Make(none);
    const auto denied = quota_->Reserve(QuotaWho(), {0, 0});
    ASSERT_FALSE(denied.has_value()) << which;
    EXPECT_EQ(denied.error().status.code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(denied.error().retry_after_s, 0);
    EXPECT_THAT(denied.error().status.message(), HasSubstr("waiting will not help"));
    EXPECT_EQ(denied.error().budget, "tenant 't'");
    Make(one);
    EXPECT_TRUE(Fits(1, 1)) << which;
  }
}

TEST_F(QuotaTest, ADroppedReservationGivesAllBack) {
  BudgetSpec spec = QuotaMoneyBudget(1);
  spec.rpm_limit = 1;
  spec.tpm_limit = 10;
  spec.max_parallel_requests = 1;
  Make(spec);
  for (int i = 0; i < 3; ++i) {
    const auto taken = Take(1, 10);
    EXPECT_FALSE(Fits(0, 0));
  }
  EXPECT_TRUE(Fits(1, 10));
  Take(1, 10)->Settle({1, 10});
  EXPECT_FALSE(Fits(0.5, 1));
}

TEST_F(QuotaTest, WindowsSlideOver60SecondsToTheNanosecond) {
  BudgetSpec spec;
  spec.rpm_limit = 2;
  spec.tpm_limit = 100;
  Make(spec);
  Take(0, 60)->Settle({0, 60});
  clock_.Advance(10 * kQuotaSecond);
  Take(0, 40)->Settle({0, 30});
  auto denied = quota_->Reserve(QuotaWho(), {0, 1});
  ASSERT_FALSE(denied.has_value());
  EXPECT_DOUBLE_EQ(denied.error().retry_after_s, 50);  // when the first request counts no more
  EXPECT_THAT(denied.error().status.message(), HasSubstr("rpm_limit is 2"));
  clock_.Advance(50 * kQuotaSecond - 1);
  EXPECT_FALSE(Fits(0, 1));
  clock_.Advance(1);
  denied = quota_->Reserve(QuotaWho(), {0, 71});
  ASSERT_FALSE(denied.has_value());
  EXPECT_DOUBLE_EQ(denied.error().retry_after_s, 10);  // now the 30 tokens stand in the way
  EXPECT_THAT(denied.error().status.message(), HasSubstr("tpm_limit is 100"));
  denied = quota_->Reserve(QuotaWho(), {0, 101});
  ASSERT_FALSE(denied.has_value());
  EXPECT_EQ(denied.error().retry_after_s, 0);
  EXPECT_TRUE(Fits(0, 70));
}

TEST_F(QuotaTest, TokensCountFromTheirSettlement) {
  BudgetSpec spec;
  spec.tpm_limit = 100;
  Make(spec);
  auto taken = Take(0, 100);
  clock_.Advance(600 * kQuotaSecond);
  EXPECT_FALSE(Fits(0, 1));  // still running
  taken->Settle({0, 100});
  clock_.Advance(60 * kQuotaSecond - 1);
  EXPECT_FALSE(Fits(0, 1));
  clock_.Advance(1);
  EXPECT_TRUE(Fits(0, 100));
}

TEST_F(QuotaTest, MoneyWindowsAreAlignedToTheEpochOrToMonths) {
  BudgetSpec day = QuotaMoneyBudget(1), month = day;
  month.calendar_month = true;
  using namespace std::chrono_literals;
  const auto at = [&](const BudgetSpec& spec, std::chrono::sys_seconds time) {
    clock_.wall_ns = std::chrono::nanoseconds(time.time_since_epoch()).count();
    Make(spec);
    Take(1)->Settle({1, 0});
    const auto denied = quota_->Reserve(QuotaWho(), {1, 0});
    EXPECT_FALSE(denied.has_value());
    const double wait = denied ? 0 : denied.error().retry_after_s;
    clock_.Advance(SecondsToNanos(wait) - 1);
    EXPECT_FALSE(Fits(1));
    clock_.Advance(1);
    EXPECT_TRUE(Fits(1));
    return wait;
  };
  const auto date = [](int y, unsigned m, unsigned d) {
    return std::chrono::sys_days(std::chrono::year(y) / static_cast<int>(m) / static_cast<int>(d));
  };
  EXPECT_EQ(at(day, date(2026, 11, 30) + 1h), 23 * 3600.0);
  EXPECT_EQ(at(day, date(2026, 11, 30)), 24 * 3600.0);
  EXPECT_EQ(at(month, date(2026, 11, 30) + 23h), 3600.0);
  EXPECT_EQ(at(month, date(2028, 2, 1)), 29 * 86400.0);  // a leap year
  EXPECT_EQ(at(month, date(2026, 2, 1)), 28 * 86400.0);
  EXPECT_EQ(at(month, date(2026, 12, 31) + 12h), 12 * 3600.0);
  EXPECT_EQ(at(day, date(1969, 12, 31) + 18h), 6 * 3600.0);
  EXPECT_EQ(at(month, date(1969, 12, 31) + 18h), 6 * 3600.0);
}

TEST_F(QuotaTest, WhatRunsIntoANewWindowCountsThere) {
  Make(QuotaMoneyBudget(10));
  auto taken = Take(8);
  clock_.Advance(kQuotaDay);
  EXPECT_FALSE(Fits(3));
  EXPECT_TRUE(Fits(2));
  taken->Settle({8, 0});
  EXPECT_FALSE(Fits(3));
  clock_.wall_ns -= kQuotaDay;  // a clock that is set back forgives nothing
  EXPECT_FALSE(Fits(3));
  clock_.Advance(kQuotaDay);
  EXPECT_TRUE(Fits(10));
}

TEST_F(QuotaTest, WhoUsedMoreThanReservedIsOverTheLimit) {
  Make(QuotaMoneyBudget(10));
  Take(1)->Settle({12, 0});
  EXPECT_FALSE(Fits(0.1));
  const auto row = QuotaRow(*quota_, "max_budget");
  EXPECT_EQ(row.at("used").as_double(), 12);
  EXPECT_EQ(row.at("remaining").as_double(), 0);
  Make(QuotaMoneyBudget(10));
  for (const double none : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) Take(3)->Settle({none, 0});
  EXPECT_EQ(QuotaRow(*quota_, "max_budget").at("used").as_double(), 9);
}

TEST_F(QuotaTest, SmallSumsFitExactly) {
  Make(QuotaMoneyBudget(0.3));
  QuotaReservations taken;
  for (int i = 0; i < 3; ++i) taken.push_back(Take(0.1));  // 0.1 three times is more than 0.3 to a double
  EXPECT_FALSE(Fits(1e-9));
  taken.clear();
  for (int i = 0; i < 30'000; ++i) Take(1e-5)->Settle({1e-5, 0});
  EXPECT_FALSE(Fits(1e-9));
}

TEST_F(QuotaTest, EachKeyHasABudgetOfItsOwnUnlessOneIsNamed) {
  for (int scope = 0; scope < 5; ++scope) {
    BudgetSpec spec = QuotaMoneyBudget(1);
    spec.scope = static_cast<BudgetSpec::Scope>(scope);
    const auto who = [&](const std::string& name) {
      QuotaSubject subject = {"a", "a", "a", "a"};
      std::string* const fields[] = {&subject.tenant, &subject.subject, &subject.route, &subject.model};
      if (scope < 4) *fields[scope] = name;
      return subject;
    };
    Make(spec);
    (*quota_->Reserve(who("a"), {1, 0}))->Settle({1, 0});
    EXPECT_FALSE(quota_->Reserve(who("a"), {1, 0}).has_value());
    EXPECT_EQ(quota_->Reserve(who("b"), {1, 0}).has_value(), scope < 4);
    spec.only = "a";
    Make(spec);
    EXPECT_FALSE(quota_->Reserve(who("a"), {2, 0}).has_value());
    EXPECT_EQ(quota_->Reserve(who("b"), {2, 0}).has_value(), scope < 4);
  }
}

TEST_F(QuotaTest, AllBudgetsAreReservedOrNone) {
  BudgetSpec tenant = QuotaMoneyBudget(10), subject = QuotaMoneyBudget(3), shadow = QuotaMoneyBudget(1);
  subject.scope = BudgetSpec::Scope::kSubject;
  shadow.scope = BudgetSpec::Scope::kRoute;
  shadow.shadow = true;
  quota_ = Quota::Make({tenant, subject, shadow}, clock_);
  const auto denied = quota_->Reserve(QuotaWho(), {4, 0});
  ASSERT_FALSE(denied.has_value());
  EXPECT_EQ(denied.error().budget, "subject 's'");
  EXPECT_EQ(QuotaRow(*quota_, "max_budget", "t").at("reserved").as_double(), 0);
  Take(3)->Settle({2.5, 0});
  EXPECT_EQ(QuotaRow(*quota_, "max_budget", "t").at("used").as_double(), 2.5);
  EXPECT_EQ(QuotaRow(*quota_, "max_budget", "s").at("used").as_double(), 2.5);
  const auto row = QuotaRow(*quota_, "max_budget", "route");  // counted and not enforced
  EXPECT_EQ(row.at("used").as_double(), 2.5);
  EXPECT_TRUE(row.at("shadow").as_bool());
}

// Against a rule: of the enforced budgets that apply, the least that is left, before and after each event.
TEST_F(QuotaTest, TheTightestBudgetIsTold) {
  BudgetSpec tenant, subject, other, shadow, money;
  tenant.rpm_limit = 5;
  tenant.tpm_limit = 1000;
  subject.scope = BudgetSpec::Scope::kSubject;
  subject.rpm_limit = 3;
  other = subject;
  other.only = "somebody else";
  other.rpm_limit = 1;
  shadow = subject;
  shadow.shadow = true;
  shadow.rpm_limit = 1;
  money.max_budget = 100;
  quota_ = Quota::Make({tenant, subject, other, shadow, money}, clock_);
  const auto told = [&](const std::string& who) { return quota_->StandingOf(QuotaWho("t", who)); };
  EXPECT_EQ(told("s").requests.limit, 3);
  EXPECT_EQ(told("s").requests.remaining, 3);
  EXPECT_NEAR(told("s").requests.reset_s, 0, 1e-9);
  auto first = Take(1, 400);
  EXPECT_EQ(told("s").requests.remaining, 2);
  EXPECT_NEAR(told("s").requests.reset_s, 60, 1e-9);
  EXPECT_EQ(told("s").tokens.limit, 1000);
  EXPECT_EQ(told("s").tokens.remaining, 600);  // what is reserved is not there
  clock_.Advance(10 * kQuotaSecond);
  first->Settle({1, 100});
  EXPECT_EQ(told("s").tokens.remaining, 900);
  EXPECT_NEAR(told("s").tokens.reset_s, 60, 1e-9);
  EXPECT_NEAR(told("s").requests.reset_s, 50, 1e-9);
  EXPECT_EQ(told("v").requests.limit, 3);  // has its own: 3 left, and the tenant 4
  QuotaReservations more;
  for (const char* who : {"v", "v", "w"}) {
    auto taken = quota_->Reserve(QuotaWho("t", who), {0, 0});
    ASSERT_TRUE(taken);
    more.push_back(*std::move(taken));
  }
  EXPECT_EQ(told("s").requests.limit, 5);  // the tenant has 1 left, the subject 2
  EXPECT_EQ(told("s").requests.remaining, 1);
  clock_.Advance(61 * kQuotaSecond);
  EXPECT_EQ(told("s").requests.remaining, 3);
  EXPECT_EQ(told("s").tokens.remaining, 1000);
  Make(money);
  EXPECT_LT(told("s").requests.limit, 0);
  EXPECT_LT(told("s").tokens.limit, 0);
}

TEST_F(QuotaTest, SettlingTwiceIsABug) {
  Make(QuotaMoneyBudget(1));
  const auto taken = Take(1);
  taken->Settle({0.5, 0});
  EXPECT_DEATH(taken->Settle({0.5, 0}), "settled once");
}

TEST_F(QuotaTest, AReservationMayOutliveItsQuota) {
  Make(QuotaMoneyBudget(1));
  auto taken = Take(1), dropped = Take(0);
  quota_ = nullptr;
  taken->Settle({1, 0});
}

TEST_F(QuotaTest, MoneySpentIsRestored) {
  BudgetSpec day = QuotaMoneyBudget(10), month = QuotaMoneyBudget(100);
  month.calendar_month = true;
  quota_ = Quota::Make({day, month}, clock_);
  Take(5)->Settle({4.000000000001, 0});
  const auto running = Take(3);
  const boost::json::object saved = quota_->Save();
  const auto used = [](const Quota& quota) { return QuotaRow(quota, "max_budget").at("used").as_double(); };

  const auto after = Quota::Make({day, month}, clock_);
  ASSERT_TRUE(after->Restore(boost::json::parse(boost::json::serialize(saved)).as_object()).ok());
  EXPECT_DOUBLE_EQ(used(*after), 7.000000000001);
  ASSERT_TRUE(after->Restore(saved).ok());  // twice is once
  EXPECT_DOUBLE_EQ(used(*after), 7.000000000001);
  EXPECT_FALSE(after->Reserve(QuotaWho(), {3, 0}).has_value());
  EXPECT_TRUE(after->Reserve(QuotaWho(), {2.5, 0}).has_value());
  EXPECT_TRUE(after->Reserve(QuotaWho("other"), {10, 0}).has_value());

  clock_.Advance(kQuotaDay);  // the day has passed, the month not
  const auto tomorrow = Quota::Make({month, day}, clock_);
  ASSERT_TRUE(tomorrow->Restore(saved).ok());
  EXPECT_DOUBLE_EQ(used(*tomorrow), 7.000000000001);
  EXPECT_TRUE(tomorrow->Reserve(QuotaWho(), {10, 0}).has_value());
  day.only = "x";  // another budget now
  const auto other = Quota::Make({day}, clock_);
  ASSERT_TRUE(other->Restore(saved).ok());
  EXPECT_EQ(used(*other), 0);
}

TEST_F(QuotaTest, WhatSaveDidNotWriteIsRefusedWhole) {
  Make(QuotaMoneyBudget(10));
  Take(4)->Settle({4, 0});
  const std::string saved = boost::json::serialize(quota_->Save());
  const auto restored = [&](const std::string& text) {
    const auto fresh = Quota::Make({QuotaMoneyBudget(10)}, clock_);
    const Status status = fresh->Restore(boost::json::parse(text).as_object());
    const bool counted = fresh->State().size() == 1 && QuotaRow(*fresh, "max_budget").at("used").as_double() == 4;
    EXPECT_EQ(status.ok(), counted) << text;
    EXPECT_EQ(status.code(), status.ok() ? StatusCode::kOk : StatusCode::kDataLoss);
    return status.ok();
  };
  EXPECT_TRUE(restored(saved));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = saved;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  EXPECT_FALSE(restored("{}"));
  EXPECT_FALSE(restored(with("\"version\":1", "\"version\":2")));
  EXPECT_FALSE(restored(with("\"4000000000000\"", "4000000000000")));
  EXPECT_FALSE(restored(with("\"4000000000000\"", "\"-4\"")));
  EXPECT_FALSE(restored(with("\"4000000000000\"", "\"\"")));
  EXPECT_FALSE(restored(with("\"4000000000000\"", "\"99999999999999999999999999999999999999999\"")));
  EXPECT_FALSE(restored(with("\"window\"", "\"windows\"")));
  EXPECT_FALSE(restored(with("\"key\":\"t\"", "\"key\":1")));
  EXPECT_FALSE(restored(with("}]", "},1]")));
}

// All records are kept and everything is summed anew for each question.
struct QuotaNaive {
  struct Record {
    QuotaSubject who;
    QuotaAmount worst, used;
    int64_t reserved_at, settled_at = 0, settled_wall = 0;
    enum { kRunning, kSettled, kDropped } state = kRunning;
  };
  std::vector<BudgetSpec> specs;
  std::vector<Record> records;

  static std::string Key(const BudgetSpec& spec, const QuotaSubject& who) {
    const std::string keys[] = {who.tenant, who.subject, who.route, who.model, ""};
    return keys[static_cast<int>(spec.scope)];
  }
  static int64_t Window(const BudgetSpec& spec, int64_t wall) {
    if (!spec.calendar_month) return wall / spec.budget_duration_ns;
    const time_t seconds = wall / kQuotaSecond;
    tm utc;
    gmtime_r(&seconds, &utc);
    return utc.tm_year * 12 + utc.tm_mon;
  }
  bool Admits(const QuotaSubject& who, const QuotaAmount& worst, int64_t now, int64_t wall) const {
    for (const BudgetSpec& spec : specs) {
      if (spec.shadow || (!spec.only.empty() && spec.only != Key(spec, who))) continue;
      double money = worst.money;
      int64_t tokens = worst.tokens, requests = 1, running = 1;
      for (const Record& r : records) {
        if (Key(spec, r.who) != Key(spec, who) || r.state == Record::kDropped) continue;
        requests += now - r.reserved_at < 60 * kQuotaSecond;
        if (r.state == Record::kRunning) {
          ++running;
          money += r.worst.money;
          tokens += r.worst.tokens;
          continue;
        }
        if (now - r.settled_at < 60 * kQuotaSecond) tokens += r.used.tokens;
        if (Window(spec, wall) == Window(spec, r.settled_wall)) money += r.used.money;
      }
      if (spec.max_budget && (money > *spec.max_budget || *spec.max_budget == 0)) return false;
      if (spec.tpm_limit && (tokens > *spec.tpm_limit || *spec.tpm_limit == 0)) return false;
      if (spec.rpm_limit && requests > *spec.rpm_limit) return false;
      if (spec.max_parallel_requests && running > *spec.max_parallel_requests) return false;
    }
    return true;
  }
};

std::vector<BudgetSpec> QuotaDrawBudgets(std::mt19937& random) {
  std::vector<BudgetSpec> specs(1 + random() % 4);
  for (BudgetSpec& spec : specs) {
    spec.scope = static_cast<BudgetSpec::Scope>(random() % 5);
    if (spec.scope != BudgetSpec::Scope::kAll && random() % 3 == 0) spec.only = "0";
    if (random() % 2) spec.max_budget = static_cast<double>(random() % 400) / 8;
    if (random() % 3 == 0) spec.rpm_limit = random() % 12;
    if (random() % 3 == 0) spec.tpm_limit = random() % 300;
    if (random() % 3 == 0) spec.max_parallel_requests = static_cast<int>(random() % 6);
    spec.budget_duration_ns = (1 + static_cast<int64_t>(random() % 300)) * kQuotaSecond;
    spec.calendar_month = random() % 4 == 0;
    spec.shadow = random() % 5 == 0;
  }
  return specs;
}

TEST_F(QuotaTest, AdmitsExactlyWhomANaiveSumAdmits) {
  int n_admitted = 0, n_denied = 0;
  for (unsigned seed = 0; seed < 300 / kPartitionDrawsOver; ++seed) {
    std::mt19937 random(seed);
    QuotaNaive naive;
    naive.specs = QuotaDrawBudgets(random);
    quota_ = Quota::Make(naive.specs, clock_);
    clock_.wall_ns += static_cast<int64_t>(random() % 40) * kQuotaDay;
    std::vector<std::pair<size_t, std::unique_ptr<Quota::Reservation>>> running;
    for (int n = 0; n < 120; ++n) {
      const auto draw = [&] { return std::to_string(random() % 2); };
      const int64_t now = clock_.NowNanos(), wall = clock_.WallNanos();
      if (random() % 2) {
        const QuotaSubject who = {draw(), draw(), draw(), draw()};
        const QuotaAmount worst = {static_cast<double>(random() % 64) / 8, static_cast<int64_t>(random() % 60)};
        auto taken = quota_->Reserve(who, worst);
        ASSERT_EQ(taken.has_value(), naive.Admits(who, worst, now, wall)) << seed << " " << n;
        ++(taken ? n_admitted : n_denied);
        if (!taken) continue;
        running.emplace_back(naive.records.size(), *std::move(taken));
        naive.records.push_back({who, worst, {}, now});
      } else if (random() % 3 && !running.empty()) {
        const size_t i = random() % running.size();
        QuotaNaive::Record& record = naive.records[running[i].first];
        record.state = random() % 4 ? QuotaNaive::Record::kSettled : QuotaNaive::Record::kDropped;
        record.used = {record.worst.money * static_cast<double>(random() % 9) / 8, record.worst.tokens / 2};
        record.settled_at = now;
        record.settled_wall = wall;
        if (record.state == QuotaNaive::Record::kSettled) running[i].second->Settle(record.used);
        running.erase(running.begin() + static_cast<ptrdiff_t>(i));
      } else if (random() % 2) {
        // Often onto the edges of the 60 s.
        static constexpr int64_t kSteps[] = {1, kQuotaSecond, 20 * kQuotaSecond, 60 * kQuotaSecond - 1};
        clock_.Advance(random() % 40 == 0 ? 20 * kQuotaDay : kSteps[random() % 4]);
      }
    }
  }
  EXPECT_GT(n_admitted, 1000 / kPartitionDrawsOver);
  EXPECT_GT(n_denied, 1000 / kPartitionDrawsOver);
}

// A request is told when to come again; it is admitted then, and not before, where nothing else changes.
TEST_F(QuotaTest, WhoComesAgainAfterTheTimeToldIsAdmitted) {
  int n_waited = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    std::vector<BudgetSpec> specs = QuotaDrawBudgets(random);
    for (BudgetSpec& spec : specs) spec.max_parallel_requests.reset();
    quota_ = Quota::Make(specs, clock_);
    for (int n = 0; n < 30; ++n) {
      const QuotaAmount worst = {static_cast<double>(random() % 64) / 8, static_cast<int64_t>(random() % 60)};
      auto taken = quota_->Reserve(QuotaWho("0", "0"), worst);
      if (!taken && taken.error().retry_after_s > 0) {
        ++n_waited;
        const auto wait = static_cast<int64_t>(std::llround(taken.error().retry_after_s * 1e9));
        const int64_t early = std::min<int64_t>(1000, wait);  // a double is not exact to the nanosecond over months
        clock_.Advance(wait - early);
        ASSERT_FALSE(quota_->Reserve(QuotaWho("0", "0"), worst).has_value()) << seed;
        clock_.Advance(early + 1);
        taken = quota_->Reserve(QuotaWho("0", "0"), worst);
        ASSERT_TRUE(taken.has_value()) << seed << ": " << taken.error().status.message();
      }
      if (taken) (*taken)->Settle(worst);
      clock_.Advance(static_cast<int64_t>(random() % 10) * kQuotaSecond);
    }
  }
  EXPECT_GT(n_waited, 200);
}

TEST_F(QuotaTest, TheCounterMovesByWhatIsReported) {
  BudgetSpec spec = QuotaMoneyBudget(1e6);
  spec.tpm_limit = 1'000'000'000;
  Make(spec);
  std::mt19937 random(4);
  int64_t sum = 0;
  for (int i = 0; i < 500; ++i) {
    const int64_t used = static_cast<int64_t>(random() % 5000);
    Take(1, 5000)->Settle({0, used});
    sum += used;
    ASSERT_EQ(QuotaRow(*quota_, "tpm_limit").at("used").as_int64(), sum);
    ASSERT_EQ(QuotaRow(*quota_, "tpm_limit").at("remaining").as_int64(), 1'000'000'000 - sum);
  }
  EXPECT_EQ(QuotaRow(*quota_, "tpm_limit").at("reserved").as_int64(), 0);
}

TEST_F(QuotaTest, ThoseWhoCameOnceDoNotStayForEver) {
  BudgetSpec spec;
  spec.scope = BudgetSpec::Scope::kSubject;
  spec.rpm_limit = 5;
  Make(spec);
  for (int i = 0; i < 5000; ++i) {
    (*quota_->Reserve(QuotaWho("t", std::to_string(i)), {0, 0}))->Settle({0, 0});
    clock_.Advance(kQuotaSecond);
  }
  EXPECT_LT(quota_->State().size(), 1200u);
}

}  // namespace
}  // namespace surety::gateway
