#include "gateway/quota.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <fmt/format.h>

#include "base/check.h"

namespace surety::gateway {
namespace {

using QuotaPico = __int128;  // 1e-12 of the currency
constexpr double kQuotaPicoInUnit = 1e12, kQuotaMaxMoney = 1e15;
constexpr int64_t kQuotaMaxTokens = 1'000'000'000'000'000;
constexpr int64_t kQuotaSlidingNs = 60'000'000'000;
constexpr double kQuotaNever = std::numeric_limits<double>::infinity();
constexpr double kQuotaSomeoneEnds = 1;  // seconds, where only running requests stand in the way
constexpr int kQuotaSweepEvery = 1024;

QuotaPico QuotaPicoOf(double money) {
  return static_cast<QuotaPico>(std::round(std::min(money, kQuotaMaxMoney) * kQuotaPicoInUnit));
}
double QuotaMoneyOf(QuotaPico pico) { return static_cast<double>(pico) / kQuotaPicoInUnit; }

bool QuotaIsAmount(const QuotaAmount& a) { return std::isfinite(a.money) && a.money >= 0 && a.tokens >= 0; }

std::string_view QuotaScopeName(BudgetSpec::Scope scope) {
  static constexpr std::string_view kNames[] = {"tenant", "subject", "route", "model", "all"};
  return kNames[static_cast<size_t>(scope)];
}

const std::string& QuotaKeyOf(BudgetSpec::Scope scope, const QuotaSubject& who) {
  static const std::string kAll;
  switch (scope) {
    case BudgetSpec::Scope::kTenant: return who.tenant;
    case BudgetSpec::Scope::kSubject: return who.subject;
    case BudgetSpec::Scope::kRoute: return who.route;
    case BudgetSpec::Scope::kModel: return who.model;
    case BudgetSpec::Scope::kAll: break;
  }
  return kAll;
}

struct QuotaWindow {
  int64_t index = 0, end_ns = 0;  // wall
};

QuotaWindow QuotaWindowOf(const BudgetSpec& spec, int64_t wall_ns) {
  if (!spec.calendar_month) {
    const int64_t duration = spec.budget_duration_ns;
    const int64_t index = wall_ns / duration - (wall_ns % duration < 0);
    const int64_t begin = wall_ns - (wall_ns % duration + duration) % duration;
    return {index, duration > std::numeric_limits<int64_t>::max() - std::max<int64_t>(begin, 0)
                       ? std::numeric_limits<int64_t>::max() : begin + duration};
  }
  using std::chrono::sys_days;
  const auto day = std::chrono::floor<std::chrono::days>(std::chrono::sys_time<std::chrono::nanoseconds>(
      std::chrono::nanoseconds(wall_ns)));
  const std::chrono::year_month_day date(day);
  const std::chrono::year_month month(date.year(), date.month());
  const auto next = sys_days((month + std::chrono::months(1)) / 1);
  const int64_t index = static_cast<int>(date.year()) * 12 + static_cast<int>(static_cast<unsigned>(date.month())) - 1;
  return {index, std::chrono::nanoseconds(next.time_since_epoch()).count()};
}

// What one budget counts for one key.
struct QuotaAccount {
  struct Settled {
    int64_t at_ns, tokens;
  };
  bool permanent = false;
  int64_t window = std::numeric_limits<int64_t>::min();
  QuotaPico spent = 0, reserved = 0;
  int64_t reserved_tokens = 0, settled_tokens = 0;
  int n_running = 0;
  std::deque<int64_t> requests;       // when they were reserved; monotonic
  std::deque<Settled> settled;        // within the last 60 s

  void Roll(const BudgetSpec& spec, int64_t mono_ns, int64_t wall_ns) {
    while (!requests.empty() && mono_ns - requests.front() >= kQuotaSlidingNs) requests.pop_front();
    while (!settled.empty() && mono_ns - settled.front().at_ns >= kQuotaSlidingNs) {
      settled_tokens -= settled.front().tokens;
      settled.pop_front();
    }
    if (!spec.max_budget) return;
    const int64_t now = QuotaWindowOf(spec, wall_ns).index;
    if (now > window) spent = 0;  // a clock that is set back forgives nothing
    window = now;
  }
  bool Idle() const {
    return !permanent && n_running == 0 && spent == 0 && requests.empty() && settled.empty();
  }
};

struct QuotaShortage {
  double wait_s = -1;  // below 0: none
  std::string what;
};

class QuotaCore {
 public:
  struct Held {
    size_t budget;
    std::string key;
    int64_t at_ns;
  };

  QuotaCore(std::vector<BudgetSpec> specs, const Clock& clock) : clock_(clock) {
    for (BudgetSpec& spec : specs) {
      SURETY_CHECK_MSG(!spec.max_budget || spec.calendar_month || spec.budget_duration_ns > 0,
                       "a budget of money needs a duration");
      Budget budget{std::move(spec), {}};
      if (budget.spec.scope == BudgetSpec::Scope::kAll) {
        budget.accounts[""].permanent = true;
      } else if (!budget.spec.only.empty()) {
        budget.accounts[budget.spec.only].permanent = true;
      }
      budgets_.push_back(std::move(budget));
    }
  }

  std::expected<std::vector<Held>, Quota::Denied> Reserve(const QuotaSubject& who, const QuotaAmount& worst) {
    const std::lock_guard lock(mutex_);
    const int64_t now = clock_.NowNanos(), wall = clock_.WallNanos();
    Sweep(now, wall);
    std::vector<Held> held;
    QuotaShortage worst_shortage;
    std::string name;
    for (size_t i = 0; i < budgets_.size(); ++i) {
      const BudgetSpec& spec = budgets_[i].spec;
      if (!Applies(spec, who)) continue;
      const std::string& key = QuotaKeyOf(spec.scope, who);
      QuotaAccount& account = budgets_[i].accounts[key];
      account.Roll(spec, now, wall);
      held.push_back({i, key, now});
      if (spec.shadow) continue;
      QuotaShortage shortage = ShortageOf(spec, account, worst, now, wall);
      if (shortage.wait_s <= worst_shortage.wait_s) continue;
      worst_shortage = std::move(shortage);
      name = NameOf(spec, key);
    }
    if (worst_shortage.wait_s >= 0) {
      const bool never = worst_shortage.wait_s == kQuotaNever;
      const std::string when = never ? "waiting will not help" : fmt::format("free in {:.3f} s", worst_shortage.wait_s);
      return std::unexpected(Quota::Denied{
          ResourceExhaustedError(fmt::format("the budget of {} is used up: {}; {}", name, worst_shortage.what, when)),
          never ? 0 : worst_shortage.wait_s, name});
    }
    for (const Held& h : held) {
      QuotaAccount& account = AccountOf(h);
      account.reserved += QuotaPicoOf(worst.money);
      account.reserved_tokens += std::min(worst.tokens, kQuotaMaxTokens);
      ++account.n_running;
      if (budgets_[h.budget].spec.rpm_limit) account.requests.push_back(h.at_ns);
    }
    return held;
  }

  // `used` null: given back.
  void End(const std::vector<Held>& held, const QuotaAmount& worst, const QuotaAmount* used) {
    const std::lock_guard lock(mutex_);
    const int64_t now = clock_.NowNanos(), wall = clock_.WallNanos();
    for (const Held& h : held) {
      QuotaAccount& account = AccountOf(h);
      account.Roll(budgets_[h.budget].spec, now, wall);
      account.reserved -= QuotaPicoOf(worst.money);
      account.reserved_tokens -= std::min(worst.tokens, kQuotaMaxTokens);
      --account.n_running;
      SURETY_CHECK(account.reserved >= 0 && account.reserved_tokens >= 0 && account.n_running >= 0);
      if (!used) {
        const auto mine = std::ranges::lower_bound(account.requests, h.at_ns);
        if (mine != account.requests.end() && *mine == h.at_ns) account.requests.erase(mine);
        continue;
      }
      const BudgetSpec& spec = budgets_[h.budget].spec;
      if (spec.max_budget) account.spent += QuotaPicoOf(used->money);
      const int64_t tokens = std::min(used->tokens, kQuotaMaxTokens);
      if (!spec.tpm_limit || tokens == 0) continue;
      account.settled.push_back({now, tokens});
      account.settled_tokens += tokens;
    }
  }

  boost::json::array State() const {
    const std::lock_guard lock(mutex_);
    const int64_t now = clock_.NowNanos(), wall = clock_.WallNanos();
    boost::json::array rows;
    for (Budget& budget : budgets_) {
      for (auto& [key, account] : budget.accounts) {
        account.Roll(budget.spec, now, wall);
        AppendRows(rows, budget.spec, key, account, now, wall);
      }
    }
    return rows;
  }

  Quota::Standing StandingOf(const QuotaSubject& who) const {
    Quota::Standing out;
    const std::lock_guard lock(mutex_);
    const int64_t now = clock_.NowNanos(), wall = clock_.WallNanos();
    const auto left = [](int64_t limit, int64_t taken) { return std::max<int64_t>(limit - taken, 0); };
    for (Budget& budget : budgets_) {
      const BudgetSpec& spec = budget.spec;
      if (spec.shadow || !Applies(spec, who)) continue;
      QuotaAccount none;
      const auto found = budget.accounts.find(QuotaKeyOf(spec.scope, who));
      QuotaAccount& a = found == budget.accounts.end() ? none : found->second;
      a.Roll(spec, now, wall);
      const auto until = [&](int64_t from_ns) { return NanosToSeconds(from_ns + kQuotaSlidingNs - now); };
      if (spec.rpm_limit) {
        Tighten(out.requests, {*spec.rpm_limit, left(*spec.rpm_limit, static_cast<int64_t>(a.requests.size())),
                               a.requests.empty() ? 0 : until(a.requests.back())});
      }
      if (spec.tpm_limit) {
        Tighten(out.tokens, {*spec.tpm_limit, left(*spec.tpm_limit, a.settled_tokens + a.reserved_tokens),
                             a.settled.empty() ? 0 : until(a.settled.back().at_ns)});
      }
    }
    return out;
  }

  boost::json::object Save() const {
    const std::lock_guard lock(mutex_);
    const int64_t now = clock_.NowNanos(), wall = clock_.WallNanos();
    boost::json::array rows;
    for (Budget& budget : budgets_) {
      if (!budget.spec.max_budget) continue;
      for (auto& [key, account] : budget.accounts) {
        account.Roll(budget.spec, now, wall);
        if (account.spent == 0 && account.reserved == 0) continue;
        rows.push_back({{"budget", Identity(budget.spec)},
                        {"key", key},
                        {"window", account.window},
                        {"spent", fmt::format("{}", account.spent)},
                        {"reserved", fmt::format("{}", account.reserved)}});
      }
    }
    return {{"version", 1}, {"money", std::move(rows)}};
  }

  Status Restore(const boost::json::object& saved) {
    const auto bad = [](std::string_view what) {
      return DataLossError(fmt::format("saved budgets: {}; nothing of them is restored", what));
    };
    const boost::json::value* version = saved.if_contains("version");
    const boost::json::value* money = saved.if_contains("money");
    if (!version || *version != boost::json::value(1)) return bad("'version' is not 1");
    if (!money || !money->is_array()) return bad("'money' is no list");
    std::vector<Row> rows;
    for (const boost::json::value& value : money->get_array()) {
      auto row = ReadRow(value);
      if (!row) return bad(fmt::format("entry {} of 'money' is not of the form that is saved", rows.size()));
      rows.push_back(*std::move(row));
    }
    const std::lock_guard lock(mutex_);
    const int64_t now = clock_.NowNanos(), wall = clock_.WallNanos();
    for (const Row& row : rows) {
      for (Budget& budget : budgets_) {
        if (!budget.spec.max_budget || Identity(budget.spec) != row.budget) continue;
        QuotaAccount& account = budget.accounts[row.key];
        account.Roll(budget.spec, now, wall);
        if (row.window >= account.window) account.spent = std::max(account.spent, row.spent);
      }
    }
    return OkStatus();
  }

 private:
  struct Budget {
    BudgetSpec spec;
    std::map<std::string, QuotaAccount> accounts;
  };
  struct Row {
    std::string budget, key;
    int64_t window = 0;
    QuotaPico spent = 0;
  };

  static bool Applies(const BudgetSpec& spec, const QuotaSubject& who) {
    return spec.scope == BudgetSpec::Scope::kAll || spec.only.empty() || spec.only == QuotaKeyOf(spec.scope, who);
  }

  static void Tighten(api::RateLimit& tightest, const api::RateLimit& limit) {
    const bool less = limit.remaining < tightest.remaining ||
                      (limit.remaining == tightest.remaining && limit.reset_s > tightest.reset_s);
    if (tightest.limit < 0 || less) tightest = limit;
  }

  QuotaAccount& AccountOf(const Held& h) {
    const auto found = budgets_[h.budget].accounts.find(h.key);
    SURETY_CHECK(found != budgets_[h.budget].accounts.end());
    return found->second;
  }

  static std::string NameOf(const BudgetSpec& spec, const std::string& key) {
    if (spec.scope == BudgetSpec::Scope::kAll) return "all";
    return fmt::format("{} '{}'", QuotaScopeName(spec.scope), key);
  }

  // What makes two budgets of money the same one for Restore.
  static std::string Identity(const BudgetSpec& spec) {
    const std::string window = spec.calendar_month ? "month" : std::to_string(spec.budget_duration_ns);
    return fmt::format("{}/{}/{}", QuotaScopeName(spec.scope), window, spec.only);
  }

  static QuotaShortage ShortageOf(const BudgetSpec& spec, const QuotaAccount& a, const QuotaAmount& worst, int64_t now,
                                  int64_t wall) {
    QuotaShortage shortage;
    const auto report = [&](double wait_s, std::string what) {
      if (wait_s > shortage.wait_s) shortage = {wait_s, std::move(what)};
    };
    if (spec.max_budget) Money(spec, a, QuotaPicoOf(worst.money), wall, report);
    if (spec.tpm_limit) Tokens(*spec.tpm_limit, a, std::min(worst.tokens, kQuotaMaxTokens), now, report);
    if (spec.rpm_limit && static_cast<int64_t>(a.requests.size()) >= *spec.rpm_limit) {
      const int64_t limit = *spec.rpm_limit;
      double wait = kQuotaNever;
      if (limit > 0) {
        const int64_t frees = a.requests[a.requests.size() - static_cast<size_t>(limit)];
        wait = NanosToSeconds(frees + kQuotaSlidingNs - now);
      }
      report(wait, fmt::format("rpm_limit is {}, {} requests were made in the last 60 s", limit, a.requests.size()));
    }
    if (spec.max_parallel_requests && a.n_running >= *spec.max_parallel_requests) {
      report(*spec.max_parallel_requests > 0 ? kQuotaSomeoneEnds : kQuotaNever,
             fmt::format("max_parallel_requests is {}, {} are running", *spec.max_parallel_requests, a.n_running));
    }
    return shortage;
  }

  template <typename Report>
  static void Money(const BudgetSpec& spec, const QuotaAccount& a, QuotaPico worst, int64_t wall, Report&& report) {
    const QuotaPico limit = QuotaPicoOf(*spec.max_budget);
    if (limit > 0 && a.spent + a.reserved + worst <= limit) return;
    double wait = NanosToSeconds(QuotaWindowOf(spec, wall).end_ns - wall);
    if (a.spent + worst <= limit) wait = kQuotaSomeoneEnds;
    if (limit <= 0 || worst > limit) wait = kQuotaNever;
    report(wait, fmt::format("max_budget is {}, {} is spent, {} reserved, and this request may cost {}",
                             *spec.max_budget, QuotaMoneyOf(a.spent), QuotaMoneyOf(a.reserved), QuotaMoneyOf(worst)));
  }

  template <typename Report>
  static void Tokens(int64_t limit, const QuotaAccount& a, int64_t worst, int64_t now, Report&& report) {
    if (limit > 0 && a.settled_tokens + a.reserved_tokens + worst <= limit) return;
    double wait = kQuotaSomeoneEnds;
    int64_t left = a.settled_tokens + a.reserved_tokens + worst;
    for (const QuotaAccount::Settled& s : a.settled) {
      left -= s.tokens;
      if (left > limit) continue;
      wait = NanosToSeconds(s.at_ns + kQuotaSlidingNs - now);
      break;
    }
    if (limit <= 0 || worst > limit) wait = kQuotaNever;
    report(wait, fmt::format("tpm_limit is {}, {} tokens were used in the last 60 s, {} are reserved, and this request "
                             "may take {}", limit, a.settled_tokens, a.reserved_tokens, worst));
  }

  void AppendRows(boost::json::array& rows, const BudgetSpec& spec, const std::string& key, const QuotaAccount& a,
                  int64_t now, int64_t wall) const {
    const auto row = [&](const char* name, auto limit, auto used, auto reserved, double reset_s) {
      const auto remaining = std::max(limit - used - reserved, decltype(limit)(0));
      rows.push_back({{"budget", QuotaScopeName(spec.scope)}, {"key", key}, {"limit_name", name}, {"limit", limit},
                      {"used", used}, {"reserved", reserved}, {"remaining", remaining}, {"reset_s", reset_s},
                      {"shadow", spec.shadow}});
    };
    const auto since = [&](int64_t newest) { return NanosToSeconds(newest + kQuotaSlidingNs - now); };
    if (spec.max_budget) {
      row("max_budget", *spec.max_budget, QuotaMoneyOf(a.spent), QuotaMoneyOf(a.reserved),
          NanosToSeconds(QuotaWindowOf(spec, wall).end_ns - wall));
    }
    if (spec.rpm_limit) {
      row("rpm_limit", *spec.rpm_limit, static_cast<int64_t>(a.requests.size()), int64_t{0},
          a.requests.empty() ? 0 : since(a.requests.back()));
    }
    if (spec.tpm_limit) {
      row("tpm_limit", *spec.tpm_limit, a.settled_tokens, a.reserved_tokens,
          a.settled.empty() ? 0 : since(a.settled.back().at_ns));
    }
    if (spec.max_parallel_requests) {
      row("max_parallel_requests", int64_t{*spec.max_parallel_requests}, int64_t{0}, int64_t{a.n_running}, 0);
    }
  }

  static std::optional<QuotaPico> ReadPico(const boost::json::value* value) {
    if (!value || !value->is_string() || value->get_string().empty() || value->get_string().size() > 30) return {};
    QuotaPico pico = 0;
    for (const char c : value->get_string()) {
      if (c < '0' || c > '9') return {};
      pico = pico * 10 + (c - '0');
    }
    return pico;
  }

  static std::optional<Row> ReadRow(const boost::json::value& value) {
    const boost::json::object* object = value.if_object();
    if (!object) return {};
    const boost::json::value *budget = object->if_contains("budget"), *key = object->if_contains("key"),
                             *window = object->if_contains("window");
    const auto spent = ReadPico(object->if_contains("spent")), reserved = ReadPico(object->if_contains("reserved"));
    if (!budget || !budget->is_string() || !key || !key->is_string() || !window || !window->is_int64()) return {};
    if (!spent || !reserved) return {};
    return Row{std::string(budget->get_string()), std::string(key->get_string()), window->get_int64(),
               *spent + *reserved};
  }

  // Accounts of those who have not come for long.
  void Sweep(int64_t now, int64_t wall) {
    if (++n_since_sweep_ < kQuotaSweepEvery) return;
    n_since_sweep_ = 0;
    for (Budget& budget : budgets_) {
      for (auto at = budget.accounts.begin(); at != budget.accounts.end();) {
        at->second.Roll(budget.spec, now, wall);
        at = at->second.Idle() ? budget.accounts.erase(at) : std::next(at);
      }
    }
  }

  const Clock& clock_;
  mutable std::mutex mutex_;
  mutable std::vector<Budget> budgets_;  // reading rolls the windows on
  int n_since_sweep_ = 0;
};

class QuotaReservation final : public Quota::Reservation {
 public:
  QuotaReservation(std::shared_ptr<QuotaCore> core, std::vector<QuotaCore::Held> held, QuotaAmount worst)
      : core_(std::move(core)), held_(std::move(held)), worst_(worst) {}
  ~QuotaReservation() override {
    if (!settled_) core_->End(held_, worst_, nullptr);
  }
  void Settle(QuotaAmount used) override {
    SURETY_CHECK_MSG(!settled_, "a reservation is settled once");
    settled_ = true;
    if (!QuotaIsAmount(used)) used = worst_;
    core_->End(held_, worst_, &used);
  }

 private:
  const std::shared_ptr<QuotaCore> core_;
  const std::vector<QuotaCore::Held> held_;
  const QuotaAmount worst_;
  bool settled_ = false;
};

class QuotaImpl final : public Quota {
 public:
  QuotaImpl(std::vector<BudgetSpec> budgets, const Clock& clock)
      : core_(std::make_shared<QuotaCore>(std::move(budgets), clock)) {}

  std::expected<std::unique_ptr<Reservation>, Denied> Reserve(const QuotaSubject& who, QuotaAmount worst) override {
    SURETY_CHECK_MSG(QuotaIsAmount(worst), "a worst case is an amount");
    auto held = core_->Reserve(who, worst);
    if (!held) return std::unexpected(std::move(held).error());
    return std::make_unique<QuotaReservation>(core_, *std::move(held), worst);
  }
  Standing StandingOf(const QuotaSubject& who) const override { return core_->StandingOf(who); }
  boost::json::array State() const override { return core_->State(); }
  boost::json::object Save() const override { return core_->Save(); }
  Status Restore(const boost::json::object& saved) override { return core_->Restore(saved); }

 private:
  const std::shared_ptr<QuotaCore> core_;
};

}  // namespace

std::unique_ptr<Quota> Quota::Make(std::vector<BudgetSpec> budgets, const Clock& clock) {
  return std::make_unique<QuotaImpl>(std::move(budgets), clock);
}

}  // namespace surety::gateway
