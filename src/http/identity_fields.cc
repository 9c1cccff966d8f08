#include "http/identity_fields.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <vector>

#include "http/request_head.h"

namespace surety::http {
namespace {

constexpr size_t kMaxTextBytes = 256;
constexpr size_t kMaxPermissions = 256;

Status ReadPermissions(const boost::json::value& value, std::vector<std::string>& out) {
  std::vector<std::string> permissions;
  if (value.is_string()) {
    const std::string_view text = value.get_string();
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(' ', at), text.size());
      if (end > at) {
        SURETY_ASSIGN_OR_RETURN(std::string one, ReadText(boost::json::string(text.substr(at, end - at))));
        permissions.push_back(std::move(one));
      }
      at = end + 1;
    }
  } else if (value.is_array()) {
    for (const auto& element : value.get_array()) {
      SURETY_ASSIGN_OR_RETURN(std::string one, ReadText(element));
      permissions.push_back(std::move(one));
    }
  } else {
    return InvalidArgumentError("must be an array of texts, or one text with spaces between");
  }
  if (permissions.size() > kMaxPermissions) {
    return InvalidArgumentError("holds more than " + std::to_string(kMaxPermissions) + " entries");
  }
  std::ranges::sort(permissions);
  const auto repeated = std::ranges::unique(permissions);
  permissions.erase(repeated.begin(), repeated.end());
  out = std::move(permissions);
  return OkStatus();
}

Status ReadRole(const boost::json::value& value, Role& role) {
  const std::string_view text = value.is_string() ? std::string_view(value.get_string()) : std::string_view();
  if (text != "user" && text != "admin") return InvalidArgumentError("must be \"user\" or \"admin\"");
  role = text == "admin" ? Role::kAdmin : Role::kUser;
  return OkStatus();
}

Status ReadPriority(const boost::json::value& value, int& priority) {
  const int64_t* number = value.if_int64();
  if (number == nullptr || *number < -1000 || *number > 1000) {
    return InvalidArgumentError("must be a whole number from -1000 to 1000");
  }
  priority = static_cast<int>(*number);
  return OkStatus();
}

Status ReadDate(const boost::json::value& value, std::string& out) {
  SURETY_ASSIGN_OR_RETURN(std::string text, ReadText(value));
  if (text.size() != 10 || !ParseUtcTime(text)) return InvalidArgumentError("must be a date as YYYY-MM-DD");
  out = std::move(text);
  return OkStatus();
}

Status ReadInto(std::string_view field, const boost::json::value& value, Identity& identity) {
  api::Scope& scope = identity.scope;
  if (value.is_null()) return InvalidArgumentError("is null; leave it out or give it a value");
  if (field == "permissions") return ReadPermissions(value, scope.permissions);
  if (field == "role") return ReadRole(value, identity.role);
  if (field == "priority") return ReadPriority(value, identity.priority);
  if (field == "effective_date") return ReadDate(value, scope.effective_date);
  const std::array<std::pair<std::string_view, std::string*>, 6> texts = {{{"tenant", &scope.tenant},
                                                                           {"region", &scope.region},
                                                                           {"product", &scope.product},
                                                                           {"policy_version", &scope.policy_version},
                                                                           {"language", &scope.language},
                                                                           {"eligibility", &scope.eligibility}}};
  for (const auto& [name, target] : texts) {
    if (field != name) continue;
    SURETY_ASSIGN_OR_RETURN(*target, ReadText(value));
    return OkStatus();
  }
  return InvalidArgumentError("is unknown");
}

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t n = byte < 0x80 ? 1 : byte >= 0xc2 && byte < 0xe0 ? 2 : byte >= 0xe0 && byte < 0xf0 ? 3 :
                     byte >= 0xf0 && byte < 0xf5 ? 4 : 0;
    if (n == 0 || i + n > text.size()) return false;
    for (size_t k = 1; k < n; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    i += n;
  }
  return true;
}

}  // namespace

std::span<const std::string> IdentityFieldNames() {
  static const std::array<std::string, 10> names = {"tenant",         "permissions", "region",      "product",
                                                    "policy_version", "language",    "eligibility", "effective_date",
                                                    "role",           "priority"};
  return names;
}

Result<std::string> ReadText(const boost::json::value& value) {
  if (!value.is_string()) return Error(InvalidArgumentError("must be a text"));
  const std::string_view text = value.get_string();
  if (text.empty() || text.size() > kMaxTextBytes) {
    return Error(InvalidArgumentError("must hold 1 to " + std::to_string(kMaxTextBytes) + " bytes, it holds " +
                                      std::to_string(text.size())));
  }
  const bool control = std::ranges::any_of(text, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
  });
  if (control) return Error(InvalidArgumentError("holds a control character"));
  if (text.front() == ' ' || text.back() == ' ') return Error(InvalidArgumentError("begins or ends with a space"));
  if (!IsUtf8(text)) return Error(InvalidArgumentError("is not UTF-8"));
  return std::string(text);
}

Status ReadIdentityField(std::string_view field, const boost::json::value& value, Identity& identity) {
  const Status status = ReadInto(field, value, identity);
  if (status.ok()) return status;
  return InvalidArgumentError("'" + std::string(field) + "' " + status.message());
}

Result<int64_t> ParseUtcTime(std::string_view text) {
  const std::string form(text);
  const auto wrong = [&] {
    return Error(InvalidArgumentError("'" + Printable(text, 40) +
                                      "' is no time: write 2027-01-31 or 2027-01-31T12:00:00Z (UTC)"));
  };
  const std::string_view pattern = text.size() == 10 ? "dddd-dd-dd" : "dddd-dd-ddTdd:dd:ddZ";
  if (text.size() != pattern.size()) return wrong();
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (pattern[i] == 'd' ? !digit : text[i] != pattern[i]) return wrong();
  }
  const auto number = [&](size_t at, size_t n) {
    int value = 0;
    for (size_t i = at; i < at + n; ++i) value = value * 10 + (form[i] - '0');
    return value;
  };
  const std::chrono::year_month_day date{std::chrono::year(number(0, 4)),
                                         std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  if (!date.ok()) return wrong();
  int64_t seconds = std::chrono::sys_days(date).time_since_epoch().count() * int64_t{86'400};
  if (text.size() > 10) {
    if (number(11, 2) > 23 || number(14, 2) > 59 || number(17, 2) > 59) return wrong();
    seconds += number(11, 2) * 3600 + number(14, 2) * 60 + number(17, 2);
  }
  return seconds;
}

}  // namespace surety::http
