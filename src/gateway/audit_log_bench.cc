// What an audit row costs on the disk of the temporary folder: BM_AuditAppend/<appenders that wait at a time>.
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include "gateway/audit_log.h"
#include "gateway/decision_record.h"

namespace surety::gateway {
namespace {

constexpr int64_t kAuditBenchNs = 3'000'000'000;

double ProcessorMicroseconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto of = [](const timeval& time) {
    return 1e6 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec);
  };
  return of(use.ru_utime) + of(use.ru_stime);
}

// A decision of usual size: 1.7 KB as a row.
DecisionRecord BenchRecord() {
  DecisionRecord record;
  record.decision = {"", "policy_answer", "2026.11.2", "miss", api::Outcome::kHeld, false, "", "", 0.0012, 1};
  record.policy_id = "retail-na";
  for (std::string* digest : {&record.policy_digest, &record.partition_digest, &record.request_digest,
                              &record.prompt_digest, &record.answer_digest, &record.model_revision}) {
    *digest = std::string(64, 'd');
  }
  record.signals = {{"risk", "medium"}, {"complexity", "low"}, {"intent", "card_fee"}};
  record.passages = {"fees:12@2026-11", "fees:13@2026-11", "terms:4@2026-01"};
  record.verdicts.resize(3);
  record.attempts = {"policy_answer:fast:ok"};
  return record;
}

void BM_AuditAppend(benchmark::State& state) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("surety-audit-bench-{}", ::getpid());
  std::filesystem::create_directories(folder);
  const boost::json::object body = BenchRecord().ToJson();
  const Clock& clock = Clock::Real();
  for (auto _ : state) {
    const std::string path = (folder / "audit.log").string();
    std::filesystem::remove(path);
    auto log = AuditLog::Open({.path = path}, clock);
    std::vector<std::vector<int64_t>> took(static_cast<size_t>(state.range(0)));
    const double processor = ProcessorMicroseconds();
    const int64_t start = clock.NowNanos(), end = start + kAuditBenchNs;
    std::vector<std::thread> threads;
    for (size_t t = 0; t < took.size(); ++t) {
      threads.emplace_back([&, t] {
        for (int64_t before = clock.NowNanos(); before < end;) {
          boost::json::object row = body;
          row["id"] = fmt::format("dec_{}_{}", t, took[t].size());
          if (!(*log)->Append("decision", std::move(row))) return;
          const int64_t after = clock.NowNanos();
          took[t].push_back(after - before);
          before = after;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const double seconds = NanosToSeconds(clock.NowNanos() - start);
    std::vector<int64_t> all;
    for (const auto& of_thread : took) all.insert(all.end(), of_thread.begin(), of_thread.end());
    std::ranges::sort(all);
    const auto n = static_cast<double>(all.size());
    if (all.empty()) break;
    state.counters["rows/s"] = n / seconds;
    state.counters["p50_ms"] = static_cast<double>(all[all.size() / 2]) * 1e-6;
    state.counters["p99_ms"] = static_cast<double>(all[all.size() * 99 / 100]) * 1e-6;
    state.counters["cpu_us/row"] = (ProcessorMicroseconds() - processor) / n;
    state.counters["row_bytes"] = static_cast<double>(std::filesystem::file_size(path)) / n;
  }
  std::filesystem::remove_all(folder);
}
BENCHMARK(BM_AuditAppend)->Arg(1)->Arg(8)->Arg(64)->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace surety::gateway
