// Numbers in English words, and JSON's numbers as decimal texts.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

namespace surety::gateway {

struct NumberWords {
  std::string value;   // "205"
  size_t length = 0;   // bytes
};
// At the begin of `lower_case`: "thirty", "twenty-five", "two hundred and five". Empty where no number begins.
std::optional<NumberWords> ReadNumberWords(std::string_view lower_case);

// In plain decimals without trailing zeros: one text; "-" before it where it is below zero.
std::string JsonNumberText(const boost::json::value& number);

}  // namespace surety::gateway
