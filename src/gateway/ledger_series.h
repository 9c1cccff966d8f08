// The ledger's series in Prometheus' text: docs/governance.md, Series.
//
// Labels come from closed lists (routes of the policy, stages, components) or from lists that end at 64 different
// values; what comes after those is "other". Threads: any.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "gateway/decision_record.h"
#include "gateway/ledger.h"
#include "observe/metrics.h"

namespace surety::gateway {

class LedgerSeries {
 public:
  explicit LedgerSeries(observe::Registry& registry) : registry_(registry) {}

  // `route`: of a closed list.
  void Record(const DecisionRecord& record, const std::string& route);
  void Record(const ReviewOutcome& outcome, const std::string& route);
  void Record(const ShadowOutcome& outcome, const std::string& route);

 private:
  // Series of a route that most decisions change, found once: by their labels they are found slowly. Null until the
  // first decision needs them, so that none is exposed before.
  struct OfRoute {
    std::array<observe::Counter*, 7> costs{};
    std::array<observe::Counter*, 6> outcomes{};
    observe::Counter* accepted = nullptr;
    observe::Histogram *queue = nullptr, *first_useful = nullptr, *hold = nullptr;
    std::map<std::string, observe::Counter*, std::less<>> cache;      // by what the record says of it
    std::map<std::string, observe::Histogram*, std::less<>> task;     // by the code of the error
  };
  observe::Counter& CacheLookups(OfRoute& of, const std::string& cache, const std::string& route);
  void RecordTimes(OfRoute& of, const DecisionRecord& record, const std::string& route);
  void RecordVerdicts(const DecisionRecord& record, const std::string& route);
  void RecordAttempts(const DecisionRecord& record, const std::string& route);
  void RecordTokens(const DecisionRecord& record);
  void Count(const std::string& name, const std::string& help, const observe::Labels& labels, double by = 1);
  void Seconds(const std::string& name, const std::string& help, const observe::Labels& labels, double seconds);
  observe::Histogram& SecondsOf(const std::string& name, const std::string& help, const observe::Labels& labels);
  // The value, or "other" once the list is full.
  std::string Bounded(const std::string& list, const std::string& value);

  observe::Registry& registry_;
  std::mutex mutex_;
  std::map<std::string, std::set<std::string>> seen_;
  std::map<std::string, OfRoute> routes_;   // under the registry's Together
};

}  // namespace surety::gateway
