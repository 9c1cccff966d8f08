#include "observe/metrics.h"

#include <prometheus/check_names.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "base/check.h"

namespace surety::observe {
namespace {

class CounterSeries : public Counter {
 public:
  explicit CounterSeries(prometheus::Counter& counter) : counter_(counter) {}
  void Add(double value) override {
    SURETY_CHECK_MSG(value >= 0, "a counter only grows");
    counter_.Increment(value);
  }
  double value() const override { return counter_.Value(); }

 private:
  prometheus::Counter& counter_;
};

class GaugeSeries : public Gauge {
 public:
  explicit GaugeSeries(prometheus::Gauge& gauge) : gauge_(gauge) {}
  void Set(double value) override { gauge_.Set(value); }
  void Add(double value) override { gauge_.Increment(value); }
  double value() const override { return gauge_.Value(); }

 private:
  prometheus::Gauge& gauge_;
};

class HistogramSeries : public Histogram {
 public:
  explicit HistogramSeries(prometheus::Histogram& histogram) : histogram_(histogram) {}
  void Observe(double value) override { histogram_.Observe(value); }

 private:
  prometheus::Histogram& histogram_;
};

enum class Kind { kCounter, kGauge, kHistogram };

// A name with its help and type, and its series by labels.
struct FamilyOfName {
  Kind kind;
  std::vector<double> bounds;
  std::map<Labels, std::unique_ptr<Counter>> counters;
  std::map<Labels, std::unique_ptr<Gauge>> gauges;
  std::map<Labels, std::unique_ptr<Histogram>> histograms;
};

// The serializer writes help texts as they are; the format wants backslash and line feed escaped.
std::string EscapedHelp(const std::string& help) {
  std::string out;
  for (const char c : help) {
    if (c == '\\') out += "\\\\";
    else if (c == '\n') out += "\\n";
    else out += c;
  }
  return out;
}

// A series name_bucket, name_sum or name_count of a histogram would stand twice in the exposition.
bool CollidesWithHistogram(const std::map<std::string, FamilyOfName>& families, const std::string& name) {
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const auto found = families.find(name.substr(0, name.size() - suffix.size()));
    if (found != families.end() && found->second.kind == Kind::kHistogram) return true;
  }
  return false;
}

class PrometheusRegistry : public Registry {
 public:
  Counter& AddCounter(const std::string& name, const std::string& help, const Labels& labels) override {
    SURETY_CHECK_MSG(name.ends_with("_total"), "a counter's name ends in _total: " + name);
    std::lock_guard lock(mutex_);
    auto& slot = FamilyOf(name, Kind::kCounter, labels).counters[labels];
    if (!slot) {
      auto& family = prometheus::BuildCounter().Name(name).Help(EscapedHelp(help)).Register(registry_);
      slot = std::make_unique<CounterSeries>(family.Add(labels));
    }
    return *slot;
  }

  Gauge& AddGauge(const std::string& name, const std::string& help, const Labels& labels) override {
    std::lock_guard lock(mutex_);
    auto& slot = FamilyOf(name, Kind::kGauge, labels).gauges[labels];
    if (!slot) {
      auto& family = prometheus::BuildGauge().Name(name).Help(EscapedHelp(help)).Register(registry_);
      slot = std::make_unique<GaugeSeries>(family.Add(labels));
    }
    return *slot;
  }

  Histogram& AddHistogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                          const Labels& labels) override {
    std::lock_guard lock(mutex_);
    FamilyOfName& of_name = FamilyOf(name, Kind::kHistogram, labels);
    if (of_name.histograms.empty()) {
      SURETY_CHECK_MSG(!bounds.empty() && std::ranges::adjacent_find(bounds, std::greater_equal<>()) == bounds.end() &&
                           std::ranges::all_of(bounds, [](double x) { return std::isfinite(x); }),
                       "bounds of a histogram ascend and are finite: " + name);
      of_name.bounds = bounds;
    }
    SURETY_CHECK_MSG(of_name.bounds == bounds, "one name, one set of bounds: " + name);
    auto& slot = of_name.histograms[labels];
    if (!slot) {
      auto& family = prometheus::BuildHistogram().Name(name).Help(EscapedHelp(help)).Register(registry_);
      slot = std::make_unique<HistogramSeries>(family.Add(labels, bounds));
    }
    return *slot;
  }

  void AddCollector(std::function<void()> collect) override {
    std::lock_guard lock(collectors_mutex_);
    collectors_.push_back(std::move(collect));
  }

  std::string Expose() const override {
    {
      std::lock_guard lock(collectors_mutex_);
      for (const auto& collect : collectors_) collect();
    }
    auto together = Together();
    const auto families = registry_.Collect();
    together.unlock();
    return prometheus::TextSerializer().Serialize(families);
  }

 private:
  FamilyOfName& FamilyOf(const std::string& name, Kind kind, const Labels& labels) {
    SURETY_CHECK_MSG(prometheus::CheckMetricName(name), "not a metric name: " + name);
    for (const auto& [label, value] : labels) {
      const bool taken = kind == Kind::kHistogram && label == "le";
      SURETY_CHECK_MSG(prometheus::CheckLabelName(label) && !taken, "not a label name: " + label);
    }
    const auto [found, is_new] = families_.try_emplace(name);
    if (is_new) {
      SURETY_CHECK_MSG(!CollidesWithHistogram(families_, name), "the name of a histogram's series: " + name);
      found->second.kind = kind;
    }
    SURETY_CHECK_MSG(found->second.kind == kind, "one name, two types: " + name);
    return found->second;
  }

  prometheus::Registry registry_;
  std::mutex mutex_;
  std::map<std::string, FamilyOfName> families_;
  mutable std::mutex collectors_mutex_;
  std::vector<std::function<void()>> collectors_;
};

}  // namespace

std::unique_ptr<Registry> Registry::Make() { return std::make_unique<PrometheusRegistry>(); }

}  // namespace surety::observe
