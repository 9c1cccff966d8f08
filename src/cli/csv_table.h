// Comma-separated values as RFC 4180 has them: quoted fields may hold commas, line breaks and doubled quotes.
//
// Lines end with LF or CRLF; a byte order mark in front is skipped; empty lines are skipped. Every row has as many
// fields as the first. Threads: any; values. Errors: kInvalidArgument with path and line: a quote that is never closed,
// text behind a closing quote, a quote inside a field without quotes, a row of another length.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace surety::cli {

struct CsvRow {
  std::vector<std::string> fields;
  int line = 0;   // where it begins
};

Result<std::vector<CsvRow>> ParseCsv(std::string_view text, const std::string& path);

}  // namespace surety::cli
