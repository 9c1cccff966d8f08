#include "observe/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

namespace surety::observe {
namespace {

// A reader of the text format (version 0.0.4) after its published grammar: HELP and TYPE come before a family's
// samples, a family's lines stand together, label values escape backslash, quote and line feed.
struct Sample {
  std::string name;
  Labels labels;
  double value = 0;
};
struct Exposition {
  std::map<std::string, std::string> types, helps;
  std::vector<Sample> samples;

  double Value(const std::string& name, const Labels& labels = {}) const {
    for (const Sample& sample : samples) {
      if (sample.name == name && sample.labels == labels) return sample.value;
    }
    ADD_FAILURE() << "no sample " << name;
    return std::nan("");
  }
};

std::string Unescape(std::string_view text, bool quotes) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    EXPECT_LT(i + 1, text.size());
    const char next = text[++i];
    EXPECT_TRUE(next == '\\' || next == 'n' || (quotes && next == '"')) << text;
    out += next == 'n' ? '\n' : next;
  }
  return out;
}

std::string FamilyOf(const std::string& name, const std::map<std::string, std::string>& types) {
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const auto found = types.find(name.substr(0, name.size() - suffix.size()));
    if (found != types.end() && found->second == "histogram") return found->first;
  }
  return name;
}

Sample ReadSample(const std::string& line) {
  Sample sample;
  size_t at = line.find_first_of("{ ");
  EXPECT_NE(at, std::string::npos) << line;
  sample.name = line.substr(0, at);
  if (line[at] == '{') {
    ++at;
    while (line[at] != '}') {
      const size_t equals = line.find("=\"", at);
      EXPECT_NE(equals, std::string::npos) << line;
      size_t end = equals + 2;
      while (line[end] != '"') end += line[end] == '\\' ? 2 : 1;
      const std::string label = line.substr(at, equals - at);
      EXPECT_TRUE(sample.labels.emplace(label, Unescape(line.substr(equals + 2, end - equals - 2), true)).second);
      at = end + 1;
      if (line[at] == ',') ++at;
    }
    ++at;
  }
  EXPECT_EQ(line[at], ' ') << line;
  size_t used = 0;
  sample.value = std::stod(line.substr(at + 1), &used);
  EXPECT_EQ(used, line.size() - at - 1) << line;
  return sample;
}

Exposition Read(const std::string& text) {
  Exposition out;
  EXPECT_TRUE(text.empty() || text.back() == '\n');
  std::string current;
  std::map<std::string, int> blocks;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("# ")) {
      const size_t name_end = line.find(' ', 7);
      const std::string name = line.substr(7, name_end - 7);
      if (line.starts_with("# HELP ")) out.helps[name] = Unescape(line.substr(name_end + 1), false);
      if (line.starts_with("# TYPE ")) out.types[name] = line.substr(name_end + 1);
      if (name != current) {
        EXPECT_EQ(blocks[name]++, 0) << "lines of " << name << " apart";
      }
      current = name;
      continue;
    }
    out.samples.push_back(ReadSample(line));
    EXPECT_EQ(FamilyOf(out.samples.back().name, out.types), current);
  }
  return out;
}

TEST(MetricsTest, SameNameAndLabelsGiveTheSameSeries) {
  const auto registry = Registry::Make();
  Counter& a = registry->AddCounter("requests_total", "Requests.", {{"route", "x"}});
  Counter& b = registry->AddCounter("requests_total", "Requests.", {{"route", "x"}});
  Counter& c = registry->AddCounter("requests_total", "Requests.", {{"route", "y"}});
  EXPECT_EQ(&a, &b);
  EXPECT_NE(&a, &c);
  a.Add();
  b.Add(2.5);
  EXPECT_EQ(a.value(), 3.5);
  EXPECT_EQ(c.value(), 0);
}

TEST(MetricsTest, ExpositionHoldsTypesHelpAndValues) {
  const auto registry = Registry::Make();
  registry->AddCounter("requests_total", "Requests, by\nroute \\ path.", {{"route", "a\"b\\c\nd"}}).Add(1e15 + 1);
  registry->AddGauge("surety:depth", "Depth.").Set(-0.1);
  registry->AddGauge("no_value", "Nothing measured.").Set(std::nan(""));
  registry->AddGauge("much", "No end.").Set(std::numeric_limits<double>::infinity());
  const Exposition read = Read(registry->Expose());
  EXPECT_EQ(read.types.at("requests_total"), "counter");
  EXPECT_EQ(read.helps.at("surety:depth"), "Depth.");
  EXPECT_EQ(read.types.at("surety:depth"), "gauge");
  EXPECT_EQ(read.helps.at("requests_total"), "Requests, by\nroute \\ path.");
  EXPECT_EQ(read.Value("requests_total", {{"route", "a\"b\\c\nd"}}), 1e15 + 1);
  EXPECT_EQ(read.Value("surety:depth"), -0.1);
  EXPECT_TRUE(std::isnan(read.Value("no_value")));
  EXPECT_EQ(read.Value("much"), std::numeric_limits<double>::infinity());
}

TEST(MetricsTest, BucketsAreCumulativeAndIncludeTheirUpperBound) {
  const auto registry = Registry::Make();
  Histogram& histogram = registry->AddHistogram("wait_seconds", "Wait.", {0.1, 1, 10}, {{"q", "a"}});
  for (const double x : {0.05, 0.1, 0.5, 1.0, 5.0, 50.0}) histogram.Observe(x);
  const Exposition read = Read(registry->Expose());
  EXPECT_EQ(read.types.at("wait_seconds"), "histogram");
  EXPECT_EQ(read.Value("wait_seconds_bucket", {{"le", "0.1"}, {"q", "a"}}), 2);
  EXPECT_EQ(read.Value("wait_seconds_bucket", {{"le", "1"}, {"q", "a"}}), 4);
  EXPECT_EQ(read.Value("wait_seconds_bucket", {{"le", "10"}, {"q", "a"}}), 5);
  EXPECT_EQ(read.Value("wait_seconds_bucket", {{"le", "+Inf"}, {"q", "a"}}), 6);
  EXPECT_EQ(read.Value("wait_seconds_count", {{"q", "a"}}), 6);
  EXPECT_DOUBLE_EQ(read.Value("wait_seconds_sum", {{"q", "a"}}), 56.65);
}

TEST(MetricsTest, CollectorsRunBeforeEachExposition) {
  const auto registry = Registry::Make();
  Gauge& gauge = registry->AddGauge("depth", "Depth.");
  int calls = 0;
  registry->AddCollector([&] { gauge.Set(++calls); });
  EXPECT_EQ(Read(registry->Expose()).Value("depth"), 1);
  EXPECT_EQ(Read(registry->Expose()).Value("depth"), 2);
}

TEST(MetricsTest, CountsFromManyThreadsAreAllThere) {
  const auto registry = Registry::Make();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&registry, t] {
      Histogram& histogram = registry->AddHistogram("h", "H.", {1});
      for (int i = 0; i < 1000; ++i) {
        registry->AddCounter("n_total", "N.", {{"parity", i % 2 == 0 ? "even" : "odd"}}).Add();
        histogram.Observe(t);
        if (i % 250 == 0) (void)registry->Expose();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Exposition read = Read(registry->Expose());
  EXPECT_EQ(read.Value("n_total", {{"parity", "even"}}), 2000);
  EXPECT_EQ(read.Value("n_total", {{"parity", "odd"}}), 2000);
  EXPECT_EQ(read.Value("h_count"), 4000);
}

TEST(MetricsDeathTest, BugsStopTheProcess) {
  const auto registry = Registry::Make();
  registry->AddGauge("depth", "Depth.");
  registry->AddHistogram("wait", "Wait.", {1});
  EXPECT_DEATH(registry->AddHistogram("depth", "Depth.", {1}), "one name, two types");
  EXPECT_DEATH(registry->AddCounter("n", "N."), "_total");
  EXPECT_DEATH(registry->AddGauge("a b", "A."), "not a metric name");
  EXPECT_DEATH(registry->AddGauge("a", "A.", {{"b-c", "d"}}), "not a label name");
  EXPECT_DEATH(registry->AddHistogram("h", "H.", {2, 1}), "ascend");
  EXPECT_DEATH(registry->AddHistogram("h", "H.", {1}, {{"le", "1"}}), "not a label name");
  EXPECT_DEATH(registry->AddGauge("wait_sum", "W."), "histogram");
  EXPECT_DEATH(registry->AddCounter("x_total", "X.").Add(-1), "only grows");
}

}  // namespace
}  // namespace surety::observe
