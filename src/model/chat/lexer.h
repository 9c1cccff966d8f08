// Template source to tokens, with whitespace control as transformers sets it: trim_blocks, lstrip_blocks, the marks '-'
// and '+', one newline at the very end of the source dropped, CRLF and CR read as LF.
// Errors: kInvalidArgument "line L, column C: ..."; kResourceExhausted if the source is longer than its limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace surety::model::chat {

// Both count from 1; a column is a byte of the line.
struct Position {
  uint32_t line = 1;
  uint32_t column = 1;
};

// The error that says where: "line L, column C: what".
Status ErrorAt(Position at, std::string_view what);

struct Token {
  enum class Kind : uint8_t { kData, kBlockBegin, kBlockEnd, kOutputBegin, kOutputEnd, kName, kText, kInteger, kFloat,
                              kOperator, kEnd };
  Kind kind = Kind::kEnd;
  Position at;
  std::string text;  // the data, name, operator, or the string literal with its escapes resolved
  int64_t integer = 0;
  double number = 0;

  bool IsOperator(std::string_view op) const { return kind == Kind::kOperator && text == op; }
  bool IsName(std::string_view name) const { return kind == Kind::kName && text == name; }
};

// The name in quotation marks.
std::string Quoted(std::string_view name);

// What was found, for messages: "'endfor'", "end of template".
std::string Describe(const Token& token);

// The last token is kEnd.
Result<std::vector<Token>> Tokenise(std::string_view source, int64_t max_source_bytes);

// Python's unescaping of a string literal's inside.
Result<std::string> Unescape(std::string_view raw);

}  // namespace surety::model::chat
