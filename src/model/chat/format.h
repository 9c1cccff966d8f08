// Python's two ways to fill in a format: "..." % values and "...".format(values).
#pragma once

#include "base/status.h"
#include "model/chat/function_spec.h"
#include "model/chat/machine.h"

namespace surety::model::chat {

// Directives s r d i f F e E g G x X o c %, with flags, width and precision up to 1000.
// Declared in operators.h, as it is what the operator '%' does: FormatPercent.

// "{}", "{0}", "{name}", with a width and alignment or a number's format behind ':'; no attributes or items inside.
Result<Value> FormatBraces(Machine& machine, const Value& self, const BoundArgs& args);

}  // namespace surety::model::chat
