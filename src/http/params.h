// The one table of request parameters: which endpoint knows them, their JSON type, range and default, and whether they
// are honoured. Validation, /openapi.json and docs/http_api.md come from it.
//
// Threads: pure functions on constant data. Errors: 400 that names the field.
// Invariants: (1) a parameter is honoured, or ignoring it cannot change the answer, or it is refused. (2) null means
// absent.
#pragma once

#include <limits>
#include <span>
#include <string_view>

#include <boost/json.hpp>

#include "http/openai_error.h"

namespace surety::http {

enum Endpoint : unsigned {
  kChat = 1,
  kCompletions = 2,
  kResponses = 4,
  kEmbeddings = 8,
  kTokenize = 16,
  kDetokenize = 32,
  kApplyTemplate = 64,
};
std::string_view PathOf(Endpoint endpoint);  // "/v1/chat/completions"

enum JsonType : unsigned { kBool = 1, kInt = 2, kNumber = 4, kString = 8, kArray = 16, kObject = 32 };

enum class Use {
  kHonoured,
  kAccepted,  // taken and not looked at: it cannot change what the caller gets
  kOnly,      // refused, but for the values of `values`, which ask for what happens anyway
};

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();

struct Parameter {
  std::string_view name;      // "a.b": member b of the object a; without a row of that name, a key with a dot in it
  unsigned endpoints;         // of Endpoint
  unsigned types;             // of JsonType
  double min, max;            // of a number, of a string's bytes, of an array's or object's size
  std::string_view fallback;  // the default, as JSON; empty: none
  Use use;
  std::string_view values;    // a JSON array: the values allowed (kHonoured; empty: all) or taken (kOnly)
  std::string_view text;      // what it does, or why it is refused
};

std::span<const Parameter> Parameters();
const Parameter* FindParameter(std::string_view name, Endpoint endpoint);
// The object that a parameter is a member of; empty for a member of the body.
std::string_view ParentOf(const Parameter& parameter, Endpoint endpoint);

// Every member of a body against the table.
Parsed<void> CheckParameters(const boost::json::object& body, Endpoint endpoint);
// The same for an object that is not a body: members beyond `known` are refused. `path`: of the object.
Parsed<void> CheckMembers(const boost::json::object& object, std::string_view path,
                          std::span<const std::string_view> known);

// "a number", "an array"
std::string_view TypeName(const boost::json::value& value);
// "<path> must be <wanted>, but is <the value's type>".
std::unexpected<ApiError> WrongType(const std::string& path, std::string_view wanted, const boost::json::value& value);

// Readers of bodies that CheckParameters passed; null where absent.
const boost::json::value* Member(const boost::json::object& object, std::string_view name);
bool BoolOr(const boost::json::object& body, std::string_view name, bool fallback);
double NumberOr(const boost::json::object& body, std::string_view name, double fallback);
int64_t IntOr(const boost::json::object& body, std::string_view name, int64_t fallback);
std::string_view StringOr(const boost::json::object& body, std::string_view name, std::string_view fallback);

// A whole number, also written as 5.0. False if it is none or does not fit.
bool WholeNumber(const boost::json::value& value, int64_t& number);

}  // namespace surety::http
