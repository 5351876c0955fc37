/* A callable that runs a hook before and after another callable and leaves no frame of its own.
 *
 * A wrapper written in Python would show up in the user's tracebacks and shift the stack level of
 * warnings. This one is a built-in function of the running interpreter, made through its stable
 * interface, found by name at run time: nothing of Python is needed to build or load the library.
 * An exception of the wrapped callable passes through untouched; one of a hook takes the hook out.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent.h"
#include "collectives.h"
#include "counting.h"
#include "python_functions.h"
#include "torch_looks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define METHOD_TAKES_ARGUMENTS_AND_KEYWORDS 3
#define METHOD_TAKES_ARRAY_AND_KEYWORDS 0x82
#define METHOD_TAKES_NOTHING 4
#define METHOD_TAKES_ONE 8

enum part { WRAPPED, BEFORE, AFTER, FAILED };

/* A hook that fails once is not called again; the last part is told why. */
static void disable(object *parts, enum part which) {
  object *type = NULL, *value = NULL, *traceback = NULL, *answer;
  python.fetch_error(&type, &value, &traceback);
  python.incref(python.none);
  python.set_list_item(parts, which, python.none);
  answer = python.call_with(python.list_item(parts, FAILED), type != NULL ? type : python.none,
                            value != NULL ? value : python.none, NULL);
  if (answer != NULL) {
    python.decref(answer);
  } else {
    python.clear_error();
  }
  if (type != NULL) python.decref(type);
  if (value != NULL) python.decref(value);
  if (traceback != NULL) python.decref(traceback);
}

static object *compiler_setter;

/* torch.compile looks at every Python frame below a compiled function, hooks included, and would
 * compile them and count them. What it offers against that is to put its callback away for the
 * moment. Returns the callback that was there, NULL without torch. */
static object *set_compiler(object *callback) {
  object *before;
  if (compiler_setter == NULL) return NULL;
  before = python.call_with(compiler_setter, callback, NULL);
  if (before == NULL) {
    python.clear_error();
    compiler_setter = NULL; /* another torch, another interface: leave it alone */
  }
  return before;
}

RERAIL_EXPORT void rerail_hide_hooks_from(object *setter) {
  if (!python_is_found()) return;
  python.incref(setter);
  compiler_setter = setter;
}

struct error {
  object *type, *value, *traceback;
};

static void take_error(struct error *error) {
  python.fetch_error(&error->type, &error->value, &error->traceback);
}

static void put_error(struct error *error) {
  python.restore_error(error->type, error->value, error->traceback);
  memset(error, 0, sizeof *error);
}

static void drop_error(struct error *error) {
  if (error->type != NULL) python.decref(error->type);
  if (error->value != NULL) python.decref(error->value);
  if (error->traceback != NULL) python.decref(error->traceback);
  memset(error, 0, sizeof *error);
}

/* Ctrl-C, or sys.exit in a handler of SIGTERM: Python runs such handlers wherever it is, so in a
 * hook as well. What they raise is for the user's program. */
static int is_interrupted(void) { return !python.error_is(python.exception); }

static struct error interruption;
static pthread_t interrupted;

/* Whether one came in call_hidden; if so it is pending now. */
static int was_interrupted(void) {
  if (interruption.type == NULL || !pthread_equal(interrupted, pthread_self())) return 0;
  put_error(&interruption);
  return 1;
}

/* For other parts of the library: a Python function of the stub that torch does not see. */
object *call_hidden(object *function, object *argument) {
  object *compiler = set_compiler(python.none), *answer, *ours;
  answer = python.call_with(function, argument, NULL);
  if (answer == NULL && is_interrupted() && interruption.type == NULL) {
    take_error(&interruption);
    interrupted = pthread_self();
  } else if (answer == NULL) {
    python.clear_error();
  }
  if (compiler != NULL) {
    ours = set_compiler(compiler);
    if (ours != NULL) python.decref(ours);
    python.decref(compiler);
  }
  return answer;
}

/* before(arguments, keywords) and after(arguments, keywords, result); keywords is None when there
 * are none, result is Ellipsis when the call raised. 0: it was interrupted, which is pending. */
static int call_hook(object *parts, enum part which, object *arguments, object *keywords,
                      object *result) {
  object *hook = python.list_item(parts, which);
  object *answer, *compiler;
  if (hook == python.none) return 1;
  python.incref(hook);
  compiler = set_compiler(python.none);
  answer = python.call_with(hook, arguments, keywords != NULL ? keywords : python.none, result,
                            NULL); /* before has no result: NULL ends the list one earlier */
  if (compiler != NULL) {
    object *type, *value, *traceback;
    python.fetch_error(&type, &value, &traceback);
    object *ours = set_compiler(compiler);
    if (ours != NULL) python.decref(ours);
    python.decref(compiler);
    python.restore_error(type, value, traceback);
  }
  python.decref(hook);
  if (answer != NULL) {
    python.decref(answer);
    return 1;
  }
  if (is_interrupted()) return 0;
  disable(parts, which);
  return 1;
}

/* A signal may have come during the call: its handler runs before the hook, and not within it. */
static object *call_hook_after(object *parts, object *arguments, object *keywords,
                               object *result) {
  struct error error = {NULL, NULL, NULL};
  if (python.list_item(parts, AFTER) == python.none) return result;
  if (result == NULL) take_error(&error);
  if (python.check_signals() != 0) {
    if (result != NULL) python.decref(result);
    result = NULL;
    drop_error(&error);
    take_error(&error);
  }
  if (!call_hook(parts, AFTER, arguments, keywords, result != NULL ? result : python.ellipsis)) {
    if (result != NULL) python.decref(result);
    drop_error(&error);
    return NULL;
  }
  if (result == NULL) put_error(&error);
  return result;
}

/* A built-in function pickles by its name and shows as a function only if what it belongs to is a
 * module: so the parts travel in the dictionary of one that is in no other place. */
static object *parts_of(object *self) {
  return python.dict_item(python.module_dict(self), python.parts_key);
}

/* What a call needs, in one cache line: between two calls a training step has filled the caches, and
 * each line that has to be fetched again costs as much as the rest of the wrapper. */
struct wrapper {
  object *holder;
  object *wrapped; /* kept alive by parts, and those by the holder */
  object *parts;
  struct call_plan plan;
} __attribute__((aligned(64)));

#define MOST_WRAPPERS 256
static struct wrapper wrappers[MOST_WRAPPERS]; /* a hash table by the holder's address */

static size_t first_slot(const object *holder) { return ((uintptr_t)holder >> 4) % MOST_WRAPPERS; }

/* The wrapper of this holder, or the free slot for it; NULL when the table is full. */
static struct wrapper *slot_of(const object *holder) {
  size_t first = first_slot(holder);
  for (size_t i = 0; i < MOST_WRAPPERS; i++) {
    struct wrapper *slot = &wrappers[(first + i) % MOST_WRAPPERS];
    if (slot->holder == holder || slot->holder == NULL) return slot;
  }
  return NULL;
}

static object *call_between_hooks(object *self, object *arguments, object *keywords) {
  struct wrapper *wrapper = slot_of(self);
  struct call_plan *plan = &wrapper->plan;
  int64_t began_ns = counting_clock(plan);
  int is_due = counting_hooks_are_due(plan, began_ns);
  object *result;
  if (is_due) {
    if (!call_hook(wrapper->parts, BEFORE, arguments, keywords, NULL)) return NULL;
    began_ns = counting_clock(plan);
  }
  counting_before(plan);
  result = python.call(wrapper->wrapped, arguments, keywords);
  counting_after(plan, began_ns, result == NULL);
  return is_due ? call_hook_after(wrapper->parts, arguments, keywords, result) : result;
}

static object *tuple_of(object *const *arguments, ptrdiff_t count) {
  object *tuple = python.new_tuple(count);
  for (ptrdiff_t i = 0; tuple != NULL && i < count; i++) {
    python.incref(arguments[i]);
    python.set_tuple_item(tuple, i, arguments[i]);
  }
  return tuple;
}

static object *dict_of(object *names, object *const *values) {
  object *dict = python.new_dict();
  for (ptrdiff_t i = 0; dict != NULL && i < python.tuple_size(names); i++) {
    python.set_dict_item(dict, python.tuple_item(names, i), values[i]);
  }
  return dict;
}

/* A collective, whose row the library writes itself. */
static object *call_collective(struct wrapper *wrapper, object *const *arguments, ptrdiff_t count,
                               object *names) {
  const struct call_plan *plan = &wrapper->plan;
  int64_t number = collectives_begin(plan->collective, arguments, count);
  int64_t began_ns = counting_clock(plan);
  object *result = NULL;
  counting_before(plan);
  if (!was_interrupted()) {
    result = python.call_array(wrapper->wrapped, arguments, (size_t)count, names);
  }
  counting_after(plan, began_ns, result == NULL);
  collectives_end(plan->collective, number, result);
  return result;
}

/* Most calls: what there was to see, the library has seen. */
static object *call_unhooked(struct wrapper *wrapper, object *const *arguments, ptrdiff_t count,
                             object *names, int64_t began_ns) {
  const struct call_plan *plan = &wrapper->plan;
  int has_gradients = plan->gradients != 0 && collectives_are_in_use();
  int64_t number = has_gradients ? gradients_begin(plan->gradients) : 0;
  object *result = NULL;
  counting_before(plan);
  if (number == 0 || !was_interrupted()) {
    result = python.call_array(wrapper->wrapped, arguments, (size_t)count, names);
  }
  counting_after(plan, began_ns, result == NULL);
  if (number != 0) gradients_end(number, result == NULL);
  return result;
}

/* The same for interpreters that can pass an array on: no tuple and no dict unless a hook is due. */
static object *call_array_between_hooks(object *self, object *const *arguments, ptrdiff_t count,
                                        object *names) {
  struct wrapper *wrapper = slot_of(self);
  struct call_plan *plan = &wrapper->plan;
  object *tuple, *dict, *result = NULL;
  int64_t began_ns;
  int is_due, looks_after = plan->look == LOOK_BATCH || plan->look == LOOK_FETCHED;
  if (plan->collective != COLLECTIVE_NONE && collectives_are_in_use()) {
    if (plan->collective == COLLECTIVE_READY) {
      gradients_will_come();
      return python.call_array(wrapper->wrapped, arguments, (size_t)count, names);
    }
    return call_collective(wrapper, arguments, count, names);
  }
  began_ns = counting_clock(plan);
  is_due = counting_hooks_are_due(plan, began_ns);
  if (!is_due || look_before(plan->look, arguments, count)) {
    return call_unhooked(wrapper, arguments, count, names, began_ns);
  }
  if (looks_after) {
    result = call_unhooked(wrapper, arguments, count, names, began_ns);
    if (look_after(plan->look, arguments, count, result)) return result;
  }
  tuple = tuple_of(arguments, count);
  if (tuple == NULL) return result;
  dict = names != NULL ? dict_of(names, arguments + count) : NULL;
  if (!looks_after && call_hook(wrapper->parts, BEFORE, tuple, dict, NULL)) {
    result = call_unhooked(wrapper, arguments, count, names, counting_clock(plan));
    looks_after = 1;
  }
  if (looks_after) result = call_hook_after(wrapper->parts, tuple, dict, result);
  python.decref(tuple);
  if (dict != NULL) python.decref(dict);
  return result;
}

typedef void (*any_function)(void);

static object *new_function(const char *name, const char *doc, any_function code, int flags,
                            object *self, object *module) {
  struct method_definition *definition = calloc(1, sizeof *definition); /* lives for good */
  if (definition == NULL) return NULL;
  definition->name = strdup(name);
  definition->doc = doc != NULL ? strdup(doc) : NULL;
  memcpy(&definition->function, &code, sizeof code);
  definition->flags = flags;
  return python.new_function(definition, self, module);
}

/* `holder` is a module with the list [wrapped, before, after, failed] as `parts`, `module` a string.
 * Called through ctypes.PyDLL, which holds the interpreter's lock; returns a new reference or
 * NULL. */
RERAIL_EXPORT void *rerail_wrap(object *holder, object *module, const char *name, const char *doc,
                                int is_method, const struct call_plan *plan) {
  struct wrapper *wrapper;
  object *function, *method, *parts;
  if (!python_is_found() || (parts = parts_of(holder)) == NULL) return NULL;
  if ((wrapper = slot_of(holder)) == NULL) return NULL;
  wrapper->holder = holder;
  wrapper->wrapped = python.list_item(parts, WRAPPED);
  wrapper->parts = parts;
  wrapper->plan = *plan;
  if (python.call_array != NULL) {
    function = new_function(name, doc, (any_function)call_array_between_hooks,
                            METHOD_TAKES_ARRAY_AND_KEYWORDS, holder, module);
  } else {
    function = new_function(name, doc, (any_function)call_between_hooks,
                            METHOD_TAKES_ARGUMENTS_AND_KEYWORDS, holder, module);
  }
  if (function == NULL || !is_method) return function;
  method = python.new_method(function);
  python.decref(function);
  return method;
}

extern int rerail_keep_place(void);

static object *step_begins(object *self, object *nothing) {
  (void)self;
  (void)nothing;
  rerail_step_begins();
  python.incref(python.none);
  return python.none;
}

/* A look at our place costs about 5 µs, so 20 ns a step. */
#define STEPS_BETWEEN_LOOKS 256

/* Ellipsis when the stub wants to know of it, else None. */
static object *step_ended(object *self, object *nothing) {
  int64_t step = rerail_step_ended();
  object *answer = counting_step_is_due(step) ? python.ellipsis : python.none;
  (void)self;
  (void)nothing;
  if (step % STEPS_BETWEEN_LOOKS == 0) rerail_keep_place();
  python.incref(answer);
  return answer;
}

static object *note_loss(object *self, object *loss) {
  double value = python.as_double(loss);
  (void)self;
  if (value == -1.0) python.clear_error(); /* the value, or not a number at all */
  rerail_note_loss(value);
  python.incref(python.none);
  return python.none;
}

/* In the child nothing of Python's is called: every object that is touched there is a page that the
 * kernel has to copy. */
static object *fork_begins(object *self, object *nothing) {
  (void)self;
  (void)nothing;
  files_python_forks();
  python.incref(python.none);
  return python.none;
}

/* 0: step_begins(), 1: step_ended(), 2: note_loss(float), 3: fork_begins(), as functions of the
 * interpreter. */
RERAIL_EXPORT void *rerail_function(int which) {
  if (!python_is_found()) return NULL;
  switch (which) {
    case 0:
      return new_function("step_begins", NULL, (any_function)step_begins, METHOD_TAKES_NOTHING,
                          NULL, NULL);
    case 1:
      return new_function("step_ended", NULL, (any_function)step_ended, METHOD_TAKES_NOTHING, NULL,
                          NULL);
    case 2:
      return new_function("note_loss", NULL, (any_function)note_loss, METHOD_TAKES_ONE, NULL, NULL);
    case 3:
      return new_function("fork_begins", NULL, (any_function)fork_begins, METHOD_TAKES_NOTHING,
                          NULL, NULL);
    default:
      return NULL;
  }
}
