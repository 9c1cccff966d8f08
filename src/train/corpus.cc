#include "train/corpus.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <fmt/format.h>

#include "base/hash.h"

namespace surety::train {
namespace {

namespace json = boost::json;
constexpr int64_t kMaxCorpusBytes = int64_t{1} << 30;  // of one file
constexpr std::array<std::string_view, 4> kCorpusRoles = {"system", "user", "assistant", "tool"};

// Looks for a key that stands twice in its object: of two consents the last would count, whoever wrote it.
class DuplicateKeyHandler {
 public:
  static constexpr size_t max_object_size = size_t(-1), max_array_size = size_t(-1);
  static constexpr size_t max_key_size = size_t(-1), max_string_size = size_t(-1);
  using Error = boost::system::error_code;

  bool found = false;
  std::string key;

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_object_begin(Error&) { return keys_.emplace_back(), true; }
  bool on_object_end(size_t, Error&) { return keys_.pop_back(), true; }
  bool on_array_begin(Error&) { return true; }
  bool on_array_end(size_t, Error&) { return true; }
  bool on_key_part(json::string_view part, size_t, Error&) { return part_.append(part.data(), part.size()), true; }
  bool on_key(json::string_view rest, size_t, Error& error) {
    part_.append(rest.data(), rest.size());
    const auto [at, added] = keys_.back().insert(std::exchange(part_, {}));
    if (added) return true;
    found = true;
    key = *at;
    error = json::make_error_code(json::error::syntax);
    return false;
  }
  bool on_string_part(json::string_view, size_t, Error&) { return true; }
  bool on_string(json::string_view, size_t, Error&) { return true; }
  bool on_number_part(json::string_view, Error&) { return true; }
  bool on_int64(int64_t, json::string_view, Error&) { return true; }
  bool on_uint64(uint64_t, json::string_view, Error&) { return true; }
  bool on_double(double, json::string_view, Error&) { return true; }
  bool on_bool(bool, Error&) { return true; }
  bool on_null(Error&) { return true; }
  bool on_comment_part(json::string_view, Error&) { return true; }
  bool on_comment(json::string_view, Error&) { return true; }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  std::string part_;
};

Status CheckKeysOnce(std::string_view line) {
  json::basic_parser<DuplicateKeyHandler> parser{json::parse_options()};
  boost::system::error_code error;
  parser.write_some(false, line.data(), line.size(), error);
  if (!parser.handler().found) return OkStatus();
  return InvalidArgumentError(fmt::format("the key \"{}\" stands twice in its object", parser.handler().key));
}

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
  SURETY_RETURN_IF_ERROR(CheckKeysOnce(line));
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
