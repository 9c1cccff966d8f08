// Tickets in tables: the statements, the same for both databases, around the rules of review_rules.h.
#include "gateway/review_store.h"

#include <openssl/rand.h>

#include <cstddef>
#include <iterator>
#include <memory>
#include <mutex>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/function_ref.h"
#include "base/hash.h"
#include "gateway/review_rows.h"
#include "gateway/sql_pool.h"

namespace surety::gateway {
namespace {

using Mode = SqlConnection::Mode;

constexpr int64_t kReviewSchema = 1;
constexpr int kMaxReviewList = 1000, kMaxLeaseAttempts = 1000;
constexpr size_t kMaxReviewContext = size_t{4} << 20;

// Contents are bytes: they may hold NUL. {0}: the database's type for them.
constexpr std::string_view kReviewTables[] = {
    "CREATE TABLE IF NOT EXISTS review_meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS review_tickets ("
    "id TEXT PRIMARY KEY, decision TEXT NOT NULL UNIQUE, queue TEXT NOT NULL, route TEXT NOT NULL, "
    "tenant TEXT NOT NULL, subject TEXT NOT NULL, risk TEXT NOT NULL, "
    "question {0} NOT NULL, draft {0} NOT NULL, text {0} NOT NULL, context {0} NOT NULL, "
    "state BIGINT NOT NULL, version BIGINT NOT NULL, created_ns BIGINT NOT NULL, decided_ns BIGINT NOT NULL, "
    "leased_by TEXT NOT NULL, lease_since_ns BIGINT NOT NULL, lease_until_ns BIGINT NOT NULL, "
    "reason_code TEXT NOT NULL, reason {0} NOT NULL, edit_distance DOUBLE PRECISION NOT NULL, "
    "review_ns BIGINT NOT NULL, decided_by TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS review_people ("
    "ticket TEXT NOT NULL REFERENCES review_tickets (id), role BIGINT NOT NULL, position BIGINT NOT NULL, "
    "name TEXT NOT NULL, PRIMARY KEY (ticket, role, name))",
    "CREATE TABLE IF NOT EXISTS review_votes ("
    "ticket TEXT NOT NULL REFERENCES review_tickets (id), version BIGINT NOT NULL, reviewer TEXT NOT NULL, "
    "approval BIGINT NOT NULL, reason_code TEXT NOT NULL, PRIMARY KEY (ticket, version))",
    "CREATE INDEX IF NOT EXISTS review_tickets_by_queue ON review_tickets (queue, state, created_ns)",
    "CREATE INDEX IF NOT EXISTS review_tickets_by_subject ON review_tickets (tenant, subject)"};

// Nobody can guess it: 128 bits of the system's randomness.
Result<std::string> NewTicketId() {
  std::array<uint8_t, 16> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) return Error(IoError("the system has no randomness for an id"));
  return "rev_" + HexOf(bytes);
}

bool IsTicketId(std::string_view id) {
  return id.size() == 36 && id.starts_with("rev_") &&
         std::ranges::all_of(id.substr(4), [](char c) { return HexDigitValue(c) >= 0 && (c < 'A' || c > 'F'); });
}

// " AND tenant = ..." for a reviewer of one tenant.
std::string TenantClause(std::vector<SqlValue>& parameters, const std::string& tenant) {
  return tenant == "*" ? "" : " AND t.tenant = " + ReviewNumber(parameters, tenant);
}

// Whether `value` is in the tickets of `where`: the middle one, or the mean of the middle two; null: there are none.
Result<boost::json::value> MedianOf(SqlConnection& sql, const std::string& value, const std::string& where,
                                    const std::vector<SqlValue>& parameters, int64_t count) {
  if (count == 0) return boost::json::value(nullptr);
  SURETY_ASSIGN_OR_RETURN(
      const auto answer,
      sql.Run(fmt::format("SELECT CAST(AVG(x) AS DOUBLE PRECISION) FROM (SELECT CAST({} AS DOUBLE PRECISION) AS x FROM "
                          "review_tickets t WHERE {} ORDER BY x LIMIT {} OFFSET {}) m",
                          value, where, count % 2 == 1 ? 1 : 2, (count - 1) / 2), parameters));
  return boost::json::value(answer.rows.at(0).Real(0));
}

class SqlReviewStore final : public ReviewStore {
 public:
  SqlReviewStore(std::unique_ptr<SqlSource> source, ReviewQueues queues, const Clock& clock, BeforeDecide before_decide)
      : pool_(std::move(source)),
        queues_(std::make_shared<const ReviewQueues>(std::move(queues))),
        clock_(clock),
        before_decide_(std::move(before_decide)) {}

  Status Prepare() {
    return pool_.Run(Mode::kWrite, [](SqlConnection& sql) -> Status {
      SURETY_RETURN_IF_ERROR(sql.LockSchema());
      for (const std::string_view table : kReviewTables) {
        std::string statement(table);
        for (size_t at = 0; (at = statement.find("{0}", at)) != std::string::npos;) {
          statement.replace(at, 3, sql.BytesType());
        }
        SURETY_ASSIGN_OR_RETURN(const auto made, sql.Run(statement));
      }
      SURETY_ASSIGN_OR_RETURN(auto answer, sql.Run("INSERT INTO review_meta (name, value) VALUES ('schema', $1) "
                                                   "ON CONFLICT (name) DO NOTHING", {kReviewSchema}));
      SURETY_ASSIGN_OR_RETURN(answer, sql.Run("SELECT value FROM review_meta WHERE name = 'schema'"));
      const int64_t schema = answer.rows.at(0).Int(0);
      if (schema == kReviewSchema) return OkStatus();
      return FailedPreconditionError(fmt::format("the review database has schema {}, this program reads {}", schema,
                                                 kReviewSchema));
    });
  }

  void UseQueues(const ReviewQueues& queues) override {
    ReviewQueues all = queues;
    for (auto& [name, spec] : all) spec.name = name;
    const std::lock_guard lock(queues_mutex_);
    all.insert(queues_->begin(), queues_->end());
    queues_ = std::make_shared<const ReviewQueues>(std::move(all));
  }

  Result<Ticket> Create(Ticket ticket) override;
  Result<Ticket> Get(const Reviewer& reviewer, const std::string& id) override {
    SURETY_RETURN_IF_ERROR(CheckReviewer(reviewer));
    HeldTicket held;
    SURETY_RETURN_IF_ERROR(pool_.Run(Mode::kRead, [&](SqlConnection& sql) -> Status {
      const auto queues = Queues();
      const auto queue = Load(sql, reviewer, id, /*lock=*/false, *queues, held);
      return queue ? OkStatus() : queue.error();
    }));
    return ShownTicket(held, clock_.WallNanos());
  }
  Result<Ticket> GetForDecision(const std::string& decision) override;
  Result<std::vector<std::string>> DecidedSince(int64_t decided_ns) override;
  Result<std::vector<Ticket>> List(const Reviewer& reviewer, const std::string& queue, TicketState state,
                                   int limit) override;
  Result<Ticket> Lease(const Reviewer& reviewer, const std::string& queue) override;

  Result<Ticket> LeaseTicket(const Reviewer& reviewer, const std::string& id, int64_t version) override {
    return Change(reviewer, id, version, [](SqlConnection&, HeldTicket& held, const ReviewStep& step) {
      return LeaseHeld(held, step);
    });
  }
  Result<Ticket> Release(const Reviewer& reviewer, const std::string& id, int64_t version) override {
    return Change(reviewer, id, version, [](SqlConnection&, HeldTicket& held, const ReviewStep& step) {
      return ReleaseHeld(held, step);
    });
  }
  Result<Ticket> Edit(const Reviewer& reviewer, const std::string& id, int64_t version, std::string text) override {
    return Change(reviewer, id, version, [&](SqlConnection& sql, HeldTicket& held, const ReviewStep& step) -> Status {
      SURETY_ASSIGN_OR_RETURN(const bool changed, EditHeld(held, step, text));
      if (!changed) return OkStatus();
      SURETY_RETURN_IF_ERROR(WritePeople(sql, id, kReviewApprover, held.ticket.approvers));
      return WritePeople(sql, id, kReviewEditor, held.ticket.editors);
    });
  }
  Result<Ticket> Approve(const Reviewer& reviewer, const std::string& id, int64_t version,
                         const std::string& reason_code, const std::string& reason) override {
    return Change(reviewer, id, version, [&](SqlConnection& sql, HeldTicket& held, const ReviewStep& step) -> Status {
      SURETY_RETURN_IF_ERROR(ApproveHeld(held, step, reason_code, reason));
      return WritePeople(sql, id, kReviewApprover, held.ticket.approvers);
    }, Vote::kApproval);
  }
  Result<Ticket> Reject(const Reviewer& reviewer, const std::string& id, int64_t version,
                        const std::string& reason_code, const std::string& reason) override {
    return Change(reviewer, id, version, [&](SqlConnection&, HeldTicket& held, const ReviewStep& step) {
      return RejectHeld(held, step, reason_code, reason);
    }, Vote::kRejection);
  }

  Result<int64_t> Forget(const std::string& tenant, const std::string& subject) override;
  Result<boost::json::object> Stats() override { return StatsOf("*", nullptr); }
  Result<boost::json::object> Stats(const Reviewer& reviewer) override {
    SURETY_RETURN_IF_ERROR(CheckReviewer(reviewer));
    return StatsOf(reviewer.tenant, &reviewer);
  }

 private:
  using Step = FunctionRef<Status(SqlConnection&, HeldTicket&, const ReviewStep&)>;

  // To be held for as long as one of them is looked at.
  std::shared_ptr<const ReviewQueues> Queues() const {
    const std::lock_guard lock(queues_mutex_);
    return queues_;
  }

  // The ticket, and the queue by whose rules it goes.
  Result<const ReviewQueueSpec*> Load(SqlConnection& sql, const Reviewer& reviewer, const std::string& id, bool lock,
                                      const ReviewQueues& queues, HeldTicket& held) const {
    if (!IsTicketId(id)) return Error(UnknownTicket(id));
    SURETY_ASSIGN_OR_RETURN(auto found, LoadTickets(sql, "t.id = $1", lock ? sql.LockRows() : "", {id}));
    if (found.empty()) return Error(UnknownTicket(id));
    held = std::move(found[0]);
    return QueueOf(reviewer, held.ticket, queues);
  }

  enum class Vote : uint8_t { kNone, kApproval, kRejection };

  Result<Ticket> Change(const Reviewer& reviewer, const std::string& id, int64_t version, Step step,
                        Vote vote = Vote::kNone) {
    SURETY_RETURN_IF_ERROR(CheckReviewer(reviewer));
    HeldTicket held;
    int64_t now_ns = 0;
    SURETY_RETURN_IF_ERROR(pool_.Run(Mode::kWrite, [&](SqlConnection& sql) -> Status {
      const auto queues = Queues();
      SURETY_ASSIGN_OR_RETURN(const ReviewQueueSpec* queue, Load(sql, reviewer, id, /*lock=*/true, *queues, held));
      now_ns = clock_.WallNanos();  // after the wait for the lock
      const std::string text = held.ticket.text;
      SURETY_RETURN_IF_ERROR(step(sql, held, ReviewStep{reviewer, *queue, version, now_ns}));
      if (held.ticket.version == version) return OkStatus();
      SURETY_RETURN_IF_ERROR(WriteTicket(sql, held, version,
                                         held.ticket.text == text ? TicketContents::kKept : TicketContents::kText));
      if (vote == Vote::kNone) return OkStatus();
      const ReviewVote cast{ShownTicket(held, now_ns), reviewer.name, vote == Vote::kApproval};
      SURETY_RETURN_IF_ERROR(WriteVote(sql, cast));
      // Last, so that as little as possible can still prevent the commit.
      return before_decide_ ? before_decide_(cast) : OkStatus();
    }));
    return ShownTicket(held, now_ns);
  }

  Result<std::vector<Ticket>> ListFree(const Reviewer& reviewer, const std::string& queue, int limit) override;
  Result<std::vector<Ticket>> ListWhere(const Reviewer& reviewer, const std::string& queue, TicketState state,
                                        int limit, bool free);
  std::string FreeClause(std::vector<SqlValue>& parameters, const Reviewer& reviewer,
                         const std::string& excluding) const;
  Result<std::string> FindFree(SqlConnection& sql, const Reviewer& reviewer, const ReviewQueueSpec& queue,
                               const std::string& lock) const;
  Result<boost::json::object> StatsOf(const std::string& tenant, const Reviewer* reviewer);
  Result<boost::json::object> QueueStats(SqlConnection& sql, const std::string& queue, const std::string& tenant);

  SqlPool pool_;
  mutable std::mutex queues_mutex_;
  std::shared_ptr<const ReviewQueues> queues_;
  const Clock& clock_;
  BeforeDecide before_decide_;
  std::mutex half_erased_mutex_;
  std::map<std::pair<std::string, std::string>, int64_t> half_erased_;  // overwritten, but old copies may be left
};

Result<Ticket> SqlReviewStore::Create(Ticket ticket) {
  const int64_t now_ns = clock_.WallNanos();
  SURETY_RETURN_IF_ERROR(PrepareTicket(ticket, *Queues(), now_ns));
  SURETY_ASSIGN_OR_RETURN(ticket.id, NewTicketId());
  const std::string context = boost::json::serialize(ticket.context);
  if (context.size() > kMaxReviewContext || !ParseReviewContext(context)) {
    return Error(InvalidArgumentError(fmt::format("context: {} bytes of JSON; at most {}, {} levels deep, with finite "
                                                  "numbers", context.size(), kMaxReviewContext, kReviewJsonDepth)));
  }
  HeldTicket held;
  const Ticket& t = ticket;
  SURETY_RETURN_IF_ERROR(pool_.Run(Mode::kWrite, [&](SqlConnection& sql) -> Status {
    SURETY_ASSIGN_OR_RETURN(
        const auto made,
        sql.Run("INSERT INTO review_tickets (id, decision, queue, route, tenant, subject, risk, question, draft, text, "
                "context, state, version, created_ns, decided_ns, leased_by, lease_since_ns, lease_until_ns, "
                "reason_code, reason, edit_distance, review_ns, decided_by) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, "
                "$9, $10, $11, $12, $13, $14, 0, '', 0, 0, '', $15, $16, 0, '') ON CONFLICT (decision) DO NOTHING",
                {t.id, t.decision, t.queue, t.route, t.tenant, t.subject, t.risk, SqlBytes{t.question},
                 SqlBytes{t.draft}, SqlBytes{t.text}, SqlBytes{context}, static_cast<int64_t>(t.state), t.version,
                 t.created_ns, SqlBytes{}, t.edit_distance}));
    if (made.changed == 1) {
      held.ticket = ticket;
      return OkStatus();
    }
    SURETY_ASSIGN_OR_RETURN(auto found, LoadTickets(sql, "t.decision = $1", "", {t.decision}));
    if (found.empty()) return UnavailableError("a ticket of the same decision came and went; try again");
    held = std::move(found[0]);
    const Ticket& other = held.ticket;
    const auto facts = [](const Ticket& x) { return std::tie(x.queue, x.tenant, x.subject, x.question, x.draft); };
    if (facts(other) == facts(t)) return OkStatus();
    return FailedPreconditionError(fmt::format("decision {} has a ticket already, with other contents", t.decision));
  }));
  return ShownTicket(held, now_ns);
}

Result<Ticket> SqlReviewStore::GetForDecision(const std::string& decision) {
  const auto none = [&] { return Error(NotFoundError("no ticket for this decision")); };
  if (decision.find('\0') != std::string::npos) return none();
  std::vector<HeldTicket> found;
  SURETY_RETURN_IF_ERROR(pool_.Run(Mode::kRead, [&](SqlConnection& sql) -> Status {
    SURETY_ASSIGN_OR_RETURN(found, LoadTickets(sql, "t.decision = $1", "", {decision}));
    return OkStatus();
  }));
  if (found.empty()) return none();
  return ShownTicket(found[0], clock_.WallNanos());
}

Result<std::vector<Ticket>> SqlReviewStore::List(const Reviewer& reviewer, const std::string& queue, TicketState state,
                                                 int limit) {
  return ListWhere(reviewer, queue, state, limit, /*free=*/false);
}

Result<std::vector<Ticket>> SqlReviewStore::ListFree(const Reviewer& reviewer, const std::string& queue, int limit) {
  return ListWhere(reviewer, queue, TicketState::kOpen, limit, /*free=*/true);
}

Result<std::vector<Ticket>> SqlReviewStore::ListWhere(const Reviewer& reviewer, const std::string& queue,
                                                      TicketState state, int limit, bool free) {
  SURETY_RETURN_IF_ERROR(CheckReviewer(reviewer));
  if (limit < 1 || limit > kMaxReviewList) {
    return Error(InvalidArgumentError(fmt::format("limit: {} is not in 1 to {}", limit, kMaxReviewList)));
  }
  const auto queues = Queues();
  if (!queue.empty()) {
    SURETY_ASSIGN_OR_RETURN(const ReviewQueueSpec* allowed, QueueFor(reviewer, queue, *queues));
    (void)allowed;
  }
  std::vector<SqlValue> parameters{static_cast<int64_t>(state)};
  std::string names, excluding;
  for (const auto& [name, spec] : *queues) {
    if (queue.empty() ? !HasPermission(reviewer, spec) : name != queue) continue;
    names += (names.empty() ? "" : ", ") + ReviewNumber(parameters, name);
    if (spec.exclude_author) excluding += (excluding.empty() ? "" : ", ") + ReviewNumber(parameters, name);
  }
  std::vector<Ticket> tickets;
  if (names.empty()) return tickets;
  std::string where = fmt::format("t.state = $1 AND t.queue IN ({})", names);
  where += TenantClause(parameters, reviewer.tenant);
  if (free) where += FreeClause(parameters, reviewer, excluding);
  std::vector<HeldTicket> found;
  SURETY_RETURN_IF_ERROR(pool_.Run(Mode::kRead, [&](SqlConnection& sql) -> Status {
    SURETY_ASSIGN_OR_RETURN(found, LoadTickets(sql, where, fmt::format(" ORDER BY t.created_ns, t.id LIMIT {}", limit),
                                               parameters, kReviewListColumns));
    return OkStatus();
  }));
  const int64_t now_ns = clock_.WallNanos();
  for (const HeldTicket& held : found) tickets.push_back(ShownTicket(held, now_ns));
  return tickets;
}

Result<std::vector<std::string>> SqlReviewStore::DecidedSince(int64_t decided_ns) {
  std::vector<std::string> decisions;
  SURETY_RETURN_IF_ERROR(pool_.Run(Mode::kRead, [&](SqlConnection& sql) -> Status {
    decisions.clear();
    SURETY_ASSIGN_OR_RETURN(
        const auto found,
        sql.Run("SELECT t.decision FROM review_tickets t WHERE t.decided_ns >= $1 AND (t.state = $2 OR t.state = $3) "
                "ORDER BY t.decided_ns, t.id",
                {decided_ns, static_cast<int64_t>(TicketState::kApproved),
                 static_cast<int64_t>(TicketState::kRejected)}));
    for (const SqlRow& row : found.rows) decisions.push_back(row.Text(0));
    return OkStatus();
  }));
  return decisions;
}

// Nobody has it, and this person neither approved it nor, in the queues of `excluding`, asked for it or edited it.
std::string SqlReviewStore::FreeClause(std::vector<SqlValue>& parameters, const Reviewer& reviewer,
                                       const std::string& excluding) const {
  const std::string now = ReviewNumber(parameters, clock_.WallNanos());
  const std::string me = ReviewNumber(parameters, reviewer.name);
  const std::string approver = ReviewNumber(parameters, kReviewApprover);
  const std::string mine = excluding.empty() ? "FALSE" : fmt::format("t.queue IN ({})", excluding);
  return fmt::format(" AND (t.leased_by = '' OR t.lease_until_ns <= {0}) AND NOT (t.subject = {1} AND {3}) AND NOT "
                     "EXISTS (SELECT 1 FROM review_people p WHERE p.ticket = t.id AND p.name = {1} AND (p.role = {2} "
                     "OR {3}))", now, me, approver, mine);
}

// The oldest that is open and free and that this person may decide; empty: none. `lock` may pass over locked ones.
Result<std::string> SqlReviewStore::FindFree(SqlConnection& sql, const Reviewer& reviewer,
                                             const ReviewQueueSpec& queue, const std::string& lock) const {
  std::vector<SqlValue> parameters{queue.name, static_cast<int64_t>(TicketState::kOpen), clock_.WallNanos(),
                                   reviewer.name, int64_t{queue.exclude_author ? 1 : 0}, kReviewApprover};
  const std::string tenant = TenantClause(parameters, reviewer.tenant);
  SURETY_ASSIGN_OR_RETURN(
      const auto found,
      sql.Run(fmt::format("SELECT t.id FROM review_tickets t WHERE t.queue = $1 AND t.state = $2 AND (t.leased_by = '' "
                          "OR t.lease_until_ns <= $3) AND ($5 = 0 OR t.subject <> $4) AND NOT EXISTS (SELECT 1 FROM "
                          "review_people p WHERE p.ticket = t.id AND p.name = $4 AND (p.role = $6 OR $5 = 1)){} "
                          "ORDER BY t.created_ns, t.id LIMIT 1{}", tenant, lock), parameters));
  return found.rows.empty() ? std::string() : found.rows[0].Text(0);
}

Result<Ticket> SqlReviewStore::Lease(const Reviewer& reviewer, const std::string& queue) {
  SURETY_RETURN_IF_ERROR(CheckReviewer(reviewer));
  const auto queues = Queues();
  SURETY_ASSIGN_OR_RETURN(const ReviewQueueSpec* spec, QueueFor(reviewer, queue, *queues));
  HeldTicket held;
  int64_t now_ns = 0;
  bool taken = false;
  // True: there was a free one.
  const auto attempt = [&](bool waiting) -> Result<bool> {
    std::string id;
    SURETY_RETURN_IF_ERROR(pool_.Run(Mode::kWrite, [&](SqlConnection& sql) -> Status {
      SURETY_ASSIGN_OR_RETURN(id, FindFree(sql, reviewer, *spec,
                                           waiting ? sql.LockRows() : sql.LockRowsSkippingLocked()));
      if (id.empty()) return OkStatus();
      SURETY_ASSIGN_OR_RETURN(const ReviewQueueSpec* same, Load(sql, reviewer, id, /*lock=*/true, *queues, held));
      (void)same;
      // Read again under the lock: what another committed meanwhile may exclude this person.
      const int64_t version = held.ticket.version;
      now_ns = clock_.WallNanos();
      const auto is_me = [&](const std::string& name) { return name == reviewer.name; };
      if (std::ranges::any_of(held.ticket.approvers, is_me) ||
          (spec->exclude_author && std::ranges::any_of(held.ticket.editors, is_me)) ||
          !LeaseHeld(held, ReviewStep{reviewer, *spec, version, now_ns}).ok()) {
        return OkStatus();
      }
      taken = true;
      return WriteTicket(sql, held, version, TicketContents::kKept);
    }));
    return !id.empty();
  };
  // Rows that others have locked are passed over. Where only such rows are left they are waited for: a lock is no
  // lease, and "no tickets" must not be said while there are some. Each look is a transaction of its own: a statement
  // keeps its locks on rows that were no longer free once it had them, and who waits must hold none out of order.
  for (int i = 0; i < kMaxLeaseAttempts && !taken; ++i) {
    SURETY_ASSIGN_OR_RETURN(const bool found, attempt(/*waiting=*/false));
    if (found) continue;
    std::string id;
    SURETY_RETURN_IF_ERROR(pool_.Run(Mode::kRead, [&](SqlConnection& sql) -> Status {
      SURETY_ASSIGN_OR_RETURN(id, FindFree(sql, reviewer, *spec, ""));
      return OkStatus();
    }));
    if (id.empty()) {
      return Error(NotFoundError(fmt::format("queue '{}' has no ticket that {} may take", queue, reviewer.name)));
    }
    SURETY_ASSIGN_OR_RETURN(const bool waited, attempt(/*waiting=*/true));
    (void)waited;
  }
  if (!taken) return Error(UnavailableError(fmt::format("queue '{}': others were faster; try again", queue)));
  return ShownTicket(held, now_ns);
}

Result<int64_t> SqlReviewStore::Forget(const std::string& tenant, const std::string& subject) {
  if (tenant.find('\0') != std::string::npos || subject.find('\0') != std::string::npos) {
    return Error(InvalidArgumentError("tenant and subject are texts without NUL"));
  }
  int64_t n_erased = 0;
  SURETY_RETURN_IF_ERROR(pool_.Run(Mode::kWrite, [&](SqlConnection& sql) -> Status {
    // In the order in which a lease locks, so that neither can wait for the other.
    SURETY_ASSIGN_OR_RETURN(auto found, LoadTickets(sql, "t.tenant = $1 AND t.subject = $2 AND t.state <> $3",
                                                    " ORDER BY t.created_ns, t.id" + sql.LockRows(),
                                                    {tenant, subject, static_cast<int64_t>(TicketState::kErased)}));
    n_erased = static_cast<int64_t>(found.size());
    for (HeldTicket& held : found) {
      const int64_t version = held.ticket.version;
      EraseHeld(held, clock_.WallNanos());
      SURETY_RETURN_IF_ERROR(WriteTicket(sql, held, version, TicketContents::kAll));
    }
    return OkStatus();
  }));
  {
    const std::lock_guard lock(half_erased_mutex_);
    half_erased_[{tenant, subject}] += n_erased;
  }
  SURETY_RETURN_IF_ERROR(pool_.RunOutside([](SqlConnection& sql) { return sql.ScrubOldBytes(); }));
  const std::lock_guard lock(half_erased_mutex_);
  const auto erased = half_erased_.extract({tenant, subject});
  return erased ? erased.mapped() : 0;
}

Result<boost::json::object> SqlReviewStore::QueueStats(SqlConnection& sql, const std::string& queue,
                                                       const std::string& tenant) {
  const int64_t now_ns = clock_.WallNanos();
  std::vector<SqlValue> parameters{queue};
  const std::string where = "t.queue = $1" + TenantClause(parameters, tenant);
  SURETY_ASSIGN_OR_RETURN(auto answer, sql.Run(fmt::format("SELECT t.state, COUNT(*), MIN(t.created_ns) FROM "
                                                           "review_tickets t WHERE {} GROUP BY t.state", where),
                                               parameters));
  boost::json::object out{{"open", 0}, {"leased", 0}, {"approved", 0}, {"rejected", 0}, {"erased", 0}};
  out["oldest_open_seconds"] = nullptr;
  int64_t n_decided = 0;
  for (const SqlRow& row : answer.rows) {
    const auto state = static_cast<TicketState>(row.Int(0));
    out[NameOf(state)] = row.Int(1);
    if (state == TicketState::kOpen) out["oldest_open_seconds"] = NanosToSeconds(now_ns - row.Int(2));
    if (state == TicketState::kApproved || state == TicketState::kRejected) n_decided += row.Int(1);
  }
  std::vector<SqlValue> leased = parameters;
  SURETY_ASSIGN_OR_RETURN(answer, sql.Run(fmt::format("SELECT COUNT(*) FROM review_tickets t WHERE {} AND t.state = 0 "
                                                      "AND t.leased_by <> '' AND t.lease_until_ns > {}", where,
                                                      ReviewNumber(leased, now_ns)), leased));
  out["leased"] = answer.rows.at(0).Int(0);
  const std::string decided = where + " AND t.state IN (1, 2)";
  for (const auto& [name, value] : {std::pair{"review_seconds", "t.review_ns / 1e9"},
                                    std::pair{"decision_seconds", "(t.decided_ns - t.created_ns) / 1e9"},
                                    std::pair{"edit_distance", "t.edit_distance"}}) {
    SURETY_ASSIGN_OR_RETURN(out[name], MedianOf(sql, value, decided, parameters, n_decided));
  }
  return out;
}

Result<boost::json::object> SqlReviewStore::StatsOf(const std::string& tenant, const Reviewer* reviewer) {
  boost::json::object out;
  const auto queues = Queues();
  SURETY_RETURN_IF_ERROR(pool_.Run(Mode::kRead, [&](SqlConnection& sql) -> Status {
    for (const auto& [name, spec] : *queues) {
      if (reviewer != nullptr && !HasPermission(*reviewer, spec)) continue;
      SURETY_ASSIGN_OR_RETURN(out[name], QueueStats(sql, name, tenant));
    }
    return OkStatus();
  }));
  return out;
}

}  // namespace

Result<std::unique_ptr<ReviewStore>> ReviewStore::Open(const std::string& database,
                                                       const std::map<std::string, ReviewQueueSpec>& queues,
                                                       const Clock& clock, BeforeDecide before_decide) {
  std::unique_ptr<SqlSource> source;
  if (database.starts_with("postgresql://") || database.starts_with("postgres://")) {
    SURETY_ASSIGN_OR_RETURN(source, MakePostgresSource(database));
  } else if (database.empty()) {
    return Error(InvalidArgumentError("the review database has no name: give a file or postgresql://..."));
  } else {
    source = MakeSqliteSource(database);
  }
  ReviewQueues named = queues;
  for (auto& [name, spec] : named) spec.name = name;
  auto store = std::make_unique<SqlReviewStore>(std::move(source), std::move(named), clock, std::move(before_decide));
  SURETY_RETURN_IF_ERROR(store->Prepare());
  return store;
}

}  // namespace surety::gateway
