/* A guard round what may fault or block inside the handler of fatal signals. */
#ifndef RERAIL_GUARD_H
#define RERAIL_GUARD_H

#include "text.h"

#include <signal.h>

/* Between these two, a fatal signal and the deadline's reach the thread that records. */
void guards_begin(const sigset_t *fatal);
void guards_end(void);

/* Runs `phase` until it ends, faults or has taken `seconds`; a phase that was broken off is noted
 * in `text` under the name `what`. */
void guarded(struct text *text, const char *what, void (*phase)(int, void *), int sig,
             void *context, int seconds);

/* For the handler, on a nested fault: does not return if a phase of this thread is running. */
void guard_break_off(int sig);
void guard_forget(void); /* after fork */

#endif
