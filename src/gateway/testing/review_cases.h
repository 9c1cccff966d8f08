// What every review store must do, as cases that run on any database.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/clock.h"
#include "gateway/review_store.h"

namespace surety::gateway {

class ReviewTestClock final : public Clock {
 public:
  int64_t NowNanos() const override { return now_.load(); }
  int64_t WallNanos() const override { return now_.load(); }
  void SleepNanos(int64_t nanos) override { now_ += nanos; }

 private:
  std::atomic<int64_t> now_{1'800'000'000'000'000'000};
};

// "plain": one approval, with a reason. "pair": two of people with the permission "supervise", no reasons. "loose":
// two, the author and editors among them. Leases of ten minutes.
std::map<std::string, ReviewQueueSpec> ReviewTestQueues();
Reviewer ReviewPerson(const std::string& name, const std::string& tenant = "acme");  // with "supervise"
Ticket ReviewDraft(const std::string& decision, const std::string& queue = "plain", const std::string& tenant = "acme");

struct ReviewCase {
  const char* name;
  void (*run)(const std::string& database);  // a fresh one
};
std::span<const ReviewCase> ReviewCases();
std::span<const ReviewCase> ReviewRaces();  // with threads, and random schedules

}  // namespace surety::gateway
