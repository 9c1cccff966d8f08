// The loop of a reviewer at a terminal: one ticket after the other, approved, edited, rejected or skipped.
//
// Threads: one. Owns: nothing. Errors: kCancelled on Ctrl-C, what the server said where it cannot go on. A ticket whose
// lease it holds at the end is released.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include <boost/json/object.hpp>

#include "base/status.h"
#include "gateway/review_service.h"

namespace surety::cli {

// The world of a session; a test brings its own.
struct ReviewDesk {
  std::function<Result<boost::json::object>(const gateway::ReviewCall&)> call;
  std::function<void(std::string_view)> print;
  std::function<std::optional<std::string>(std::string_view prompt)> ask;  // a line; nothing: the end, or Ctrl-C
  std::function<Result<std::string>(const std::string& text)> edit;        // in the person's editor
};

class ReviewSession {
 public:
  // `queue` may be empty: all queues.
  ReviewSession(ReviewDesk desk, std::string queue) : desk_(std::move(desk)), queue_(std::move(queue)) {}
  Status Run();
  int n_decided() const { return n_decided_; }

 private:
  enum class After : uint8_t { kSame, kNext, kQuit };

  Result<std::optional<boost::json::object>> TakeNext();
  Result<After> OneKey(boost::json::object& ticket);
  Result<After> Vote(boost::json::object& ticket, const std::string& action);
  Status Edit(boost::json::object& ticket);
  // The call's answer becomes the ticket. What the server refuses is printed; false.
  Result<bool> Change(boost::json::object& ticket, const std::string& action, boost::json::object arguments);
  void Release(boost::json::object& ticket);

  ReviewDesk desk_;
  std::string queue_;
  std::set<std::string> skipped_;
  int n_decided_ = 0;
};

// Runs $VISUAL, else $EDITOR, else vi, on a file that only its owner may read, and gives back what it then holds.
Result<std::string> EditInEditor(const std::string& text);

}  // namespace surety::cli
