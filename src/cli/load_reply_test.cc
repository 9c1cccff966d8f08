#include "cli/load_reply.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace surety::cli {
namespace {

constexpr int64_t kMilli = 1'000'000;

// Feeds events, one a millisecond from 1 on, as a chat stream.
struct Stream {
  LoadRecord record;
  ReplyReader reader{record, true};
  int64_t now = 0;

  Stream() { reader.OnHeader(200, true); }
  Stream& Event(const std::string& json) {
    now += kMilli;
    reader.OnBody("data: " + json + "\n\n", now);
    return *this;
  }
  Stream& Text(const std::string& text, const std::string& more = "") {
    return Event("{\"choices\":[{\"delta\":{\"content\":\"" + text + "\"}}]" + more + "}");
  }
  Stream& End(const std::string& reason, int64_t tokens) {
    Event("{\"choices\":[{\"delta\":{},\"finish_reason\":\"" + reason + "\"}]}");
    if (tokens >= 0) {
      Event("{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":" + std::to_string(tokens) +
            ",\"prompt_tokens_details\":{\"cached_tokens\":4}}}");
    }
    Event("[DONE]");
    reader.OnComplete(now + kMilli);
    return *this;
  }
  std::vector<int> Tokens() const {
    std::vector<int> out;
    for (const TokenEvent& event : record.events) out.push_back(event.tokens);
    return out;
  }
};

TEST(ReplyReaderTest, AnAnswerIsReadWithItsTimesAndTokens) {
  Stream stream;
  stream.Event("{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}").Text("Hel").Text("lo");
  stream.End("length", 2);
  const LoadRecord& record = stream.record;
  EXPECT_EQ(record.outcome, LoadOutcome::kOk) << record.error;
  EXPECT_EQ(stream.reader.text(), "Hello");
  EXPECT_EQ(stream.Tokens(), (std::vector<int>{1, 1}));
  EXPECT_EQ(record.events[0].time_ns, 2 * kMilli);
  EXPECT_EQ(record.events[1].time_ns, 3 * kMilli);
  EXPECT_EQ(record.end_ns, 6 * kMilli);  // [DONE], not the end of the body
  EXPECT_EQ(record.counted, TokenCount::kUsage);
  EXPECT_EQ(record.prompt_tokens, 9);
  EXPECT_EQ(record.cached_tokens, 4);
  EXPECT_EQ(record.output_tokens, 2);
  EXPECT_EQ(record.finish_reason, "length");
}

TEST(ReplyReaderTest, TheEndTokenThatUsageCountsBelongsToTheFinish) {
  Stream stream;
  stream.Text("a").Text("b").End("stop", 3);
  EXPECT_EQ(stream.Tokens(), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(stream.record.events[2].time_ns, 3 * kMilli);
}

TEST(ReplyReaderTest, SeveralTokensInAChunkAreSharedOutByBytesAndAddUp) {
  Stream stream;
  stream.Text("aaaaaaaaaaaa").Text("bbbb").Text("cccc").End("length", 10);
  // One each; of the other 7 the first 60 %, 80 % and 100 %, 4.2, 5.6 and 7, are 4, 6 and 7 as whole tokens.
  EXPECT_EQ(stream.Tokens(), (std::vector<int>{5, 3, 2}));
  for (int total = 3; total < 200; ++total) {
    Stream other;
    other.Text("x").Text("yyyyyyyyyyyyyyyyyyyyy").Text("zz").End("length", total);
    const auto tokens = other.Tokens();
    EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), 0), total);
    EXPECT_GE(*std::min_element(tokens.begin(), tokens.end()), 1);
  }
}

TEST(ReplyReaderTest, UsageInEachChunkCountsItsTokens) {
  Stream stream;
  stream.Text("a", ",\"usage\":{\"completion_tokens\":3}").Text("b", ",\"usage\":{\"completion_tokens\":4}");
  stream.End("stop", 5);
  EXPECT_EQ(stream.Tokens(), (std::vector<int>{3, 1, 1}));
  EXPECT_EQ(stream.record.output_tokens, 5);
}

TEST(ReplyReaderTest, WithoutUsageAnEventIsATokenAndThatIsSaid) {
  Stream stream;
  stream.Text("a").Text("b").End("stop", -1);
  EXPECT_EQ(stream.record.counted, TokenCount::kChunks);
  EXPECT_EQ(stream.record.output_tokens, 2);
}

TEST(ReplyReaderTest, ThoughtsToolCallsAndPlainCompletionsAreTokens) {
  Stream stream;
  stream.Event("{\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}");
  stream.Event("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}");
  stream.Event("{\"choices\":[{\"text\":\"t\",\"finish_reason\":null}]}");
  stream.End("tool_calls", 3);
  EXPECT_EQ(stream.Tokens(), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(stream.reader.text(), "t");
}

TEST(ReplyReaderTest, AStreamWithoutItsEndIsCut) {
  Stream stream;
  stream.Text("a");
  stream.reader.OnComplete(9 * kMilli);
  EXPECT_EQ(stream.record.outcome, LoadOutcome::kCut);
  EXPECT_EQ(stream.record.events.size(), 1u);
  EXPECT_EQ(stream.record.end_ns, 9 * kMilli);
}

TEST(ReplyReaderTest, AConnectionThatBreaksAfterDoneDoesNotHarmTheAnswer) {
  Stream stream;
  stream.Text("a").Event("{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}").Event("[DONE]");
  stream.reader.OnFailure(LoadOutcome::kCut, "reset", 9 * kMilli);
  EXPECT_EQ(stream.record.outcome, LoadOutcome::kOk);
  EXPECT_EQ(stream.record.end_ns, 3 * kMilli);
}

TEST(ReplyReaderTest, AConnectionThatBreaksBeforeThatDoes) {
  Stream stream;
  stream.Text("a").Event("{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}");
  stream.reader.OnFailure(LoadOutcome::kCut, "reset", 9 * kMilli);
  EXPECT_EQ(stream.record.outcome, LoadOutcome::kCut);
}

TEST(ReplyReaderTest, AnErrorInsideTheStreamIsTheOutcome) {
  Stream stream;
  stream.Text("a").Event("{\"error\":{\"message\":\"ran out\",\"code\":500}}").Text("b");
  stream.reader.OnComplete(9 * kMilli);
  EXPECT_EQ(stream.record.outcome, LoadOutcome::kStreamError);
  EXPECT_EQ(stream.record.error, "ran out");
  EXPECT_EQ(stream.record.events.size(), 1u);
}

TEST(ReplyReaderTest, WhatIsNoAnswerIsAProtocolFault) {
  for (const char* event : {"{oops", "[1]", "3", "{\"a\":"}) {
    Stream stream;
    stream.Event(event);
    stream.reader.OnComplete(9 * kMilli);
    EXPECT_EQ(stream.record.outcome, LoadOutcome::kProtocol) << event;
    EXPECT_NE(stream.record.error.find(event), std::string::npos);
  }
  LoadRecord record;
  ReplyReader reader(record, false);
  reader.OnHeader(200, false);
  reader.OnBody("<html>", 1);
  reader.OnComplete(2);
  EXPECT_EQ(record.outcome, LoadOutcome::kProtocol);
}

TEST(ReplyReaderTest, StatusesAreToldApartAndTheServersMessageIsKept) {
  for (const auto& [status, outcome] : {std::pair(429, LoadOutcome::kRefused), std::pair(503, LoadOutcome::kRefused),
                                        std::pair(400, LoadOutcome::kHttpError)}) {
    LoadRecord record;
    ReplyReader reader(record, false);
    reader.OnHeader(status, false);
    reader.OnBody("{\"error\":{\"message\":\"too ", 1);
    reader.OnBody("much\"}}", 2);
    reader.OnComplete(3);
    EXPECT_EQ(record.outcome, outcome);
    EXPECT_EQ(record.error, "status " + std::to_string(status) + ": too much");
    EXPECT_EQ(record.end_ns, 3);
  }
}

TEST(ReplyReaderTest, MadUsageIsNotBelieved) {
  for (const char* n : {"-5", "1e300", "\"x\"", "18446744073709551615", "null", "{}"}) {
    Stream stream;
    stream.Text("a").Event(std::string("{\"choices\":[],\"usage\":{\"completion_tokens\":") + n + "}}").End("stop", -1);
    EXPECT_EQ(stream.record.outcome, LoadOutcome::kOk) << n;
    EXPECT_EQ(stream.record.output_tokens, 1) << n;
  }
}

}  // namespace
}  // namespace surety::cli
