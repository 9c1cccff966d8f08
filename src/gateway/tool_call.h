// One call of one tool, by HTTP, SQL or a local command: what tools.cc runs on its pool.
//
// Threads: any; each call blocks its thread until the deadline at most. Owns: the connection or process of the call.
// Errors: ToolOutcome::value, with the codes of tools.h; Check*: kInvalidArgument naming the tool and what is wrong.
// Invariants: (1) an argument is data: bound, encoded or on standard input, never part of a statement, a path, a header
// or a command line. (2) `effect` is kNotSent or kRefused only where nothing can have happened.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "base/status.h"
#include "gateway/http_access.h"
#include "gateway/policy.h"
#include "gateway/tools.h"

namespace surety::gateway {

inline constexpr size_t kMaxToolBytes = 1 << 20;  // of a result

struct ToolCall {
  ToolSpec spec;
  HttpCredentials credentials;     // kHttp
  ToolArguments arguments;         // exactly those that the spec lists and the caller has
  std::string directory;           // that a database's name is relative to
  std::string idempotency_key;     // of writes
  int64_t deadline_ns = 0;         // of Clock::Real().NowNanos()
  std::shared_ptr<std::atomic<bool>> stop = std::make_shared<std::atomic<bool>>(false);
  std::function<void()> on_send;   // before the first thing that can have an effect

  bool Late() const;               // stopped, or past the deadline
};

// What became of a call that was to change something. kNotSent: it never left. kRefused: the other side says that it
// did nothing. kUnknown: it may have happened.
enum class ToolEffect : uint8_t { kNotSent, kRefused, kDone, kUnknown };

struct ToolOutcome {
  Result<boost::json::value> value = Error(UnavailableError("not called"));
  ToolEffect effect = ToolEffect::kNotSent;
};

ToolOutcome CallTool(const ToolCall& call);
Status CheckTool(const ToolSpec& spec);

ToolOutcome CallHttpTool(const ToolCall& call);
ToolOutcome CallSqliteTool(const ToolCall& call);
ToolOutcome CallPostgresTool(const ToolCall& call);
ToolOutcome CallCommandTool(const ToolCall& call);
Status CheckHttpTool(const ToolSpec& spec);
Status CheckSqlTool(const ToolSpec& spec);
Status CheckCommandTool(const ToolSpec& spec);

bool IsPostgres(std::string_view database);
Status CheckPostgresAddress(const std::string& address);
// A `database` that is os.environ/NAME, as that variable's value; kFailedPrecondition where it is not set.
Result<std::string> DatabaseOf(const std::string& database);
std::string ShownDatabase(std::string_view database);  // with *** for its password

// A statement with its named parameters (:name) as $1, $2, ...; texts, quoted names and comments are passed over.
struct SqlStatement {
  std::string text;                        // numbered
  std::vector<std::string> parameters;     // in the order of their numbers, each once
  std::string first_word;                  // upper case
};
// kInvalidArgument: more than one statement, a quote that does not end, a parameter of another form.
Result<SqlStatement> ReadSqlStatement(std::string_view query);

// Rows as a tool's result: one row is the object itself, none or several are {"rows": [...]}.
boost::json::value RowsValue(boost::json::array rows);

// A result's text as JSON; kInvalidArgument where it is no object.
Result<boost::json::value> ParseToolObject(std::string_view text);

Status ToolLate(const ToolCall& call);

}  // namespace surety::gateway
