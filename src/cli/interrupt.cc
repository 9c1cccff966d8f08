#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "cli/exit_codes.h"

namespace surety::cli {
namespace {

volatile sig_atomic_t g_interrupts = 0;
volatile sig_atomic_t g_terminated = 0;

void OnSignal(int signal_number) {
  if (signal_number == SIGTERM) g_terminated = 1;
  const sig_atomic_t count = g_interrupts + 1;
  g_interrupts = count;
  if (count >= 3) _exit(kExitInterrupted);
}

}  // namespace

void InstallInterruptHandlers() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() { return g_interrupts > 0; }
bool Terminated() { return g_terminated != 0; }
void ClearInterrupt() { g_interrupts = 0; }

}  // namespace surety::cli
