// Writes by tools: who approved them, and that each happens at most once, whatever crashes in between.
//
// The rows of a write, all with the idempotency key as "id": "tool_intent" before the call; "tool_outcome" after it,
// with "state" done, refused (the other side says that it did nothing), not_sent (it never left; only then may the
// same write be tried again) or unknown. An intent without an outcome is unknown too. The newest outcome counts,
// so an operator who has found out what happened settles an unknown write by a further row of state done or refused.
// A result of up to 64 KiB is in the outcome row ("value", a JSON text), a longer one only as its digest.
//
// Threads: any; two writes of one key wait for each other. Errors: kPermissionDenied without approval,
// kInvalidArgument, kUnavailable with "reconcile" for an unknown outcome.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gateway/tool_call.h"

namespace surety::gateway {

struct ToolWriteRequest {
  const std::string& tool;
  const std::string& case_id;
  const std::string& step;
  const ToolArguments& arguments;
  const std::vector<std::string>& approvers;
};

// SHA-256 over case, step and canonical arguments, each with its length in front, hex.
std::string IdempotencyKey(std::string_view case_id, std::string_view step, const ToolArguments& arguments);

// Whether this may be written at all.
Status CheckWrite(const ToolSpec& spec, const std::string& case_id, const std::string& step,
                  const ToolArguments& arguments, const std::vector<std::string>& approvers);

class ToolWriter {
 public:
  using Call = std::function<std::pair<ToolResult, ToolEffect>(const std::string& key)>;
  ToolResult Write(const ToolWriteRequest& request, AuditLog& audit, const Call& call);

 private:
  ToolResult WriteAlone(const ToolWriteRequest& request, const std::string& key, AuditLog& audit, const Call& call);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> running_;  // keys
};

}  // namespace surety::gateway
