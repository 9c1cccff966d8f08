// JSON for people and programs: indented, keys in the order they were put in, numbers in their shortest form.
#pragma once

#include <string>

#include <boost/json.hpp>

namespace surety::cli {

// Ends with a newline. Not-a-number and infinities become null. Arrays of plain values stay on one line. Keys and texts
// (paths, a user's input) may hold any bytes: what is no UTF-8 in them becomes U+FFFD.
std::string PrettyJson(const boost::json::value& value);
// The same for JSON that is text already: all of it outside keys and texts is ASCII.
std::string ValidJsonText(std::string json);
// To standard output, at once.
void PrintJson(const boost::json::value& value);

// A number with few digits, for measured values: 4 significant ones.
double Rounded(double value);

}  // namespace surety::cli
