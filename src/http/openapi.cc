// /openapi.json, from the table of parameters.
#include <utility>

#include "http/openai_endpoints.h"

namespace surety::http {
namespace {

namespace json = boost::json;

json::value TypeJson(unsigned types) {
  static constexpr std::pair<unsigned, const char*> kNames[] = {{kBool, "boolean"}, {kInt, "integer"},
                                                                {kNumber, "number"}, {kString, "string"},
                                                                {kArray, "array"}, {kObject, "object"}};
  json::array list;
  for (const auto& [bit, name] : kNames) {
    if ((types & bit) != 0) list.push_back(name);
  }
  list.push_back("null");
  return list;
}

json::object ParameterJson(const Parameter& p) {
  json::object schema{{"type", TypeJson(p.types)},
                      {"description", json::string(p.text.data(), p.text.size())}};
  const auto bound = [&](unsigned types, const char* low, const char* high) {
    if ((p.types & types) == 0) return;
    if (p.min == kAboveZero && (types & kNumber) != 0) {
      schema["exclusiveMinimum"] = 0;
    } else if (p.min != -kNoLimit && p.min != kAboveZero) {
      schema[low] = p.min;
    }
    if (p.max != kNoLimit) schema[high] = p.max;
  };
  bound(kInt | kNumber, "minimum", "maximum");
  bound(kString, "minLength", "maxLength");
  bound(kArray, "minItems", "maxItems");
  bound(kObject, "minProperties", "maxProperties");
  const auto parse = [](std::string_view text) { return json::parse(json::string_view(text.data(), text.size())); };
  if (!p.fallback.empty()) schema["default"] = parse(p.fallback);
  // Where an object may stand for it, the values are only those of its text form.
  if (!p.values.empty() && (p.use == Use::kOnly || (p.types & kObject) == 0)) {
    json::array values = parse(p.values).as_array();
    values.push_back(nullptr);
    schema["enum"] = std::move(values);
  }
  schema["x-surety-use"] = p.use == Use::kHonoured ? "honoured" : p.use == Use::kAccepted ? "accepted" : "refused";
  return schema;
}

json::object BodySchema(Endpoint endpoint) {
  json::object properties;
  for (const Parameter& p : Parameters()) {
    if ((p.endpoints & endpoint) == 0) continue;
    const size_t dot = ParentOf(p, endpoint).size();
    if (dot == 0) {
      properties[json::string_view(p.name.data(), p.name.size())] = ParameterJson(p);
      continue;
    }
    json::object& parent = properties[json::string_view(p.name.data(), dot)].as_object();
    if (!parent.contains("properties")) {
      parent["properties"] = json::object();
      parent["additionalProperties"] = false;
    }
    parent["properties"].as_object()[json::string_view(p.name.data() + dot + 1, p.name.size() - dot - 1)] =
        ParameterJson(p);
  }
  json::object schema{{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  switch (endpoint) {
    case kChat:
    case kApplyTemplate: schema["required"] = {"messages"}; break;
    case kCompletions: schema["required"] = {"prompt"}; break;
    case kResponses:
    case kEmbeddings: schema["required"] = {"input"}; break;
    case kDetokenize: schema["required"] = {"tokens"}; break;
    case kTokenize: break;
  }
  return schema;
}

json::object Responses() {
  const auto with = [](const char* text, const char* ref) {
    return json::object{{"description", text},
                        {"content", {{"application/json", {{"schema", {{"$ref", ref}}}}}}}};
  };
  json::object responses{{"200", {{"description", "The answer, or a stream of server-sent events"}}}};
  for (const auto& [code, text] : {std::pair{"400", "The request is wrong; param names the field"},
                                   {"401", "No valid key"}, {"404", "No such model"}, {"408", "Out of time"},
                                   {"429", "Too much load or quota; see Retry-After"}, {"500", "An error here"},
                                   {"503", "Starting, draining or overloaded; see Retry-After"}}) {
    responses[code] = with(text, "#/components/schemas/Error");
  }
  return responses;
}

json::object Schema(const char* type, json::object properties) {
  return {{"type", type}, {"properties", std::move(properties)}};
}

}  // namespace

std::string OpenApiJson() {
  json::object paths;
  for (const Endpoint endpoint :
       {kChat, kCompletions, kResponses, kEmbeddings, kTokenize, kDetokenize, kApplyTemplate}) {
    const std::string_view path = PathOf(endpoint);
    paths[json::string_view(path.data(), path.size())] = {
        {"post",
         {{"requestBody",
           {{"required", true}, {"content", {{"application/json", {{"schema", BodySchema(endpoint)}}}}}}},
          {"responses", Responses()}}}};
  }
  for (const auto& [path, text] : {std::pair{"/v1/models", "The models"}, {"/openapi.json", "This document"}}) {
    paths[path] = {{"get", {{"responses", {{"200", {{"description", text}}}}}}}};
  }
  paths["/v1/models/{id}"] = {
      {"get",
       {{"parameters", {{{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}}},
        {"responses", {{"200", {{"description", "One model"}}}, {"404", {{"description", "No such model"}}}}}}}};
  const json::object text{{"type", "string"}}, maybe{{"type", {"string", "null"}}};
  const json::object error = Schema("object", {{"message", text}, {"type", text}, {"param", maybe}, {"code", maybe}});
  return json::serialize(json::object{
      {"openapi", "3.1.0"},
      {"info", {{"title", "surety"}, {"version", SURETY_VERSION}}},
      {"paths", std::move(paths)},
      {"components", {{"schemas", {{"Error", Schema("object", {{"error", error}})}}}}}});
}

void HandleOpenApi(const Services&, const HttpRequest&, const Writer& writer) {
  static const std::string document = OpenApiJson();
  SendJson(writer, document);
}

}  // namespace surety::http
