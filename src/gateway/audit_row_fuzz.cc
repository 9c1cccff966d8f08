// Any bytes as a row of the audit log, and as a body that somebody asks to have written: a row that is read is, written
// again, the same bytes; a body that is taken makes a row that is read again.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <boost/json.hpp>
#include <sys/mman.h>

#include "base/check.h"
#include "gateway/audit_reader.h"
#include "gateway/audit_row.h"
#include "gateway/decision_record.h"

namespace surety::gateway {
namespace {

// A row around `body`, with a hash that fits: what a forger would write.
void OneBody(std::string_view body) {
  std::string hash;
  const std::string line = AuditLine({5, -7, AuditChainStart(), "decision", body, {}}, hash);
  const auto row = ParseAuditLine(line);
  if (!row) return;
  SURETY_CHECK(row->body == body && row->seq == 5 && row->time_ns == -7 && row->hash == hash);
  (void)AuditTextMember(body, "id");
  const auto whole = AuditRowOf(*row);
  if (!whole) return;
  const auto text = AuditBodyText(whole->body);
  if (text) {
    const std::string again = AuditLine({5, -7, AuditChainStart(), "decision", *text, {}}, hash);
    const auto reread = ParseAuditLine(again);
    SURETY_CHECK(reread.has_value() && AuditRowOf(*reread).has_value());
    const auto* id = whole->body.if_contains("id");
    const std::string found = AuditTextMember(*text, "id");
    SURETY_CHECK(id == nullptr || !id->is_string() || found.size() <= 3 * id->get_string().size());
  }
  (void)DecisionRecord::FromJson(whole->body);
}

void OneLine(std::string_view line) {
  const auto row = ParseAuditLine(line);
  if (!row) return;
  std::string hash;
  SURETY_CHECK(AuditLine(*row, hash) == line && hash == row->hash);
}

// As a whole file: a fault, or rows that all follow each other.
void OneFile(std::string_view bytes) {
  static const int fd = ::memfd_create("audit", 0);
  SURETY_CHECK(fd >= 0 && ::ftruncate(fd, 0) == 0);
  SURETY_CHECK(::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  const auto reader = AuditReader::Of(fd, "audit_row_fuzz_no_such.log");
  SURETY_CHECK(reader.has_value());
  AuditRowText row;
  for (int64_t n = 1;; ++n) {
    const auto more = (*reader)->Next(row);
    if (!more || !*more) break;
    SURETY_CHECK((*reader)->n_rows() == n && (*reader)->end_offset() <= static_cast<int64_t>(bytes.size()));
  }
}

}  // namespace
}  // namespace surety::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  surety::gateway::OneBody(bytes);
  surety::gateway::OneLine(bytes);
  surety::gateway::OneFile(bytes);
  return 0;
}
