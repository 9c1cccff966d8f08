#include "http/json_route.h"

#include <utility>

#include "http/json_body.h"

namespace surety::http {

Route MakeJsonRoute(std::string method, std::string path, Role role, const PostTask& post, JsonWork work) {
  Route route;
  route.method = std::move(method);
  route.path = std::move(path);
  route.role = role;
  route.handler = [post, work = std::move(work)](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
    auto task = [work, request = std::move(request), writer] {
      const auto result = work(request);
      if (result) {
        writer->Send(200, "application/json", boost::json::serialize(*result));
      } else {
        SendError(*writer, result.error());
      }
    };
    if (!post) return task();
    if (!post(std::move(task))) {
      SendError(*writer, ErrorOf(UnavailableError("too many administrative calls wait; try again")));
    }
  };
  return route;
}

Parsed<StringFields> StringFields::Of(const HttpRequest& request, const std::vector<std::string>& known) {
  auto body = ParseJsonBody(request.body);
  if (!body) return std::unexpected(body.error());
  for (const auto& [key, value] : *body) {
    bool is_known = key == "permissions";
    for (const std::string& name : known) is_known |= key == name;
    if (!is_known) {
      std::string all;
      for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
      return BadField(std::string(key), "unknown field " + Quoted(key) + "; known are " + all, "unknown_parameter");
    }
    if (key != "permissions" && !value.is_string()) {
      return BadField(std::string(key), "'" + std::string(key) + "' must be a string", "invalid_type");
    }
  }
  StringFields fields;
  fields.body_ = *std::move(body);
  return fields;
}

std::string StringFields::Get(std::string_view name) const {
  const auto* value = body_.if_contains(name);
  return value == nullptr ? "" : std::string(value->as_string());
}

Parsed<std::vector<std::string>> StringFields::Permissions() const {
  std::vector<std::string> result;
  const auto* value = body_.if_contains("permissions");
  if (value == nullptr) return result;
  const auto wrong = BadField("permissions", "'permissions' must be an array of strings", "invalid_type");
  if (!value->is_array()) return wrong;
  for (const auto& item : value->as_array()) {
    if (!item.is_string()) return wrong;
    result.emplace_back(item.as_string());
  }
  return result;
}

}  // namespace surety::http
