// What a remote server's failures mean here.
#include "gateway/remote_error.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace surety::gateway {
namespace {

namespace json = boost::json;

TEST(RemoteErrorTest, ContextsThatAreTooLong) {
  HttpReply reply;
  reply.status = 400;
  reply.body = R"({"error":{"message":"m","code":"context_length_exceeded"}})";
  EXPECT_EQ(FailureOf(reply, 0).status.code(), StatusCode::kOutOfRange);
  reply.body = R"({"error":{"message":"m","code":400,"type":"exceed_context_size_error"}})";
  EXPECT_EQ(FailureOf(reply, 0).status.code(), StatusCode::kOutOfRange);
}

TEST(RemoteErrorTest, RetryAfterInAllItsForms) {
  const int64_t now = 784'111'777'000'000'000;  // Sun, 06 Nov 1994 08:49:37 GMT, as RFC 9110 has it
  const auto seconds = [&](std::map<std::string, std::string> headers) { return RetryAfterSeconds(headers, now); };
  EXPECT_DOUBLE_EQ(seconds({{"retry-after", "7"}}), 7);
  EXPECT_DOUBLE_EQ(seconds({{"retry-after", "1.5"}}), 1.5);
  EXPECT_DOUBLE_EQ(seconds({{"retry-after-ms", "250"}, {"retry-after", "7"}}), 0.25);
  EXPECT_DOUBLE_EQ(seconds({{"x-ms-retry-after-ms", "1500"}, {"retry-after", "7"}}), 1.5);
  EXPECT_DOUBLE_EQ(seconds({{"retry-after-ms", "soon"}, {"retry-after", "7"}}), 7);
  EXPECT_DOUBLE_EQ(seconds({{"retry-after", "86400"}}), 60);
  EXPECT_NEAR(seconds({{"retry-after", "Sun, 06 Nov 1994 08:49:49 GMT"}}), 12, 1e-6);
  EXPECT_DOUBLE_EQ(seconds({{"retry-after", "Sun, 06 Nov 1994 08:49:00 GMT"}}), 0) << "it has passed";
  EXPECT_DOUBLE_EQ(seconds({{"retry-after", "Mon, 07 Nov 2094 08:49:37 GMT"}}), 60);
  for (const char* bad : {"", "-5", "nan", "inf", "1e3", "7 s", "Sun, 99 Nov 1994 08:49:49 GMT", "0x10"}) {
    EXPECT_DOUBLE_EQ(seconds({{"retry-after", bad}}), 0) << bad;
  }
  EXPECT_DOUBLE_EQ(seconds({}), 0);
}

}  // namespace
}  // namespace surety::gateway
