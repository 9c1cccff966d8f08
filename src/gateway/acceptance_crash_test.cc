// governance.md, acceptance test 4: the whole gateway is killed between approval and write, between a tool's call and
// its reply, and everywhere between; each time it comes back with one effect, a row a request, and a chain that holds.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/testing/acceptance_bank.h"
#include "gateway/testing/audit_folder.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

// Kills the process, as kill -9 does, when it is read for the `left`th time. 0: never.
class DyingClock final : public Clock {
 public:
  int64_t NowNanos() const override {
    Tick();
    return Clock::Real().NowNanos();
  }
  int64_t WallNanos() const override {
    Tick();
    return Clock::Real().WallNanos();
  }
  void SleepNanos(int64_t nanos) override { Clock::Real().SleepNanos(nanos); }
  mutable std::atomic<int64_t> left = 0;

 private:
  void Tick() const {
    if (left.load() > 0 && left.fetch_sub(1) == 1) ::kill(::getpid(), SIGKILL);
  }
};

// A folder with the bank, whose refunds are a program that leaves a line in a file: the effect in the world. The file
// "kill" says where the program kills the gateway that called it.
class CrashSite {
 public:
  CrashSite() : bank_folder_(folder_.path("bank")) {
    std::filesystem::create_directories(bank_folder_);
    const AcceptanceBank bank(bank_folder_, Clock::Real());
    bank.Write("refund.sh", R"sh(#!/bin/sh
cd FOLDER
where=$(/bin/cat kill 2>/dev/null)
body=$(/bin/cat)
[ "$where" = before ] && kill -9 "$(/bin/cat pid)"
echo "$body" >> effects
[ "$where" = after ] && kill -9 "$(/bin/cat pid)"
echo '{"paid": true}'
)sh");
    std::string script = ReadAuditBytes(path("refund.sh"));
    script.replace(script.find("FOLDER"), 6, bank_folder_);
    bank.Write("refund.sh", script);
    bank.WritePolicy(BankPolicyText("[/bin/sh, " + path("refund.sh") + "]"));
    bank.AddDocument({"fees", "1", "Fees", "The fee is 10 dollars.", {"public"}, {}, {}, {}, {}, "", ""});
  }
  std::string path(const std::string& name) const { return bank_folder_ + "/" + name; }
  const std::string& folder() const { return bank_folder_; }
  void KillInTool(const std::string& where) const { std::ofstream(path("kill")) << where; }

  // How often this customer got the money.
  int EffectsOf(const std::string& customer) const {
    std::ifstream lines(path("effects"));
    int n = 0;
    for (std::string line; std::getline(lines, line);) {
      n += json::parse(line).at("arguments").at("customer").as_string() == customer ? 1 : 0;
    }
    return n;
  }

 private:
  AuditFolder folder_;
  std::string bank_folder_;
};

api::Caller CustomerOf(const std::string& customer) {
  api::Caller caller = AcceptanceBank::Anna();
  caller.metadata["customer"] = customer;
  return caller;
}

void TellParent(int pipe_fd, char what, const std::string& customer) {
  const std::string line = fmt::format("{} {}\n", what, customer);
  if (::write(pipe_fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(3);
}

struct Death {
  bool killed = false;
  std::vector<std::string> asked, answered, approved;   // customers, as the process told before it died
};

// Runs `work` in a process of its own until it ends or dies; kills it after `kill_after_us`, if that is not negative.
Death RunUntilDeath(const CrashSite& site, const std::function<void(AcceptanceBank&, DyingClock&, int)>& work,
                    int64_t kill_after_us = -1) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    ::alarm(60);
    std::ofstream(site.path("pid")) << ::getpid();
    DyingClock clock;
    AcceptanceBank bank(site.folder(), clock);
    if (!bank.Open().ok()) ::_exit(1);
    TellParent(ends[1], 'o', "-");
    work(bank, clock, ends[1]);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string told;
  std::array<char, 4096> buffer;
  const auto read = [&] {
    const ssize_t n = ::read(ends[0], buffer.data(), buffer.size());
    if (n > 0) told.append(buffer.data(), static_cast<size_t>(n));
    return n > 0;
  };
  if (kill_after_us >= 0) {
    EXPECT_TRUE(read());
    ::usleep(static_cast<useconds_t>(kill_after_us));
    ::kill(child, SIGKILL);
  }
  while (read()) {}
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  Death death;
  death.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  EXPECT_TRUE(death.killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << status;
  std::istringstream lines(told);
  for (std::string what, customer; lines >> what >> customer;) {
    if (what == "a") death.asked.push_back(customer);
    if (what == "r") death.answered.push_back(customer);
    if (what == "v") death.approved.push_back(customer);
  }
  return death;
}

// One refund: asked for, written by ann, approved by bob, and by cleo, when the clock begins to count.
void OneRefund(AcceptanceBank& bank, DyingClock& clock, int pipe_fd, const std::string& customer, int64_t ask_ticks,
               int64_t approve_ticks) {
  TellParent(pipe_fd, 'a', customer);
  clock.left = ask_ticks;
  const Reply reply = bank.Ask("I want a refund", CustomerOf(customer));
  clock.left = 0;
  TellParent(pipe_fd, 'r', customer);
  const std::string decision = reply.decision().id;
  if (!bank.Approve(decision, "ann", "You get " + customer) || !bank.Approve(decision, "bob")) ::_exit(4);
  clock.left = approve_ticks;
  if (!bank.Approve(decision, "cleo")) ::_exit(5);
  clock.left = 0;
  TellParent(pipe_fd, 'v', customer);
}

// The customer of each decision that waits for or had a review.
std::map<std::string, std::string> TicketsByCustomer(AcceptanceBank& bank) {
  std::map<std::string, std::string> out;
  for (const char* state : {"open", "approved", "rejected"}) {
    const auto list = bank.Person("dora", "list", {{"state", state}, {"limit", 1000}});
    EXPECT_TRUE(list) << list.error().ToString();
    for (const json::value& one : list->at("data").as_array()) {
      const auto ticket = bank.Person("dora", "get", {{"id", one.at("id")}});
      const json::value& write = ticket->at("context").at("writes").at(0);
      out[std::string(write.at("arguments").at("customer").as_string())] = one.at("decision").as_string();
    }
  }
  return out;
}

int64_t RowsWith(const std::vector<AuditRow>& rows, const std::string& member, const std::string& value) {
  return std::ranges::count_if(rows, [&](const AuditRow& row) {
    const json::value* found = row.body.if_contains(member);
    return found != nullptr && found->is_string() && found->get_string() == value;
  });
}

// How a refund stands after the gateway has come back, before anybody has asked for it.
enum class Window : uint8_t { kNoRow, kNotApproved, kBeforeIntent, kBeforeOutcome, kBeforeRelease, kDone };

Window WindowAtDeath(const CrashSite& site, const std::string& decision) {
  AcceptanceBank bank(site.folder(), Clock::Real());   // not opened: looks at what is on the disk
  if (RowsWith(bank.Rows("decision"), "id", decision) == 0) return Window::kNoRow;
  if (RowsWith(bank.Rows("release"), "id", decision) > 0) return Window::kDone;
  if (RowsWith(bank.Rows("tool_outcome"), "case", decision) > 0) return Window::kBeforeRelease;
  if (RowsWith(bank.Rows("tool_intent"), "case", decision) > 0) return Window::kBeforeOutcome;
  auto store = ReviewStore::Open(site.path("state/review.db"), {}, Clock::Real());
  const auto ticket = (*store)->GetForDecision(decision);
  return ticket && ticket->state == TicketState::kApproved ? Window::kBeforeIntent : Window::kNotApproved;
}

// After a death: the gateway comes back, people finish what they had not, and everything is as if it had never died.
void ComesBack(const CrashSite& site, const std::string& customer, std::map<Window, int>& windows) {
  site.KillInTool("");
  std::string decision;
  {
    AcceptanceBank dead(site.folder(), Clock::Real());
    auto store = ReviewStore::Open(site.path("state/review.db"), {}, Clock::Real());
    const auto decided = (*store)->DecidedSince(0);
    for (const AuditRow& row : dead.Rows("decision")) {
      const auto ticket = (*store)->GetForDecision(std::string(row.body.at("id").as_string()));
      if (!ticket) continue;
      const json::value& write = ticket->context.at("writes").at(0);
      if (write.at("arguments").at("customer").as_string() == customer) decision = ticket->decision;
    }
  }
  const Window window = decision.empty() ? Window::kNoRow : WindowAtDeath(site, decision);
  ++windows[window];
  AcceptanceBank bank(site.folder(), Clock::Real());
  const Status opened = bank.Open();
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  if (window == Window::kNoRow) {   // the request never was: at most its ticket is there, and nobody can approve it
    const auto tickets = TicketsByCustomer(bank);
    if (const auto orphan = tickets.find(customer); orphan != tickets.end()) {
      EXPECT_FALSE(bank.Approve(orphan->second, "bob"));
    }
    EXPECT_EQ(site.EffectsOf(customer), 0);
    return;
  }
  if (window == Window::kNotApproved) {
    EXPECT_EQ(site.EffectsOf(customer), 0);
    for (const char* person : {"cleo", "emil"}) {
      if (bank.State(decision).at("state") != "review_pending") break;
      (void)bank.Approve(decision, person).has_value();
    }
  }
  // Without anybody asking for it.
  const json::object released = bank.Rows("release").empty() ? json::object() : bank.Rows("release").back().body;
  const int effects = site.EffectsOf(customer);
  if (window == Window::kBeforeOutcome) {   // nobody can know: it is said, not tried again, and nothing is released
    EXPECT_LE(effects, 1);
    EXPECT_EQ(bank.State(decision).at("state"), "reconcile");
    EXPECT_FALSE(bank.State(decision).contains("answer"));
    EXPECT_EQ(RowsWith(bank.Rows("release"), "id", decision), 0);
    const json::array open = bank.governance->UnfinishedWrites().at("data").as_array();
    EXPECT_TRUE(
        std::ranges::any_of(open, [&](const json::value& one) { return one.at("decision").as_string() == decision; }));
    // An operator looks it up: what did not happen is now done by hand or, here, again.
    for (int i = 0; i < 100 && site.EffectsOf(customer) == 0; ++i) ::usleep(10'000);  // the program may still run
    const bool happened = site.EffectsOf(customer) == 1;
    const auto settled = bank.governance->SettleWrite(decision, 0, happened ? "done" : "not_sent", "root", "seen");
    EXPECT_TRUE(settled.has_value()) << (settled ? "" : settled.error().ToString());
  } else {
    EXPECT_EQ(effects, 1) << static_cast<int>(window);
    EXPECT_EQ(released.at("writes").at(0).at("state"), "done") << released;
  }
  EXPECT_EQ(bank.State(decision).at("state"), "released");
  EXPECT_EQ(site.EffectsOf(customer), 1);
  EXPECT_EQ(RowsWith(bank.Rows("decision"), "id", decision), 1);
  EXPECT_EQ(RowsWith(bank.Rows("release"), "id", decision), 1);
  EXPECT_TRUE(VerifyAuditLog(bank.log()).has_value());
}

// The control: a process that nobody kills makes one effect.
TEST(AcceptanceCrashTest, WithoutADeathThereIsOneEffectAndOneRow) {
  const CrashSite site;
  const Death death = RunUntilDeath(site, [&](AcceptanceBank& bank, DyingClock& clock, int pipe_fd) {
    OneRefund(bank, clock, pipe_fd, "c1", 0, 0);
  });
  EXPECT_FALSE(death.killed);
  std::map<Window, int> windows;
  ComesBack(site, "c1", windows);
  EXPECT_EQ(windows[Window::kDone], 1);
}

TEST(AcceptanceCrashTest, KilledBetweenTheToolsCallAndItsReplyThereIsOneEffect) {
  for (const char* where : {"before", "after"}) {
    const CrashSite site;
    site.KillInTool(where);
    const Death death = RunUntilDeath(site, [&](AcceptanceBank& bank, DyingClock& clock, int pipe_fd) {
      OneRefund(bank, clock, pipe_fd, "c1", 0, 0);
    });
    EXPECT_TRUE(death.killed);
    std::map<Window, int> windows;
    ComesBack(site, "c1", windows);
    EXPECT_EQ(windows[Window::kBeforeOutcome], 1);
    EXPECT_EQ(site.EffectsOf("c1"), 1) << where;   // the program that was called ends its work
  }
}

// Kills at the first, the second, ... reading of a clock in the request or its last approval, until one gets through.
void KillAtEachTick(const CrashSite& site, int round, bool in_approval, std::map<Window, int>& windows) {
  for (int64_t ticks = 1;; ++ticks) {
    ASSERT_LT(ticks, 400);
    const std::string customer = fmt::format("r{}c{}", round, ticks);
    const Death death = RunUntilDeath(site, [&](AcceptanceBank& bank, DyingClock& clock, int pipe_fd) {
      OneRefund(bank, clock, pipe_fd, customer, in_approval ? 0 : ticks, in_approval ? ticks : 0);
    });
    ComesBack(site, customer, windows);
    ASSERT_FALSE(::testing::Test::HasFailure())
        << "tick " << ticks << (in_approval ? " of the approval" : " of the request");
    if (!death.killed) return;
  }
}

// At each point of the request and of the last approval at which the gateway looks at a clock: that is in every part.
// Other threads look at it too, so where a tick falls differs between rounds: as many as it takes to hit every window,
// else this would be weaker than it says.
TEST(AcceptanceCrashTest, KilledAnywhereInARequestOrAnApprovalItComesBackWhole) {
  const std::vector<Window> of_approval{Window::kNotApproved, Window::kBeforeIntent, Window::kBeforeOutcome,
                                        Window::kBeforeRelease};
  const std::vector<Window> of_request{Window::kNoRow};
  for (const bool in_approval : {false, true}) {
    const CrashSite site;
    std::map<Window, int> windows;
    const auto is_hit = [&](Window window) { return windows[window] > 0; };
    const auto all_hit = [&] { return std::ranges::all_of(in_approval ? of_approval : of_request, is_hit); };
    for (int round = 0; round < 10 && !all_hit(); ++round) {
      KillAtEachTick(site, round, in_approval, windows);
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_TRUE(all_hit());
    int n_requests = 0;
    for (const auto& [window, n] : windows) n_requests += n;
    const AcceptanceBank bank(site.folder(), Clock::Real());
    EXPECT_EQ(static_cast<int>(bank.Rows("decision").size()), n_requests - windows[Window::kNoRow]);
    if (in_approval) {
      EXPECT_EQ(windows[Window::kNoRow], 0);
    }
  }
}

// SURETY_ACCEPTANCE_KILLS=1000 for the long form.
TEST(AcceptanceCrashTest, KilledAtRandomUnderLoadEachRefundIsPaidOnceAndEachRequestHasItsRow) {
  const char* wanted = std::getenv("SURETY_ACCEPTANCE_KILLS");
  const int n_kills = wanted != nullptr ? std::max(1, std::atoi(wanted)) : 15;
  std::mt19937_64 random(20261130);
  int n_paid = 0, n_answered = 0;
  for (int from = 0; from < n_kills; from += 20) {   // a new site now and then, since each start reads the log
    const CrashSite site;
    std::vector<std::string> asked, answered, approved;
    for (int round = from; round < std::min(n_kills, from + 20); ++round) {
      const Death death = RunUntilDeath(site, [&](AcceptanceBank& bank, DyingClock& clock, int pipe_fd) {
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t) {
          threads.emplace_back([&, t] {
            for (int i = 0;; ++i) OneRefund(bank, clock, pipe_fd, fmt::format("r{}.{}.{}", round, t, i), 0, 0);
          });
        }
        for (std::thread& thread : threads) thread.join();
      }, static_cast<int64_t>(random() % 250'000));
      ASSERT_TRUE(death.killed);
      asked.insert(asked.end(), death.asked.begin(), death.asked.end());
      answered.insert(answered.end(), death.answered.begin(), death.answered.end());
      approved.insert(approved.end(), death.approved.begin(), death.approved.end());
    }
    AcceptanceBank bank(site.folder(), Clock::Real());
    ASSERT_TRUE(bank.Open().ok());
    const auto decisions = bank.Rows("decision"), releases = bank.Rows("release");
    ASSERT_TRUE(VerifyAuditLog(bank.log()).has_value());
    EXPECT_GE(decisions.size(), answered.size());
    EXPECT_LE(decisions.size(), asked.size());
    const auto tickets = TicketsByCustomer(bank);
    for (const std::string& customer : answered) {
      ASSERT_TRUE(tickets.contains(customer)) << customer;
      EXPECT_EQ(RowsWith(decisions, "id", tickets.at(customer)), 1) << customer;
    }
    for (const std::string& customer : asked) EXPECT_LE(site.EffectsOf(customer), 1) << customer;
    for (const std::string& customer : approved) EXPECT_EQ(site.EffectsOf(customer), 1) << customer;
    for (const auto& [customer, decision] : tickets) {
      const int64_t n_released = RowsWith(releases, "id", decision);
      EXPECT_LE(n_released, 1) << customer;
      const bool open = bank.State(decision).at("state") == "reconcile";
      EXPECT_TRUE(n_released == 1 || open || site.EffectsOf(customer) == 0) << customer;
      n_paid += site.EffectsOf(customer);
    }
    n_answered += static_cast<int>(answered.size());
  }
  EXPECT_GT(n_paid, 0);
  std::printf("%d kills, %d answered, %d paid\n", n_kills, n_answered, n_paid);
}

// A caller who asks again and again while it is approved, as a web page does.
TEST(AcceptanceCrashTest, WhoAsksWhileItIsApprovedCausesNoSecondRelease) {
  const CrashSite site;
  AcceptanceBank bank(site.folder(), Clock::Real());
  ASSERT_TRUE(bank.Open().ok());
  std::atomic<bool> stop = false;
  for (int i = 0; i < 10; ++i) {
    const std::string customer = fmt::format("p{}", i);
    const Reply reply = bank.Ask("I want a refund", CustomerOf(customer));
    const std::string decision = reply.decision().id;
    ASSERT_TRUE(bank.Approve(decision, "ann", "You get it."));
    ASSERT_TRUE(bank.Approve(decision, "bob"));
    stop = false;
    std::vector<std::thread> pollers;
    for (int t = 0; t < 3; ++t) {
      pollers.emplace_back([&] {
        while (!stop) (void)bank.State(decision).size();
      });
    }
    EXPECT_TRUE(bank.Approve(decision, "cleo"));
    EXPECT_EQ(bank.State(decision).at("state"), "released");
    stop = true;
    for (std::thread& poller : pollers) poller.join();
    EXPECT_EQ(RowsWith(bank.Rows("release"), "id", decision), 1);
    EXPECT_EQ(site.EffectsOf(customer), 1);
  }
}

}  // namespace
}  // namespace surety::gateway
