#include "gateway/audit_segments.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace surety::gateway {
namespace {

constexpr size_t kMinSegmentDigits = 12, kMaxSegmentDigits = 19;

// The number at the end of "NAME.DIGITS"; -1: it is no segment's name. `log` becomes NAME.
int64_t TakeSegmentNumber(const std::string& name, std::string& log) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0) return -1;
  const std::string_view digits = std::string_view(name).substr(dot + 1);
  if (digits.size() < kMinSegmentDigits || digits.size() > kMaxSegmentDigits) return -1;
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) return -1;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || digits != fmt::format("{:012}", number)) return -1;
  log = name.substr(0, dot);
  return number;
}

// The names of what lies in a folder.
Result<std::vector<std::string>> NamesInFolder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entries(folder.empty() ? "." : folder, failed);
  for (; !failed && entries != std::filesystem::directory_iterator(); entries.increment(failed)) {
    names.push_back(entries->path().filename().string());
  }
  if (failed == std::errc::no_such_file_or_directory || failed == std::errc::not_a_directory) {
    return Error(NotFoundError(fmt::format("'{}': {}", folder.string(), failed.message())));
  }
  if (failed) return Error(IoError(fmt::format("cannot list '{}': {}", folder.string(), failed.message())));
  return names;
}

}  // namespace

std::string AuditSegmentPath(const std::string& log, int64_t first_seq) {
  return fmt::format("{}.{:012}", log, first_seq);
}

std::string AuditNextPath(const std::string& log) { return log + ".next"; }

Result<std::vector<AuditSegment>> ListAuditSegments(const std::string& log) {
  const std::filesystem::path path(log);
  SURETY_ASSIGN_OR_RETURN(const auto names, NamesInFolder(path.parent_path()));
  std::vector<AuditSegment> out;
  for (const std::string& name : names) {
    std::string of;
    const int64_t first_seq = TakeSegmentNumber(name, of);
    if (first_seq < 0 || of != path.filename().string()) continue;
    AuditSegment segment;
    segment.path = AuditSegmentPath(log, first_seq);
    segment.first_seq = first_seq;
    struct stat info {};
    if (::stat(segment.path.c_str(), &info) != 0) continue;  // it was archived this moment; the chain shows the gap
    segment.size_bytes = info.st_size;
    segment.device = info.st_dev;
    segment.inode = info.st_ino;
    out.push_back(std::move(segment));
  }
  std::ranges::sort(out, {}, &AuditSegment::first_seq);
  return out;
}

Result<std::string> AuditLogAt(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return path;
  SURETY_ASSIGN_OR_RETURN(const auto names, NamesInFolder(path));
  std::set<std::string> logs;
  for (const std::string& name : names) {
    std::string of;
    if (TakeSegmentNumber(name, of) >= 0) logs.insert(of);
  }
  if (logs.empty() && std::ranges::find(names, "audit.log") != names.end()) logs.insert("audit.log");
  if (logs.empty()) {
    return Error(InvalidArgumentError(fmt::format("'{}': neither audit.log nor a segment of a log lies there; name the "
                                                  "log's file", path)));
  }
  if (logs.size() > 1) {
    return Error(InvalidArgumentError(fmt::format("'{}': several logs lie there ({}); name the file of one", path,
                                                  fmt::join(logs, ", "))));
  }
  return (std::filesystem::path(path) / *logs.begin()).string();
}

}  // namespace surety::gateway
