#include "cli/csv_table.h"

#include <fmt/format.h>

namespace surety::cli {
namespace {

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& path) : text_(text), path_(path) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  Result<std::vector<CsvRow>> Read() {
    std::vector<CsvRow> rows;
    while (at_ < text_.size()) {
      CsvRow row{{}, line_};
      SURETY_RETURN_IF_ERROR(ReadRow(row));
      if (row.fields.size() == 1 && row.fields[0].empty() && !quoted_) continue;
      if (!rows.empty() && row.fields.size() != rows[0].fields.size()) {
        return Error(Fault(row.line, fmt::format("{} fields; the first row has {}", row.fields.size(),
                                                 rows[0].fields.size())));
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  Status Fault(int line, const std::string& what) const {
    return InvalidArgumentError(fmt::format("{}:{}: {}", path_, line, what));
  }
  bool AtLineEnd() const {
    return text_[at_] == '\n' || (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n');
  }

  Status ReadRow(CsvRow& row) {
    quoted_ = false;
    for (;;) {
      row.fields.emplace_back();
      SURETY_RETURN_IF_ERROR(at_ < text_.size() && text_[at_] == '"' ? ReadQuoted(row.fields.back())
                                                                     : ReadPlain(row.fields.back()));
      if (at_ == text_.size()) return OkStatus();
      if (text_[at_] == ',') {
        ++at_;
        continue;
      }
      at_ += text_[at_] == '\r' ? 2 : 1;
      ++line_;
      return OkStatus();
    }
  }

  Status ReadPlain(std::string& field) {
    while (at_ < text_.size() && text_[at_] != ',' && !AtLineEnd()) {
      if (text_[at_] == '"') {
        return Fault(line_, "a quote inside a field without quotes; put the field in quotes and double the quote");
      }
      field += text_[at_++];
    }
    return OkStatus();
  }

  Status ReadQuoted(std::string& field) {
    const int begin = line_;
    quoted_ = true;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c != '"') {
        field += c;
        continue;
      }
      ++at_;
      if (at_ < text_.size() && text_[at_] == '"') {
        field += '"';
        continue;
      }
      if (at_ == text_.size() || text_[at_] == ',' || AtLineEnd()) return OkStatus();
      return Fault(line_, "text behind a closing quote; a quote inside a quoted field is doubled");
    }
    return Fault(begin, "the quote that opens here is never closed");
  }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
  int line_ = 1;
  bool quoted_ = false;   // the row has a field in quotes
};

}  // namespace

Result<std::vector<CsvRow>> ParseCsv(std::string_view text, const std::string& path) {
  return CsvReader(text, path).Read();
}

}  // namespace surety::cli
