#include "cli/load_trace.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

namespace surety::cli {
namespace {

std::string Sample(const std::string& name) { return std::string(SURETY_TESTDATA "/load/") + name; }

struct Sums {
  int64_t rows = 0, prompt = 0, output = 0, blocks = 0;
  bool operator==(const Sums&) const = default;
};

Sums SumsOf(const Trace& trace) {
  Sums sums;
  for (const TraceRow& row : trace.rows) {
    ++sums.rows;
    sums.prompt += row.prompt_tokens;
    sums.output += row.output_tokens;
    sums.blocks += static_cast<int64_t>(row.blocks.size());
  }
  return sums;
}

// The sums of the samples and of the whole traces were taken with Python's own JSON and CSV readers.
TEST(TraceTest, MooncakeSampleHasItsSums) {
  const auto trace = ReadTrace(Sample("mooncake.jsonl"), "auto");
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->format, TraceFormat::kMooncake);
  EXPECT_EQ(SumsOf(*trace), (Sums{12, 204615, 4645, 407}));
  EXPECT_EQ(trace->grid_s, 3);
  EXPECT_EQ(trace->rows.front().arrival_s, 0);
  EXPECT_EQ(trace->rows.back().arrival_s, 3);
}

TEST(TraceTest, AzureSampleHasItsSumsAndTimes) {
  const auto trace = ReadTrace(Sample("azure.csv"), "auto");
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->format, TraceFormat::kAzure);
  EXPECT_EQ(SumsOf(*trace), (Sums{12, 31868, 165, 0}));
  EXPECT_EQ(trace->grid_s, 0);
  EXPECT_NEAR(trace->rows[1].arrival_s, 0.052, 1e-6);
  EXPECT_NEAR(trace->rows.back().arrival_s, 1.399087, 1e-6);
}

TEST(TraceTest, OwnSampleIsSortedByArrival) {
  const auto trace = ReadTrace(Sample("own.jsonl"), "auto");
  ASSERT_TRUE(trace) << trace.error().message();
  ASSERT_EQ(trace->rows.size(), 3u);
  EXPECT_TRUE(trace->has_arrivals);
  EXPECT_TRUE(trace->rows[0].is_messages);
  EXPECT_EQ(trace->rows[0].output_tokens, 0);
  EXPECT_EQ(trace->rows[1].arrival_s, 0.25);
  EXPECT_EQ(trace->rows[1].output_tokens, 12);
  EXPECT_EQ(trace->rows[2].arrival_s, 1.75);
  EXPECT_EQ(trace->rows[2].content, "\"A \\\"quoted\\\" word\"");
}

TEST(TraceTest, WholeTracesHaveTheirSums) {
  const std::string folder = SURETY_SHARED_DATA "/traces/";
  if (!std::filesystem::exists(folder + "azure_conv_2023.csv")) GTEST_SKIP() << folder << " is not here";
  const auto conv = ReadTrace(folder + "azure_conv_2023.csv", "auto");
  ASSERT_TRUE(conv) << conv.error().message();
  EXPECT_EQ(SumsOf(*conv), (Sums{19366, 22361870, 4088665, 0}));
  EXPECT_NEAR(conv->rows.back().arrival_s, 3501.7219373, 1e-6);
  const auto code = ReadTrace(folder + "azure_code_2023.csv", "auto");
  ASSERT_TRUE(code) << code.error().message();
  EXPECT_EQ(SumsOf(*code), (Sums{8819, 18059974, 245896, 0}));
  const auto mooncake = ReadTrace(folder + "mooncake_conversation.jsonl", "auto");
  ASSERT_TRUE(mooncake) << mooncake.error().message();
  EXPECT_EQ(mooncake->rows.size(), 12031u);
  EXPECT_EQ(SumsOf(*mooncake).blocks, 288500);
  EXPECT_EQ(mooncake->grid_s, 3);
}

TEST(TraceTest, BadLinesAreNamedWithFileAndLine) {
  struct Case {
    const char* format;
    const char* text;
    const char* says;
  };
  const char* good = "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": [1]}\n";
  const std::string after_good = std::string(good) + "\n{oops}\n";
  const Case cases[] = {
      {"mooncake", after_good.c_str(), "t:3: no JSON"},
      {"mooncake", "[]", "t:1: a line must be one JSON object"},
      {"mooncake", "{\"timestamp\": -1}", "\"timestamp\" must be a number"},
      {"mooncake", "{\"timestamp\": 0, \"input_length\": 0}", "\"input_length\" must be a number from 1"},
      {"mooncake", "{\"timestamp\": 0, \"input_length\": 1.5}", "whole number"},
      {"mooncake", "{\"timestamp\": 0, \"input_length\": 513, \"output_length\": 1, \"hash_ids\": [1]}",
       "2 blocks of 512"},
      {"mooncake", "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": [-1]}", "hash_ids"},
      {"mooncake", "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": [1.5]}", "hash_ids"},
      {"azure", "TIMESTAMP,ContextTokens\n", "t:1: no column GeneratedTokens"},
      {"azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,1\n", "t:2: 2 fields"},
      {"azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-16 18:15:46,1,2\n", "t:2: '2023-13-16"},
      {"azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.,1,2\n", "is no time"},
      {"azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,x,2\n", "'x' is no number of tokens"},
      {"azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "no requests"},
      {"jsonl", "{\"prompt\": 3}", "\"prompt\" must be text"},
      {"jsonl", "{}", "either \"prompt\" or \"messages\""},
      {"jsonl", "{\"prompt\": \"a\", \"messages\": []}", "either \"prompt\" or \"messages\""},
      {"jsonl", "{\"messages\": [{\"role\": \"user\"}]}", "objects with \"role\" and \"content\""},
      {"jsonl", "{\"prompt\": \"a\", \"arrival_s\": 1}\n{\"prompt\": \"b\"}", "t:2: no \"arrival_s\", unlike"},
      {"jsonl", "{\"prompt\": \"a\", \"max_tokens\": 0}", "\"max_tokens\" must be a number from 1"},
      {"jsonl", "\n  \n", "no requests"},
      {"nonsense", "", "no trace format 'nonsense'"},
  };
  for (const Case& c : cases) {
    const auto trace = ParseTrace(c.text, "t", c.format);
    ASSERT_FALSE(trace) << c.text;
    EXPECT_NE(trace.error().message().find(c.says), std::string::npos) << c.text << " -> " << trace.error().message();
  }
}

TEST(TraceTest, TimesOfTwoDaysZonesAndLeapYearsAreInOrder) {
  const auto trace = ParseTrace(
      "GeneratedTokens,TIMESTAMP,ContextTokens,More\r\n1,2024-02-28 23:59:59.5,1,x\r\n2,2024-02-29T00:00:00.25Z,1,x\r\n"
      "3,2024-03-01 02:00:01+02:00,1,x\r\n", "t", "auto");
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->rows[1].arrival_s, 0.75);
  EXPECT_EQ(trace->rows[2].arrival_s, 86'401.5);
  EXPECT_EQ(trace->rows[2].output_tokens, 3);
}

TEST(TraceTest, AGridIsSeenThroughDriftAndNotWhereThereIsNone) {
  const auto grid_of = [](auto stamp_of) {
    std::string text;
    for (int i = 0; i < 300; ++i) text += "{\"prompt\": \"a\", \"arrival_s\": " + std::to_string(stamp_of(i)) + "}\n";
    return ParseTrace(text, "t", "jsonl")->grid_s;
  };
  EXPECT_EQ(grid_of([](int i) { return i / 10 * 3.0; }), 3);
  EXPECT_EQ(grid_of([](int i) { return i / 10 * 3.0 + (i / 10 % 3) * 0.001; }), 3);  // as in Mooncake's own trace
  EXPECT_EQ(grid_of([](int i) { return i * 1.0; }), 0);                               // a steady stream, no bursts
  EXPECT_EQ(grid_of([](int i) { return i / 10 * (i / 10) * 0.7; }), 0);               // bursts, but on no grid
  EXPECT_EQ(grid_of([](int) { return 5.0; }), 0);
}

TEST(TraceTest, SpreadStampsStayInTheirCellAndAreUniformThere) {
  Trace trace;
  for (int i = 0; i < 3000; ++i) {
    TraceRow& row = trace.rows.emplace_back();
    row.arrival_s = 3.0 * (i / 10);
    row.prompt_tokens = i;
  }
  Trace again = trace;
  SpreadOverGrid(trace, 3, 17);
  EXPECT_TRUE(std::is_sorted(trace.rows.begin(), trace.rows.end(),
                             [](const TraceRow& a, const TraceRow& b) { return a.arrival_s < b.arrival_s; }));
  double sum = 0;
  const double first = 3.0 * (trace.rows[0].prompt_tokens / 10);  // the shift to the first arrival is below one cell
  for (const TraceRow& row : trace.rows) sum += row.arrival_s - (3.0 * (row.prompt_tokens / 10) - first);
  const double shift = 1.5 - sum / 3000;  // of the first row in its cell, if the mean in a cell is its middle
  for (const TraceRow& row : trace.rows) {
    const double inside = row.arrival_s - 3.0 * (row.prompt_tokens / 10) + shift;
    EXPECT_TRUE(inside > -0.1 && inside < 3.1) << inside;
  }
  SpreadOverGrid(again, 3, 17);
  EXPECT_EQ(again.rows[1234].arrival_s, trace.rows[1234].arrival_s);
}

}  // namespace
}  // namespace surety::cli
