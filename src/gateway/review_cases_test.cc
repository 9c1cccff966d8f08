// The conformance suite: one claim a case, on a fresh database of either kind (review_store_sqlite_test.cc,
// review_store_postgres_test.cc).
#include <algorithm>
#include <set>
#include <tuple>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/testing/review_cases.h"

namespace surety::gateway {

std::map<std::string, ReviewQueueSpec> ReviewTestQueues() {
  std::map<std::string, ReviewQueueSpec> queues;
  queues["plain"] = {};
  queues["pair"].approvals = 2;
  queues["pair"].reasons_required = false;
  queues["pair"].permission = "supervise";
  queues["loose"].approvals = 2;
  queues["loose"].exclude_author = false;
  queues["loose"].reasons_required = false;
  return queues;
}

Reviewer ReviewPerson(const std::string& name, const std::string& tenant) { return {name, {"supervise"}, tenant}; }

Ticket ReviewDraft(const std::string& decision, const std::string& queue, const std::string& tenant) {
  Ticket ticket;
  ticket.decision = decision;
  ticket.queue = queue;
  ticket.route = "high";
  ticket.tenant = tenant;
  ticket.subject = "author";
  ticket.risk = "high";
  ticket.question = "May I?";
  ticket.draft = "You may.";
  ticket.context = {{"passages", boost::json::array{"doc:1@2"}}};
  return ticket;
}

namespace {

constexpr int64_t kReviewSecond = 1'000'000'000;

auto ReviewFacts(const Ticket& t) {
  return std::tuple(t.id, t.decision, t.queue, t.tenant, t.subject, t.question, t.draft, t.text,
                    boost::json::serialize(t.context), t.state, t.version, t.created_ns, t.decided_ns, t.leased_by,
                    t.lease_until_ns, t.approvers, t.editors, t.reason_code, t.reason, t.edit_distance, t.review_ns,
                    t.decided_by, t.votes);
}

struct CaseStore {
  explicit CaseStore(const std::string& database, BeforeDecide before = {}) : name(database) {
    auto opened = ReviewStore::Open(database, ReviewTestQueues(), clock, std::move(before));
    EXPECT_TRUE(opened) << opened.error().ToString();
    if (opened) store = *std::move(opened);
  }
  Ticket Made(const std::string& decision, const std::string& queue = "plain", const std::string& tenant = "acme") {
    const auto made = store->Create(ReviewDraft(decision, queue, tenant));
    EXPECT_TRUE(made) << made.error().ToString();
    clock.SleepNanos(kReviewSecond);
    return made.value_or(Ticket{});
  }
  Ticket Leased(const std::string& who, const Ticket& ticket) {
    const auto leased = store->LeaseTicket(ReviewPerson(who, ticket.tenant), ticket.id, ticket.version);
    EXPECT_TRUE(leased) << leased.error().ToString();
    return leased.value_or(Ticket{});
  }
  Result<Ticket> Approved(const std::string& who, const Ticket& ticket) {
    return store->Approve(ReviewPerson(who, ticket.tenant), ticket.id, ticket.version, "correct", "");
  }
  std::string name;
  ReviewTestClock clock;
  std::unique_ptr<ReviewStore> store;
};

#define EXPECT_REFUSED(expression, wanted)                                    \
  do {                                                                        \
    const auto refused_ = (expression);                                       \
    EXPECT_FALSE(refused_) << #expression;                                    \
    if (!refused_) {                                                          \
      EXPECT_EQ(StatusCodeName(refused_.error().code()), StatusCodeName(wanted)) << refused_.error().message(); \
    }                                                                         \
  } while (false)

void CaseLifeOfATicket(const std::string& database) {
  CaseStore s(database);
  const Ticket made = s.Made("dec_1");
  EXPECT_TRUE(made.id.starts_with("rev_"));
  EXPECT_EQ(made.version, 1);
  EXPECT_EQ(made.text, made.draft);
  Ticket t = s.store->Lease(ReviewPerson("ann"), "plain").value();
  EXPECT_EQ(t.id, made.id);
  EXPECT_EQ(t.leased_by, "ann");
  EXPECT_EQ(t.lease_until_ns, s.clock.WallNanos() + 600 * kReviewSecond);
  s.clock.SleepNanos(30 * kReviewSecond);
  t = s.store->Edit(ReviewPerson("ann"), t.id, t.version, "You must.").value();
  EXPECT_EQ(t.editors, std::vector<std::string>{"ann"});
  EXPECT_DOUBLE_EQ(t.edit_distance, 3.0 / 9);  // "may" to "must": two changed, one added
  t = s.store->Release(ReviewPerson("ann"), t.id, t.version).value();
  EXPECT_EQ(t.review_ns, 30 * kReviewSecond);
  t = s.Leased("bob", t);
  s.clock.SleepNanos(12 * kReviewSecond);
  t = s.Approved("bob", t).value();
  EXPECT_EQ(t.state, TicketState::kApproved);
  EXPECT_EQ(t.version, 6);
  EXPECT_EQ(t.votes, std::vector<int64_t>{6});
  EXPECT_EQ(t.review_ns, 42 * kReviewSecond);
  EXPECT_EQ(t.decided_ns, s.clock.WallNanos());
  EXPECT_EQ(t.decided_by, "bob");
  EXPECT_EQ(t.leased_by, "");
  EXPECT_EQ(ReviewFacts(s.store->Get(ReviewPerson("bob"), t.id).value()), ReviewFacts(t));
  EXPECT_EQ(ReviewFacts(s.store->GetForDecision("dec_1").value()), ReviewFacts(t));
  EXPECT_EQ(s.store->List(ReviewPerson("bob"), "plain", TicketState::kOpen, 10).value().size(), 0u);
  EXPECT_EQ(s.store->List(ReviewPerson("bob"), "", TicketState::kApproved, 10).value().size(), 1u);
  EXPECT_REFUSED(s.store->Lease(ReviewPerson("bob"), "plain"), StatusCode::kNotFound);
  EXPECT_REFUSED(s.store->Lease(ReviewPerson("bob"), "plane"), StatusCode::kInvalidArgument);
}

void CaseLeases(const std::string& database) {
  CaseStore s(database);
  Ticket t = s.Leased("ann", s.Made("dec_1"));
  EXPECT_REFUSED(s.store->LeaseTicket(ReviewPerson("bob"), t.id, t.version), StatusCode::kFailedPrecondition);
  EXPECT_REFUSED(s.store->Lease(ReviewPerson("bob"), "plain"), StatusCode::kNotFound);
  for (const char* who : {"bob", "ann"}) {  // not the holder; then the holder, too late
    if (who == std::string("ann")) s.clock.SleepNanos(600 * kReviewSecond);
    EXPECT_REFUSED(s.Approved(who, t), StatusCode::kFailedPrecondition);
    EXPECT_REFUSED(s.store->Reject(ReviewPerson(who), t.id, t.version, "no", ""), StatusCode::kFailedPrecondition);
    EXPECT_REFUSED(s.store->Edit(ReviewPerson(who), t.id, t.version, "x"), StatusCode::kFailedPrecondition);
    EXPECT_REFUSED(s.store->Release(ReviewPerson(who), t.id, t.version), StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(s.store->Get(ReviewPerson("bob"), t.id).value().leased_by, "");  // run out: not shown
  t = s.store->Lease(ReviewPerson("bob"), "plain").value();
  EXPECT_EQ(t.review_ns, 600 * kReviewSecond);  // ann's whole lease
  s.clock.SleepNanos(599 * kReviewSecond);
  t = s.Leased("bob", t);  // renewed
  s.clock.SleepNanos(599 * kReviewSecond);
  t = s.Approved("bob", t).value();
  EXPECT_EQ(t.review_ns, (600 + 599 + 599) * kReviewSecond);
}

void CaseStaleVersions(const std::string& database) {
  CaseStore s(database);
  const Ticket old = s.Leased("ann", s.Made("dec_1"));
  const Ticket now = s.store->Edit(ReviewPerson("ann"), old.id, old.version, "other").value();
  for (const int64_t version : {old.version, now.version + 1, int64_t{0}, int64_t{-1}}) {
    const Reviewer ann = ReviewPerson("ann");
    EXPECT_REFUSED(s.store->LeaseTicket(ann, old.id, version), StatusCode::kFailedPrecondition);
    EXPECT_REFUSED(s.store->Release(ann, old.id, version), StatusCode::kFailedPrecondition);
    EXPECT_REFUSED(s.store->Edit(ann, old.id, version, "third"), StatusCode::kFailedPrecondition);
    EXPECT_REFUSED(s.store->Approve(ann, old.id, version, "c", ""), StatusCode::kFailedPrecondition);
    EXPECT_REFUSED(s.store->Reject(ann, old.id, version, "c", ""), StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReviewFacts(s.store->Get(ann, old.id).value()), ReviewFacts(now));
  }
  const Ticket same = s.store->Edit(ReviewPerson("ann"), old.id, now.version, "other").value();
  EXPECT_EQ(ReviewFacts(same), ReviewFacts(now));  // the same text is no change
  EXPECT_TRUE(s.store->Reject(ReviewPerson("ann"), old.id, now.version, "c", ""));
}

void CaseFourEyes(const std::string& database) {
  CaseStore s(database);
  Ticket t = s.Made("dec_1", "pair");
  EXPECT_REFUSED(s.store->LeaseTicket(ReviewPerson("author"), t.id, t.version), StatusCode::kPermissionDenied);
  EXPECT_REFUSED(s.store->Lease(ReviewPerson("author"), "pair"), StatusCode::kNotFound);
  t = s.Approved("ann", s.Leased("ann", t)).value();
  EXPECT_EQ(t.state, TicketState::kOpen);
  EXPECT_EQ(t.approvers, std::vector<std::string>{"ann"});
  EXPECT_REFUSED(s.store->Lease(ReviewPerson("ann"), "pair"), StatusCode::kNotFound);  // none that ann may decide
  t = s.Leased("ann", t);
  EXPECT_REFUSED(s.Approved("ann", t), StatusCode::kPermissionDenied);  // one person is not two
  t = s.store->Release(ReviewPerson("ann"), t.id, t.version).value();
  t = s.Leased("bob", t);
  t = s.store->Edit(ReviewPerson("bob"), t.id, t.version, "Another text.").value();
  EXPECT_TRUE(t.approvers.empty());  // ann approved another text
  EXPECT_REFUSED(s.Approved("bob", t), StatusCode::kPermissionDenied);
  t = s.store->Release(ReviewPerson("bob"), t.id, t.version).value();
  EXPECT_REFUSED(s.store->Lease(ReviewPerson("bob"), "pair"), StatusCode::kNotFound);
  t = s.Approved("ann", s.Leased("ann", t)).value();
  t = s.Approved("cleo", s.Leased("cleo", t)).value();
  EXPECT_EQ(t.state, TicketState::kApproved);
  EXPECT_EQ(t.approvers, (std::vector<std::string>{"ann", "cleo"}));
  EXPECT_EQ(t.text, "Another text.");
  EXPECT_EQ(t.votes.size(), 3u);
  // Where the author is not excluded, he and an editor may approve; one person is still not two.
  t = s.Leased("author", s.Made("dec_2", "loose"));
  t = s.store->Edit(ReviewPerson("author"), t.id, t.version, "Mine.").value();
  t = s.Approved("author", t).value();
  EXPECT_EQ(t.state, TicketState::kOpen);
  EXPECT_REFUSED(s.Approved("author", s.Leased("author", t)), StatusCode::kPermissionDenied);
}

void CasePermissions(const std::string& database) {
  CaseStore s(database);
  const Ticket t = s.Made("dec_1", "pair");
  const Reviewer plain{"ann", {"other"}, "acme"};
  EXPECT_REFUSED(s.store->Get(plain, t.id), StatusCode::kPermissionDenied);
  EXPECT_REFUSED(s.store->Lease(plain, "pair"), StatusCode::kPermissionDenied);
  EXPECT_REFUSED(s.store->LeaseTicket(plain, t.id, t.version), StatusCode::kPermissionDenied);
  EXPECT_REFUSED(s.store->List(plain, "pair", TicketState::kOpen, 10), StatusCode::kPermissionDenied);
  EXPECT_EQ(s.store->List(plain, "", TicketState::kOpen, 10).value().size(), 0u);
  EXPECT_FALSE(s.store->Stats(plain).value().contains("pair"));
  EXPECT_TRUE(s.store->Stats(ReviewPerson("ann")).value().contains("pair"));
  EXPECT_EQ(s.store->List(ReviewPerson("ann"), "", TicketState::kOpen, 10).value().size(), 1u);
  EXPECT_TRUE(s.store->Get(ReviewPerson("ann"), t.id));
  EXPECT_REFUSED(s.store->Get(Reviewer{"", {}, "acme"}, t.id), StatusCode::kInvalidArgument);
  EXPECT_REFUSED(s.store->Get(Reviewer{"ann", {}, ""}, t.id), StatusCode::kInvalidArgument);
}

// Each call on another tenant's ticket gives what it gives for a ticket that does not exist.
void CaseTenants(const std::string& database) {
  CaseStore s(database);
  const Ticket theirs = s.Made("dec_1", "plain", "bank");
  std::string unknown = theirs.id;
  unknown.back() = unknown.back() == '0' ? '1' : '0';
  const Reviewer eve = ReviewPerson("eve", "acme");
  using Call = std::function<Result<Ticket>(const std::string&)>;
  const std::vector<Call> calls = {
      [&](const std::string& id) { return s.store->Get(eve, id); },
      [&](const std::string& id) { return s.store->LeaseTicket(eve, id, 1); },
      [&](const std::string& id) { return s.store->Release(eve, id, 1); },
      [&](const std::string& id) { return s.store->Edit(eve, id, 1, "x"); },
      [&](const std::string& id) { return s.store->Approve(eve, id, 1, "c", ""); },
      [&](const std::string& id) { return s.store->Reject(eve, id, 1, "c", ""); }};
  for (const Call& call : calls) {
    const auto foreign = call(theirs.id), absent = call(unknown);
    ASSERT_FALSE(foreign);
    ASSERT_FALSE(absent);
    EXPECT_EQ(foreign.error().code(), StatusCode::kNotFound);
    EXPECT_EQ(absent.error().code(), StatusCode::kNotFound);
    std::string said = foreign.error().message();
    ASSERT_NE(said.find(theirs.id), std::string::npos);
    said.replace(said.find(theirs.id), theirs.id.size(), unknown);
    EXPECT_EQ(said, absent.error().message());
  }
  for (const std::string& id : {std::string("rev_1"), std::string("rev_\0x", 6), std::string("' OR 1=1 --"),
                               "rev_" + std::string(32, '\xff')}) {
    EXPECT_REFUSED(s.store->Get(eve, id), StatusCode::kNotFound);
  }
  EXPECT_REFUSED(s.store->Lease(eve, "plain"), StatusCode::kNotFound);
  EXPECT_EQ(s.store->List(eve, "plain", TicketState::kOpen, 10).value().size(), 0u);
  EXPECT_EQ(s.store->Stats(eve).value().at("plain").at("open"), 0);
  EXPECT_EQ(ReviewFacts(s.store->Get(ReviewPerson("x", "bank"), theirs.id).value()), ReviewFacts(theirs));
  EXPECT_EQ(s.store->List(ReviewPerson("op", "*"), "plain", TicketState::kOpen, 10).value().size(), 1u);
  EXPECT_EQ(s.store->Stats(ReviewPerson("x", "bank")).value().at("plain").at("open"), 1);
  EXPECT_EQ(s.store->Stats().value().at("plain").at("open"), 1);
  EXPECT_EQ(s.store->Lease(ReviewPerson("x", "bank"), "plain").value().id, theirs.id);
}

void CaseReasons(const std::string& database) {
  CaseStore s(database);
  Ticket t = s.Leased("ann", s.Made("dec_1"));
  for (const std::string& code : {std::string(), std::string("  "), std::string("a\nb"), std::string("\xff")}) {
    EXPECT_REFUSED(s.store->Approve(ReviewPerson("ann"), t.id, t.version, code, ""), StatusCode::kInvalidArgument);
    EXPECT_REFUSED(s.store->Reject(ReviewPerson("ann"), t.id, t.version, code, ""), StatusCode::kInvalidArgument);
  }
  t = s.store->Reject(ReviewPerson("ann"), t.id, t.version, "wrong_tone", "Grüße fehlen.").value();
  EXPECT_EQ(t.reason_code, "wrong_tone");
  EXPECT_EQ(t.reason, "Grüße fehlen.");
  EXPECT_EQ(t.decided_by, "ann");
  t = s.Leased("ann", s.Made("dec_2", "loose"));
  EXPECT_TRUE(s.store->Approve(ReviewPerson("ann"), t.id, t.version, "", ""));
}

void CaseForget(const std::string& database) {
  CaseStore s(database);
  const Ticket first = s.Made("dec_1"), foreign = s.Made("dec_2", "plain", "bank");
  Ticket decided = s.Approved("ann", s.Leased("ann", s.Made("dec_3"))).value();
  Ticket other = ReviewDraft("dec_4");
  other.subject = "somebody";
  other = s.store->Create(other).value();
  EXPECT_EQ(s.store->Forget("acme", "author").value(), 2);
  for (const std::string& id : {first.id, decided.id}) {
    const Ticket t = s.store->Get(ReviewPerson("ann"), id).value();
    EXPECT_EQ(t.question + t.draft + t.text + t.reason, "");
    EXPECT_TRUE(t.context.empty());
    EXPECT_EQ(t.state, TicketState::kErased);
    EXPECT_REFUSED(s.store->LeaseTicket(ReviewPerson("ann"), id, t.version), StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(ReviewFacts(s.store->Get(ReviewPerson("x", "bank"), foreign.id).value()), ReviewFacts(foreign));
  EXPECT_EQ(ReviewFacts(s.store->Get(ReviewPerson("ann"), other.id).value()), ReviewFacts(other));
  EXPECT_EQ(s.store->Forget("acme", "author").value(), 0);
  EXPECT_EQ(s.store->Forget("acme", "nobody").value(), 0);
}

double ReviewMedian(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

void CaseStats(const std::string& database) {
  CaseStore s(database);
  EXPECT_TRUE(s.store->Stats().value().at("plain").at("review_seconds").is_null());
  std::vector<double> review, wait, edit;
  for (int i = 0; i < 7; ++i) {
    Ticket t = s.Made(fmt::format("dec_{}", i));
    const int64_t made_ns = t.created_ns;
    t = s.Leased("ann", t);
    s.clock.SleepNanos((7 - i) * (i + 1) * kReviewSecond);
    t = s.store->Edit(ReviewPerson("ann"), t.id, t.version, std::string(static_cast<size_t>(i * 3 + 1), 'z')).value();
    t = s.store->Reject(ReviewPerson("ann"), t.id, t.version, "c", "").value();
    review.push_back(static_cast<double>((7 - i) * (i + 1)));
    wait.push_back(static_cast<double>(t.decided_ns - made_ns) / 1e9);
    edit.push_back(t.edit_distance);
    const auto stats = s.store->Stats().value().at("plain").as_object();
    EXPECT_EQ(stats.at("rejected"), i + 1);
    EXPECT_NEAR(stats.at("review_seconds").as_double(), ReviewMedian(review), 1e-6);
    EXPECT_NEAR(stats.at("decision_seconds").as_double(), ReviewMedian(wait), 1e-6);
    EXPECT_NEAR(stats.at("edit_distance").as_double(), ReviewMedian(edit), 1e-9);
  }
  const Ticket open = s.Made("dec_a");
  s.Leased("ann", s.Made("dec_b"));
  s.Approved("ann", s.Leased("ann", s.Made("dec_c"))).value();
  Ticket late = ReviewDraft("dec_d");
  late.subject = "gone";
  ASSERT_TRUE(s.store->Create(late));
  EXPECT_EQ(s.store->Forget("acme", "gone").value(), 1);
  const auto stats = s.store->Stats().value().at("plain").as_object();
  EXPECT_EQ(stats.at("open"), 2);
  EXPECT_EQ(stats.at("leased"), 1);
  EXPECT_EQ(stats.at("approved"), 1);
  EXPECT_EQ(stats.at("erased"), 1);
  EXPECT_NEAR(stats.at("oldest_open_seconds").as_double(), (s.clock.WallNanos() - open.created_ns) / 1e9, 1e-6);
}

void CaseCreate(const std::string& database) {
  CaseStore s(database);
  const Ticket made = s.Made("dec_1");
  EXPECT_EQ(ReviewFacts(s.store->Create(ReviewDraft("dec_1")).value()), ReviewFacts(made));  // told again: the same
  Ticket other = ReviewDraft("dec_1");
  other.draft = "Another.";
  EXPECT_REFUSED(s.store->Create(other), StatusCode::kFailedPrecondition);
  EXPECT_EQ(s.store->List(ReviewPerson("ann"), "plain", TicketState::kOpen, 10).value().size(), 1u);
  using Spoil = void (*)(Ticket&);
  for (const Spoil spoil : std::initializer_list<Spoil>{
           [](Ticket& t) { t.decision = ""; }, [](Ticket& t) { t.tenant = ""; }, [](Ticket& t) { t.tenant = "*"; },
           [](Ticket& t) { t.subject = ""; }, [](Ticket& t) { t.queue = "plan"; }, [](Ticket& t) { t.queue = ""; },
           [](Ticket& t) { t.draft = "\xc3"; }, [](Ticket& t) { t.question = "\xed\xa0\x80"; },
           [](Ticket& t) { t.route = std::string("a\0b", 3); }, [](Ticket& t) { t.tenant = "a\nb"; },
           [](Ticket& t) { t.text = std::string((256 << 10) + 1, 'x'); },
           [](Ticket& t) { t.context["x"] = std::numeric_limits<double>::quiet_NaN(); }}) {
    Ticket bad = ReviewDraft("dec_2");
    spoil(bad);
    EXPECT_REFUSED(s.store->Create(bad), StatusCode::kInvalidArgument);
  }
  // No model was asked: somebody must write a text before it can be approved.
  Ticket empty = ReviewDraft("dec_3");
  empty.draft = "";
  Ticket t = s.Leased("ann", s.store->Create(empty).value());
  EXPECT_REFUSED(s.Approved("ann", t), StatusCode::kFailedPrecondition);
  EXPECT_REFUSED(s.store->Edit(ReviewPerson("ann"), t.id, t.version, ""), StatusCode::kInvalidArgument);
  t = s.store->Edit(ReviewPerson("ann"), t.id, t.version, "Written by hand.").value();
  EXPECT_EQ(t.edit_distance, 1.0);
  EXPECT_REFUSED(s.store->GetForDecision("dec_2"), StatusCode::kNotFound);
  EXPECT_REFUSED(s.store->List(ReviewPerson("ann"), "", TicketState::kOpen, 0), StatusCode::kInvalidArgument);
}

void CaseExactBytes(const std::string& database) {
  Ticket draft = ReviewDraft("dec_1");
  draft.question = std::string("a\0b\\x00 '; DROP TABLE review_tickets; -- \"\xf0\x9f\x98\x80", 46);
  draft.draft = std::string("\0", 1) + std::string(100'000, 'q') + "\r\n\t\x7f";
  draft.context = {{"deep", boost::json::parse("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]")},
                   {"half", 0.1}, {"big", 9007199254740993}, {"nul", std::string("\0", 1)}};
  draft.subject = "O'Brien \xe2\x82\xac";
  Ticket made;
  if (database != ":memory:") {
    CaseStore first(database);
    made = first.store->Create(draft).value();
  }
  CaseStore s(database);  // opened again
  if (database == ":memory:") made = s.store->Create(draft).value();
  const Ticket read = s.store->Get(ReviewPerson("ann"), made.id).value();
  EXPECT_EQ(ReviewFacts(read), ReviewFacts(made));
  EXPECT_EQ(read.question, draft.question);
  EXPECT_EQ(read.draft, draft.draft);
  EXPECT_EQ(read.context, draft.context);
  EXPECT_EQ(read.subject, draft.subject);
}

// The audit row comes first: while it is written nobody sees the vote, and without it there is none.
void CaseBeforeDecide(const std::string& database) {
  std::unique_ptr<ReviewStore> other;
  ReviewTestClock clock;
  Status answer;
  std::vector<ReviewVote> seen;
  CaseStore s(database, [&](const ReviewVote& vote) {
    seen.push_back(vote);
    EXPECT_EQ(other->Get(ReviewPerson("x"), vote.ticket.id).value().version, vote.ticket.version - 1);
    EXPECT_EQ(other->Get(ReviewPerson("x"), vote.ticket.id).value().state, TicketState::kOpen);
    return answer;
  });
  other = ReviewStore::Open(database, ReviewTestQueues(), clock).value();
  Ticket t = s.Leased("ann", s.Made("dec_1", "pair"));
  answer = ResourceExhaustedError("the audit log is full");
  EXPECT_REFUSED(s.Approved("ann", t), StatusCode::kResourceExhausted);
  EXPECT_REFUSED(s.store->Reject(ReviewPerson("ann"), t.id, t.version, "c", ""), StatusCode::kResourceExhausted);
  EXPECT_EQ(ReviewFacts(s.store->Get(ReviewPerson("ann"), t.id).value()), ReviewFacts(t));
  answer = OkStatus();
  t = s.Approved("ann", t).value();
  t = s.Approved("bob", s.Leased("bob", t)).value();
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_FALSE(seen[1].approval);
  EXPECT_EQ(seen[1].ticket.state, TicketState::kRejected);
  EXPECT_EQ(seen[2].ticket.state, TicketState::kOpen);
  EXPECT_EQ(seen[2].reviewer, "ann");
  EXPECT_EQ(ReviewFacts(seen[3].ticket), ReviewFacts(t));
  EXPECT_EQ(t.votes, (std::vector<int64_t>{seen[2].ticket.version, seen[3].ticket.version}));
}

void CaseDecidedSince(const std::string& database) {
  CaseStore s(database);
  EXPECT_TRUE(s.store->DecidedSince(0).value().empty());
  (void)s.Made("dec_open");
  const Ticket first = s.Approved("ann", s.Leased("ann", s.Made("dec_2"))).value();
  s.clock.SleepNanos(1000);
  const Ticket taken = s.Leased("ann", s.Made("dec_1"));
  ASSERT_TRUE(s.store->Reject(ReviewPerson("ann"), taken.id, taken.version, "no", "").has_value());
  using Decisions = std::vector<std::string>;
  EXPECT_EQ(s.store->DecidedSince(0).value(), (Decisions{"dec_2", "dec_1"}));
  EXPECT_EQ(s.store->DecidedSince(first.decided_ns).value(), (Decisions{"dec_2", "dec_1"}));
  EXPECT_EQ(s.store->DecidedSince(first.decided_ns + 1).value(), (Decisions{"dec_1"}));
}

constexpr ReviewCase kReviewCases[] = {
    {"LifeOfATicket", CaseLifeOfATicket}, {"Leases", CaseLeases}, {"StaleVersionsAreRefused", CaseStaleVersions},
    {"FourEyes", CaseFourEyes}, {"Permissions", CasePermissions}, {"TenantsSeeOnlyTheirs", CaseTenants},
    {"ReasonsAreRequired", CaseReasons}, {"ForgetOverwrites", CaseForget}, {"Stats", CaseStats},
    {"CreateOncePerDecision", CaseCreate}, {"ExactBytes", CaseExactBytes},
    {"AuditRowBeforeTheVoteIsSeen", CaseBeforeDecide}, {"DecidedSince", CaseDecidedSince}};

}  // namespace

std::span<const ReviewCase> ReviewCases() { return kReviewCases; }

}  // namespace surety::gateway
