// The result of an operation that can fail for a reason the caller should see: a canonical code and a message.
//
// Three kinds of failure are never mixed. Bad input or load is a Status whose message the client sees: it says what
// was wrong, where, and what would be right. A broken environment (disk, peer) is a Status of code kUnavailable or
// kIoError. A bug is SURETY_CHECK (check.h) and stops the process. No exception crosses a module border.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace surety {

enum class StatusCode {
  kOk = 0,
  kCancelled,
  kInvalidArgument,     // the caller's input is wrong whatever the state of the system
  kDeadlineExceeded,
  kNotFound,            // a file, key or model that does not exist
  kAlreadyExists,
  kPermissionDenied,
  kUnauthenticated,
  kResourceExhausted,   // memory, pages, quota
  kFailedPrecondition,  // the system's state does not allow it
  kOutOfRange,          // past the end: a truncated file, a position beyond the context
  kUnimplemented,       // a format, type or architecture that this build does not know
  kInternal,
  kUnavailable,         // retry may help
  kDataLoss,            // corrupt data: bad magic, digest mismatch
  kIoError,             // the operating system refused a read, write or map
};

// "INVALID_ARGUMENT" and so on.
std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  std::string ToString() const;  // "INVALID_ARGUMENT: message", "OK"

  // The same status with "context: " before its message; ok stays ok.
  Status WithContext(std::string_view context) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return {}; }
inline Status CancelledError(std::string m) { return {StatusCode::kCancelled, std::move(m)}; }
inline Status InvalidArgumentError(std::string m) { return {StatusCode::kInvalidArgument, std::move(m)}; }
inline Status NotFoundError(std::string m) { return {StatusCode::kNotFound, std::move(m)}; }
inline Status ResourceExhaustedError(std::string m) { return {StatusCode::kResourceExhausted, std::move(m)}; }
inline Status FailedPreconditionError(std::string m) { return {StatusCode::kFailedPrecondition, std::move(m)}; }
inline Status OutOfRangeError(std::string m) { return {StatusCode::kOutOfRange, std::move(m)}; }
inline Status UnimplementedError(std::string m) { return {StatusCode::kUnimplemented, std::move(m)}; }
inline Status InternalError(std::string m) { return {StatusCode::kInternal, std::move(m)}; }
inline Status UnavailableError(std::string m) { return {StatusCode::kUnavailable, std::move(m)}; }
inline Status DataLossError(std::string m) { return {StatusCode::kDataLoss, std::move(m)}; }
inline Status UnauthenticatedError(std::string m) { return {StatusCode::kUnauthenticated, std::move(m)}; }
inline Status IoError(std::string m) { return {StatusCode::kIoError, std::move(m)}; }

template <typename T>
using Result = std::expected<T, Status>;

inline std::unexpected<Status> Error(Status status) { return std::unexpected<Status>(std::move(status)); }

}  // namespace surety

#define SURETY_STATUS_CONCAT_INNER(a, b) a##b
#define SURETY_STATUS_CONCAT(a, b) SURETY_STATUS_CONCAT_INNER(a, b)

// Returns from the enclosing function if `expr` (a Status) is not ok. The function may return Status or Result<T>.
#define SURETY_RETURN_IF_ERROR(expr)                                  \
  do {                                                                \
    if (::surety::Status surety_status_ = (expr); !surety_status_.ok()) \
      return ::surety::internal::StatusReturn(std::move(surety_status_)); \
  } while (false)

// SURETY_ASSIGN_OR_RETURN(auto x, ResultExpr()): declares or assigns x, or returns the error.
#define SURETY_ASSIGN_OR_RETURN(lhs, expr) \
  SURETY_ASSIGN_OR_RETURN_INNER(SURETY_STATUS_CONCAT(surety_result_, __LINE__), lhs, expr)
#define SURETY_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr)                       \
  auto tmp = (expr);                                                        \
  if (!tmp) return ::surety::internal::StatusReturn(std::move(tmp).error()); \
  lhs = *std::move(tmp)

namespace surety::internal {
// Converts to Status and to Result<T>, so that one macro serves functions of both kinds.
class StatusReturn {
 public:
  explicit StatusReturn(Status status) : status_(std::move(status)) {}
  operator Status() && { return std::move(status_); }  // NOLINT: implicit by design
  template <typename T>
  operator std::expected<T, Status>() && {  // NOLINT: implicit by design
    return std::unexpected<Status>(std::move(status_));
  }

 private:
  Status status_;
};
}  // namespace surety::internal
