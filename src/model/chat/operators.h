// What operators, subscripts and loops do to values, as Python does it.
// Errors: kInvalidArgument without a place in the template; the caller knows it.
#pragma once

#include <boost/json.hpp>

#include "base/status.h"
#include "model/chat/ast.h"
#include "model/chat/machine.h"

namespace surety::model::chat {

Result<Value> Arithmetic(Machine& machine, Operator op, const Value& a, const Value& b);
Result<Value> Negate(const Value& a, bool negative);
Result<bool> Compare(Machine& machine, Operator op, const Value& a, const Value& b);
// Less than 0, 0, more than 0; an error for values that have no order.
Result<int> Order(Machine& machine, const Value& a, const Value& b);
Result<bool> Contains(Machine& machine, const Value& container, const Value& item);

// a.name and a[key] as Jinja: an attribute or item that is not there is undefined.
Result<Value> GetAttribute(Machine& machine, const Value& object, std::string_view name);
Result<Value> GetItem(Machine& machine, const Value& object, const Value& key);
// Each bound is null or a value that may be None.
Result<Value> GetSlice(Machine& machine, const Value& object, const Value* start, const Value* stop, const Value* step);

// What a loop over the value would go through: items, keys, characters; nothing for an undefined value.
Result<std::vector<Value>> Iterate(Machine& machine, const Value& value);

// Can it be a dict's key (in Python: is it hashable)?
Status CheckKey(const Value& key);

// The error for using an undefined value.
Status UndefinedError(const Value& value);

// `text % values`.
Result<Value> FormatPercent(Machine& machine, const TaintedText& format, const Value& values);

// Values from outside: every string is untrusted, but for the "role" of a message (a member of an object in a list)
// where it is one of the words that chat formats know as roles.
Result<Value> FromJson(Machine& machine, const boost::json::value& json, int depth = 0);

}  // namespace surety::model::chat
