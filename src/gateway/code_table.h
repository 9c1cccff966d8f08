// A table of codes with the time in which each is in force: reasons of returns, of disputes, of adverse action.
//
// File: one JSON object. Unknown members are refused.
//   name, version, source (where the facts are from), checked_on (day on which somebody compared them), pattern (RE2, a
//   whole code), note (optional), effective_from (optional day: of codes that have none), codes: a list of
//     code; titles: what it may be called, the first the usual one; effective_from, effective_to (optional days, from
//     midnight UTC; from the second on it is no longer in force); introduced, withdrawn (optional, true: there was no
//     such code before, there is none after; needs that day); unconfirmed (optional: what nobody has confirmed from the
//     source itself; whatever names such a code is for a person); fields (optional, texts by name).
// A code may stand several times, for times that do not overlap.
//
// Threads: immutable once read. Errors: kInvalidArgument naming file, code and member; kNotFound, kIoError for the
// file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gateway/policy.h"

namespace surety::gateway {

struct CodeEntry {
  std::string code;
  Validity validity;
  bool introduced = false, withdrawn = false;
  std::vector<std::string> titles;
  std::string unconfirmed;                    // empty: confirmed
  std::map<std::string, std::string> fields;
};

class CodeTable {
 public:
  static Result<CodeTable> Parse(std::string_view json, const std::string& file);
  static Result<CodeTable> Read(const std::string& path);

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const std::string& source() const { return source_; }
  const std::string& checked_on() const { return checked_on_; }
  const std::string& pattern() const { return pattern_; }
  const std::string& digest() const { return digest_; }    // SHA-256 of the file's text, hex
  const std::vector<CodeEntry>& entries() const { return entries_; }

  bool Knows(std::string_view code) const;                 // at any time
  const CodeEntry* Find(std::string_view code, int64_t as_of_ns) const;  // in force then; null: none
  // Every entry in force at `as_of_ns` stays so within it: what an answer that names codes is valid for.
  Validity ValidityAt(int64_t as_of_ns) const;

 private:
  std::string name_, version_, source_, checked_on_, pattern_, digest_;
  std::vector<CodeEntry> entries_;
  std::multimap<std::string, size_t, std::less<>> by_code_;
};

// Midnight UTC of "2026-11-30".
Result<int64_t> ParseDay(std::string_view text);

}  // namespace surety::gateway
