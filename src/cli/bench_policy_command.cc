// surety bench policy: what a policy adds to a request's time, with models that answer at once.
#include <sched.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/bench_roofline.h"
#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/output.h"
#include "cli/policy_bench_run.h"
#include "cli/policy_bench_report.h"
#include "cli/progress.h"
#include "gateway/document_store.h"
#include "gateway/policy_reader.h"
#include "gateway/policy_runtime.h"

namespace surety::cli {
namespace {

constexpr int64_t kMaxQuestionsBytes = 64 << 20;
constexpr int kSyncProbes = 100;
constexpr const char* kMemoryFolder = "/dev/shm";
constexpr int64_t kTmpfsMagic = 0x01021994;

// A folder of this process alone, gone at the end.
class TemporaryFolder {
 public:
  static Result<std::unique_ptr<TemporaryFolder>> Make(const std::string& parent) {
    std::string path = (std::filesystem::path(parent) / "surety-bench-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) {
      return Error(IoError(fmt::format("'{}': cannot make a folder in it: {}", parent, std::strerror(errno))));
    }
    return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(std::move(path)));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::string FileSystemOf(const std::string& path) {
  static constexpr std::pair<int64_t, const char*> kNames[] = {
      {kTmpfsMagic, "tmpfs"}, {0xEF53, "ext4"}, {0x58465342, "xfs"}, {0x9123683E, "btrfs"}, {0x794c7630, "overlayfs"},
      {0x6969, "nfs"}, {0x2fc12fc1, "zfs"}};
  struct statfs info {};
  if (statfs(path.c_str(), &info) != 0) return "unknown";
  for (const auto& [magic, name] : kNames) {
    if (static_cast<int64_t>(info.f_type) == magic) return name;
  }
  return fmt::format("{:#x}", static_cast<uint64_t>(info.f_type));
}

int UsableProcessors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                      : static_cast<int>(std::thread::hardware_concurrency());
}

class BenchPolicyCommand final : public Command {
 public:
  std::string name() const override { return "bench policy"; }
  std::string summary() const override { return "measure what a policy adds to a request's time, without the model"; }
  std::string examples() const override {
    return "  surety bench policy policies/retail-demo/policy.yaml\n"
           "  taskset -c 0 surety bench policy policy.yaml --questions questions.jsonl --rate 1000 --json";
  }

  void Declare(Flags& flags) override {
    flags.Positional("FILE", policy_, true, "the policy");
    flags.Group("What is asked");
    flags.Add("--questions", questions_, "a question a line, text or JSON (docs/cli.md); else phrases of the policy");
    flags.Add("--rate", rate_, "requests a second");
    flags.Add("--arrivals", arrivals_, "poisson or constant gaps");
    flags.Add("--seconds", seconds_, "that are measured");
    flags.Add("--warmup", warmup_, "seconds before that are not");
    flags.Add("--subjects", subjects_, "callers who ask in turn");
    flags.Add("--seed", seed_, "of times, questions and callers");
    flags.Group("Where");
    flags.Add("--state", state_, "the disk pass: a folder in which a temporary one is made; else the system's");
    flags.Add("--passes", passes_, "disk, memory or both: where the log and its databases lie");
    flags.Add("--workers", workers_, "threads of the governed path");
    flags.Add("--call-outside", call_outside_, "let the policy's tools and services be called");
    flags.Group("Output");
    flags.Add("--json", json_, "one JSON object");
  }

  int Run() override {
    if (const Status status = Validate(); !status.ok()) return ReportUsage(status);
    auto policy = gateway::ReadPolicy(FileSystem::Real(), policy_);
    if (!policy) return ReportFailure(policy.error());
    if (const auto outside = OutsideParts(*policy); !outside.empty() && !call_outside_) {
      return ReportFailure(FailedPreconditionError(
          fmt::format("{} would be called for real, {} times a second; --call-outside allows it",
                      fmt::join(outside, ", "), rate_)));
    }
    if (const Status status = Prepare(*policy); !status.ok()) return ReportFailure(status);
    if (!json_) PrintHead(*policy);
    for (const auto& [state, parent] : Places()) {
      auto pass = Measure(state, parent);
      if (!pass) return ReportFailure(pass.error());
      if (!json_) {
        PrintText(TableOf(*pass));
        FlushOutput();
      }
      described_.push_back(DescribePass(*pass));
      if (pass->run.interrupted) break;
    }
    if (json_) PrintReport(*policy);
    return Interrupted() ? kExitInterrupted : kExitOk;
  }

 private:
  Status Validate() const {
    if (!(rate_ > 0) || rate_ > 1e6) return InvalidArgumentError("--rate: above 0, at most 1000000");
    if (!(seconds_ > 0) || seconds_ > 86400) return InvalidArgumentError("--seconds: above 0, at most 86400");
    if (!(warmup_ >= 0) || warmup_ > 86400) return InvalidArgumentError("--warmup: 0 to 86400");
    if (subjects_ < 1 || subjects_ > 1'000'000) return InvalidArgumentError("--subjects: 1 to 1000000");
    if (workers_ < 1 || workers_ > 1024) return InvalidArgumentError("--workers: 1 to 1024");
    if (arrivals_ != "poisson" && arrivals_ != "constant") {
      return InvalidArgumentError(fmt::format("--arrivals: poisson or constant, not '{}'", arrivals_));
    }
    if (passes_ != "disk" && passes_ != "memory" && passes_ != "both") {
      return InvalidArgumentError(fmt::format("--passes: disk, memory or both, not '{}'", passes_));
    }
    return OkStatus();
  }

  Status Prepare(const gateway::Policy& policy) {
    FileSystem& files = FileSystem::Real();
    if (questions_.empty()) {
      asked_ = QuestionsOf(policy);
    } else {
      SURETY_ASSIGN_OR_RETURN(const std::string text, files.ReadAll(questions_, kMaxQuestionsBytes));
      SURETY_ASSIGN_OR_RETURN(asked_, ParsePolicyQuestions(text, questions_));
    }
    std::vector<gateway::Document> documents;
    for (const auto& [name, spec] : policy.retrievers) {
      const std::string path = (std::filesystem::path(gateway::DirectoryOf(policy)) / spec.index).string();
      auto store = gateway::DocumentStore::Open(path, true);
      if (!store) return store.error().WithContext("retriever '" + name + "'");
      SURETY_ASSIGN_OR_RETURN(auto listed, (*store)->List());
      documents.insert(documents.end(), std::make_move_iterator(listed.begin()), std::make_move_iterator(listed.end()));
    }
    caller_ = CallerFor(policy, documents);
    SURETY_ASSIGN_OR_RETURN(embed_, InstantEmbedder(policy, files));
    return OkStatus();
  }

  // Kind of state and the folder in which it is made.
  std::vector<std::pair<std::string, std::string>> Places() const {
    std::vector<std::pair<std::string, std::string>> places;
    std::error_code ignored;
    const std::string disk = state_.empty() ? std::filesystem::temp_directory_path(ignored).string() : state_;
    if (passes_ != "memory") places.emplace_back("disk", disk);
    if (passes_ == "disk") return places;
    if (FileSystemOf(kMemoryFolder) == "tmpfs") {
      places.emplace_back("memory", kMemoryFolder);
    } else {
      ReportWarning(fmt::format("{} is no file system in memory: that pass is left out", kMemoryFolder));
    }
    return places;
  }

  Result<PolicyBenchPass> Measure(const std::string& state, const std::string& parent) {
    SURETY_ASSIGN_OR_RETURN(const auto folder, TemporaryFolder::Make(parent));
    PolicyBenchPass pass;
    pass.state = state;
    pass.directory = parent;
    pass.file_system = FileSystemOf(folder->path());
    SURETY_ASSIGN_OR_RETURN(pass.probe_ns, ProbeSync(folder->path(), kSyncProbes, Clock::Real()));
    PolicyBenchOptions options;
    options.policy_path = policy_;
    options.state = folder->path();
    options.arrivals.law = arrivals_ == "poisson" ? ArrivalLaw::kPoisson : ArrivalLaw::kConstant;
    options.arrivals.rate = rate_;
    options.arrivals.seed = seed_;
    options.warmup_s = warmup_;
    options.seconds = seconds_;
    options.workers = workers_;
    options.subjects = subjects_;
    options.embed = embed_;
    options.files = &FileSystem::Real();
    options.clock = &Clock::Real();
    options.interrupted = [] { return Interrupted(); };
    ProgressLine progress(fmt::format("state on {}", state), ProgressUnit::kCount, "requests");
    options.progress = [&](int64_t sent, int64_t all) { progress.Update(sent, all); };
    SURETY_ASSIGN_OR_RETURN(pass.run, RunPolicyBench(options, PolicyLoad(asked_, caller_, subjects_, seed_)));
    progress.Finish();
    if (pass.run.samples.empty()) return Error(InvalidArgumentError("no request fell into the measured time"));
    return pass;
  }

  // What is not as in service.
  std::vector<std::string> Replaced(const gateway::Policy& policy) const {
    std::vector<std::string> out;
    for (const auto& [name, spec] : policy.models) {
      out.push_back(fmt::format("model {}: answers at once, and counts a token for every 4 bytes", name));
    }
    if (embed_) out.emplace_back("embedding model: fixed vectors at once");
    if (!policy.budgets.empty()) out.emplace_back("budgets: counted, but raised beyond reach");
    if (policy.state.review_database.starts_with("postgresql:")) out.emplace_back("review database: SQLite");
    return out;
  }

  void PrintHead(const gateway::Policy& policy) const {
    Print("{} {}, {} requests a second ({}), {:g} s after {:g} s, {} questions of {} callers, {} workers on {} of {} "
          "processors ({})\n",
          policy.id, policy.version, rate_, arrivals_, seconds_, warmup_, asked_.size(), subjects_, workers_,
          UsableProcessors(), std::thread::hardware_concurrency(), ProcessorName());
    for (const std::string& line : Replaced(policy)) Print("{}\n", line);
    FlushOutput();
  }

  void PrintReport(const gateway::Policy& policy) {
    boost::json::array replaced;
    for (const std::string& line : Replaced(policy)) replaced.push_back(boost::json::string(line));
    PrintJson(boost::json::object{
        {"version", SURETY_VERSION},
        {"policy", {{"file", policy_}, {"id", policy.id}, {"version", policy.version}, {"digest", policy.digest}}},
        {"machine", {{"processor", ProcessorName()},
                     {"processors", std::thread::hardware_concurrency()},
                     {"usable_processors", UsableProcessors()}}},
        {"rate", rate_},
        {"arrivals", arrivals_},
        {"seconds", seconds_},
        {"warmup_seconds", warmup_},
        {"seed", seed_},
        {"questions", asked_.size()},
        {"subjects", subjects_},
        {"workers", workers_},
        {"replaced", std::move(replaced)},
        {"passes", std::move(described_)}});
  }

  std::string policy_, questions_, arrivals_ = "poisson", state_, passes_ = "both";
  double rate_ = 1000, seconds_ = 20, warmup_ = 3;
  int subjects_ = 100, workers_ = 8;
  uint64_t seed_ = 0;
  bool call_outside_ = false, json_ = false;
  std::vector<PolicyQuestion> asked_;
  api::Caller caller_;
  gateway::EmbedTexts embed_;
  boost::json::array described_;
};

}  // namespace

std::unique_ptr<Command> MakeBenchPolicyCommand() { return std::make_unique<BenchPolicyCommand>(); }

}  // namespace surety::cli
