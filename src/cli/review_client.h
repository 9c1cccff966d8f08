// The review endpoints of a server, as calls; and how a ticket looks on a terminal.
//
// Threads: one. Errors: those of the server, by HTTP status; kUnavailable where it cannot be reached, kCancelled on
// Ctrl-C.
#pragma once

#include <string>
#include <string_view>

#include <boost/json/object.hpp>

#include "base/status.h"
#include "gateway/review_service.h"

namespace surety::cli {

class ReviewClient {
 public:
  // `url`: "http://host:port"; `key`: sent as a bearer token, none where empty.
  ReviewClient(std::string url, std::string key) : url_(std::move(url)), key_(std::move(key)) {}
  Result<boost::json::object> Call(const gateway::ReviewCall& call) const;

 private:
  std::string url_, key_;
};

// What a reviewer reads must be what is there: control characters, and those that hide or reorder text, are shown as
// \x1b or <U+202E>. Line ends and tabs stay.
std::string VisibleText(std::string_view text);

std::string TicketLine(const boost::json::object& ticket);     // one line of a list
std::string TicketDocument(const boost::json::object& ticket); // all of it
std::string ReviewStatsTable(const boost::json::object& stats);

std::string TextOf(const boost::json::object& object, std::string_view name);    // empty: none, or no text
int64_t WholeOf(const boost::json::object& object, std::string_view name);       // 0: none

}  // namespace surety::cli
