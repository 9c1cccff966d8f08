// Bytes as CSV and as labelled texts: rows of one length whose quoted form reads back the same, or an error that says
// where.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "cli/csv_table.h"
#include "cli/labelled_texts.h"

namespace surety::cli {
namespace {

std::string QuotedField(const std::string& field) {
  std::string out = "\"";
  for (const char c : field) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

void OneTable(std::string_view text) {
  for (const char* path : {"fuzz.csv", "fuzz.jsonl"}) {
    const auto texts = ParseLabelledTexts(text, path, {});
    if (!texts) SURETY_CHECK(texts.error().message().starts_with(path));
  }
  const auto rows = ParseCsv(text, "fuzz");
  if (!rows) {
    SURETY_CHECK(rows.error().message().starts_with("fuzz:"));
    return;
  }
  std::string written;
  for (const CsvRow& row : *rows) {
    SURETY_CHECK(row.fields.size() == (*rows)[0].fields.size());
    for (size_t i = 0; i < row.fields.size(); ++i) written += (i > 0 ? "," : "") + QuotedField(row.fields[i]);
    written += "\r\n";
  }
  const auto again = ParseCsv(written, "again");
  SURETY_CHECK(again && again->size() == rows->size());
  for (size_t i = 0; i < rows->size(); ++i) SURETY_CHECK((*again)[i].fields == (*rows)[i].fields);
}

}  // namespace
}  // namespace surety::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::cli::OneTable(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
