// An audit log in memory, or in a plain file that survives the process, that fails or stops where a test says.
// Threads: any.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "gateway/audit_log.h"

namespace surety::gateway {

class FakeAuditLog : public AuditLog {
 public:
  explicit FakeAuditLog(std::string file = {});

  Result<AuditRow> Append(std::string_view kind, boost::json::object body) override;
  void AppendAsync(std::string_view kind, boost::json::object body,
                   std::function<void(Result<AuditRow>)> done) override {
    done(Append(kind, std::move(body)));
  }
  int64_t n_rows() const override { return static_cast<int64_t>(rows().size()); }
  bool failed() const override { return false; }
  Result<AuditRow> Find(std::string_view kind, std::string_view id) const override;

  std::vector<AuditRow> rows() const;
  std::vector<std::string> kinds() const;

  std::function<Status(std::string_view kind)> before_append;  // an error: the row is not written
  std::function<void(std::string_view kind)> after_append;     // it is on disk

 private:
  const std::string file_;
  mutable std::mutex mutex_;
  std::vector<AuditRow> rows_;
};

}  // namespace surety::gateway
