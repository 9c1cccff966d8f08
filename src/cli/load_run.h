// One run: sends a workload's requests when they are due, and keeps what came of them.
//
// Open loop: a request goes out at its time whatever is outstanding. Inside a session the next request is due a think
// time after the answer before. Closed loop: the next request is due when one has ended.
// Threads: one. Owns: the records.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/load_client.h"
#include "cli/load_metrics.h"
#include "cli/load_options.h"
#include "cli/load_record.h"
#include "cli/load_workload.h"

namespace surety::cli {

// What a run has come to so far, for whoever watches.
struct LoadProgress {
  double elapsed_s = 0, total_s = 0;  // total_s 0: not known
  int64_t sent = 0, in_flight = 0, completed = 0, failed = 0;
  double output_events_per_s = 0;  // since the last look; an event is a token or a few
  double ttft_p50_ms = 0;       // 0: none yet
};

struct LoadResult {
  std::vector<LoadRecord> records;  // in the order in which they were due
  LoadWindow window;
  bool interrupted = false;
  double wall_s = 0, cpu_s = 0;  // of the run, and what this process took of processors
  int64_t started_unix_ns = 0;
  int64_t lost_turns = 0;  // of sessions that an error or the end of the window cut short
  int64_t connections_opened = 0;
};

class LoadRun {
 public:
  LoadRun(const LoadOptions& options, const Workload& workload, const std::string& model, LoadLoop& loop)
      : options_(options), workload_(workload), model_(model), loop_(loop) {}

  // To the end, or to an interrupt. `watch` is called a few times a second.
  LoadResult Run(const std::function<void(const LoadProgress&)>& watch);

 private:
  class Request;
  struct Prepared {
    int64_t item = 0;
    std::string body;
    std::vector<ChatMessage> conversation;
  };

  int64_t Now() const { return loop_.Now() - start_ns_; }
  void At(int64_t time_ns, std::function<void()> work) { loop_.At(start_ns_ + time_ns, std::move(work)); }
  bool MoreToCome() const;
  void Start(const std::function<void(const LoadProgress&)>& watch);
  void SendDue();
  void PrepareAhead();
  Prepared Prepare(int64_t item, int turn, std::vector<ChatMessage> conversation) const;
  void Launch(Prepared prepared, int turn, int64_t intended_ns);
  void StartClosed(int64_t intended_ns);
  void OnRequestEnd(Request& request);
  bool ContinueSession(Request& request);
  void AfterChange();
  void Interrupt();
  void Tick(const std::function<void(const LoadProgress&)>& watch);
  LoadWindow WindowOf() const;

  const LoadOptions& options_;
  const Workload& workload_;
  std::string model_;
  LoadLoop& loop_;
  int64_t start_ns_ = 0;
  std::deque<LoadRecord> records_;  // references stay valid
  std::deque<Prepared> ahead_;
  size_t next_arrival_ = 0, next_prepared_ = 0, ahead_bytes_ = 0, drain_set_for_ = 0;
  bool preparing_ = false;
  int64_t next_closed_ = 0, closed_measured_ = 0;  // items of a closed loop: all, and those after the warm-up
  bool closed_done_ = false;
  int64_t in_flight_ = 0, waiting_turns_ = 0, completed_ = 0, failed_ = 0;
  bool over_ = false;  // nothing new is sent
  bool interrupted_ = false;
  LoadOutcome cancelled_as_ = LoadOutcome::kUnfinished;
  int64_t interrupted_ns_ = -1;
  std::vector<double> ttft_ms_;
  int64_t events_ = 0, events_seen_ = 0, last_tick_ns_ = 0;
};

}  // namespace surety::cli
