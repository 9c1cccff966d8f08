#include "cli/load_random.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace surety::cli {
namespace {

std::vector<std::string> SplitAtColons(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t from = 0;;) {
    const size_t colon = text.find(':', from);
    parts.emplace_back(text.substr(from, colon - from));
    if (colon == std::string_view::npos) return parts;
    from = colon + 1;
  }
}

std::optional<double> NumberOf(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

double RandomStream::Exponential() { return -std::log(Uniform()); }

double RandomStream::Normal() {
  const double radius = std::sqrt(-2 * std::log(Uniform()));
  return radius * std::cos(2 * std::numbers::pi * Uniform());
}

double RandomStream::Gamma(double shape) {
  if (shape < 1) {  // a gamma of shape + 1, drawn down by a power of a uniform
    const double larger = Gamma(shape + 1);
    return larger * std::pow(Uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = Normal();
    const double u = Uniform();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

uint64_t RandomStream::Below(uint64_t n) {
  const auto drawn = static_cast<uint64_t>(Uniform() * static_cast<double>(n));
  return std::min(drawn, n - 1);
}

Result<Distribution> Distribution::Parse(std::string_view text, double least, double most) {
  const std::vector<std::string> parts = SplitAtColons(text);
  const auto bad = [&] {
    return Error(InvalidArgumentError(fmt::format(
        "'{}' is no distribution: a number, uniform:LEAST:MOST, lognormal:MEAN:SIGMA or exponential:MEAN", text)));
  };
  Distribution result;
  result.least_ = least;
  result.most_ = most;
  size_t numbers = 1, from = 1;
  if (parts.size() == 1) {
    from = 0;
  } else if (parts[0] == "uniform") {
    result.law_ = Law::kUniform;
    numbers = 2;
  } else if (parts[0] == "lognormal") {
    result.law_ = Law::kLognormal;
    numbers = 2;
  } else if (parts[0] == "exponential") {
    result.law_ = Law::kExponential;
  } else if (parts[0] != "fixed") {
    return bad();
  }
  if (parts.size() != from + numbers) return bad();
  const auto first = NumberOf(parts[from]);
  const auto second = numbers == 2 ? NumberOf(parts[from + 1]) : std::optional<double>(0);
  if (!first || !second) return bad();
  result.first_ = *first;
  result.second_ = *second;
  const auto outside = [&](double value) { return value < least || value > most; };
  if (outside(*first) || (result.law_ == Law::kUniform && outside(*second))) {
    return Error(InvalidArgumentError(fmt::format("'{}': values from {} to {}", text, least, most)));
  }
  if (result.law_ == Law::kUniform && *second < *first) {
    return Error(InvalidArgumentError(fmt::format("'{}': the least value stands first", text)));
  }
  if (result.law_ == Law::kLognormal && (*first <= 0 || *second < 0 || *second > 5)) {
    return Error(InvalidArgumentError(fmt::format("'{}': a mean above 0 and a sigma from 0 to 5", text)));
  }
  return result;
}

double Distribution::Draw(RandomStream& stream) const {
  double value = first_;
  if (law_ == Law::kUniform) value = first_ + (second_ - first_) * stream.Uniform();
  if (law_ == Law::kExponential) value = first_ * stream.Exponential();
  if (law_ == Law::kLognormal) value = std::exp(std::log(first_) - second_ * second_ / 2 + second_ * stream.Normal());
  return std::clamp(value, least_, most_);
}

}  // namespace surety::cli
