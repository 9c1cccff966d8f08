#include "model/formats/hf_template.h"

#include "model/formats/json_fields.h"

namespace surety::model {
namespace {

constexpr int64_t kMaxBytes = int64_t{32} << 20;

}  // namespace

Result<std::string> ChatTemplateOfJson(std::string_view text, const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(const auto json, ParseJsonObject(text, "'" + path + "'"));
  const JsonFields fields(json, "'" + path + "'");
  const boost::json::value* value = fields.Get("chat_template");
  if (value == nullptr) return std::string();
  if (value->is_string()) return std::string(value->get_string());
  SURETY_ASSIGN_OR_RETURN(const boost::json::array* named, fields.Array("chat_template"));
  for (const boost::json::value& element : *named) {
    if (!element.is_object()) {
      return Error(InvalidArgumentError("'" + path + "': key 'chat_template' has an element that is no object"));
    }
    const JsonFields entry(element.get_object(), "'" + path + "', chat_template");
    SURETY_ASSIGN_OR_RETURN(const std::string name, entry.String("name"));
    if (name == "default") return entry.String("template");
  }
  return std::string();
}

Result<std::string> ChatTemplateOfFolder(FileSystem& files, const std::string& folder) {
  const std::string jinja = folder + "/chat_template.jinja";
  if (files.Exists(jinja)) return files.ReadAll(jinja, kMaxBytes);
  for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
    const std::string path = folder + "/" + name;
    if (!files.Exists(path)) continue;
    SURETY_ASSIGN_OR_RETURN(const std::string text, files.ReadAll(path, kMaxBytes));
    SURETY_ASSIGN_OR_RETURN(std::string found, ChatTemplateOfJson(text, path));
    if (!found.empty()) return found;
  }
  return std::string();
}

}  // namespace surety::model
