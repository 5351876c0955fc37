/* What is written when a fatal signal has come. Async-signal-safe but for the guarded phases. */
#ifndef RERAIL_CRASH_RECORD_H
#define RERAIL_CRASH_RECORD_H

#include <signal.h>

void record_crash(int sig, const siginfo_t *info, void *context, const sigset_t *fatal);
void record_crash_in_foreign_memory(int sig, const siginfo_t *info);

#endif
