#include "cli/interrupt.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "cli/exit_codes.h"

namespace surety::cli {
namespace {

// Any thread may take the signal. Without a lock, so a handler may touch them.
std::atomic<int> g_interrupts{0};
std::atomic<bool> g_terminated{false};
std::atomic<bool> g_reload{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

int g_descriptor = -1;  // an eventfd

void OnSignal(int signal_number) {
  const int error = errno;
  if (signal_number == SIGTERM) g_terminated = true;
  if (++g_interrupts >= 3) _exit(kExitInterrupted);
  const uint64_t one = 1;
  if (write(g_descriptor, &one, sizeof(one)) < 0) errno = 0;  // full: whoever waits is woken already
  errno = error;
}

void OnReload(int) {
  const int error = errno;
  g_reload = true;
  const uint64_t one = 1;
  if (write(g_descriptor, &one, sizeof(one)) < 0) errno = 0;
  errno = error;
}

}  // namespace

void InstallInterruptHandlers() {
  if (g_descriptor < 0) g_descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void InstallReloadHandler() {
  struct sigaction action = {};
  action.sa_handler = OnReload;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGHUP, &action, nullptr);
}

bool TakeReload() { return g_reload.exchange(false); }

bool Interrupted() { return g_interrupts > 0; }
bool Terminated() { return g_terminated; }

void ClearInterrupt() {
  g_interrupts = 0;
  ForgetWakeUps();  // after the flag: an interrupt that comes between the two is still seen by Interrupted()
}

int InterruptDescriptor() { return g_descriptor; }

void ForgetWakeUps() {
  uint64_t count = 0;
  while (read(g_descriptor, &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

}  // namespace surety::cli
