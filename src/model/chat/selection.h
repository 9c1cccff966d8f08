// Reaching into the items of a sequence by an attribute path, as filters do.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "model/chat/machine.h"

namespace surety::model::chat {

// "a.b.0": attributes and indices one after the other. An integer is one index; None or null is the item itself.
class AttributePath {
 public:
  static Result<AttributePath> Make(const Value* attribute);
  // `fallback`, if given and not None, replaces an undefined result.
  Result<Value> Get(Machine& machine, const Value& item, const Value* fallback = nullptr) const;
  bool empty() const { return parts_.empty(); }

 private:
  std::vector<Value> parts_;
};

// The value to sort or compare by: the attribute, in lower case unless case matters.
Result<Value> SortKey(Machine& machine, const AttributePath& path, const Value& item, bool case_sensitive);

}  // namespace surety::model::chat
