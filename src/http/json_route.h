// Routes whose answer is one JSON object made by a function that may block, and the string fields of their bodies.
//
// Threads: handlers return at once; the work is posted. Errors: in OpenAI's shape; 503 where no more work fits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "base/worker_pool.h"
#include "http/handler.h"
#include "http/openai_error.h"

namespace surety::http {

using JsonWork = std::function<Parsed<boost::json::object>(const HttpRequest&)>;

// `post` empty: on the calling thread.
Route MakeJsonRoute(std::string method, std::string path, Role role, const PostTask& post, JsonWork work);

// The string fields of a body, and no others; "permissions" may be an array of strings.
class StringFields {
 public:
  static Parsed<StringFields> Of(const HttpRequest& request, const std::vector<std::string>& known);
  std::string Get(std::string_view name) const;   // empty: absent
  Parsed<std::vector<std::string>> Permissions() const;

 private:
  boost::json::object body_;
};

}  // namespace surety::http
