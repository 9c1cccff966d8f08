#include "gateway/verifier_set.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"

namespace surety::gateway {
namespace {

using JudgementAction = Judgement::Action;

constexpr size_t kHereBytes = 24 << 10;  // checked within some milliseconds at worst
// How long a waiting caller sleeps at most: `clock` need not be the machine's.
constexpr auto kLookAgain = std::chrono::milliseconds(20);

// One Judge: shared with its checks, of which late ones outlive it.
struct Sitting {
  std::shared_ptr<const AnswerText> answer;
  std::shared_ptr<const Evidence> evidence;
  size_t bytes = 0;                               // of the answer and the passages
  std::mutex mutex;
  std::condition_variable done;
  std::vector<std::optional<Verdict>> verdicts;   // guarded by mutex
  size_t n_missing = 0;                           // of those that were begun; guarded by mutex

  // With the mutex. One that was given up stays as it was judged. Who waits is woken once, by the last: it needs all.
  void Put(size_t index, Verdict verdict) {
    if (verdicts[index]) return;
    verdicts[index] = std::move(verdict);
    if (--n_missing == 0) done.notify_all();
  }
};

size_t BytesOf(const AnswerText& answer, const Evidence& evidence) {
  size_t bytes = answer.text.size() + answer.reasoning.size();
  for (const AnswerText::Call& call : answer.calls) bytes += call.name.size() + call.arguments.size();
  for (const Passage& passage : evidence.passages) bytes += passage.text.size();
  return bytes;
}

struct CheckJob {
  std::shared_ptr<Sitting> sitting;
  const Verifier* verifier;
  size_t index;
  int64_t begin_ns, deadline_ns;
};

Verdict FailedToTell(const Verifier& verifier, std::string reason) {
  Verdict verdict;
  verdict.verifier = verifier.spec().name;
  verdict.version = verifier.version();
  verdict.reason = std::move(reason);
  return verdict;
}

// What the verifier said, if it is a verdict.
Verdict CheckOnce(const CheckJob& job, const Clock& clock) {
  const Verifier& verifier = *job.verifier;
  if (clock.NowNanos() >= job.deadline_ns) return FailedToTell(verifier, "late: not begun before its deadline");
  Verdict verdict;
  try {
    verdict = verifier.Check(*job.sitting->answer, *job.sitting->evidence, job.deadline_ns);
  } catch (const std::exception& error) {
    return FailedToTell(verifier, std::string("it crashed: ") + error.what());
  } catch (...) {
    return FailedToTell(verifier, "it crashed");
  }
  if (clock.NowNanos() > job.deadline_ns) return FailedToTell(verifier, "late: done after its deadline");
  const bool known = verdict.outcome == Verdict::Outcome::kPass || verdict.outcome == Verdict::Outcome::kFail ||
                     verdict.outcome == Verdict::Outcome::kError;
  if (!known) return FailedToTell(verifier, "it answered with something else than a verdict");
  if (verdict.outcome == Verdict::Outcome::kPass && !verdict.findings.empty()) {
    return FailedToTell(verifier, "it passed the answer and found faults in it");
  }
  if (verdict.outcome == Verdict::Outcome::kPass) verdict.reason.clear();
  if (verdict.outcome != Verdict::Outcome::kPass && verdict.reason.empty()) verdict.reason = "no reason given";
  verdict.verifier = verifier.spec().name;
  verdict.version = verifier.version();
  return verdict;
}

Verdict TimedCheck(const CheckJob& job, const Clock& clock) {
  Verdict verdict = CheckOnce(job, clock);
  verdict.duration_ns = clock.NowNanos() - job.begin_ns;
  return verdict;
}

JudgementAction ActionOf(VerifierSpec::Action action) {
  switch (action) {
    case VerifierSpec::Action::kRepair: return JudgementAction::kRepair;
    case VerifierSpec::Action::kReview: return JudgementAction::kReview;
    case VerifierSpec::Action::kBlock: break;
  }
  return JudgementAction::kBlock;
}

JudgementAction ActionFor(const VerifierSpec& spec, const Verdict& verdict, bool open_allowed) {
  if (verdict.outcome == Verdict::Outcome::kPass) return JudgementAction::kRelease;
  if (verdict.outcome == Verdict::Outcome::kFail) return ActionOf(spec.fail);
  return open_allowed && spec.open_on_error ? JudgementAction::kRelease : ActionOf(spec.error);
}

// Threads that run checks, and those that wait for one.
class CheckPool {
 public:
  CheckPool(int threads, size_t max_waiting, const Clock& clock) : clock_(clock), max_waiting_(max_waiting) {
    try {
      for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {
      // The system starts no more: those there are take the checks; without any, every check is late.
    }
  }

  ~CheckPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      jobs_.clear();
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void Start(CheckJob job) {
    std::shared_ptr<Sitting> refused;
    {
      const std::lock_guard lock(mutex_);
      // Checks whose callers have gone make room first.
      if (jobs_.size() >= max_waiting_) {
        const int64_t now_ns = clock_.NowNanos();
        std::erase_if(jobs_, [now_ns](const CheckJob& j) { return j.deadline_ns <= now_ns; });
      }
      if (jobs_.size() >= max_waiting_) {
        refused = job.sitting;
      } else {
        jobs_.push_back(job);
      }
    }
    if (refused == nullptr) return wake_.notify_one();
    const std::lock_guard lock(refused->mutex);
    refused->Put(job.index, FailedToTell(*job.verifier, "too many checks wait"));
  }

 private:
  void Work() {
    for (;;) {
      CheckJob job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
        if (stopping_) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      Verdict verdict = TimedCheck(job, clock_);
      const std::lock_guard lock(job.sitting->mutex);
      job.sitting->Put(job.index, std::move(verdict));
    }
  }

  const Clock& clock_;
  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<CheckJob> jobs_;       // guarded by mutex_
  bool stopping_ = false;           // guarded by mutex_
  std::vector<std::thread> threads_;
};

class ThreadedVerifierSet : public VerifierSet {
 public:
  ThreadedVerifierSet(std::vector<std::unique_ptr<Verifier>> verifiers, const Clock& clock,
                      const VerifierSetOptions& options)
      : clock_(clock), here_bytes_(options.here_bytes) {
    for (auto& verifier : verifiers) {
      const std::string name = verifier->spec().name;
      SURETY_CHECK_MSG(verifiers_.emplace(name, std::move(verifier)).second, "two verifiers of one name");
    }
    const auto is_service = [](const auto& v) { return v.second->spec().kind == VerifierSpec::Kind::kHttp; };
    if (std::ranges::any_of(verifiers_, is_service)) {
      services_ = std::make_unique<CheckPool>(options.service_threads, options.max_waiting, clock);
    }
    checks_ = std::make_unique<CheckPool>(options.threads, options.max_waiting, clock);
  }

  ~ThreadedVerifierSet() override {
    for (const auto& [name, verifier] : verifiers_) verifier->Stop();
  }

  Judgement JudgeUntil(const std::vector<std::string>& names, std::shared_ptr<const AnswerText> answer,
                       std::shared_ptr<const Evidence> evidence, bool open_allowed, int64_t deadline_ns) override {
    SURETY_CHECK(answer != nullptr && evidence != nullptr);
    auto sitting = std::make_shared<Sitting>();
    sitting->answer = std::move(answer);
    sitting->evidence = std::move(evidence);
    sitting->bytes = BytesOf(*sitting->answer, *sitting->evidence);
    sitting->verdicts.resize(names.size());
    const int64_t begin_ns = clock_.NowNanos();
    std::vector<const Verifier*> verifiers;
    for (size_t i = 0; i < names.size(); ++i) {
      const auto found = verifiers_.find(names[i]);
      verifiers.push_back(found == verifiers_.end() ? nullptr : found->second.get());
    }
    sitting->n_missing = verifiers.size() - static_cast<size_t>(std::ranges::count(verifiers, nullptr));
    for (size_t i = 0; i < verifiers.size(); ++i) {
      if (verifiers[i] == nullptr) continue;
      if (RunsHere(*verifiers[i], *sitting)) continue;
      CheckPool& pool = verifiers[i]->spec().kind == VerifierSpec::Kind::kHttp ? *services_ : *checks_;
      pool.Start(JobOf(sitting, *verifiers[i], i, begin_ns, deadline_ns));
    }
    // While those run.
    for (size_t i = 0; i < verifiers.size(); ++i) {
      if (verifiers[i] == nullptr || !RunsHere(*verifiers[i], *sitting)) continue;
      Verdict verdict = TimedCheck(JobOf(sitting, *verifiers[i], i, begin_ns, deadline_ns), clock_);
      const std::lock_guard lock(sitting->mutex);
      sitting->Put(i, std::move(verdict));
    }
    Judgement judgement;
    for (size_t i = 0; i < names.size(); ++i) {
      const Verifier* verifier = verifiers[i];
      Verdict verdict;
      auto action = JudgementAction::kBlock;
      if (verifier == nullptr) {
        verdict.verifier = names[i];
        verdict.reason = "there is no such verifier";
      } else {
        verdict = Await(*sitting, *verifier, i, begin_ns, deadline_ns);
        action = ActionFor(verifier->spec(), verdict, open_allowed);
      }
      if (action > judgement.action) {
        judgement.action = action;
        judgement.verifier = names[i];
        judgement.reason = verdict.reason;
      }
      judgement.verdicts.push_back(std::move(verdict));
    }
    return judgement;
  }

  std::string Versions(const std::vector<std::string>& names) const override {
    std::string versions;
    for (const std::string& name : names) {
      const auto found = verifiers_.find(name);
      versions += (versions.empty() ? "" : ", ") + name + "@" +
                  (found == verifiers_.end() ? "unknown" : found->second->version());
    }
    return versions;
  }

 private:
  static CheckJob JobOf(const std::shared_ptr<Sitting>& sitting, const Verifier& verifier, size_t index,
                        int64_t begin_ns, int64_t limit_ns) {
    return {sitting, &verifier, index, begin_ns, std::min(begin_ns + verifier.spec().deadline_ns, limit_ns)};
  }
  // On the thread of the one who asks: what calls nobody and takes no longer than the texts are long. A schema that
  // refers to itself can take any time.
  bool RunsHere(const Verifier& verifier, const Sitting& sitting) const {
    using Kind = VerifierSpec::Kind;
    switch (verifier.spec().kind) {
      case Kind::kCitations:
      case Kind::kNumbers:
      case Kind::kPhrases:
      case Kind::kPii:
      case Kind::kTable: return sitting.bytes < here_bytes_;
      case Kind::kSchema:
      case Kind::kHttp: break;
    }
    return false;
  }
  Verdict Await(Sitting& sitting, const Verifier& verifier, size_t index, int64_t begin_ns, int64_t limit_ns) {
    const int64_t deadline_ns = std::min(begin_ns + verifier.spec().deadline_ns, limit_ns);
    std::unique_lock lock(sitting.mutex);
    std::optional<Verdict>& verdict = sitting.verdicts[index];
    while (!verdict) {
      const int64_t left_ns = deadline_ns - clock_.NowNanos();
      if (left_ns <= 0) {
        Verdict late = FailedToTell(verifier, "late: no verdict before its deadline");
        late.duration_ns = clock_.NowNanos() - begin_ns;
        sitting.Put(index, std::move(late));
        break;
      }
      sitting.done.wait_for(lock, std::min<std::chrono::nanoseconds>(kLookAgain, std::chrono::nanoseconds(left_ns)));
    }
    return *verdict;
  }

  const Clock& clock_;
  const size_t here_bytes_;
  std::map<std::string, std::unique_ptr<Verifier>, std::less<>> verifiers_;
  std::unique_ptr<CheckPool> services_, checks_;   // ended before the verifiers that they run
};

}  // namespace

std::unique_ptr<VerifierSet> MakeVerifierSet(std::vector<std::unique_ptr<Verifier>> verifiers, const Clock& clock,
                                             const VerifierSetOptions& options) {
  return std::make_unique<ThreadedVerifierSet>(std::move(verifiers), clock, options);
}

Result<std::unique_ptr<VerifierSet>> VerifierSet::Make(const Policy& policy, const std::string& directory,
                                                       const Clock& clock) {
  std::vector<std::unique_ptr<Verifier>> verifiers;
  for (const auto& [name, spec] : policy.verifiers) {
    SURETY_ASSIGN_OR_RETURN(auto verifier, MakeVerifier(spec, directory, clock));
    verifiers.push_back(std::move(verifier));
  }
  VerifierSetOptions options;
  options.here_bytes = kHereBytes;
  return MakeVerifierSet(std::move(verifiers), clock, options);
}

}  // namespace surety::gateway
