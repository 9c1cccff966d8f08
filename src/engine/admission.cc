#include "engine/admission.h"

#include <algorithm>

namespace surety::engine {
namespace {

constexpr double kExpectationWeight = 1;  // starts that the expectation counts as

std::string SecondsText(int64_t nanos) {
  std::string text = std::to_string(static_cast<double>(nanos) * 1e-9);
  return text.substr(0, text.find('.') + 2);
}

std::unique_ptr<api::Refusal> Refuse(Status status, int64_t retry_after_ns, std::string param = "") {
  auto refusal = std::make_unique<api::Refusal>();
  refusal->status = std::move(status);
  refusal->param = std::move(param);
  refusal->retry_after_s = static_cast<double>(retry_after_ns) * 1e-9;
  return refusal;
}

}  // namespace

std::unique_ptr<api::Refusal> Admission::Enter(api::RequestId id, const std::string& tenant, int64_t timeout_ms) {
  const std::lock_guard lock(mutex_);
  if (draining_) {
    return Refuse(UnavailableError("the server is shutting down and takes no new requests"), 1'000'000'000);
  }
  const int64_t wait = PredictedWaitLocked();
  const int n = static_cast<int>(waiting_.size());
  if (n >= options_.max_waiting) {
    return Refuse(ResourceExhaustedError("the queue is full: " + std::to_string(n) + " requests wait, the limit is " +
                                         std::to_string(options_.max_waiting)), wait / 2);
  }
  const auto own = by_tenant_.find(tenant);
  if (own != by_tenant_.end() && own->second >= options_.max_waiting_per_tenant) {
    return Refuse(ResourceExhaustedError("your queue is full: " + std::to_string(own->second) +
                                         " of your requests wait, the limit is " +
                                         std::to_string(options_.max_waiting_per_tenant)), wait / 2);
  }
  if (options_.max_queue_wait_ns > 0 && wait > options_.max_queue_wait_ns) {
    return Refuse(ResourceExhaustedError("the server is overloaded: a new request would wait about " +
                                         SecondsText(wait) + " s, the limit is " +
                                         SecondsText(options_.max_queue_wait_ns) + " s"),
                  wait - options_.max_queue_wait_ns);
  }
  if (timeout_ms > 0 && wait > timeout_ms * 1'000'000) {
    return Refuse(Status(StatusCode::kDeadlineExceeded, "the request would wait about " + SecondsText(wait) +
                                                            " s, longer than its time limit of " +
                                                            SecondsText(timeout_ms * 1'000'000) + " s"),
                  wait - timeout_ms * 1'000'000, "timeout_ms");
  }
  waiting_.emplace(id, tenant);
  ++by_tenant_[tenant];
  return nullptr;
}

void Admission::Forget(api::RequestId id) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) return;
  const auto own = by_tenant_.find(it->second);
  if (--own->second == 0) by_tenant_.erase(own);
  waiting_.erase(it);
}

void Admission::Started(api::RequestId id, int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (had_queue_ && last_start_ns_ > 0) {  // several may start in one step: the time counts once, they all count
    lately_.Add(static_cast<double>(now_ns - last_start_ns_));
    longer_.Add(static_cast<double>(now_ns - last_start_ns_));
  }
  Forget(id);
  last_start_ns_ = now_ns;
  had_queue_ = !waiting_.empty();
}

void Admission::Left(api::RequestId id) {
  const std::lock_guard lock(mutex_);
  Forget(id);
}

void Admission::SetPlacesFree(int n) {
  const std::lock_guard lock(mutex_);
  places_free_ = n;
}

void Admission::SetExpectedInterval(int64_t ns) {
  const std::lock_guard lock(mutex_);
  if (ns > 0) expected_ns_ = static_cast<double>(ns);
}

void Admission::Drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

int Admission::n_waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(waiting_.size());
}

int64_t Admission::PredictedWaitNs() const {
  const std::lock_guard lock(mutex_);
  return PredictedWaitLocked();
}

int64_t Admission::PredictedWaitLocked() const {
  const int ahead = std::max(0, static_cast<int>(waiting_.size()) + 1 - places_free_);
  const double weight = expected_ns_ > 0 ? kExpectationWeight : 0;
  if (lately_.n + weight == 0) return 0;
  return static_cast<int64_t>(
      ahead * std::max(lately_.IntervalNs(expected_ns_, weight), longer_.IntervalNs(expected_ns_, weight)));
}

}  // namespace surety::engine
