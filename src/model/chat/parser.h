// Tokens to a Template.
// Errors: kInvalidArgument "line L, column C: ..." for syntax, unknown statements, filters and tests, calls that cannot
// fit their filter, and attributes that begin with "__"; kResourceExhausted for nesting beyond max_depth or a source
// that is too long.
#pragma once

#include <string_view>

#include "base/status.h"
#include "model/chat/ast.h"
#include "model/chat/template.h"

namespace surety::model::chat {

Result<Template> ParseTemplate(std::string_view source, const TemplateLimits& limits);

}  // namespace surety::model::chat
