// JSON for people and programs: indented, keys in the order they were put in, numbers in their shortest form.
#pragma once

#include <string>

#include <boost/json.hpp>

namespace surety::cli {

// Ends with a newline. Not-a-number and infinities become null. Arrays of plain values stay on one line.
std::string PrettyJson(const boost::json::value& value);
// To stdout.
void PrintJson(const boost::json::value& value);

// A number with few digits, for measured values: 4 significant ones.
double Rounded(double value);

}  // namespace surety::cli
