#include "cli/policy_bench_run.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include "cli/instant_backend.h"
#include "gateway/document_index.h"
#include "gateway/governance.h"
#include "gateway/intent_classifier.h"
#include "gateway/policy_runtime.h"
#include "observe/metrics.h"

namespace surety::cli {
namespace {

constexpr int64_t kLongestSleepNs = 50'000'000;   // between looks at Ctrl-C
constexpr int64_t kDrainNs = 30'000'000'000;
constexpr int64_t kProgressNs = 200'000'000;
constexpr size_t kProbeBytes = 2048;              // about a row
constexpr int kDefaultDimensions = 384;

double CpuSeconds(int who) {
  struct rusage usage {};
  if (getrusage(who, &usage) != 0) return 0;
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double LoadAverage() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

// The real system, with the time of each sync. One thread of the log calls.
class TimedAuditIo final : public gateway::AuditIo {
 public:
  explicit TimedAuditIo(const Clock& clock) : clock_(clock) {}
  ssize_t Write(int fd, std::string_view bytes) override {
    const ssize_t n = AuditIo::Write(fd, bytes);
    if (n > 0) rows_ += std::ranges::count(bytes.substr(0, static_cast<size_t>(n)), '\n');
    return n;
  }
  int Sync(int fd) override {
    const int64_t begin_ns = clock_.NowNanos();
    const int result = AuditIo::Sync(fd);
    const std::lock_guard lock(mutex_);
    sync_ns_.push_back(clock_.NowNanos() - begin_ns);
    return result;
  }
  // From here on.
  void Begin() {
    const std::lock_guard lock(mutex_);
    sync_ns_.clear();
    rows_ = 0;
  }
  std::pair<std::vector<int64_t>, int64_t> Taken() {
    const std::lock_guard lock(mutex_);
    return {sync_ns_, rows_.load()};
  }

 private:
  const Clock& clock_;
  std::mutex mutex_;
  std::vector<int64_t> sync_ns_;   // guarded by mutex_
  std::atomic<int64_t> rows_ = 0;
};

// Where state lies, and budgets that no run reaches; what they count stays.
void Amend(gateway::Policy& policy, const std::string& state) {
  policy.state.directory = state;
  policy.state.audit.clear();
  policy.state.review_database.clear();
  constexpr int64_t kEnough = int64_t{1} << 50;
  for (gateway::BudgetSpec& budget : policy.budgets) {
    if (budget.max_budget) budget.max_budget = 1e15;
    if (budget.rpm_limit) budget.rpm_limit = kEnough;
    if (budget.tpm_limit) budget.tpm_limit = kEnough;
    if (budget.max_parallel_requests) budget.max_parallel_requests = 1 << 30;
  }
}

class Bench {
 public:
  Bench(const PolicyBenchOptions& options, PolicyLoad load)
      : options_(options), clock_(*options.clock), load_(std::move(load)), io_(clock_),
        metrics_(observe::Registry::Make()) {}
  ~Bench() { governance_.reset(); }   // its workers call into the rest

  Status Open() {
    gateway::Governance::Options governance;
    governance.policy_path = options_.policy_path;
    governance.n_workers = options_.workers;
    governance.load = [](const gateway::ModelSpec& spec) -> Result<std::shared_ptr<api::Backend>> {
      return MakeInstantBackend(spec.name);
    };
    governance.embed = options_.embed;
    governance.files = options_.files;
    governance.clock = options_.clock;
    governance.metrics = metrics_.get();
    governance.amend = [state = options_.state](gateway::Policy& policy) { Amend(policy, state); };
    governance.audit_io = &io_;
    governance.on_decision = [this](const gateway::DecisionRecord& record) { Note(record); };
    SURETY_ASSIGN_OR_RETURN(governance_, gateway::Governance::Open(std::move(governance)));
    return OkStatus();
  }

  Result<PolicyBenchRun> Run() {
    const double end_s = options_.warmup_s + options_.seconds;
    const std::vector<double> times =
        ArrivalTimes(options_.arrivals, end_s, static_cast<int64_t>(end_s * options_.arrivals.rate * 2) + 1000);
    samples_.resize(times.size());
    first_ = static_cast<size_t>(std::ranges::lower_bound(times, options_.warmup_s) - times.begin());
    prctl(PR_SET_TIMERSLACK, 1);    // nanoseconds: a sleep ends when it should
    begin_ns_ = clock_.NowNanos();
    run_.load_before = LoadAverage();
    for (sent_ = 0; sent_ < times.size() && !run_.interrupted; ++sent_) {
      if (sent_ == first_) BeginMeasured();
      Send(sent_, begin_ns_ + SecondsToNanos(times[sent_]));
    }
    if (run_.interrupted && sent_ <= first_) return Error(CancelledError("interrupted before anything was measured"));
    const double sender_s = CpuSeconds(RUSAGE_THREAD) - sender_before_s_;
    AwaitAll();
    const double cpu_s = CpuSeconds(RUSAGE_SELF) - cpu_before_s_;
    run_.sender_cpu_s = sender_s;
    run_.cpu_s = std::max(cpu_s - sender_s, 0.0);
    run_.load_after = LoadAverage();
    std::tie(run_.sync_ns, run_.rows) = io_.Taken();
    if (governance_->backend()->health() == api::Health::kStalled) {
      return Error(IoError(fmt::format("the audit log in '{}' took no more rows after {}, so what was measured is how "
                                       "requests are refused; is the disk full?", options_.state, run_.rows)));
    }
    governance_.reset();            // nobody writes samples any more
    samples_.resize(sent_);
    int64_t last_ns = 0;
    for (size_t i = first_; i < samples_.size(); ++i) {
      if (samples_[i].ended) last_ns = std::max(last_ns, samples_[i].due_ns + samples_[i].total_ns);
    }
    run_.wall_s = samples_.size() > first_ ? NanosToSeconds(last_ns - samples_[first_].due_ns) : 0;
    run_.samples.assign(std::make_move_iterator(samples_.begin() + static_cast<std::ptrdiff_t>(first_)),
                        std::make_move_iterator(samples_.end()));
    return std::move(run_);
  }

 private:
  void BeginMeasured() {
    io_.Begin();
    cpu_before_s_ = CpuSeconds(RUSAGE_SELF);
    sender_before_s_ = CpuSeconds(RUSAGE_THREAD);
  }

  void Send(size_t index, int64_t due_ns) {
    api::GenerationRequest request = load_.Next();
    for (int64_t now = clock_.NowNanos(); now < due_ns; now = clock_.NowNanos()) {
      if (options_.progress && now >= next_progress_ns_) {
        next_progress_ns_ = now + kProgressNs;
        options_.progress(static_cast<int64_t>(index), static_cast<int64_t>(samples_.size()));
      }
      if (options_.interrupted && options_.interrupted()) {
        run_.interrupted = true;
        --sent_;                    // it was not
        return;
      }
      clock_.SleepNanos(std::min(due_ns - now, kLongestSleepNs));
    }
    samples_[index].due_ns = due_ns;
    samples_[index].late_ns = clock_.NowNanos() - due_ns;
    const auto id = governance_->backend()->Submit(std::move(request), [this, index](api::Event event) {
      if (event.finish != api::FinishReason::kNone) End(index, event.decision.get());
    });
    if (!id) End(index, nullptr);
  }

  // On a worker, just before the last event of the decision.
  void Note(const gateway::DecisionRecord& record) {
    const std::lock_guard lock(mutex_);
    notes_[record.decision.id] = record.times;
  }

  void End(size_t index, const api::Decision* decision) {
    PolicySample& sample = samples_[index];
    sample.total_ns = clock_.NowNanos() - sample.due_ns;
    sample.route = decision == nullptr ? "none" : decision->route;
    sample.outcome = decision == nullptr ? "not_accepted" : api::NameOf(decision->outcome);
    sample.cache = decision == nullptr ? "" : decision->cache;
    const std::lock_guard lock(mutex_);
    if (decision != nullptr) {
      if (const auto note = notes_.find(decision->id); note != notes_.end()) {
        sample.times = note->second;
        notes_.erase(note);
      }
    }
    sample.ended = true;
    ++n_ended_;
    if (all_sent_ && n_ended_ == sent_) ended_.notify_one();
  }

  void AwaitAll() {
    const int64_t limit_ns = clock_.NowNanos() + kDrainNs;
    std::unique_lock lock(mutex_);
    all_sent_ = true;
    while (n_ended_ < sent_ && clock_.NowNanos() < limit_ns) ended_.wait_for(lock, std::chrono::milliseconds(20));
  }

  const PolicyBenchOptions& options_;
  Clock& clock_;
  PolicyLoad load_;
  TimedAuditIo io_;
  std::unique_ptr<observe::Registry> metrics_;
  std::unique_ptr<gateway::Governance> governance_;
  std::vector<PolicySample> samples_;
  size_t first_ = 0, sent_ = 0;     // sent_: read by workers only after all_sent_
  int64_t begin_ns_ = 0, next_progress_ns_ = 0;
  double cpu_before_s_ = 0, sender_before_s_ = 0;
  PolicyBenchRun run_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::unordered_map<std::string, gateway::StageTimes> notes_;   // guarded by mutex_
  size_t n_ended_ = 0;                                           // guarded by mutex_
  bool all_sent_ = false;                                        // guarded by mutex_
};

// A unit vector by the text alone.
std::vector<float> VectorOf(std::string_view text, size_t dimensions) {
  const uint64_t seed = std::hash<std::string_view>()(text);
  std::vector<float> values(dimensions);
  double sum = 0;
  for (size_t i = 0; i < dimensions; ++i) {
    values[i] = static_cast<float>((seed >> (i % 61) & 255) + i % 7) - 130.0f;
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  const auto scale = static_cast<float>(1 / std::sqrt(std::max(sum, 1.0)));
  for (float& value : values) value *= scale;
  return values;
}

}  // namespace

Result<PolicyBenchRun> RunPolicyBench(const PolicyBenchOptions& options, PolicyLoad load) {
  Bench bench(options, std::move(load));
  SURETY_RETURN_IF_ERROR(bench.Open());
  return bench.Run();
}

Result<std::vector<int64_t>> ProbeSync(const std::string& directory, int n, const Clock& clock) {
  const std::string path = (std::filesystem::path(directory) / "sync.probe").string();
  const auto fault = [&](const char* what) {
    return Error(IoError(fmt::format("'{}': cannot {}: {}", path, what, std::strerror(errno))));
  };
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return fault("open it");
  const std::unique_ptr<const int, void (*)(const int*)> closed(&fd, [](const int* file) { ::close(*file); });
  const std::string row(kProbeBytes, 'x');
  std::vector<int64_t> taken;
  for (int i = 0; i < n; ++i) {
    if (::write(fd, row.data(), row.size()) < 0) return fault("write to it");
    const int64_t begin_ns = clock.NowNanos();
    if (::fdatasync(fd) != 0) return fault("sync it");
    taken.push_back(clock.NowNanos() - begin_ns);
  }
  ::unlink(path.c_str());
  return taken;
}

Result<gateway::EmbedTexts> InstantEmbedder(const gateway::Policy& policy, FileSystem& files) {
  const std::filesystem::path folder = gateway::DirectoryOf(policy);
  auto known = std::make_shared<std::map<std::string, std::vector<float>, std::less<>>>();
  size_t dimensions = 0;
  bool needed = false;
  for (const gateway::SignalSpec& signal : policy.signals) {
    if (signal.by != gateway::SignalSpec::By::kClassifier) continue;
    SURETY_ASSIGN_OR_RETURN(auto classifier, gateway::ReadIntentClassifier(files, (folder / signal.file).string()));
    dimensions = static_cast<size_t>(classifier.dimension);
    known->emplace(classifier.probe_text, std::move(classifier.probe_vector));
    needed = true;
  }
  for (const auto& [name, spec] : policy.retrievers) {
    if (spec.by == gateway::RetrieverSpec::By::kText) continue;
    SURETY_ASSIGN_OR_RETURN(const auto index, gateway::DocumentIndex::Open((folder / spec.index).string(), true));
    SURETY_ASSIGN_OR_RETURN(const auto summary, index->Summary());
    if (summary.dimensions > 0) dimensions = static_cast<size_t>(summary.dimensions);
    needed = true;
  }
  for (const gateway::RouteSpec& route : policy.routes) {
    needed |= route.cache.mode == gateway::CacheSpec::Mode::kSemantic ||
              route.cache.mode == gateway::CacheSpec::Mode::kExactThenSemantic;
  }
  if (!needed) return gateway::EmbedTexts();
  if (dimensions == 0) dimensions = kDefaultDimensions;
  return gateway::EmbedTexts([known, dimensions](std::span<const std::string> texts)
                                 -> Result<std::vector<std::vector<float>>> {
    std::vector<std::vector<float>> vectors;
    for (const std::string& text : texts) {
      const auto found = known->find(text);
      vectors.push_back(found != known->end() ? found->second : VectorOf(text, dimensions));
    }
    return vectors;
  });
}

}  // namespace surety::cli
