// Parts of openai_generation.h: sampling and limits, messages, tools and the form of an answer.
#pragma once

#include <string>

#include <boost/json.hpp>

#include "http/openai_generation.h"

namespace surety::http {

Parsed<void> MapCommon(const boost::json::object& body, const CallContext& context, GenerationCall& call,
                       api::GenerationRequest& request);

// Messages as templates expect them: contents are strings, arguments of tool calls are objects.
Parsed<boost::json::array> MapMessages(const boost::json::array& messages, const std::string& path);
// The items of /v1/responses as such messages.
Parsed<boost::json::array> MapItems(const boost::json::array& items, const std::string& path);
// A content: a string, or parts of which each is a text. `types`: "text", "input_text", ...
Parsed<std::string> MapContent(const boost::json::value& content, const std::string& path);
// Arguments of a call as the object that templates print; as the text it is where it is no JSON object.
boost::json::value ArgumentsValue(std::string_view arguments);

// tools, tool_choice, parallel_tool_calls. `flat`: a function's fields stand beside its type (responses).
Parsed<void> MapTools(const boost::json::object& body, bool flat, api::GenerationRequest& request);
// response_format, grammar, json_schema and their other spellings; text.format for responses.
Parsed<void> MapConstraint(const boost::json::object& body, Endpoint endpoint, api::Constraint& constraint);

}  // namespace surety::http
