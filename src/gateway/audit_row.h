// A row of the audit log as bytes: one line, members in a fixed order, no spaces between them:
//
//   {"seq":0,"time":NANOSECONDS,"prev":"64 hex","kind":"decision","body":{...},"hash":"64 hex"}
//
// hash is SHA-256 of the line without `,"hash":"..."`, closing brace included; prev is the hash of the row before, 64
// zeros for the first. The bytes that stand there are what is hashed: nothing is parsed and written again, so that any
// program can check a log with a JSON reader or without one.
//
// Threads: any; pure functions. Errors: kInvalidArgument for a body that cannot stand in a row, kDataLoss for a line
// that is no row; without the place, which the caller knows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <boost/json/object.hpp>

#include "base/status.h"
#include "gateway/audit_log.h"

namespace surety::gateway {

inline constexpr size_t kMaxAuditRowBytes = size_t{16} << 20;
inline constexpr int kMaxAuditBodyDepth = 256;

// What stands before the first row's hash.
const std::string& AuditChainStart();

// Views of a line.
struct AuditRowText {
  int64_t seq = 0;
  int64_t time_ns = 0;
  std::string_view prev, kind, body, hash;
};

// The body's bytes: UTF-8 (what is none becomes U+FFFD), at most kMaxAuditBodyDepth deep.
Result<std::string> AuditBodyText(const boost::json::object& body);
Result<std::string> AuditBodyText(std::string serialized);
// Of a text of a body: what is no UTF-8 becomes U+FFFD.
std::string AuditUtf8(std::string text);
// kInvalidArgument unless 1 to 32 of a-z and _.
Status CheckAuditKind(std::string_view kind);

// The whole line without its line feed. `text.hash` is not looked at; `hash` becomes the row's.
std::string AuditLine(const AuditRowText& text, std::string& hash);
void AppendAuditLine(std::string& out, const AuditRowText& text, std::string& hash);

// Takes a line apart and checks its hash.
Result<AuditRowText> ParseAuditLine(std::string_view line);
Result<AuditRow> AuditRowOf(const AuditRowText& text);

// The value of the body's member `name` where it is a text; empty if there is none. Reads the bytes once, and builds
// nothing.
std::string AuditTextMember(std::string_view body, std::string_view name);

}  // namespace surety::gateway
