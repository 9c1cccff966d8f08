// Rows of the review tables: tickets with their people, read and written. The statements are the same for both
// databases.
//
// Threads: as the connection. Errors: those of the connection; kDataLoss for a row that was not written here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/review_rules.h"
#include "gateway/sql_connection.h"

namespace surety::gateway {

inline constexpr int kReviewJsonDepth = 128;
inline constexpr int64_t kReviewApprover = 0, kReviewEditor = 1;   // roles in review_people

// All of a ticket; and for lists, without draft, text and context and with the beginning of the question.
extern const std::string_view kReviewColumns, kReviewListColumns;

// Appends `value` and gives its name in the statement, "$3".
std::string ReviewNumber(std::vector<SqlValue>& parameters, SqlValue value);

// Tickets of "FROM review_tickets t WHERE ..." with their people. `tail` may order, limit and lock.
Result<std::vector<HeldTicket>> LoadTickets(SqlConnection& sql, const std::string& where, const std::string& tail,
                                            const std::vector<SqlValue>& parameters,
                                            std::string_view columns = kReviewColumns);

enum class TicketContents : uint8_t { kKept, kText, kAll };   // what of the texts is written
// `seen`: the version that was read; the row is locked, so another one is a bug of the locks.
Status WriteTicket(SqlConnection& sql, const HeldTicket& held, int64_t seen, TicketContents contents);
Status WritePeople(SqlConnection& sql, const std::string& id, int64_t role, const std::vector<std::string>& names);
Status WriteVote(SqlConnection& sql, const ReviewVote& vote);

}  // namespace surety::gateway
