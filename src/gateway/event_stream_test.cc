// Server-sent events, cut everywhere.
#include "gateway/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace surety::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> ReadEvents(std::string_view bytes, const std::vector<size_t>& cuts) {
  EventStream stream;
  std::vector<std::string> events;
  const auto add = [&](std::string_view data) {
    events.emplace_back(data);
    return true;
  };
  size_t at = 0;
  for (const size_t cut : cuts) {
    EXPECT_TRUE(stream.Feed(bytes.substr(at, cut - at), add).ok());
    at = cut;
  }
  EXPECT_TRUE(stream.Feed(bytes.substr(at), add).ok());
  stream.End(add);
  return events;
}

TEST(EventStreamTest, EveryLineEndSpaceAndCommentWhereverItIsCut) {
  const std::string bytes =
      "\xEF\xBB\xBF: hello\r\ndata: one\r\n\r\ndata:two\n\nevent: x\rid: 7\rdata: three\rdata: 3\r\r"
      "data:  four \n\n: ping\n\nretry: 5\n\ndatax: no\n\ndata\n\ndata: five\r\n\r\ndata: [DONE]\n";
  const auto expected = ElementsAre("one", "two", "three\n3", " four ", "", "five", "[DONE]");
  EXPECT_THAT(ReadEvents(bytes, {}), expected);
  std::vector<size_t> every;
  for (size_t i = 0; i < bytes.size(); ++i) {
    every.push_back(i);
    ASSERT_THAT(ReadEvents(bytes, {i}), expected) << "cut at " << i;
    for (size_t k = i; k < bytes.size(); k += 7) ASSERT_THAT(ReadEvents(bytes, {i, k}), expected) << i << " " << k;
  }
  EXPECT_THAT(ReadEvents(bytes, every), expected);
}

TEST(EventStreamTest, TheEndGivesWhatIsWholeAndNothingTwice) {
  EXPECT_THAT(ReadEvents("data: a", {}), ElementsAre("a"));
  EXPECT_THAT(ReadEvents("data: a\n", {}), ElementsAre("a"));
  EXPECT_THAT(ReadEvents("data: a\n\n", {}), ElementsAre("a"));
  EXPECT_THAT(ReadEvents("", {}), IsEmpty());
  EXPECT_THAT(ReadEvents(": only\n\n", {}), IsEmpty());
}

TEST(EventStreamTest, ReadingEndsWhereTheReceiverSaysAndAtTheLimit) {
  EventStream stream;
  int n = 0;
  EXPECT_TRUE(stream.Feed("data: a\n\ndata: b\n\n", [&](std::string_view) { return ++n < 1; }).ok());
  EXPECT_EQ(n, 1);
  EventStream flooded;
  Status status;
  const std::string line(1 << 16, 'x');
  for (int i = 0; i < 100 && status.ok(); ++i) status = flooded.Feed(line, [](std::string_view) { return true; });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace surety::gateway
