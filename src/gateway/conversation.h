// A request as text: what the caller asks, and what was said before.
//
// Threads: pure functions. Errors: kInvalidArgument naming the field of GenerationRequest.
#pragma once

#include <string>

#include <boost/json/array.hpp>

#include "api/request.h"
#include "base/status.h"

namespace surety::gateway {

struct Conversation {
  boost::json::array history;   // messages before the question, as they came; system messages of the caller among them
  std::string question;         // the last user turn; a plain prompt is one question
  boost::json::array after;     // what follows the last user turn: tool results, a begun answer
  std::string all_text;         // everything said, a line a message; arguments of tool calls, names, schemas included
  std::string canonical;        // history and what follows, canonical JSON: for cache keys
  bool has_tools = false;       // the caller's own tools, or results of them
};

// Text of a message's content: a string, or the texts of its parts.
std::string TextOfContent(const boost::json::value& content);
// Every text in a value, a line each: strings and names of members, and where a string is itself JSON (arguments of a
// tool call), those in it as well, with its escapes resolved.
std::string TextsOf(const boost::json::value& value);
Result<Conversation> ReadConversation(const api::GenerationRequest& request);

// What decides the tokens besides the messages and the seed, canonical JSON: sampling, limits, constraint, template.
std::string DecodingOf(const api::GenerationRequest& request);

// The whole of what a backend is asked for, so that it can be asked again: messages or prompt, parameters, seed. Scope
// and caller are not part of it.
boost::json::object RequestToJson(const api::GenerationRequest& request);
Result<api::GenerationRequest> RequestFromJson(const boost::json::object& json);

}  // namespace surety::gateway
