#include "gateway/testing/fake_audit_log.h"

#include <fstream>

#include <boost/json.hpp>

namespace surety::gateway {

namespace json = boost::json;

FakeAuditLog::FakeAuditLog(std::string file) : file_(std::move(file)) {
  if (file_.empty()) return;
  std::ifstream lines(file_);
  std::string line;
  while (std::getline(lines, line)) {
    const json::value value = json::parse(line);
    rows_.push_back({static_cast<int64_t>(rows_.size()), 0, std::string(value.at("kind").as_string()),
                     value.at("body").as_object(), ""});
  }
}

Result<AuditRow> FakeAuditLog::Append(std::string_view kind, json::object body) {
  if (before_append) SURETY_RETURN_IF_ERROR(before_append(kind));
  AuditRow row;
  {
    const std::lock_guard lock(mutex_);
    row = {static_cast<int64_t>(rows_.size()), 0, std::string(kind), std::move(body), ""};
    rows_.push_back(row);
    if (!file_.empty()) {
      std::ofstream(file_, std::ios::app) << json::serialize(json::object{{"kind", kind}, {"body", row.body}}) << "\n";
    }
  }
  if (after_append) after_append(kind);
  return row;
}

Result<AuditRow> FakeAuditLog::Find(std::string_view kind, std::string_view id) const {
  const std::lock_guard lock(mutex_);
  for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
    const json::value* own = row->body.if_contains("id");
    if (row->kind == kind && own != nullptr && own->is_string() && own->get_string() == id) return *row;
  }
  return Error(NotFoundError("no such row"));
}

std::vector<AuditRow> FakeAuditLog::rows() const {
  const std::lock_guard lock(mutex_);
  return rows_;
}

std::vector<std::string> FakeAuditLog::kinds() const {
  std::vector<std::string> kinds;
  for (const AuditRow& row : rows()) kinds.push_back(row.kind);
  return kinds;
}

}  // namespace surety::gateway
