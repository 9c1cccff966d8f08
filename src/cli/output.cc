#include "cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "cli/file_writer.h"

namespace surety::cli {
namespace {

int g_output_error = 0;  // errno of the first write to standard output that failed

void Remember(bool failed) {
  if (failed && g_output_error == 0) g_output_error = errno != 0 ? errno : EIO;
}

}  // namespace

void PrintText(std::string_view text) {
  errno = 0;
  Remember(std::fwrite(text.data(), 1, text.size(), stdout) != text.size());
}

void FlushOutput() {
  errno = 0;
  Remember(std::fflush(stdout) != 0);
}

void PrintErrorText(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

void OccupyClosedStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free descriptor is this one. The wrong direction: using it is an error, as it was.
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
  }
}

Status CheckOutput() {
  FlushOutput();
  Remember(std::ferror(stdout) != 0);
  return g_output_error == 0 ? OkStatus() : SystemFailure("standard output", "cannot write", g_output_error);
}

}  // namespace surety::cli
