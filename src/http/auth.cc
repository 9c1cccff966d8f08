#include "http/auth.h"

#include <algorithm>
#include <utility>

namespace surety::http {
namespace {

constexpr int64_t kFirstDelayMs = 100;
constexpr int kMaxDoublings = 4;
constexpr int64_t kForgetNs = 60'000'000'000;
constexpr size_t kMaxAddresses = 4096;

bool IsBearer(std::string_view text) {
  constexpr std::string_view kScheme = "bearer ";
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  return std::ranges::equal(text.substr(0, kScheme.size()), kScheme, same);
}

// The credentials of a request; an empty optional if there are none.
Result<std::optional<std::string>> CredentialsOf(const std::map<std::string, std::string>& headers) {
  std::optional<std::string> found;
  if (const auto header = headers.find("authorization"); header != headers.end() && !header->second.empty()) {
    if (!IsBearer(header->second)) return Error(UnauthenticatedError("the Authorization header must be 'Bearer KEY'"));
    const size_t start = header->second.find_first_not_of(' ', 7);
    found = start == std::string::npos ? "" : header->second.substr(start);
  }
  if (const auto header = headers.find("x-api-key"); header != headers.end() && !header->second.empty()) {
    if (found && *found != header->second) {
      return Error(UnauthenticatedError("Authorization and x-api-key carry two different keys; send one"));
    }
    found = header->second;
  }
  return found;
}

}  // namespace

Authenticator::Authenticator(KeyRing keys, std::optional<JwtVerifier> tokens, const Clock& clock)
    : keys_(std::make_shared<const KeyRing>(std::move(keys))), tokens_(std::move(tokens)), clock_(clock) {}

Result<std::optional<Identity>> Authenticator::Authenticate(const std::map<std::string, std::string>& headers) const {
  SURETY_ASSIGN_OR_RETURN(const std::optional<std::string> credentials, CredentialsOf(headers));
  if (!credentials) return std::nullopt;
  if (tokens_ && JwtVerifier::LooksLikeToken(*credentials)) {
    SURETY_ASSIGN_OR_RETURN(Identity identity, tokens_->Verify(*credentials));
    return identity;
  }
  std::shared_ptr<const KeyRing> keys;
  {
    std::lock_guard lock(mutex_);
    keys = keys_;
  }
  SURETY_ASSIGN_OR_RETURN(Identity identity, keys->Verify(*credentials, clock_.WallNanos() / 1'000'000'000));
  return identity;
}

void Authenticator::ReplaceKeys(KeyRing keys) {
  auto fresh = std::make_shared<const KeyRing>(std::move(keys));
  std::lock_guard lock(mutex_);
  keys_.swap(fresh);
}

int64_t FailureBrake::DelayMsAfterFailure(const std::string& address, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  if (records_.size() >= kMaxAddresses && !records_.contains(address)) {
    std::erase_if(records_, [&](const auto& entry) { return now_ns - entry.second.last_ns > kForgetNs; });
    if (records_.size() >= kMaxAddresses) {
      records_.erase(std::ranges::min_element(records_, {}, [](const auto& entry) { return entry.second.last_ns; }));
    }
  }
  Record& record = records_[address];
  if (now_ns - record.last_ns > kForgetNs) record.n_failures = 0;
  record.last_ns = now_ns;
  record.n_failures = std::min(record.n_failures + 1, kMaxDoublings + 1);
  return kFirstDelayMs << (record.n_failures - 1);
}

}  // namespace surety::http
