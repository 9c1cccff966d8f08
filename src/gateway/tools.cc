#include "gateway/tools.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <set>

#include <boost/json.hpp>

#include "base/hash.h"
#include "base/nearest_name.h"
#include "gateway/call_pool.h"
#include "gateway/strict_json.h"
#include "gateway/tool_call.h"
#include "gateway/tool_time.h"
#include "gateway/tool_write.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr int kMaxToolThreads = 64, kMaxToolsQueued = 256;
constexpr int64_t kMaxSkewNs = 5'000'000'000;   // that a tool's clock may be ahead of ours

// A call on its way; shared with its thread, which may outlive the wait for it.
struct PendingTool {
  ToolCall call;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  ToolOutcome outcome;
  int64_t begun_ns = 0, ended_ns = 0;
};

class PoolToolRunner : public ToolRunner {
 public:
  PoolToolRunner(std::map<std::string, ToolSpec> tools, std::map<std::string, HttpCredentials> credentials,
                 std::string directory, const Clock& clock)
      : tools_(std::move(tools)), credentials_(std::move(credentials)), directory_(std::move(directory)),
        clock_(clock) {}

  ~PoolToolRunner() override {
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<std::atomic<bool>>& stop : running_) {
      if (const auto alive = stop.lock()) *alive = true;
    }
  }

  std::vector<ToolResult> Gather(const std::vector<std::string>& names, const ToolArguments& arguments,
                                 int64_t deadline_ns) override {
    std::vector<ToolResult> results(names.size());
    std::vector<std::shared_ptr<PendingTool>> pending(names.size());
    const int64_t all_ns = Clock::Real().NowNanos() + (deadline_ns - clock_.NowNanos());
    const Status taint = CheckUnlisted(names, arguments);
    for (size_t i = 0; i < names.size(); ++i) {
      results[i].tool = names[i];
      results[i].status = taint.ok() ? CheckRead(names[i]) : taint;
      if (!results[i].status.ok()) continue;
      pending[i] = Start(tools_.at(names[i]), arguments, "", all_ns);
      if (pending[i] == nullptr) results[i].status = UnavailableError(names[i] + ": too many tools are running");
    }
    for (size_t i = 0; i < names.size(); ++i) {
      if (pending[i] != nullptr) results[i] = Await(*pending[i]).first;
    }
    return results;
  }

  ToolResult Write(const std::string& name, const std::string& case_id, const std::string& step,
                   const ToolArguments& arguments, const std::vector<std::string>& approvers,
                   AuditLog& audit) override {
    ToolResult result;
    result.tool = name;
    const auto found = tools_.find(name);
    result.status = CheckKnown(name);
    if (result.status.ok()) result.status = CheckWrite(found->second, case_id, step, arguments, approvers);
    if (!result.status.ok()) return result;
    const auto call = [&](const std::string& key) -> std::pair<ToolResult, ToolEffect> {
      auto pending = Start(found->second, arguments, key, std::numeric_limits<int64_t>::max());
      if (pending != nullptr) return Await(*pending);
      ToolResult refused;
      refused.tool = name;
      refused.status = UnavailableError(name + ": too many tools are running");
      return {refused, ToolEffect::kNotSent};
    };
    return writer_.Write({name, case_id, step, arguments, approvers}, audit, call);
  }

 private:
  Status CheckKnown(const std::string& name) const {
    if (tools_.contains(name)) return OkStatus();
    std::vector<std::string> names;
    for (const auto& [known, spec] : tools_) names.push_back(known);
    const std::string nearest = NearestName(name, names);
    return InvalidArgumentError("the policy has no tool '" + name + "'" +
                                (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }

  Status CheckRead(const std::string& name) const {
    SURETY_RETURN_IF_ERROR(CheckKnown(name));
    if (tools_.at(name).kind == ToolSpec::Kind::kRead) return OkStatus();
    return Status(StatusCode::kPermissionDenied, "tool '" + name + "' writes; it needs an approval");
  }

  // Each tool gets what it lists of the arguments; one that none of them lists has no business here.
  Status CheckUnlisted(const std::vector<std::string>& names, const ToolArguments& arguments) const {
    std::set<std::string> listed;
    for (const std::string& name : names) {
      const auto found = tools_.find(name);
      if (found != tools_.end()) listed.insert(found->second.arguments.begin(), found->second.arguments.end());
    }
    for (const auto& [argument, value] : arguments) {
      if (!listed.contains(argument)) {
        return InvalidArgumentError("argument '" + argument + "' is not in the list of any of these tools");
      }
    }
    return OkStatus();
  }

  // Null: no thread for it.
  std::shared_ptr<PendingTool> Start(const ToolSpec& spec, const ToolArguments& arguments, const std::string& key,
                                     int64_t all_ns) {
    auto pending = std::make_shared<PendingTool>();
    pending->call.spec = spec;
    pending->call.directory = directory_;
    if (const auto found = credentials_.find(spec.name); found != credentials_.end()) {
      pending->call.credentials = found->second;
    }
    pending->call.idempotency_key = key;
    for (const std::string& name : spec.arguments) {
      if (const auto found = arguments.find(name); found != arguments.end()) pending->call.arguments.insert(*found);
    }
    pending->begun_ns = Clock::Real().NowNanos();
    pending->call.deadline_ns = std::min(all_ns, pending->begun_ns + spec.deadline_ns);
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(running_, [](const auto& stop) { return stop.expired(); });
      running_.push_back(pending->call.stop);
    }
    const bool started = pool_.Run([pending] {
      ToolOutcome outcome;
      outcome.value = Error(ToolLate(pending->call));
      if (!pending->call.Late()) outcome = CallTool(pending->call);
      const std::lock_guard lock(pending->mutex);
      pending->outcome = std::move(outcome);
      pending->ended_ns = Clock::Real().NowNanos();
      pending->done = true;
      pending->changed.notify_all();
    });
    return started ? pending : nullptr;
  }

  // Until it is there or late. A late one is stopped and left to itself; what it has done is not known.
  std::pair<ToolResult, ToolEffect> Await(PendingTool& pending) const {
    ToolResult result;
    result.tool = pending.call.spec.name;
    std::unique_lock lock(pending.mutex);
    while (!pending.done) {
      const int64_t left_ns = pending.call.deadline_ns - Clock::Real().NowNanos();
      if (left_ns <= 0) break;
      pending.changed.wait_for(lock, std::chrono::nanoseconds(left_ns));
    }
    if (!pending.done) {
      *pending.call.stop = true;
      result.status = ToolLate(pending.call).WithContext(result.tool);
      result.latency_ns = Clock::Real().NowNanos() - pending.begun_ns;
      return {result, ToolEffect::kUnknown};
    }
    result.latency_ns = pending.ended_ns - pending.begun_ns;
    if (!pending.outcome.value) {
      result.status = pending.outcome.value.error().WithContext(result.tool);
      return {result, pending.outcome.effect};
    }
    result.value = *std::move(pending.outcome.value);
    result.digest = ToolDigest(result.value);
    const Result<int64_t> observed = ObservedAt(result.value, clock_.WallNanos());
    if (observed) {
      result.observed_at_ns = *observed;
    } else if (pending.call.spec.kind == ToolSpec::Kind::kWrite) {
      result.observed_at_ns = clock_.WallNanos();   // done is done
    } else {
      result.status = observed.error().WithContext(result.tool);
    }
    return {result, pending.outcome.effect};
  }

  const std::map<std::string, ToolSpec> tools_;
  const std::map<std::string, HttpCredentials> credentials_;   // by tool
  const std::string directory_;
  const Clock& clock_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<std::atomic<bool>>> running_;
  ToolWriter writer_;
  CallPool pool_{kMaxToolThreads, kMaxToolsQueued};  // its threads end first
};

}  // namespace

bool ToolCall::Late() const { return stop->load() || Clock::Real().NowNanos() >= deadline_ns; }

Status ToolLate(const ToolCall& call) {
  return Status(StatusCode::kDeadlineExceeded,
                "no answer within " + std::to_string(call.spec.deadline_ns / 1'000'000) + " ms or the request's time");
}

std::string ToolDigest(const json::value& value) {
  const std::string bytes = CanonicalJson(value);
  return HexOf(Sha256Of(std::as_bytes(std::span(bytes))));
}

Result<json::value> ParseToolObject(std::string_view text) {
  Result<json::value> value = ParseStrictJson(text, 32);
  if (!value) return Error(value.error().WithContext("its result is no JSON object"));
  if (!value->is_object()) return Error(InvalidArgumentError("its result is no JSON object"));
  return value;
}

ToolOutcome CallTool(const ToolCall& call) {
  ToolOutcome outcome;
  switch (call.spec.by) {
    case ToolSpec::By::kHttp: outcome = CallHttpTool(call); break;
    case ToolSpec::By::kSql:
      outcome = IsPostgres(call.spec.database) ? CallPostgresTool(call) : CallSqliteTool(call);
      break;
    case ToolSpec::By::kCommand: outcome = CallCommandTool(call); break;
  }
  // What was done is done, whatever was said of it: "204 No Content" and "OK" are answers too.
  const bool write = call.spec.kind == ToolSpec::Kind::kWrite;
  if (write && outcome.effect == ToolEffect::kDone && !outcome.value) outcome.value = json::object();
  return outcome;
}

Status CheckTool(const ToolSpec& spec) {
  if (spec.deadline_ns <= 0) return InvalidArgumentError("its deadline must be positive");
  switch (spec.by) {
    case ToolSpec::By::kHttp: return CheckHttpTool(spec);
    case ToolSpec::By::kSql: return CheckSqlTool(spec);
    case ToolSpec::By::kCommand: return CheckCommandTool(spec);
  }
  return OkStatus();
}

Result<std::unique_ptr<ToolRunner>> ToolRunner::Make(const Policy& policy, const std::string& directory,
                                                     const Clock& clock) {
  std::map<std::string, ToolSpec> tools = policy.tools;
  for (auto& [name, spec] : tools) {
    spec.name = name;
    auto database = DatabaseOf(spec.database);
    if (!database) return Error(database.error().WithContext("tool '" + name + "'"));
    spec.database = *std::move(database);
    SURETY_RETURN_IF_ERROR(CheckTool(spec).WithContext("tool '" + name + "'"));
  }
  std::map<std::string, HttpCredentials> credentials;
  for (const auto& [name, spec] : tools) {
    if (spec.by != ToolSpec::By::kHttp) continue;
    auto read = ReadCredentials(spec.access, directory);
    if (!read) return Error(read.error().WithContext("tool '" + name + "'"));
    credentials.emplace(name, *std::move(read));
  }
  return std::make_unique<PoolToolRunner>(std::move(tools), std::move(credentials), directory, clock);
}

std::string StaleResult(const Policy& policy, const std::vector<ToolResult>& results, int64_t now_wall_ns) {
  const auto seconds = [](int64_t ns) { return std::to_string(ns / 1'000'000'000) + " s"; };
  struct Dated {
    const ToolResult* result;
    int64_t fresh_ns;
  };
  std::vector<Dated> dated;
  for (const ToolResult& result : results) {
    const auto spec = policy.tools.find(result.tool);
    if (spec == policy.tools.end() || spec->second.fresh_ns <= 0 || !result.status.ok()) continue;
    const int64_t age_ns = now_wall_ns - result.observed_at_ns, fresh_ns = spec->second.fresh_ns;
    if (age_ns > fresh_ns) {
      return "tool '" + result.tool + "': observed " + seconds(age_ns) + " ago, but may be " + seconds(fresh_ns) +
             " old at most";
    }
    if (age_ns < -kMaxSkewNs) return "tool '" + result.tool + "': observed " + seconds(-age_ns) + " in the future";
    dated.push_back({&result, fresh_ns});
  }
  for (size_t i = 0; i < dated.size(); ++i) {
    for (size_t k = i + 1; k < dated.size(); ++k) {
      const int64_t apart_ns = std::abs(dated[i].result->observed_at_ns - dated[k].result->observed_at_ns);
      const int64_t most_ns = std::min(dated[i].fresh_ns, dated[k].fresh_ns);
      if (apart_ns > most_ns) {
        return "tools '" + dated[i].result->tool + "' and '" + dated[k].result->tool + "': observed " +
               seconds(apart_ns) + " apart, but may be " + seconds(most_ns) + " at most";
      }
    }
  }
  return {};
}

}  // namespace surety::gateway
