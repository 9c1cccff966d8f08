// Secrets and certificates that a policy names, as a call to another server needs them.
//
// A secret is read when a policy comes into use, at the start and at a reload, and stays in memory. It stands in no
// error: what a server says of a refused request is shown without it.
// Threads: any. Errors: ReadSecret: kFailedPrecondition naming the variable or file: it is not there, is empty, too
// long (16 KiB), or has a line break or control byte inside.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gateway/http_client.h"
#include "gateway/policy.h"

namespace surety::gateway {

struct HttpCredentials {
  HttpTls tls;                                             // with paths that can be opened
  std::vector<std::pair<std::string, std::string>> headers;
};

// `directory`: the policy's. Line breaks at a file's end are not part of it.
Result<std::string> ReadSecret(const SecretSource& source, const std::string& directory);
Result<HttpCredentials> ReadCredentials(const HttpAccess& access, const std::string& directory);
// Of a tool or a judge.
void UseCredentials(const HttpCredentials& credentials, HttpCall& call);

// The text with "***" in place of every secret in it. Those of fewer than four bytes are too short to be told apart.
std::string WithoutSecrets(std::string text, const std::vector<std::string>& secrets);

// Whether a policy may set this header: not those that the client, the tools and the models set themselves. Empty: it
// may; else why not.
std::string HeaderFault(std::string_view name);

}  // namespace surety::gateway
