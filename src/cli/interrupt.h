// Ctrl-C and SIGTERM as a flag that long work looks at, so that every command ends cleanly.
//
// Threads: any may ask. A third Ctrl-C that nobody has answered ends the process at once.
#pragma once

namespace surety::cli {

// Once, at the start of the process. System calls that wait are interrupted (EINTR), not restarted.
void InstallInterruptHandlers();

// Ctrl-C or SIGTERM since the last ClearInterrupt.
bool Interrupted();
// SIGTERM: the process should end, whatever it is doing. Never cleared.
bool Terminated();
// The interrupt has been answered.
void ClearInterrupt();

// From now on SIGHUP asks for a reload, instead of ending the process; it wakes InterruptDescriptor() too.
void InstallReloadHandler();
// True once for each time that SIGHUP came since it was asked; several that came close together are one.
bool TakeReload();

// Becomes readable on an interrupt, for poll beside what is waited for: one that comes between a look at Interrupted()
// and the poll is not missed. Look at Interrupted() before each poll. -1 if the system has none to give.
int InterruptDescriptor();
// It is readable no longer; for a wake-up whose interrupt has been answered. Look at Interrupted() afterwards.
void ForgetWakeUps();

}  // namespace surety::cli
