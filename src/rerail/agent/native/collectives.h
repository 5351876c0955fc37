/* The ring of the last collectives, written without Python code on the way.
 *
 * The stub (rerail_hooks_torch_distributed.py) says once where things are and what to ask it: which
 * group this is, whether a code is the user's own, which place a frame stands at. Its answers are
 * kept here. In interpreters before 3.11 the stub does all of this itself.
 */
#ifndef RERAIL_COLLECTIVES_H
#define RERAIL_COLLECTIVES_H

#include "python_functions.h"

#include <stdint.h>

/* What a wrapped call is: one of the stub's table (above 0), or one of these. */
#define COLLECTIVE_WAIT (-1)  /* waiting for one */
#define COLLECTIVE_READY (-2) /* DistributedDataParallel's reducer is made ready for a backward call */
#define COLLECTIVE_NONE 0

int collectives_are_in_use(void);
/* The number in the ring, 0 if it is not known; with the interpreter's lock held. */
int64_t collectives_begin(int what, object *const *arguments, ptrdiff_t count);
void collectives_end(int what, int64_t number, object *result); /* NULL: it raised */
/* The reduction of gradients, for which no function of Python's is called: it is part of the next
 * backward call once a reducer is ready. 0: it is not. */
void gradients_will_come(void);
int64_t gradients_begin(int op);
void gradients_end(int64_t number, int has_raised);
void collectives_after_fork(void);

/* pycall.c: NULL if it raised, which is forgotten. */
object *call_hidden(object *function, object *argument);

#endif
