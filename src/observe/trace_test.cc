#include "observe/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <thread>

namespace surety::observe {
namespace {

// The specification's own example, and values around it.
constexpr char kTraceText[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kParentText[] = "b7ad6b7169203331";

std::string Header(const std::string& version, const std::string& trace, const std::string& parent,
                   const std::string& flags, const std::string& rest = "") {
  return version + "-" + trace + "-" + parent + "-" + flags + rest;
}

TEST(TraceparentTest, ReadsTheSpecificationsExample) {
  const std::string header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const auto context = ParseTraceparent(header);
  ASSERT_TRUE(context);
  EXPECT_EQ(TraceIdText(context->trace_id), kTraceText);
  EXPECT_EQ(SpanIdText(context->span_id), kParentText);
  EXPECT_TRUE(context->sampled());
  EXPECT_EQ(FormatTraceparent(*context), header);
}

TEST(TraceparentTest, FlagsAreBits) {
  for (const auto& [flags, sampled] : {std::pair{"00", false}, {"01", true}, {"02", false}, {"03", true},
                                       {"08", false}, {"09", true}, {"ff", true}}) {
    const auto context = ParseTraceparent(Header("00", kTraceText, kParentText, flags));
    ASSERT_TRUE(context) << flags;
    EXPECT_EQ(context->sampled(), sampled) << flags;
  }
}

TEST(TraceparentTest, LaterVersionsAreReadByTheFieldsTheyShare) {
  EXPECT_TRUE(ParseTraceparent(Header("cc", kTraceText, kParentText, "01")));
  EXPECT_TRUE(ParseTraceparent(Header("cc", kTraceText, kParentText, "01", "-what-the-future-will-be-like")));
  EXPECT_TRUE(ParseTraceparent(Header("01", kTraceText, kParentText, "01", "-")));
  EXPECT_FALSE(ParseTraceparent(Header("cc", kTraceText, kParentText, "01", ".what-the-future-will-be-like")));
}

TEST(TraceparentTest, WhatIsNotValidIsNothing) {
  const std::string trace = kTraceText, parent = kParentText;
  for (const std::string& header : {
           std::string(), std::string("00"), std::string("-"), std::string(55, '-'), std::string(55, '0'),
           Header("00", trace, parent, "01", "."), Header("00", trace, parent, "01", "-more"),
           Header("00", trace, parent, "01", " "), Header("ff", trace, parent, "01"), Header("FF", trace, parent, "01"),
           Header(".0", trace, parent, "01"), Header("0.", trace, parent, "01"), Header("000", trace, parent, "01"),
           Header("0", trace, parent, "01"), Header("00", std::string(32, '0'), parent, "01"),
           Header("00", "." + trace.substr(1), parent, "01"), Header("00", trace.substr(1) + ".", parent, "01"),
           Header("00", trace + "3", parent, "01"), Header("00", trace.substr(1), parent, "01"),
           Header("00", "0AF7651916CD43DD8448EB211C80319C", parent, "01"),
           Header("00", trace, std::string(16, '0'), "01"), Header("00", trace, "." + parent.substr(1), "01"),
           Header("00", trace, parent + "5", "01"), Header("00", trace, parent.substr(1), "01"),
           Header("00", trace, "B7AD6B7169203331", "01"), Header("00", trace, parent, ".0"),
           Header("00", trace, parent, "0."), Header("00", trace, parent, "001"), Header("00", trace, parent, "1"),
           Header("00", trace, parent, "0A"), " " + Header("00", trace, parent, "01"),
           Header("00", trace, parent, "01") + ", " + Header("00", trace, parent, "01"),
           "00_" + trace + "-" + parent + "-01", "00-" + trace + "_" + parent + "-01",
           "00-" + trace + "-" + parent + "_01",
       }) {
    EXPECT_FALSE(ParseTraceparent(header)) << header;
  }
}

TEST(TracestateTest, PrintableAndShortIsPassedOn) {
  EXPECT_TRUE(IsSaneTracestate(""));
  EXPECT_TRUE(IsSaneTracestate("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"));
  EXPECT_TRUE(IsSaneTracestate(std::string(512, 'a')));
  EXPECT_FALSE(IsSaneTracestate(std::string(513, 'a')));
  EXPECT_FALSE(IsSaneTracestate("a=\xC3\xA4"));
  EXPECT_FALSE(IsSaneTracestate(std::string("a=\0", 3)));
}

class KeepingSink : public SpanSink {
 public:
  void Take(std::vector<Span>) override {}
};

TEST(TracerTest, AChildKeepsItsParentsTraceAndDecision) {
  KeepingSink sink;
  Tracer tracer(sink, 0, 1);
  for (const char* flags : {"00", "01", "03", "ff"}) {
    const auto parent = ParseTraceparent(Header("00", kTraceText, kParentText, flags));
    const TraceContext child = tracer.Begin(parent);
    EXPECT_EQ(child.trace_id, parent->trace_id);
    EXPECT_NE(child.span_id, parent->span_id);
    EXPECT_EQ(child.flags, parent->flags & 3);
  }
}

TEST(TracerTest, RootsAreRecordedInTheShareAskedFor) {
  KeepingSink sink;
  for (const double ratio : {0.0, 0.1, 0.5, 1.0}) {
    Tracer tracer(sink, ratio, 7);
    int sampled = 0;
    constexpr int kRoots = 4000;
    for (int i = 0; i < kRoots; ++i) sampled += tracer.Begin(std::nullopt).sampled() ? 1 : 0;
    // Six standard deviations of the binomial; exact at both ends.
    const double limit = 6 * std::sqrt(ratio * (1 - ratio) * kRoots);
    EXPECT_NEAR(sampled, ratio * kRoots, limit) << ratio;
  }
}

TEST(TracerTest, TheSameTracesAreRecordedUnderALargerShare) {
  KeepingSink sink;
  Tracer few(sink, 0.2, 9), many(sink, 0.6, 9);
  for (int i = 0; i < 500; ++i) {
    const TraceContext a = few.Begin(std::nullopt), b = many.Begin(std::nullopt);
    ASSERT_EQ(a.trace_id, b.trace_id);
    EXPECT_TRUE(!a.sampled() || b.sampled());
  }
}

TEST(TracerTest, IdsAreNotMadeTwiceByManyThreads) {
  KeepingSink sink;
  Tracer tracer(sink, 1, 3);
  std::vector<std::vector<TraceContext>> made(4);
  std::vector<std::thread> threads;
  for (auto& list : made) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) list.push_back(tracer.Begin(std::nullopt));
    });
  }
  for (auto& thread : threads) thread.join();
  std::set<TraceId> traces;
  std::set<SpanId> spans;
  for (const auto& list : made) {
    for (const TraceContext& context : list) {
      traces.insert(context.trace_id);
      spans.insert(context.span_id);
      const auto again = ParseTraceparent(FormatTraceparent(context));
      ASSERT_TRUE(again);
      EXPECT_EQ(*again, context);
    }
  }
  EXPECT_EQ(traces.size(), 2000u);
  EXPECT_EQ(spans.size(), 2000u);
}

}  // namespace
}  // namespace surety::observe
