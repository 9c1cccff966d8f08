// Text that goes to clients: JSON written without a document tree in between, and frames of server-sent events.
//
// Threads: pure functions.
// Source: RFC 8259; HTML Living Standard, 9.2 (server-sent events).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace surety::http {

// `text`, valid UTF-8, as a JSON string with its quotes. Everything that any client takes for the end of a line (also
// U+0085, U+2028, U+2029, which some split at) is escaped.
void AppendJsonString(std::string& out, std::string_view text);
std::string JsonString(std::string_view text);
// Shortest form that reads back as the same number. Minus infinity (a token that cannot be) becomes -9999, as OpenAI
// writes it; not-a-number becomes null.
void AppendJsonNumber(std::string& out, float value);

// One event: "data: JSON\n\n", with "event: NAME\n" in front where there is a name. `json` has no line breaks.
void AppendSseEvent(std::string& out, std::string_view json, std::string_view name = {});
// A comment, which clients pass over: ": TEXT\n\n". `text` has no line breaks.
void AppendSseComment(std::string& out, std::string_view text);
constexpr std::string_view kSseDone = "data: [DONE]\n\n";
constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";

// Offset of the first byte that begins no well-formed character; text.size() if there is none.
size_t FirstInvalidUtf8(std::string_view text);
// Each byte that is no part of a character becomes U+FFFD (one for a maximal prefix of a character).
std::string LossyUtf8(std::string_view bytes);

}  // namespace surety::http
