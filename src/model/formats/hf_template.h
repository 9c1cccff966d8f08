// The chat template of a Hugging Face model folder.
#pragma once

#include <string>

#include "base/file.h"
#include "base/status.h"

namespace surety::model {

// From chat_template.jinja, else chat_template.json, else tokenizer_config.json, in that order as in the reference. Of
// several named templates the one called "default". Empty if the model has none.
// Errors: kInvalidArgument with file and key.
Result<std::string> ChatTemplateOfFolder(FileSystem& files, const std::string& folder);

// From the text of tokenizer_config.json or chat_template.json.
Result<std::string> ChatTemplateOfJson(std::string_view text, const std::string& path);

}  // namespace surety::model
