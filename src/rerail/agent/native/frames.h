/* The native frames of the thread that crashed, written as the crash file has them. */
#ifndef RERAIL_FRAMES_H
#define RERAIL_FRAMES_H

#include "text.h"

#include <signal.h>

void frames_prime(void); /* outside a handler: the unwinder's first-time work */
void frames_put(struct text *text, int sig, const siginfo_t *info, void *context);

#endif
