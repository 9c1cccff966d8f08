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

}  // namespace surety::cli
