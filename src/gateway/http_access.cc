#include "gateway/http_access.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"

namespace surety::gateway {
namespace {

constexpr int64_t kMaxSecretBytes = 16 << 10;
constexpr size_t kLeastHiddenBytes = 4;

std::string PathIn(const std::string& directory, const std::string& file) {
  return file.empty() ? file : (std::filesystem::path(directory) / file).string();
}

}  // namespace

Result<std::string> ReadSecret(const SecretSource& source, const std::string& directory) {
  const auto wrong = [&](std::string_view what) {
    const std::string where = source.variable.empty() ? "file '" + source.file + "'" : "variable " + source.variable;
    return Error(FailedPreconditionError("the secret of " + where + " " + std::string(what)));
  };
  std::string secret;
  if (!source.variable.empty()) {
    const char* value = std::getenv(source.variable.c_str());
    if (value == nullptr) return wrong("is not in the environment");
    secret = value;
  } else {
    auto contents = FileSystem::Real().ReadAll(PathIn(directory, source.file), kMaxSecretBytes);
    if (!contents) return wrong("cannot be read: " + contents.error().message());
    secret = *std::move(contents);
    while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
  }
  if (secret.empty()) return wrong("is empty");
  if (secret.size() > kMaxSecretBytes) return wrong("is longer than 16384 bytes");
  const bool one_line = std::ranges::none_of(secret, [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; });
  if (!one_line) return wrong("holds a line break or another control byte");
  return secret;
}

Result<HttpCredentials> ReadCredentials(const HttpAccess& access, const std::string& directory) {
  HttpCredentials out;
  out.tls = {PathIn(directory, access.ca_file), PathIn(directory, access.client_certificate),
             PathIn(directory, access.client_key)};
  for (const auto& [name, source] : access.headers) {
    auto secret = ReadSecret(source, directory);
    if (!secret) return Error(secret.error().WithContext("header '" + name + "'"));
    out.headers.emplace_back(name, *std::move(secret));
  }
  return out;
}

void UseCredentials(const HttpCredentials& credentials, HttpCall& call) {
  call.tls = credentials.tls;
  call.headers.insert(call.headers.end(), credentials.headers.begin(), credentials.headers.end());
}

std::string WithoutSecrets(std::string text, const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets) {
    if (secret.size() < kLeastHiddenBytes) continue;
    for (size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at + 3)) {
      text.replace(at, secret.size(), "***");
    }
  }
  return text;
}

std::string HeaderFault(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kOurs = {"host",    "content-length", "transfer-encoding",
                                                            "connection", "expect",      "upgrade",
                                                            "accept",  "content-type",   "idempotency-key"};
  const bool word = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
  if (!word) return "is no name of a header";
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  if (std::ranges::find(kOurs, lower) != kOurs.end()) return "is a header that surety sets itself";
  return {};
}

}  // namespace surety::gateway
