// Counters, gauges and histograms, and their exposition in Prometheus' text format (version 0.0.4).
//
// Threads: any. Owns: all series; references stay valid as long as the registry.
// Errors: a bug (a bad name, one name with two types) is SURETY_CHECK.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace surety::observe {

using Labels = std::map<std::string, std::string>;

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Add(double value = 1) = 0;  // value >= 0
  virtual double value() const = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
  virtual void Add(double value) = 0;
  virtual double value() const = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

class Registry {
 public:
  static std::unique_ptr<Registry> Make();
  virtual ~Registry() = default;

  // The same name and labels give the same series. Counter names end in _total, as they are exposed.
  virtual Counter& AddCounter(const std::string& name, const std::string& help, const Labels& labels = {}) = 0;
  virtual Gauge& AddGauge(const std::string& name, const std::string& help, const Labels& labels = {}) = 0;
  // `bounds`: upper bounds of the buckets, ascending, without +Inf.
  virtual Histogram& AddHistogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                                  const Labels& labels = {}) = 0;
  // Called before each exposition, to set gauges. Must not add series.
  virtual void AddCollector(std::function<void()> collect) = 0;
  virtual std::string Expose() const = 0;
  // While it is held nothing is exposed: series that must add up are changed under it.
  [[nodiscard]] std::unique_lock<std::mutex> Together() const { return std::unique_lock(together_); }

 private:
  mutable std::mutex together_;
};

}  // namespace surety::observe
