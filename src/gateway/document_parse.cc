// ParseDocument: a text file with front matter.
#include <algorithm>
#include <exception>
#include <optional>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "base/nearest_name.h"
#include "gateway/document_store.h"
#include "gateway/document_text.h"

namespace surety::gateway {
namespace {

constexpr std::string_view kFrontMatterForm = "begin the file with a line '---', 'key: value' lines, and a line '---'";

struct DocumentFileParts {
  std::string_view front, text;
};

bool IsFrontMatterMark(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
  return line == "---";
}

class DocumentReader {
 public:
  explicit DocumentReader(const std::string& path) : path_(path) {}

  Result<Document> Read(std::string_view text) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    if (const size_t bad = FindNoText(text); bad != text.npos) {
      const auto line = 1 + std::ranges::count(text.substr(0, bad), '\n');
      return Error(At(static_cast<int>(line), text[bad] == '\0' ? "a NUL byte: this is no text file"
                                                                  : "a byte that is no UTF-8"));
    }
    SURETY_ASSIGN_OR_RETURN(const DocumentFileParts parts, Split(text));
    document_.source = path_;
    SURETY_RETURN_IF_ERROR(ReadFront(parts.front));
    document_.text = parts.text.substr(std::min(parts.text.find_first_not_of("\r\n"), parts.text.size()));
    if (document_.text.find_first_not_of(" \t\r\n\f\v") == std::string::npos) {
      return Error(InvalidArgumentError(fmt::format("{}: no text after the front matter", path_)));
    }
    if (document_.title.empty()) document_.title = FirstHeading();
    return std::move(document_);
  }

 private:
  Status At(int line, std::string_view what) const {
    return InvalidArgumentError(fmt::format("{}, line {}: {}", path_, line, what));
  }

  Result<DocumentFileParts> Split(std::string_view text) const {
    size_t at = 0, front = 0;
    for (int line = 1; at < text.size(); ++line) {
      const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
      std::string_view words = text.substr(at, end - at);
      if (words.ends_with('\n')) words.remove_suffix(1);
      const bool mark = IsFrontMatterMark(words);
      if (line == 1 && !mark) break;
      if (line == 1) front = end;
      else if (mark) return DocumentFileParts{text.substr(front, at - front), text.substr(end)};
      at = end;
    }
    if (front == 0) {
      return Error(At(1, fmt::format("no front matter: {}; without 'permissions' nobody may read a document",
                                     kFrontMatterForm)));
    }
    return Error(At(1, fmt::format("the front matter does not end: {}", kFrontMatterForm)));
  }

  Status ReadFront(std::string_view front) {
    try {
      return ReadMap(YAML::Load(std::string(front)));
    } catch (const YAML::Exception& error) {
      return At(error.mark.is_null() ? 1 : error.mark.line + 2, error.msg);
    } catch (const std::exception& error) {
      return At(1, error.what());
    }
  }

  static int LineOf(const YAML::Node& node) { return node.Mark().is_null() ? 1 : node.Mark().line + 2; }

  Status ReadMap(const YAML::Node& map) {
    if (!map.IsMap()) {
      return At(2, "the front matter holds no 'key: value' lines; id, version and permissions are needed");
    }
    std::vector<std::string> seen;
    for (const auto& entry : map) {
      if (!entry.first.IsScalar()) return At(LineOf(entry.first), "a key that is no word");
      const std::string key = entry.first.Scalar();
      if (std::ranges::find(seen, key) != seen.end()) return At(LineOf(entry.first), key + " is given twice");
      seen.push_back(key);
      if (const Status status = ReadKey(key, entry.second); !status.ok()) {
        // A value that is absent has no place of its own.
        return At(entry.second.IsNull() ? LineOf(entry.first) : std::max(LineOf(entry.second), LineOf(entry.first)),
                  status.message());
      }
    }
    for (const char* key : {"id", "version", "permissions"}) {
      if (std::ranges::find(seen, key) != seen.end()) continue;
      const std::string_view hint = std::string_view(key) == "permissions"
                                        ? ": list who may read it, [public] for everyone; without it nobody may" : "";
      return At(1, fmt::format("the front matter has no '{}'{}", key, hint));
    }
    if (document_.validity.from_ns >= document_.validity.to_ns) {
      return At(1, fmt::format("effective_to {} is not after effective_from {}",
                               DocumentInstantText(document_.validity.to_ns),
                               DocumentInstantText(document_.validity.from_ns)));
    }
    return OkStatus();
  }

  Status ReadKey(const std::string& key, const YAML::Node& value) {
    static const std::vector<std::string> kKeys = {"id", "version", "title", "permissions", "regions", "products",
                                                   "languages", "effective_from", "effective_to", "tenant"};
    if (std::ranges::find(kKeys, key) == kKeys.end()) {
      const std::string nearest = NearestName(key, kKeys);
      return InvalidArgumentError(fmt::format("unknown key '{}'; {}", key, nearest.empty()
                                                  ? "known are " + Joined(kKeys) : "did you mean " + nearest + "?"));
    }
    if (key == "permissions") return ReadList(key, value, document_.permissions);
    if (key == "regions") return ReadList(key, value, document_.regions);
    if (key == "products") return ReadList(key, value, document_.products);
    if (key == "languages") return ReadList(key, value, document_.languages);
    SURETY_ASSIGN_OR_RETURN(const std::string text, ReadText(key, value));
    if (key == "effective_from" || key == "effective_to") {
      const auto instant = ParseDocumentInstant(text);
      if (!instant) return instant.error().WithContext(key);
      (key == "effective_from" ? document_.validity.from_ns : document_.validity.to_ns) = *instant;
      return OkStatus();
    }
    if (key == "title") {
      document_.title = text;
      return OkStatus();
    }
    if (key == "tenant") {
      document_.tenant = text;
      return CheckRightName(key, text);
    }
    (key == "id" ? document_.id : document_.version) = text;
    return CheckCitable(key, text);
  }

  static std::string Joined(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
    return out;
  }

  static Result<std::string> ReadText(const std::string& key, const YAML::Node& value) {
    const bool tagged = value.IsScalar() && !value.Tag().empty() && value.Tag() != "?" && value.Tag() != "!";
    if (!value.IsScalar() || tagged || value.Scalar().empty()) {
      return Error(InvalidArgumentError(key + ": one value is needed; leave the line out to have none"));
    }
    return value.Scalar();
  }

  static Status ReadList(const std::string& key, const YAML::Node& value, std::vector<std::string>& out) {
    if (value.IsScalar()) {
      SURETY_ASSIGN_OR_RETURN(std::string text, ReadText(key, value));
      if (text.find(',') != text.npos) {
        return InvalidArgumentError(fmt::format("{}: '{}' is one name; write [{}] for several", key, text, text));
      }
      out.push_back(std::move(text));
      return CheckRightName(key, out.back());
    }
    if (!value.IsSequence() || value.size() == 0) {
      const std::string_view hint = key == "permissions" ? "with an empty one nobody could read the document"
                                                         : "leave the line out for all";
      return InvalidArgumentError(fmt::format("{}: a list of names is needed, [a, b]; {}", key, hint));
    }
    for (const YAML::Node& entry : value) {
      SURETY_ASSIGN_OR_RETURN(std::string text, ReadText(key, entry));
      SURETY_RETURN_IF_ERROR(CheckRightName(key, text));
      if (std::ranges::find(out, text) != out.end()) {
        return InvalidArgumentError(fmt::format("{}: '{}' twice", key, text));
      }
      out.push_back(std::move(text));
    }
    return OkStatus();
  }

  std::string FirstHeading() const {
    const std::string_view text = document_.text;
    if (!text.starts_with('#')) return document_.id;
    std::string_view line = text.substr(0, text.find('\n'));
    while (line.starts_with('#') || line.starts_with(' ')) line.remove_prefix(1);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '#')) line.remove_suffix(1);
    return line.empty() ? document_.id : std::string(line);
  }

  std::string path_;
  Document document_;
};

}  // namespace

Result<Document> ParseDocument(std::string_view text, const std::string& path) {
  return DocumentReader(path).Read(text);
}

}  // namespace surety::gateway
