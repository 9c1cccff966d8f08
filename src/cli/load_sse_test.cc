#include "cli/load_sse.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cli/load_random.h"

namespace surety::cli {
namespace {

// The specification's rules on the whole text at once, written from its words.
std::vector<std::string> Naive(std::string text) {
  if (text.starts_with("\xEF\xBB\xBF")) text = text.substr(3);
  std::string unix_text;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      unix_text += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      unix_text += text[i];
    }
  }
  std::vector<std::string> events;
  std::string data;
  size_t at = 0;
  for (size_t end; (end = unix_text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = unix_text.substr(at, end - at);
    if (line.empty()) {
      if (!data.empty()) events.push_back(data.substr(0, data.size() - 1));
      data.clear();
      continue;
    }
    const size_t colon = line.find(':');
    std::string field = line.substr(0, colon), value;
    if (colon != std::string::npos) value = line.substr(colon + 1);
    if (!value.empty() && value[0] == ' ') value = value.substr(1);
    if (field == "data") data += value + "\n";
  }
  return events;
}

std::vector<std::string> Parsed(const std::string& text, const std::vector<size_t>& cuts) {
  SseParser parser;
  std::vector<std::string> events;
  size_t from = 0;
  const auto feed = [&](size_t to) {
    EXPECT_TRUE(parser.Feed(std::string_view(text).substr(from, to - from), 0, [&](std::string_view data, int64_t) {
      events.emplace_back(data);
    }).ok());
    from = to;
  };
  for (const size_t cut : cuts) feed(cut);
  feed(text.size());
  return events;
}

TEST(SseParserTest, AnySplitOfAnyTextGivesTheEventsOfTheWhole) {
  constexpr const char* kParts[] = {"\r",      "\n",        "\r\n",        "data",      ":",    " ", "data: x", "data:",
                                    "event: e", "\xEF\xBB\xBF", "{\"a\":1}", "\n\n", "id"};
  for (uint64_t trial = 0; trial < 20'000; ++trial) {
    RandomStream stream(1, trial, LoadLane::kUserText);
    std::string text;
    for (uint64_t i = stream.Below(25); i > 0; --i) text += kParts[stream.Below(std::size(kParts))];
    std::vector<size_t> cuts(stream.Below(8));
    for (size_t& cut : cuts) cut = stream.Below(text.size() + 1);
    std::sort(cuts.begin(), cuts.end());
    ASSERT_EQ(Parsed(text, cuts), Naive(text)) << trial;
  }
}

TEST(SseParserTest, EveryCutOfAStreamInTwoGivesTheSame) {
  const std::string text =
      "\xEF\xBB\xBF: hello\r\n\r\ndata: {\"a\": 1}\r\n\r\nevent: x\rdata:one\rdata: two\r\rdata: [DONE]\n\n";
  const std::vector<std::string> expected = {"{\"a\": 1}", "one\ntwo", "[DONE]"};
  for (size_t cut = 0; cut <= text.size(); ++cut) EXPECT_EQ(Parsed(text, {cut}), expected) << cut;
}

TEST(SseParserTest, ExamplesOfTheSpecification) {
  EXPECT_EQ(Parsed("data: YHOO\ndata: +2\ndata: 10\n\n", {}), (std::vector<std::string>{"YHOO\n+2\n10"}));
  EXPECT_EQ(Parsed("data\n\ndata\ndata\n\ndata:", {}), (std::vector<std::string>{"", "\n"}));
  EXPECT_EQ(Parsed("data:test\n\ndata: test\n\n", {}), (std::vector<std::string>{"test", "test"}));
  EXPECT_EQ(Parsed(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n", {}),
            (std::vector<std::string>{"first event", "second event", " third event"}));
}

TEST(SseParserTest, AnEventHasTheTimeOfItsOwnFirstByte) {
  SseParser parser;
  std::vector<std::pair<std::string, int64_t>> events;
  const auto feed = [&](std::string_view bytes, int64_t time) {
    ASSERT_TRUE(parser.Feed(bytes, time, [&](std::string_view data, int64_t t) { events.emplace_back(data, t); }).ok());
  };
  feed(": comment\n", 1);
  feed("d", 2);
  feed("ata: a\n", 3);
  feed("\ndata: b", 4);
  feed("\r", 5);
  feed("\n\r", 6);
  feed("\ndata: c\n\n", 7);
  EXPECT_EQ(events, (std::vector<std::pair<std::string, int64_t>>{{"a", 2}, {"b", 4}, {"c", 7}}));
}

TEST(SseParserTest, AnEventWithoutEndIsRefusedAndNothingComesAfterIt) {
  SseParser parser;
  const auto none = [](std::string_view, int64_t) { FAIL(); };
  const std::string piece(1 << 20, 'x');
  Status status = parser.Feed("data: ", 0, none);
  for (int i = 0; i < 17 && status.ok(); ++i) status = parser.Feed(piece, 0, none);
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_FALSE(parser.Feed("\n\ndata: y\n\n", 0, none).ok());
}

}  // namespace
}  // namespace surety::cli
