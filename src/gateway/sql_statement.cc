#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <boost/json.hpp>

#include "gateway/tool_call.h"

namespace surety::gateway {
namespace {

bool SqlNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class SqlReader {
 public:
  explicit SqlReader(std::string_view query) : query_(query) {}

  Result<SqlStatement> Read() {
    while (at_ < query_.size()) SURETY_RETURN_IF_ERROR(Step());
    if (statement_.first_word.empty()) return Error(InvalidArgumentError("the statement is empty"));
    return std::move(statement_);
  }

 private:
  char Peek(size_t ahead) const { return at_ + ahead < query_.size() ? query_[at_ + ahead] : '\0'; }

  // Copies up to `end`.
  void Copy(size_t end) {
    statement_.text += query_.substr(at_, end - at_);
    at_ = end;
  }

  Status Skip(std::string_view end_mark, size_t begin_size) {
    const size_t end = query_.find(end_mark, at_ + begin_size);
    if (end == std::string_view::npos) return InvalidArgumentError("a quote or comment that does not end");
    Copy(end + end_mark.size());
    return OkStatus();
  }

  Status Step() {
    const char c = query_[at_];
    if (c == '-' && Peek(1) == '-') {
      Copy(std::min(query_.find('\n', at_), query_.size()));
      return OkStatus();
    }
    if (c == '/' && Peek(1) == '*') return Skip("*/", 2);
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      Copy(at_ + 1);
      return OkStatus();
    }
    if (ended_) return InvalidArgumentError("more than one statement");
    if (c == ';') {
      ended_ = true;
      ++at_;
      return OkStatus();
    }
    if (c == '\'' || c == '"' || c == '`') {
      // PostgreSQL's E'' and settings of old give backslashes a meaning that decides where a text ends.
      const size_t end = query_.find(c, at_ + 1);
      if (end != std::string_view::npos && query_.substr(at_, end - at_).find('\\') != std::string_view::npos) {
        return InvalidArgumentError("a backslash inside quotes; bind the text as an argument");
      }
      return Skip(std::string(1, c), 1);
    }
    if (c == '$' || c == '?' || c == '@' || c == '#') {
      return InvalidArgumentError(std::string("'") + c + "' is no parameter here; write :name");
    }
    if (c == ':' && Peek(1) == ':') {
      Copy(at_ + 2);
      return OkStatus();
    }
    if (c == ':') return Parameter();
    if (SqlNameChar(c)) {
      size_t end = at_;
      while (end < query_.size() && SqlNameChar(query_[end])) ++end;
      if (statement_.first_word.empty()) {
        statement_.first_word = query_.substr(at_, end - at_);
        std::ranges::transform(statement_.first_word, statement_.first_word.begin(),
                               [](unsigned char x) { return static_cast<char>(std::toupper(x)); });
      }
      Copy(end);
      return OkStatus();
    }
    if (statement_.first_word.empty()) statement_.first_word = c;
    Copy(at_ + 1);
    return OkStatus();
  }

  Status Parameter() {
    size_t end = at_ + 1;
    while (end < query_.size() && SqlNameChar(query_[end])) ++end;
    const std::string name(query_.substr(at_ + 1, end - at_ - 1));
    if (name.empty()) return InvalidArgumentError("':' without a name");
    std::vector<std::string>& names = statement_.parameters;
    auto found = std::ranges::find(names, name);
    if (found == names.end()) found = names.insert(names.end(), name);
    statement_.text += "$" + std::to_string(found - names.begin() + 1);
    at_ = end;
    return OkStatus();
  }

  const std::string_view query_;
  size_t at_ = 0;
  bool ended_ = false;
  SqlStatement statement_;
};

}  // namespace

Result<SqlStatement> ReadSqlStatement(std::string_view query) { return SqlReader(query).Read(); }

bool IsPostgres(std::string_view database) {
  return database.starts_with("postgresql://") || database.starts_with("postgres://");
}

Result<std::string> DatabaseOf(const std::string& database) {
  constexpr std::string_view kPrefix = "os.environ/";
  if (!database.starts_with(kPrefix)) return database;
  const std::string name = database.substr(kPrefix.size());
  const char* value = std::getenv(name.c_str());
  if (value != nullptr && *value != '\0') return std::string(value);
  return Error(FailedPreconditionError("its database stands in the environment variable '" + name +
                                       "', which is not set"));
}

std::string ShownDatabase(std::string_view database) {
  std::string shown(database);
  if (!IsPostgres(database)) return shown;
  const size_t user = shown.find("//") + 2, end = std::min(shown.find_first_of("/?", user), shown.size());
  const size_t at = shown.rfind('@', end), colon = shown.find(':', user);
  if (at != std::string::npos && at > user && colon < at) shown.replace(colon + 1, at - colon - 1, "***");
  constexpr std::string_view kKey = "password=";  // and sslpassword=
  for (size_t key = shown.find(kKey); key != std::string::npos; key = shown.find(kKey, key + kKey.size())) {
    const size_t value = key + kKey.size();
    shown.replace(value, std::min(shown.find('&', value), shown.size()) - value, "***");
  }
  return shown;
}

Status CheckSqlTool(const ToolSpec& spec) {
  SURETY_ASSIGN_OR_RETURN(const SqlStatement statement, ReadSqlStatement(spec.query));
  const std::string& word = statement.first_word;
  const bool read = spec.kind == ToolSpec::Kind::kRead;
  if (spec.database.empty()) return InvalidArgumentError("a database is missing");
  if (IsPostgres(spec.database)) SURETY_RETURN_IF_ERROR(CheckPostgresAddress(spec.database));
  if (read && word != "SELECT" && word != "WITH") {
    return InvalidArgumentError("a read begins with SELECT or WITH, not with " + word);
  }
  if (!read && word != "INSERT" && word != "UPDATE" && word != "DELETE") {
    return InvalidArgumentError("a write begins with INSERT, UPDATE or DELETE, not with " + word);
  }
  for (const std::string& name : statement.parameters) {
    if (!read && name == "idempotency_key") continue;
    if (std::ranges::find(spec.arguments, name) == spec.arguments.end()) {
      return InvalidArgumentError("its query needs :" + name + ", which is not in the tool's arguments");
    }
  }
  return OkStatus();
}

boost::json::value RowsValue(boost::json::array rows) {
  if (rows.size() == 1) return std::move(rows[0]);
  return boost::json::object{{"rows", std::move(rows)}};
}

}  // namespace surety::gateway
