#include "gateway/policy_values.h"

#include <chrono>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace surety::gateway {
namespace {

constexpr int64_t kMs = 1'000'000, kS = 1000 * kMs;

TEST(PolicyValuesTest, DurationsSizesAndShares) {
  EXPECT_EQ(ParseDuration("400ms"), 400 * kMs);
  EXPECT_EQ(ParseDuration("10s"), 10 * kS);
  EXPECT_EQ(ParseDuration("1.5s"), 1500 * kMs);
  EXPECT_EQ(ParseDuration("5m"), 300 * kS);
  EXPECT_EQ(ParseDuration("6h"), 21'600 * kS);
  EXPECT_EQ(ParseDuration("1d"), 86'400 * kS);
  EXPECT_EQ(ParseSize("64MB"), 64'000'000);
  EXPECT_EQ(ParseSize("64MiB"), 64 << 20);
  EXPECT_EQ(ParseSize("512"), 512);
  EXPECT_EQ(ParseShare("0.5%"), 0.005);
  EXPECT_EQ(ParseShare("1"), 1.0);
  for (const char* bad : {"", "s", "10", "-1s", "0s", "1 s", "10sec", "1e3s", "1mo", "1.s.", "99999999d", "nan s", "+1s"}) {
    EXPECT_FALSE(ParseDuration(bad)) << bad;
  }
  for (const char* bad : {"", "MB", "-1MB", "64 MB", "64mb", "9999999TiB"}) EXPECT_FALSE(ParseSize(bad)) << bad;
  for (const char* bad : {"", "%", "101%", "1.1", "-0.1", "nan", "0.5 %"}) EXPECT_FALSE(ParseShare(bad)) << bad;
}

TEST(PolicyValuesTest, WhatIsFormattedReadsBack) {
  for (const int64_t duration : {int64_t{1}, 1000 * int64_t{1}, 400 * kMs, kS, 90 * kS, 86'400 * kS, 123'456'789'012}) {
    EXPECT_EQ(ParseDuration(FormatDuration(duration)), duration) << FormatDuration(duration);
  }
  EXPECT_EQ(FormatDuration(1500 * kMs), "1500ms");
  constexpr int64_t kEnd = int64_t{200} * 365 * 86'400 * kS;
  for (int64_t t = -kEnd; t < kEnd; t += 97 * 86'399 * kS + 123'456'789) {
    EXPECT_EQ(ParseInstant(FormatInstant(t)), t) << FormatInstant(t);
  }
}

// Against the calendar of the standard library.
TEST(PolicyValuesTest, InstantsAreThoseOfTheCalendar) {
  using std::chrono::days;
  for (int64_t n = -20'000; n < 55'000; n += 13) {
    const std::chrono::year_month_day day{std::chrono::sys_days(days(static_cast<int>(n)))};
    const std::string date = fmt::format("{:04}-{:02}-{:02}", static_cast<int>(day.year()),
                                         static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
    EXPECT_EQ(ParseInstant(date), n * 86'400 * kS) << date;
    EXPECT_EQ(ParseInstant(date + "T01:30:00+01:30"), n * 86'400 * kS) << date;
    EXPECT_EQ(ParseInstant(date + "T00:00:00-05:00"), (n * 86'400 + 5 * 3600) * kS) << date;
  }
  EXPECT_EQ(ParseInstant("1970-01-01T00:00:00.25Z"), 250 * kMs);
  for (const char* bad : {"", "2026", "2026-02-30", "2026-13-01", "2026-1-1", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z",
                          "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z", "2026-01-01T00:00:00.Z",
                          "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+0500", "2026-01-01T00:00:00Zx", "1600-01-01",
                          "2300-01-01", "2026-01-01T00:00:00.1234567891Z"}) {
    EXPECT_FALSE(ParseInstant(bad)) << bad;
  }
}

TEST(PolicyValuesTest, NumbersAreWholeTexts) {
  EXPECT_EQ(ParseInteger("-12"), -12);
  EXPECT_EQ(ParseNumber("1e-3"), 1e-3);
  for (const char* bad : {"", " 1", "1 ", "0x10", "1_000", "1,000", "inf", "nan", "1e999", "99999999999999999999"}) {
    EXPECT_FALSE(ParseInteger(bad)) << bad;
  }
  for (const char* bad : {"", " 1", "inf", "nan", "1e999", ".", "1..2"}) EXPECT_FALSE(ParseNumber(bad)) << bad;
}

}  // namespace
}  // namespace surety::gateway
