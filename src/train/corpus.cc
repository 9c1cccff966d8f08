#include "train/corpus.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/hash.h"

namespace surety::train {
namespace {

namespace json = boost::json;
constexpr int64_t kMaxCorpusBytes = int64_t{1} << 30;  // of one file
constexpr std::array<std::string_view, 4> kCorpusRoles = {"system", "user", "assistant", "tool"};

Status CheckMessage(const json::value& value, size_t index) {
  const auto wrong = [&](std::string_view what) {
    return InvalidArgumentError(fmt::format("messages[{}] {}", index, what));
  };
  const json::object* message = value.if_object();
  if (message == nullptr) return wrong("must be an object with \"role\" and \"content\"");
  const json::value* role = message->if_contains("role");
  if (role == nullptr || !role->is_string() ||
      std::find(kCorpusRoles.begin(), kCorpusRoles.end(), std::string_view(role->get_string())) == kCorpusRoles.end()) {
    return wrong("needs a \"role\": system, user, assistant or tool");
  }
  const json::value* content = message->if_contains("content");
  if (content == nullptr || !content->is_string()) return wrong("needs a \"content\" that is text");
  return OkStatus();
}

bool IsAssistants(const json::value& message) { return message.as_object().at("role").as_string() == "assistant"; }

}  // namespace

Result<CorpusText> ParseCorpusLine(std::string_view line, bool& refused) {
  refused = false;
  boost::system::error_code error;
  const json::value value = json::parse(line, error);
  if (error) return Error(InvalidArgumentError(fmt::format("no JSON: {}", error.message())));
  const json::object* object = value.if_object();
  if (object == nullptr) return Error(InvalidArgumentError("a line must be one JSON object"));
  const json::value* prompt = object->if_contains("prompt");
  const json::value* messages = object->if_contains("messages");
  if ((prompt == nullptr) == (messages == nullptr)) {
    return Error(InvalidArgumentError("a line has either \"prompt\" or \"messages\""));
  }
  const json::value* consent = object->if_contains("consent");
  if (consent != nullptr && !consent->is_bool()) {
    return Error(InvalidArgumentError("\"consent\" must be true or false"));
  }
  refused = consent != nullptr && !consent->get_bool();
  CorpusText text;
  if (prompt != nullptr) {
    if (!prompt->is_string() || prompt->get_string().empty()) {
      return Error(InvalidArgumentError("\"prompt\" must be text, and not empty"));
    }
    text.prompt = prompt->get_string();
    return text;
  }
  if (!messages->is_array() || messages->get_array().empty()) {
    return Error(InvalidArgumentError("\"messages\" must be a list of messages, and not empty"));
  }
  text.messages = messages->get_array();
  bool served = false;
  for (size_t i = 0; i < text.messages.size(); ++i) {
    SURETY_RETURN_IF_ERROR(CheckMessage(text.messages[i], i));
    served = served || IsAssistants(text.messages[i]);
  }
  text.answered = IsAssistants(text.messages.back());
  refused = refused || (served && consent == nullptr);
  return text;
}

Result<Corpus> ReadCorpus(FileSystem& files, const std::vector<std::string>& paths, bool strict) {
  Corpus corpus;
  Sha256 hash;
  for (const std::string& path : paths) {
    SURETY_ASSIGN_OR_RETURN(const std::string contents, files.ReadAll(path, kMaxCorpusBytes));
    hash.Update(std::as_bytes(std::span(contents)));
    int64_t number = 0;
    for (size_t begin = 0; begin < contents.size();) {
      const size_t end = std::min(contents.find('\n', begin), contents.size());
      const std::string_view line = std::string_view(contents).substr(begin, end - begin);
      begin = end + 1;
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const std::string where = fmt::format("{}:{}", path, number);
      bool refused = false;
      auto text = ParseCorpusLine(line, refused);
      if (!text) return Error(text.error().WithContext(where));
      if (refused && strict) {
        return Error(InvalidArgumentError(where + ": a served text without \"consent\": true is not trained on"));
      }
      corpus.n_refused += refused;
      if (refused) continue;
      text->where = where;
      corpus.texts.push_back(*std::move(text));
    }
  }
  if (corpus.texts.empty()) {
    return Error(InvalidArgumentError(fmt::format("{}: no text to train on ({} refused for lack of consent)",
                                                  paths.empty() ? "" : paths.front(), corpus.n_refused)));
  }
  corpus.digest = HexOf(hash.Finish());
  return corpus;
}

}  // namespace surety::train
