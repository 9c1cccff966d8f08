#include "engine/wait_queue.h"

#include <algorithm>
#include <tuple>

namespace surety::engine {
namespace {

// Idle tenants whose account is level say nothing; above this many they are forgotten.
constexpr size_t kIdleTenants = 4096;

}  // namespace

int64_t WaitQueue::Urgency(int64_t arrival_ns, int64_t prefill_ns, int priority, int64_t deadline_ns) {
  int64_t urgency = arrival_ns + prefill_ns + priority * kPriorityStepNs;
  if (deadline_ns > 0) urgency = std::min(urgency, deadline_ns - prefill_ns);
  return urgency;
}

WaitQueue::Key WaitQueue::KeyOf(const Sequence& sequence) {
  return {sequence.state->urgency, sequence.state->id(), sequence.choice};
}

void WaitQueue::SetWeight(const std::string& tenant, double weight) {
  weights_[tenant] = weight;
  if (const auto it = tenants_.find(tenant); it != tenants_.end()) it->second.weight = weight;
}

void WaitQueue::Push(Sequence* sequence) {
  auto [it, is_new] = tenants_.try_emplace(sequence->state->tenant());
  Tenant& tenant = it->second;
  if (is_new) {
    const auto weight = weights_.find(it->first);
    if (weight != weights_.end()) tenant.weight = weight->second;
  }
  if (tenant.waiting.empty()) tenant.virtual_time = std::max(tenant.virtual_time, FloorOfWaiting());
  tenant.waiting.emplace(KeyOf(*sequence), sequence);
  ++n_waiting_;
}

double WaitQueue::FloorOfWaiting() const {
  double least = virtual_now_;
  bool any = false;
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.waiting.empty()) continue;
    least = any ? std::min(least, tenant.virtual_time) : tenant.virtual_time;
    any = true;
  }
  return least;
}

Sequence* WaitQueue::Front() const {
  const Tenant* best = nullptr;
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.waiting.empty()) continue;
    if (best == nullptr ||
        std::tie(tenant.virtual_time, tenant.waiting.begin()->first) <
            std::tie(best->virtual_time, best->waiting.begin()->first)) {
      best = &tenant;
    }
  }
  return best == nullptr ? nullptr : best->waiting.begin()->second;
}

void WaitQueue::Pop(Sequence* sequence) {
  virtual_now_ = std::max(virtual_now_, VirtualTime(sequence->state->tenant()));
  Remove(sequence);
}

void WaitQueue::Remove(Sequence* sequence) {
  const auto it = tenants_.find(sequence->state->tenant());
  if (it == tenants_.end()) return;
  n_waiting_ -= static_cast<int>(it->second.waiting.erase(KeyOf(*sequence)));
  if (tenants_.size() > kIdleTenants) DropIdle();
}

void WaitQueue::DropIdle() {
  std::erase_if(tenants_, [this](const auto& entry) {
    return entry.second.waiting.empty() && entry.second.virtual_time <= virtual_now_;
  });
}

void WaitQueue::Charge(const std::string& tenant, double rows) {
  const auto it = tenants_.find(tenant);
  if (it != tenants_.end()) it->second.virtual_time += rows / it->second.weight;
}

double WaitQueue::VirtualTime(const std::string& tenant) const {
  const auto it = tenants_.find(tenant);
  return it == tenants_.end() ? virtual_now_ : it->second.virtual_time;
}

}  // namespace surety::engine
