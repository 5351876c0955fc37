/* An alternate stack for every thread, and the bounds of its ordinary one. */
#ifndef RERAIL_ALTERNATE_STACK_H
#define RERAIL_ALTERNATE_STACK_H

#include "text.h"

int stack_prepare(void); /* 1 the first time */
void thread_give_stack(void);
void stack_put_bounds(struct text *text, const void *context); /* async-signal-safe */

#endif
