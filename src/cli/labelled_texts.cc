#include "cli/labelled_texts.h"

#include <algorithm>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "cli/csv_table.h"

namespace surety::cli {
namespace {

constexpr int64_t kMaxLabelledBytes = 1 << 30;

Result<size_t> ColumnOf(const CsvRow& header, const std::string& name, const char* flag, const std::string& path) {
  const auto found = std::ranges::find(header.fields, name);
  if (found == header.fields.end()) {
    return Error(InvalidArgumentError(fmt::format("{}:{}: no column \"{}\" ({}); the header has {}", path, header.line,
                                                  name, flag, fmt::join(header.fields, ", "))));
  }
  return static_cast<size_t>(found - header.fields.begin());
}

bool IsBlankText(std::string_view text) { return text.find_first_not_of(" \t\v\f\r\n") == std::string_view::npos; }

Status CheckLabelled(const LabelledText& row, const std::string& path) {
  if (IsBlankText(row.text)) return InvalidArgumentError(fmt::format("{}:{}: no text", path, row.line));
  if (IsBlankText(row.label)) return InvalidArgumentError(fmt::format("{}:{}: no label", path, row.line));
  return OkStatus();
}

Result<std::vector<LabelledText>> LabelledFromCsv(std::string_view contents, const std::string& path,
                                                  const LabelledColumns& columns) {
  SURETY_ASSIGN_OR_RETURN(std::vector<CsvRow> rows, ParseCsv(contents, path));
  if (rows.empty()) return Error(InvalidArgumentError(path + ": no header"));
  SURETY_ASSIGN_OR_RETURN(const size_t text, ColumnOf(rows[0], columns.text, "--text-column", path));
  SURETY_ASSIGN_OR_RETURN(const size_t label, ColumnOf(rows[0], columns.label, "--label-column", path));
  std::vector<LabelledText> out;
  for (size_t i = 1; i < rows.size(); ++i) {
    out.push_back({rows[i].fields[text], rows[i].fields[label], rows[i].line});
  }
  return out;
}

Result<std::string> LabelledField(const boost::json::object& object, const std::string& key, const std::string& where) {
  const auto* value = object.if_contains(key);
  if (value != nullptr && value->is_string()) return std::string(value->as_string());
  return Error(InvalidArgumentError(fmt::format("{}: no text under \"{}\"", where, key)));
}

Result<std::vector<LabelledText>> LabelledFromJsonl(std::string_view contents, const std::string& path,
                                                    const LabelledColumns& columns) {
  std::vector<LabelledText> out;
  int line_number = 0;
  for (size_t at = 0; at < contents.size();) {
    ++line_number;
    const size_t end = std::min(contents.find('\n', at), contents.size());
    const std::string_view line = contents.substr(at, end - at);
    at = end + 1;
    if (IsBlankText(line)) continue;
    const std::string where = fmt::format("{}:{}", path, line_number);
    boost::system::error_code error;
    const boost::json::value value = boost::json::parse(line, error);
    if (error || !value.is_object()) return Error(InvalidArgumentError(where + ": the line is no JSON object"));
    LabelledText row;
    SURETY_ASSIGN_OR_RETURN(row.text, LabelledField(value.as_object(), columns.text, where));
    SURETY_ASSIGN_OR_RETURN(row.label, LabelledField(value.as_object(), columns.label, where));
    row.line = line_number;
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace

Result<std::vector<LabelledText>> ParseLabelledTexts(std::string_view contents, const std::string& path,
                                                     const LabelledColumns& columns) {
  const bool is_json = path.ends_with(".jsonl") || path.ends_with(".json");
  SURETY_ASSIGN_OR_RETURN(auto rows, is_json ? LabelledFromJsonl(contents, path, columns)
                                             : LabelledFromCsv(contents, path, columns));
  for (const LabelledText& row : rows) SURETY_RETURN_IF_ERROR(CheckLabelled(row, path));
  if (rows.empty()) return Error(InvalidArgumentError(path + ": no row in it"));
  return rows;
}

Result<std::vector<LabelledText>> ReadLabelledTexts(FileSystem& files, const std::string& path,
                                                    const LabelledColumns& columns) {
  SURETY_ASSIGN_OR_RETURN(const std::string contents, files.ReadAll(path, kMaxLabelledBytes));
  return ParseLabelledTexts(contents, path, columns);
}

std::string DigestOfTexts(const std::vector<LabelledText>& texts) {
  Sha256 hasher;
  for (const LabelledText& row : texts) {
    for (const std::string& part : {row.text, row.label}) {
      const std::string framed = fmt::format("{}:{}", part.size(), part);
      hasher.Update(std::as_bytes(std::span(framed)));
    }
  }
  return HexOf(hasher.Finish());
}

}  // namespace surety::cli
