#include "http/jwt.h"

#include <boost/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/nearest_name.h"
#include "http/identity_fields.h"
#include "http/request_head.h"

namespace surety::http {
namespace {

namespace json = boost::json;

// A NumericDate: seconds, whole or not.
Result<std::optional<double>> ReadTime(const json::object& claims, const char* name) {
  const json::value* value = claims.if_contains(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return Error(UnauthenticatedError("the token's '" + std::string(name) + "' is no number"));
  const double seconds = value->to_number<double>();
  if (!std::isfinite(seconds)) return Error(UnauthenticatedError("the token's '" + std::string(name) + "' is no time"));
  return seconds;
}

Status CheckTimes(const json::object& claims, const JwtOptions& options, double now) {
  const auto leeway = static_cast<double>(options.leeway_s);
  SURETY_ASSIGN_OR_RETURN(const auto expires, ReadTime(claims, "exp"));
  SURETY_ASSIGN_OR_RETURN(const auto not_before, ReadTime(claims, "nbf"));
  SURETY_ASSIGN_OR_RETURN(const auto issued, ReadTime(claims, "iat"));
  if (!expires && options.require_expiry) return UnauthenticatedError("the token has no 'exp'");
  if (expires && now >= *expires + leeway) return UnauthenticatedError("the token has expired");
  if (not_before && now < *not_before - leeway) return UnauthenticatedError("the token is not valid yet ('nbf')");
  if (issued && now < *issued - leeway) return UnauthenticatedError("the token was issued in the future ('iat')");
  return OkStatus();
}

Status CheckAddressees(const json::object& claims, const JwtOptions& options) {
  const json::value* issuer = claims.if_contains("iss");
  if (issuer == nullptr || !issuer->is_string() || issuer->get_string() != options.issuer) {
    return UnauthenticatedError("the token's issuer ('iss') is not the one configured");
  }
  const json::value* audience = claims.if_contains("aud");
  if (audience == nullptr && options.audience.empty()) return OkStatus();
  const auto is_ours = [&](const json::value& value) {
    return !options.audience.empty() && value.is_string() && value.get_string() == options.audience;
  };
  const bool ours = audience != nullptr &&
                    (audience->is_array() ? std::ranges::any_of(audience->get_array(), is_ours) : is_ours(*audience));
  return ours ? OkStatus() : UnauthenticatedError("the token is not for this server ('aud')");
}

}  // namespace

Status JwtOptions::Validate() const {
  if (issuer.empty()) return InvalidArgumentError("JWT needs an issuer: the 'iss' of the tokens to accept");
  if (leeway_s < 0 || leeway_s > 600) return InvalidArgumentError("the JWT leeway must be between 0 and 600 seconds");
  std::vector<std::string> fields(IdentityFieldNames().begin(), IdentityFieldNames().end());
  for (const auto& [field, claim] : claims) {
    if (std::ranges::find(fields, field) != fields.end() && !claim.empty()) continue;
    const std::string nearest = NearestName(field, fields);
    return InvalidArgumentError("JWT claims: unknown field '" + field + "'" +
                                (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }
  fields.push_back("sub");
  for (const std::string& field : required) {
    if (std::ranges::find(fields, field) == fields.end()) {
      return InvalidArgumentError("JWT required: unknown field '" + field + "'");
    }
  }
  return OkStatus();
}

Result<JwtVerifier> JwtVerifier::Make(Jwks keys, JwtOptions options, const Clock& clock) {
  SURETY_RETURN_IF_ERROR(options.Validate());
  return JwtVerifier(std::move(keys), std::move(options), clock);
}

bool JwtVerifier::LooksLikeToken(std::string_view text) { return std::ranges::count(text, '.') == 2; }

Result<Identity> JwtVerifier::Verify(std::string_view token) const {
  SURETY_ASSIGN_OR_RETURN(const std::string payload, keys_.Verify(token));
  boost::system::error_code ec;
  const json::value parsed = json::parse(payload, ec);
  if (ec || !parsed.is_object()) return Error(UnauthenticatedError("the token's payload is no JSON object"));
  const json::object& claims = parsed.get_object();
  SURETY_RETURN_IF_ERROR(CheckAddressees(claims, options_));
  SURETY_RETURN_IF_ERROR(CheckTimes(claims, options_, static_cast<double>(clock_->WallNanos()) * 1e-9));

  Identity identity;
  identity.role = Role::kUser;
  std::vector<std::string> present;
  if (const json::value* subject = claims.if_contains("sub")) {
    auto text = ReadText(*subject);
    if (!text) return Error(UnauthenticatedError("the token's 'sub' " + text.error().message()));
    identity.subject = *std::move(text);
    present.push_back("sub");
  }
  for (const std::string& field : IdentityFieldNames()) {
    const auto renamed = options_.claims.find(field);
    const json::value* value = claims.if_contains(renamed == options_.claims.end() ? field : renamed->second);
    if (value == nullptr) continue;
    if (const Status status = ReadIdentityField(field, *value, identity); !status.ok()) {
      return Error(UnauthenticatedError("the token's claim for " + status.message()));
    }
    present.push_back(field);
  }
  for (const std::string& field : options_.required) {
    if (std::ranges::find(present, field) == present.end()) {
      return Error(UnauthenticatedError("the token has no claim for '" + field + "'"));
    }
  }
  identity.claims = claims;
  return identity;
}

}  // namespace surety::http
