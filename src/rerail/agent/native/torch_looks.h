/* What is read of torch's objects at every step, without Python code on the way.
 *
 * A hook in Python costs ten times what it reads: between two calls a training step has filled the
 * caches with its own. So the library looks first, and the stub's hook is called for what is new or
 * unusual: another shape, a list of losses, a loss on a device. Everything here runs with the
 * interpreter's lock held; without one (a free-threaded interpreter) the stub does it all.
 */
#ifndef RERAIL_TORCH_LOOKS_H
#define RERAIL_TORCH_LOOKS_H

#include "python_functions.h"

#include <stdint.h>

/* Which look replaces the hooks of a wrapped call: `look` of struct call_plan. */
enum look { LOOK_NONE, LOOK_LOSS, LOOK_BATCH, LOOK_FETCHED };

int torch_is_known(void);
/* 0 where a mode of the user's would see what is asked of a tensor. */
int torch_is_quiet(void);
int torch_is_tensor(object *thing); /* exactly one, or a parameter: no class of anybody else's */

/* Both are 1 when everything has been seen to, 0 when the stub's hook has to be called. */
int look_before(enum look look, object *const *arguments, ptrdiff_t count);
int look_after(enum look look, object *const *arguments, ptrdiff_t count, object *result);

#endif
