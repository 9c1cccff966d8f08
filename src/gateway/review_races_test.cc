// Review stores under threads, and under random schedules beside a model that keeps tickets in a plain list.
#include <algorithm>
#include <set>
#include <thread>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "gateway/testing/review_cases.h"

namespace surety::gateway {
namespace {

constexpr int64_t kRaceSecond = 1'000'000'000;

std::unique_ptr<ReviewStore> RaceStore(const std::string& database, const Clock& clock, BeforeDecide before = {}) {
  auto opened = ReviewStore::Open(database, ReviewTestQueues(), clock, std::move(before));
  EXPECT_TRUE(opened) << opened.error().ToString();
  return opened ? *std::move(opened) : nullptr;
}

void RaceLeases(const std::string& database) {
  constexpr int kTickets = 200, kThreads = 16;
  ReviewTestClock clock;
  const auto store = RaceStore(database, clock);
  for (int i = 0; i < kTickets; ++i) ASSERT_TRUE(store->Create(ReviewDraft(fmt::format("dec_{}", i))));
  std::vector<std::vector<std::string>> taken(kThreads);
  std::vector<Status> ends(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const Reviewer person = ReviewPerson(fmt::format("r{}", i));
      while (true) {
        const auto leased = store->Lease(person, "plain");
        if (!leased) {
          ends[static_cast<size_t>(i)] = leased.error();
          return;
        }
        EXPECT_EQ(leased->leased_by, person.name);
        taken[static_cast<size_t>(i)].push_back(leased->id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> all;
  size_t n = 0;
  for (const auto& mine : taken) {
    all.insert(mine.begin(), mine.end());
    n += mine.size();
  }
  EXPECT_EQ(n, static_cast<size_t>(kTickets));
  EXPECT_EQ(all.size(), static_cast<size_t>(kTickets));
  for (const Status& end : ends) EXPECT_EQ(end.code(), StatusCode::kNotFound) << end.message();
}

// One ticket, one version, many hands: one change goes through, and one audit row in the end belongs to it.
void RaceVotes(const std::string& database) {
  constexpr int kThreads = 8;
  ReviewTestClock clock;
  std::mutex mutex;
  std::vector<std::pair<std::string, int64_t>> rows;
  const auto store = RaceStore(database, clock, [&](const ReviewVote& vote) {
    const std::lock_guard lock(mutex);
    rows.emplace_back(vote.ticket.id, vote.ticket.version);
    return OkStatus();
  });
  for (int round = 0; round < 10; ++round) {
    Ticket t = store->Create(ReviewDraft(fmt::format("dec_{}", round))).value();
    t = store->LeaseTicket(ReviewPerson("ann"), t.id, t.version).value();
    std::atomic<int> n_votes = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const auto done = i % 2 == 0 ? store->Approve(ReviewPerson("ann"), t.id, t.version, "c", "")
                                     : store->Reject(ReviewPerson("ann"), t.id, t.version, "c", "");
        if (done) {
          ++n_votes;
        } else {
          EXPECT_EQ(done.error().code(), StatusCode::kFailedPrecondition) << done.error().message();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(n_votes, 1);
    EXPECT_EQ(store->Get(ReviewPerson("ann"), t.id).value().votes.size(), 1u);
  }
  EXPECT_EQ(rows.size(), 10u);
}

// The rules once more, as a person would say them, over a list.
class ReviewModel {
 public:
  struct Entry {
    Ticket t;
    int64_t since = 0;
  };
  struct Outcome {
    StatusCode code = StatusCode::kOk;
    const Entry* entry = nullptr;
  };

  explicit ReviewModel(const Clock& clock) : clock_(clock) {}
  void Add(const Ticket& made) { entries_.push_back({made, 0}); }
  size_t size() const { return entries_.size(); }
  const Ticket& at(size_t i) const { return entries_[i].t; }
  bool Live(const Entry& e) const { return !e.t.leased_by.empty() && clock_.WallNanos() < e.t.lease_until_ns; }

  Outcome Oldest(const Reviewer& who, const std::string& queue) {
    if (!Allowed(who, queue)) return {StatusCode::kPermissionDenied};
    Entry* best = nullptr;
    for (Entry& e : entries_) {
      const Ticket& t = e.t;
      const bool strict = ReviewTestQueues().at(queue).exclude_author;
      if (t.queue != queue || (who.tenant != "*" && who.tenant != t.tenant) || t.state != TicketState::kOpen) continue;
      if (Live(e) || In(t.approvers, who.name)) continue;
      if (strict && (t.subject == who.name || In(t.editors, who.name))) continue;
      if (best == nullptr || std::tie(t.created_ns, t.id) < std::tie(best->t.created_ns, best->t.id)) best = &e;
    }
    if (best == nullptr) return {StatusCode::kNotFound};
    Take(*best, who.name);
    return {StatusCode::kOk, best};
  }

  // what: 0 lease, 1 release, 2 edit, 3 approve, 4 reject.
  Outcome Do(int what, const Reviewer& who, const std::string& id, int64_t version, const std::string& word) {
    const auto found = std::ranges::find_if(entries_, [&](const Entry& e) { return e.t.id == id; });
    if (found == entries_.end() || (who.tenant != "*" && who.tenant != found->t.tenant)) return {StatusCode::kNotFound};
    Entry& e = *found;
    Ticket& t = e.t;
    const ReviewQueueSpec spec = ReviewTestQueues().at(t.queue);
    if (!Allowed(who, t.queue)) return {StatusCode::kPermissionDenied};
    if (what >= 3 && spec.reasons_required && word.empty()) return {StatusCode::kInvalidArgument};
    if (what == 2 && word.empty()) return {StatusCode::kInvalidArgument};
    if (version != t.version || t.state != TicketState::kOpen) return {StatusCode::kFailedPrecondition};
    if (what != 1 && spec.exclude_author && t.subject == who.name) return {StatusCode::kPermissionDenied};
    if (what == 3 && spec.exclude_author && In(t.editors, who.name)) return {StatusCode::kPermissionDenied};
    if (what == 3 && In(t.approvers, who.name)) return {StatusCode::kPermissionDenied};
    if (what == 0 && Live(e) && t.leased_by != who.name) return {StatusCode::kFailedPrecondition};
    if (what != 0 && !(Live(e) && t.leased_by == who.name)) return {StatusCode::kFailedPrecondition};
    if (what == 2 && word == t.text) return {StatusCode::kOk, &e};
    if (what == 0) Take(e, who.name);
    if (what == 1) Drop(e), ++t.version;
    if (what == 2) Write(t, who.name, word);
    if (what >= 3) Vote(e, what == 3, who.name, word, spec.approvals);
    return {StatusCode::kOk, &e};
  }

  int64_t Erase(const std::string& tenant, const std::string& subject) {
    int64_t n = 0;
    for (Entry& e : entries_) {
      if (e.t.tenant != tenant || e.t.subject != subject || e.t.state == TicketState::kErased) continue;
      Drop(e);
      e.t.question = e.t.draft = e.t.text = e.t.reason = "";
      e.t.context.clear();
      e.t.state = TicketState::kErased;
      ++e.t.version;
      ++n;
    }
    return n;
  }

 private:
  static bool In(const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::count(names, name) > 0;
  }
  static bool Allowed(const Reviewer& who, const std::string& queue) {
    return queue != "pair" || In(who.permissions, "supervise");
  }
  void Drop(Entry& e) {
    if (!e.t.leased_by.empty()) e.t.review_ns += std::min(clock_.WallNanos(), e.t.lease_until_ns) - e.since;
    e.t.leased_by = "";
    e.t.lease_until_ns = 0;
  }
  void Take(Entry& e, const std::string& who) {
    Drop(e);
    e.t.leased_by = who;
    e.since = clock_.WallNanos();
    e.t.lease_until_ns = e.since + 600 * kRaceSecond;
    ++e.t.version;
  }
  void Write(Ticket& t, const std::string& who, const std::string& text) {
    t.text = text;
    t.edit_distance = NormalisedEditDistance(t.draft, text);
    t.approvers.clear();
    t.reason_code = t.reason = "";
    if (!In(t.editors, who)) t.editors.push_back(who);
    ++t.version;
  }
  void Vote(Entry& e, bool approval, const std::string& who, const std::string& code, int needed) {
    Ticket& t = e.t;
    Drop(e);
    ++t.version;
    t.votes.push_back(t.version);
    t.reason_code = code;
    t.reason = "because";
    if (approval) t.approvers.push_back(who);
    if (approval && static_cast<int>(t.approvers.size()) < needed) return;
    t.state = approval ? TicketState::kApproved : TicketState::kRejected;
    t.decided_ns = clock_.WallNanos();
    t.decided_by = who;
  }

  const Clock& clock_;
  std::vector<Entry> entries_;
};

auto RaceFacts(const Ticket& t) {
  return std::tuple(t.id, t.text, t.draft, t.state, t.version, t.decided_ns, t.leased_by, t.lease_until_ns, t.approvers,
                    t.editors, t.reason_code, t.reason, t.edit_distance, t.review_ns, t.decided_by, t.votes);
}

class RandomSchedule {
 public:
  RandomSchedule(const std::string& database, uint64_t seed)
      : seed_(seed), store_(RaceStore(database, clock_)), model_(clock_), prefix_(fmt::format("dec_{}_", seed)) {}

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) Step();
    for (size_t i = 0; i < model_.size() && !testing::Test::HasFailure(); ++i) {
      const Ticket stored = store_->Get(Reviewer{"end", {"supervise"}, "*"}, model_.at(i).id).value();
      Ticket wanted = model_.at(i);
      if (clock_.WallNanos() >= wanted.lease_until_ns) wanted.leased_by = "", wanted.lease_until_ns = 0;
      EXPECT_EQ(RaceFacts(stored), RaceFacts(wanted));
    }
  }
  // How often each kind of change went through, then approvals that were the last, then refusals.
  const std::array<int, 7>& counts() const { return counts_; }

 private:
  uint64_t Draw(uint64_t below) { return RandomBits({seed_, position_++, RandomPurpose::kTest, 0}) % below; }

  void Step() {
    static const std::vector<Reviewer> kPeople = {
        {"ann", {"supervise"}, "acme"}, {"bob", {"supervise"}, "acme"}, {"author", {"supervise"}, "acme"},
        {"dan", {}, "acme"}, {"eve", {"supervise"}, "bank"}, {"op", {"supervise"}, "*"}};
    static const std::vector<std::string> kQueues = {"plain", "pair", "loose"};
    clock_.SleepNanos(static_cast<int64_t>(Draw(20) == 0 ? 500 : Draw(30)) * kRaceSecond);
    const Reviewer& who = kPeople[Draw(kPeople.size())];
    const std::string queue = kQueues[Draw(3)];
    const uint64_t kind = Draw(16);
    if (kind == 0 || model_.size() == 0) {
      const auto made = store_->Create(ReviewDraft(fmt::format("{}{}", prefix_, model_.size()), queue,
                                                   Draw(4) == 0 ? "bank" : "acme"));
      ASSERT_TRUE(made) << made.error().ToString();
      model_.Add(*made);
    } else if (kind == 1) {
      Compare(store_->Lease(who, queue), model_.Oldest(who, queue), "lease of " + queue);
    } else if (kind == 2 && Draw(12) == 0) {
      const std::string tenant = Draw(2) == 0 ? "bank" : "acme";
      EXPECT_EQ(store_->Forget(tenant, "author").value(), model_.Erase(tenant, "author"));
    } else {
      OnOne(static_cast<int>(kind % 5), who);
    }
  }

  void OnOne(int what, const Reviewer& drawn) {
    // Mostly the newer ones, which are still open, and mostly whoever holds the lease.
    const size_t back = std::min<size_t>(model_.size(), 3);
    const Ticket t = model_.at(model_.size() - 1 - Draw(back));
    Reviewer who = drawn;
    if (!t.leased_by.empty() && what != 0 && Draw(6) != 0) who = {t.leased_by, {"supervise"}, t.tenant};
    const int64_t version = t.version - (Draw(8) == 0 ? 1 : 0);
    const std::string text = std::vector<std::string>{"You may.", "You may not.", "Never.", ""}[Draw(4)];
    const std::string code = Draw(5) == 0 ? "" : "fine";
    const std::string word = what == 2 ? text : code;
    const auto wanted = model_.Do(what, who, t.id, version, word);
    const Result<Ticket> got = what == 0   ? store_->LeaseTicket(who, t.id, version)
                               : what == 1 ? store_->Release(who, t.id, version)
                               : what == 2 ? store_->Edit(who, t.id, version, word)
                               : what == 3 ? store_->Approve(who, t.id, version, word, "because")
                                           : store_->Reject(who, t.id, version, word, "because");
    if (got) ++counts_[static_cast<size_t>(what)];
    if (got && got->state == TicketState::kApproved) ++counts_[5];
    Compare(got, wanted, fmt::format("{} {} by {} at {}", what, t.id, who.name, version));
  }

  void Compare(const Result<Ticket>& got, const ReviewModel::Outcome& wanted, const std::string& what) {
    const StatusCode code = got ? StatusCode::kOk : got.error().code();
    if (!got) ++counts_[6];
    ASSERT_EQ(StatusCodeName(code), StatusCodeName(wanted.code))
        << "seed " << seed_ << ", draw " << position_ << ": " << what << ": " << (got ? "" : got.error().message());
    if (got) {
      EXPECT_EQ(RaceFacts(*got), RaceFacts(wanted.entry->t)) << "seed " << seed_ << ": " << what;
    }
  }

  uint64_t seed_, position_ = 0;
  ReviewTestClock clock_;
  std::unique_ptr<ReviewStore> store_;
  ReviewModel model_;
  std::string prefix_;
  std::array<int, 7> counts_{};
};

void RandomSchedules(const std::string& database) {
  // Later schedules begin beside erased tickets alone.
  std::array<int, 7> counts{};
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    RandomSchedule schedule(database, seed);
    schedule.Run(500);
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += schedule.counts()[i];
    ReviewTestClock clock;
    const auto store = RaceStore(database, clock);
    for (const char* tenant : {"acme", "bank"}) ASSERT_TRUE(store->Forget(tenant, "author"));
  }
  for (size_t i = 0; i < counts.size(); ++i) EXPECT_GT(counts[i], 5) << "too rare to have been tested: " << i;
}

constexpr ReviewCase kReviewRaces[] = {{"EveryTicketIsLeasedOnce", RaceLeases},
                                       {"OneVoteOfMany", RaceVotes},
                                       {"RandomSchedulesAgreeWithAModel", RandomSchedules}};

}  // namespace

std::span<const ReviewCase> ReviewRaces() { return kReviewRaces; }

}  // namespace surety::gateway
