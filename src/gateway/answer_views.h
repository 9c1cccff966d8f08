// The ways in which an answer can be read: each of its fields as it stands; with the escapes of JSON resolved (as often
// as they are nested); and the texts of all fields and of the values in JSON one after the other, so that nothing is
// hidden by being split.
//
// Threads: pure function. Invariant: every byte of the answer stands in a view of kField.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gateway/verifier.h"

namespace surety::gateway {

class AnswerView {
 public:
  enum class Kind : uint8_t { kField, kUnescaped, kJoined };
  Kind kind = Kind::kField;
  std::string text;

  // A finding in bytes [begin, end) of this view's text, which is not empty: in the field in which it begins.
  Finding Locate(std::string what, size_t begin, size_t end) const;

 private:
  friend class ViewBuilder;
  struct Part {
    std::string where;
    size_t begin;                  // in this view's text
    std::vector<size_t> offsets;   // in the field, of each byte, and of the end; empty: the same as in the view
  };
  std::vector<Part> parts_;        // in order; at least one
};

std::vector<AnswerView> ViewsOf(const AnswerText& answer);

}  // namespace surety::gateway
