#include "http/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "base/nearest_name.h"
#include "http/base64url.h"
#include "http/identity_fields.h"
#include "http/request_head.h"

namespace surety::http {
namespace {

namespace json = boost::json;

constexpr std::string_view kPrefix = "surety-";
constexpr size_t kIdChars = 12;
constexpr size_t kSaltBytes = 16;
constexpr size_t kMinPlainChars = 16;
constexpr int64_t kMaxFileBytes = 16 << 20;

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

Sha256Digest DigestOf(std::string_view salt, std::string_view key) {
  Sha256 hasher;
  hasher.Update(BytesOf(salt));
  hasher.Update(BytesOf(key));
  return hasher.Finish();
}

template <size_t N>
std::array<uint8_t, N> RandomBytes() {
  std::array<uint8_t, N> bytes;
  SURETY_CHECK_MSG(RAND_bytes(bytes.data(), static_cast<int>(N)) == 1, "no random bytes");
  return bytes;
}

Result<std::string> ReadHex(const json::value& value, size_t n_bytes) {
  const std::string_view text = value.is_string() ? std::string_view(value.get_string()) : std::string_view();
  const auto wrong = [&] {
    return Error(InvalidArgumentError("must be " + std::to_string(2 * n_bytes) + " hexadecimal digits in lower case"));
  };
  if (text.size() != 2 * n_bytes) return wrong();
  std::string out;
  for (size_t i = 0; i < text.size(); i += 2) {
    int byte = 0;
    for (const char c : text.substr(i, 2)) {
      const bool digit = c >= '0' && c <= '9';
      if (!digit && (c < 'a' || c > 'f')) return wrong();
      byte = byte * 16 + (digit ? c - '0' : c - 'a' + 10);
    }
    out += static_cast<char>(byte);
  }
  return out;
}

bool IsId(std::string_view id) {
  return id.size() == kIdChars &&
         std::ranges::all_of(id, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::span<const std::string> KnownFields() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"id", "name", "salt", "sha256", "expires"};
    all.insert(all.end(), IdentityFieldNames().begin(), IdentityFieldNames().end());
    return all;
  }();
  return names;
}

Status CheckFields(const json::object& entry) {
  for (const auto& field : entry) {
    const std::string name(field.key());
    if (std::ranges::find(KnownFields(), name) != KnownFields().end()) continue;
    const std::string nearest = NearestName(name, KnownFields());
    return InvalidArgumentError("unknown field '" + Printable(name, 40) + "'" +
                                (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }
  for (const char* name : {"id", "name", "role", "salt", "sha256", "tenant"}) {
    if (!entry.contains(name)) return InvalidArgumentError("the field '" + std::string(name) + "' is missing");
  }
  return OkStatus();
}

}  // namespace

Result<NewApiKey> MakeApiKey(Identity identity, const std::string& expires) {
  if (identity.role == Role::kNone) identity.role = Role::kUser;
  if (identity.scope.tenant.empty()) identity.scope.tenant = identity.subject;
  const std::string id = HexOf(RandomBytes<kIdChars / 2>());
  const auto salt = RandomBytes<kSaltBytes>();
  NewApiKey made;
  made.key = std::string(kPrefix) + id + "-" + Base64UrlEncode(RandomBytes<32>());
  const std::string_view salt_view(reinterpret_cast<const char*>(salt.data()), salt.size());
  json::object entry{{"id", id},
                     {"name", identity.subject},
                     {"role", identity.role == Role::kAdmin ? "admin" : "user"},
                     {"salt", HexOf(salt)},
                     {"sha256", HexOf(DigestOf(salt_view, made.key))},
                     {"tenant", identity.scope.tenant}};
  const api::Scope& scope = identity.scope;
  if (!scope.permissions.empty()) entry["permissions"] = json::value_from(scope.permissions);
  const std::array<std::pair<const char*, const std::string*>, 6> texts = {{{"region", &scope.region},
                                                                            {"product", &scope.product},
                                                                            {"policy_version", &scope.policy_version},
                                                                            {"language", &scope.language},
                                                                            {"eligibility", &scope.eligibility},
                                                                            {"effective_date", &scope.effective_date}}};
  for (const auto& [name, text] : texts) {
    if (!text->empty()) entry[name] = *text;
  }
  if (identity.priority != 0) entry["priority"] = identity.priority;
  if (!expires.empty()) entry["expires"] = expires;
  made.entry = json::serialize(entry) + "\n";
  // What is written must be readable: one place that knows the rules.
  SURETY_ASSIGN_OR_RETURN(const KeyRing ring, KeyRing::Parse(made.entry, "new key"));
  SURETY_CHECK(ring.size() == 1);
  return made;
}

Result<KeyRing> KeyRing::Load(FileSystem& files, const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(const std::string text, files.ReadAll(path, kMaxFileBytes));
  return Parse(text, path);
}

Result<KeyRing> KeyRing::Parse(std::string_view text, std::string_view path) {
  KeyRing ring;
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    if (line.empty() || line.front() == '#') continue;
    const Status status = ring.AddLine(line);
    if (!status.ok()) return Error(status.WithContext(std::string(path) + ":" + std::to_string(number)));
  }
  return ring;
}

Status KeyRing::AddLine(std::string_view line) {
  boost::system::error_code ec;
  const json::value value = json::parse(line, ec);
  if (ec) return InvalidArgumentError("not a JSON object on one line: " + ec.message());
  if (!value.is_object()) return InvalidArgumentError("each line is one JSON object");
  const json::object& object = value.get_object();
  SURETY_RETURN_IF_ERROR(CheckFields(object));
  Entry entry;
  std::string id, digest;
  for (const auto& field : object) {
    const std::string_view name = field.key();
    const auto context = [&](Status status) {
      return InvalidArgumentError("'" + std::string(name) + "' " + status.message());
    };
    if (name == "id" || name == "name" || name == "expires") {
      auto text = ReadText(field.value());
      if (!text) return context(text.error());
      if (name == "id") {
        id = *text;
      } else if (name == "name") {
        entry.identity.subject = *text;
        entry.identity.claims["sub"] = *text;
      } else {
        const auto time = ParseUtcTime(*text);
        if (!time) return time.error().WithContext("'expires'");
        entry.expires_unix_s = std::max<int64_t>(*time, 1);
      }
    } else if (name == "salt" || name == "sha256") {
      auto bytes = ReadHex(field.value(), name == "salt" ? kSaltBytes : sizeof(Sha256Digest));
      if (!bytes) return context(bytes.error());
      (name == "salt" ? entry.salt : digest) = std::move(*bytes);
    } else {
      SURETY_RETURN_IF_ERROR(ReadIdentityField(name, field.value(), entry.identity));
      entry.identity.claims[name] = field.value();
    }
  }
  if (!IsId(id)) return InvalidArgumentError("'id' must be " + std::to_string(kIdChars) + " hexadecimal digits");
  std::ranges::copy(digest, reinterpret_cast<char*>(entry.digest.data()));
  if (!entries_.emplace(id, std::move(entry)).second) return InvalidArgumentError("the id '" + id + "' stands twice");
  return OkStatus();
}

Status KeyRing::AddPlain(std::string_view key, Identity identity) {
  if (key.size() < kMinPlainChars) {
    return InvalidArgumentError("an API key has at least " + std::to_string(kMinPlainChars) +
                                " characters; let one be made");
  }
  if (std::ranges::any_of(key, [](char c) { return c <= 0x20 || c >= 0x7f; })) {
    return InvalidArgumentError("an API key is made of printable ASCII characters without spaces");
  }
  Entry entry;
  const auto salt = RandomBytes<kSaltBytes>();
  entry.salt.assign(reinterpret_cast<const char*>(salt.data()), salt.size());
  entry.digest = DigestOf(entry.salt, key);
  entry.identity = std::move(identity);
  plain_.push_back(std::move(entry));
  return OkStatus();
}

Result<Identity> KeyRing::Verify(std::string_view key, int64_t now_unix_s) const {
  const Status unknown(StatusCode::kUnauthenticated, "incorrect API key");
  // An unknown id is compared too, with an entry that nothing matches: ids cannot be told apart by time.
  static const Entry nobody{std::string(kSaltBytes, '\0'), {}, {}, 0};
  const Entry* found = nullptr;
  const auto check = [&](const Entry& entry) {
    const Sha256Digest digest = DigestOf(entry.salt, key);
    if (CRYPTO_memcmp(digest.data(), entry.digest.data(), digest.size()) == 0 && &entry != &nobody) found = &entry;
  };
  const bool has_id = key.starts_with(kPrefix) && key.size() > kPrefix.size() + kIdChars;
  const auto by_id = has_id ? entries_.find(key.substr(kPrefix.size(), kIdChars)) : entries_.end();
  check(by_id != entries_.end() ? by_id->second : nobody);
  for (const Entry& entry : plain_) check(entry);
  if (found == nullptr) return Error(unknown);
  if (found->expires_unix_s != 0 && now_unix_s >= found->expires_unix_s) {
    return Error(Status(StatusCode::kUnauthenticated, "this API key has expired"));
  }
  return found->identity;
}

}  // namespace surety::http
