// Texts of documents and queries: the terms by which they are found, names that can be cited, and instants.
//
// Threads: any (no state).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace surety::gateway {

// The terms of a text in their order, repeated as they occur. A term is a run of letters and digits after NFKC, case
// folding and loss of diacritics; English plurals are one with their singular (the S-stemmer); a number with dots or
// commas inside ("1002.9") gives its parts and itself; of scripts that set no spaces (Han, Kana) each character is one.
// Total: bytes that are no UTF-8 separate terms, operators and quotes are nothing but separators.
// Source: D. Harman, "How effective is suffixing?", JASIS 42 (1991): the S-stemmer, but "fees" becomes "fee".
std::vector<std::string> DocumentTerms(std::string_view text);

// An id or version that can stand in [document:chunk@version]: 1 to 128 of A-Z a-z 0-9 . _ -, a letter or digit first.
// kInvalidArgument naming what is wrong and a name near to it that would be right; `what`: "id", "version".
Status CheckCitable(std::string_view what, std::string_view name);
// A tenant, permission, region, product or language: 1 to 256 bytes of UTF-8 in NFC, no control characters, no white
// space at the ends. What is compared byte by byte must have one spelling.
Status CheckRightName(std::string_view what, std::string_view name);
// The first byte that is no UTF-8 or is NUL; npos: none.
size_t FindNoText(std::string_view text);

// "2026-11-15" (midnight UTC) or "2026-11-15T00:00:00.5-05:00", with "Z" or an offset in any case; years 1678 to 2261.
Result<int64_t> ParseDocumentInstant(std::string_view text);
// The same form in UTC, the shorter one where it is midnight; "always" and "for ever" for the ends of time.
std::string DocumentInstantText(int64_t t_ns);

}  // namespace surety::gateway
