// Choices that wait for a place in the batch, in the order in which they get one.
//
// Between tenants: start-time fair queueing over work. A tenant's virtual time grows by (rows it was given) / weight;
// the waiting tenant that is furthest behind is served next. One that was idle starts level with the one furthest
// behind, so idling saves nothing up. Within a tenant: the smallest urgency (a time, see Urgency) first.
//
// Starvation bounds (tested): (1) within a tenant a request is overtaken only by requests whose urgency is smaller, and
// so, at equal priority and without deadlines, never by one that arrives after it would have finished its prompt alone;
// a priority step counts as kPriorityStepNs of waiting. (2) between tenants: while a tenant waits, another of weight w
// is given at most w / own weight times the work of its own, plus one request.
//
// Threads: the engine thread. Owns: nothing of the sequences.
// Source: Goyal, Vin, Cheng, "Start-time Fair Queueing", SIGCOMM 1996.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "engine/sequence.h"

namespace surety::engine {

class WaitQueue {
 public:
  static constexpr int64_t kPriorityStepNs = 10'000'000'000;

  // When a request should start: its arrival plus the time its prompt takes alone, later by kPriorityStepNs for each
  // step of priority, but no later than its deadline less that time.
  static int64_t Urgency(int64_t arrival_ns, int64_t prefill_ns, int priority, int64_t deadline_ns);

  void SetWeight(const std::string& tenant, double weight);  // > 0; 1 unless set
  void Push(Sequence* sequence);
  // The next to get a place; null if none waits. Stays at the front until it is popped or something is pushed or
  // charged.
  Sequence* Front() const;
  void Pop(Sequence* sequence);     // gets its place
  void Remove(Sequence* sequence);  // whether or not it waits
  bool empty() const { return n_waiting_ == 0; }
  int size() const { return n_waiting_; }
  // Work given to a tenant, in rows; negative to give back what was charged too much.
  void Charge(const std::string& tenant, double rows);
  double VirtualTime(const std::string& tenant) const;

 private:
  using Key = std::tuple<int64_t, uint64_t, int>;  // urgency, request, choice
  struct Tenant {
    double virtual_time = 0;
    double weight = 1;
    std::map<Key, Sequence*> waiting;
  };
  static Key KeyOf(const Sequence& sequence);
  double FloorOfWaiting() const;
  void DropIdle();

  std::map<std::string, Tenant> tenants_;
  std::map<std::string, double> weights_;
  double virtual_now_ = 0;  // the largest virtual time at which something was served
  int n_waiting_ = 0;
};

}  // namespace surety::engine
