#include "gateway/review_rows.h"

#include <algorithm>
#include <map>
#include <span>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace surety::gateway {

const std::string_view kReviewColumns =
    "t.id, t.decision, t.queue, t.route, t.tenant, t.subject, t.risk, t.question, t.draft, t.text, t.context, "
    "t.state, t.version, t.created_ns, t.decided_ns, t.leased_by, t.lease_since_ns, t.lease_until_ns, "
    "t.reason_code, t.reason, t.edit_distance, t.review_ns, t.decided_by";

// What a person looks at when he opens the ticket stays where it is. SQLite's substr of no bytes is NULL.
const std::string_view kReviewListColumns =
    "t.id, t.decision, t.queue, t.route, t.tenant, t.subject, t.risk, "
    "COALESCE(substr(t.question, 1, 1024), t.question), COALESCE(substr(t.draft, 1, 0), t.draft), "
    "COALESCE(substr(t.text, 1, 0), t.text), COALESCE(substr(t.context, 1, 0), t.context), "
    "t.state, t.version, t.created_ns, t.decided_ns, t.leased_by, t.lease_since_ns, t.lease_until_ns, "
    "t.reason_code, t.reason, t.edit_distance, t.review_ns, t.decided_by";

std::string ReviewNumber(std::vector<SqlValue>& parameters, SqlValue value) {
  parameters.push_back(std::move(value));
  return fmt::format("${}", parameters.size());
}

namespace {

constexpr size_t kPeopleBatch = 1000;
constexpr size_t kReviewListedBytes = 1024;  // of a question, in kReviewListColumns

Result<boost::json::object> ParseReviewContext(const std::string& bytes) {
  boost::json::error_code error;
  boost::json::parse_options options;
  options.max_depth = kReviewJsonDepth;
  boost::json::value value = boost::json::parse(bytes, error, {}, options);
  if (error || !value.is_object()) return Error(DataLossError("a ticket's context is no JSON object"));
  return std::move(value.as_object());
}

// Takes away a last character that was cut inside. UTF-8 that is whole stays as it is.
void CutToCharacters(std::string& text) {
  size_t lead = text.size();
  while (lead > 0 && text.size() - lead < 4 && (static_cast<unsigned char>(text[lead - 1]) & 0xc0) == 0x80) --lead;
  if (lead == 0) return;
  const auto first = static_cast<unsigned char>(text[lead - 1]);
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  if (text.size() - (lead - 1) < length) text.resize(lead - 1);
}

Result<HeldTicket> HeldOf(const SqlRow& row) {
  HeldTicket held;
  Ticket& t = held.ticket;
  size_t i = 0;
  for (std::string* text : {&t.id, &t.decision, &t.queue, &t.route, &t.tenant, &t.subject, &t.risk}) {
    *text = row.Text(i++);
  }
  for (std::string* text : {&t.question, &t.draft, &t.text}) *text = row.Bytes(i++);
  if (t.question.size() == kReviewListedBytes) CutToCharacters(t.question);  // of a list
  if (const std::string context = row.Bytes(i++); !context.empty()) {
    SURETY_ASSIGN_OR_RETURN(t.context, ParseReviewContext(context));
  }
  t.state = static_cast<TicketState>(row.Int(i++));
  for (int64_t* number : {&t.version, &t.created_ns, &t.decided_ns}) *number = row.Int(i++);
  t.leased_by = row.Text(i++);
  held.lease_since_ns = row.Int(i++);
  t.lease_until_ns = row.Int(i++);
  t.reason_code = row.Text(i++);
  t.reason = row.Bytes(i++);
  t.edit_distance = row.Real(i++);
  t.review_ns = row.Int(i++);
  t.decided_by = row.Text(i++);
  return held;
}

Status LoadPeople(SqlConnection& sql, std::span<HeldTicket> tickets) {
  std::map<std::string_view, Ticket*> by_id;
  std::vector<SqlValue> ids;
  std::string numbers;
  for (HeldTicket& held : tickets) {
    by_id[held.ticket.id] = &held.ticket;
    numbers += (numbers.empty() ? "" : ", ") + ReviewNumber(ids, held.ticket.id);
  }
  SURETY_ASSIGN_OR_RETURN(const auto people, sql.Run(fmt::format("SELECT ticket, role, name FROM review_people WHERE "
                                                                 "ticket IN ({}) ORDER BY ticket, role, position",
                                                                 numbers), ids));
  for (const SqlRow& person : people.rows) {
    Ticket& ticket = *by_id.at(person.Text(0));
    (person.Int(1) == kReviewApprover ? ticket.approvers : ticket.editors).push_back(person.Text(2));
  }
  SURETY_ASSIGN_OR_RETURN(const auto votes, sql.Run(fmt::format("SELECT ticket, version FROM review_votes WHERE ticket "
                                                                "IN ({}) ORDER BY ticket, version", numbers), ids));
  for (const SqlRow& vote : votes.rows) by_id.at(vote.Text(0))->votes.push_back(vote.Int(1));
  return OkStatus();
}

}  // namespace

Result<std::vector<HeldTicket>> LoadTickets(SqlConnection& sql, const std::string& where, const std::string& tail,
                                            const std::vector<SqlValue>& parameters,
                                            std::string_view columns) {
  SURETY_ASSIGN_OR_RETURN(const auto found, sql.Run(fmt::format("SELECT {} FROM review_tickets t WHERE {}{}",
                                                                columns, where, tail), parameters));
  std::vector<HeldTicket> tickets;
  for (const SqlRow& row : found.rows) {
    SURETY_ASSIGN_OR_RETURN(tickets.emplace_back(), HeldOf(row));
  }
  for (size_t from = 0; from < tickets.size(); from += kPeopleBatch) {
    const std::span batch = std::span(tickets).subspan(from, std::min(kPeopleBatch, tickets.size() - from));
    SURETY_RETURN_IF_ERROR(LoadPeople(sql, batch));
  }
  return tickets;
}

Status WritePeople(SqlConnection& sql, const std::string& id, int64_t role, const std::vector<std::string>& names) {
  SURETY_ASSIGN_OR_RETURN(auto answer, sql.Run("DELETE FROM review_people WHERE ticket = $1 AND role = $2",
                                               {id, role}));
  for (size_t i = 0; i < names.size(); ++i) {
    SURETY_ASSIGN_OR_RETURN(answer, sql.Run("INSERT INTO review_people (ticket, role, position, name) "
                                            "VALUES ($1, $2, $3, $4)",
                                            {id, role, static_cast<int64_t>(i), names[i]}));
  }
  return OkStatus();
}

Status WriteTicket(SqlConnection& sql, const HeldTicket& held, int64_t seen, TicketContents contents) {
  const Ticket& t = held.ticket;
  SURETY_ASSIGN_OR_RETURN(
      auto written,
      sql.Run("UPDATE review_tickets SET state = $3, version = $4, decided_ns = $5, leased_by = $6, "
              "lease_since_ns = $7, lease_until_ns = $8, reason_code = $9, reason = $10, edit_distance = $11, "
              "review_ns = $12, decided_by = $13 WHERE id = $1 AND version = $2",
              {t.id, seen, static_cast<int64_t>(t.state), t.version, t.decided_ns, t.leased_by, held.lease_since_ns,
               t.lease_until_ns, t.reason_code, SqlBytes{t.reason}, t.edit_distance, t.review_ns, t.decided_by}));
  if (written.changed != 1) {
    return FailedPreconditionError(fmt::format("ticket {} was changed by another; read it again", t.id));
  }
  if (contents != TicketContents::kKept) {
    SURETY_ASSIGN_OR_RETURN(written, sql.Run("UPDATE review_tickets SET text = $2 WHERE id = $1",
                                             {t.id, SqlBytes{t.text}}));
  }
  if (contents == TicketContents::kAll) {
    SURETY_ASSIGN_OR_RETURN(written, sql.Run("UPDATE review_tickets SET question = $2, draft = $3, context = $4 "
                                             "WHERE id = $1",
                                             {t.id, SqlBytes{t.question}, SqlBytes{t.draft},
                                              SqlBytes{boost::json::serialize(t.context)}}));
  }
  return OkStatus();
}

Status WriteVote(SqlConnection& sql, const ReviewVote& vote) {
  const auto written = sql.Run("INSERT INTO review_votes (ticket, version, reviewer, approval, reason_code) "
                               "VALUES ($1, $2, $3, $4, $5)",
                               {vote.ticket.id, vote.ticket.version, vote.reviewer, int64_t{vote.approval ? 1 : 0},
                                vote.ticket.reason_code});
  return written ? OkStatus() : written.error();
}

}  // namespace surety::gateway
