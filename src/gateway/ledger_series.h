// The ledger's series in Prometheus' text: docs/governance.md, Series.
//
// Labels come from closed lists (routes of the policy, stages, components) or from lists that end at 64 different
// values; what comes after those is "other". Threads: any.
#pragma once

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
  void RecordTimes(const DecisionRecord& record, const std::string& route);
  void RecordVerdicts(const DecisionRecord& record, const std::string& route);
  void RecordAttempts(const DecisionRecord& record, const std::string& route);
  void RecordTokens(const DecisionRecord& record);
  void Count(const std::string& name, const std::string& help, const observe::Labels& labels, double by = 1);
  void Seconds(const std::string& name, const std::string& help, const observe::Labels& labels, double seconds);
  // The value, or "other" once the list is full.
  std::string Bounded(const std::string& list, const std::string& value);

  observe::Registry& registry_;
  std::mutex mutex_;
  std::map<std::string, std::set<std::string>> seen_;
};

}  // namespace surety::gateway
