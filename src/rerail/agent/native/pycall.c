/* A callable that runs a hook before and after another callable and leaves no frame of its own.
 *
 * A wrapper written in Python would show up in the user's tracebacks and shift the stack level of
 * warnings. This one is a built-in function of the running interpreter, made through its stable
 * interface, found by name at run time: nothing of Python is needed to build or load the library.
 * An exception of the wrapped callable passes through untouched; one of a hook is dropped.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct python_object object;

struct method_definition { /* PyMethodDef, the same in every CPython 3 */
  const char *name;
  object *(*function)(object *self, object *arguments, object *keywords);
  int flags;
  const char *doc;
};
#define METHOD_TAKES_ARGUMENTS_AND_KEYWORDS 3

static struct {
  object *(*new_function)(struct method_definition *, object *self, object *module);
  object *(*new_method)(object *function);
  object *(*list_item)(object *list, ptrdiff_t index);
  int (*set_list_item)(object *list, ptrdiff_t index, object *item); /* takes the reference */
  object *(*call)(object *callable, object *arguments, object *keywords);
  object *(*call_with)(object *callable, ...);
  void (*clear_error)(void);
  void (*fetch_error)(object **, object **, object **);
  void (*restore_error)(object *, object *, object *);
  void (*incref)(object *);
  void (*decref)(object *);
  object *none;
  object *ellipsis;
} python;

enum part { WRAPPED, BEFORE, AFTER, FAILED };

static int find_python(void) {
  static const struct {
    const char *name;
    void *where;
  } wanted[] = {
      {"PyCFunction_NewEx", &python.new_function},
      {"PyInstanceMethod_New", &python.new_method},
      {"PyList_GetItem", &python.list_item},
      {"PyList_SetItem", &python.set_list_item},
      {"PyObject_Call", &python.call},
      {"PyObject_CallFunctionObjArgs", &python.call_with},
      {"PyErr_Clear", &python.clear_error},
      {"PyErr_Fetch", &python.fetch_error},
      {"PyErr_Restore", &python.restore_error},
      {"Py_IncRef", &python.incref},
      {"Py_DecRef", &python.decref},
      {"_Py_NoneStruct", &python.none},
      {"_Py_EllipsisObject", &python.ellipsis},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    void *found = dlsym(RTLD_DEFAULT, wanted[i].name);
    if (found == NULL) return 0;
    memcpy(wanted[i].where, &found, sizeof found);
  }
  return 1;
}

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

/* before(arguments, keywords) and after(arguments, keywords, result); keywords is None when there
 * are none, result is Ellipsis when the call raised. */
static void call_hook(object *parts, enum part which, object *arguments, object *keywords,
                      object *result) {
  object *hook = python.list_item(parts, which);
  object *answer;
  if (hook == python.none) return;
  python.incref(hook);
  answer = python.call_with(hook, arguments, keywords != NULL ? keywords : python.none, result,
                            NULL); /* before has no result: NULL ends the list one earlier */
  python.decref(hook);
  if (answer != NULL) {
    python.decref(answer);
  } else {
    disable(parts, which);
  }
}

static object *call_between_hooks(object *parts, object *arguments, object *keywords) {
  object *result;
  call_hook(parts, BEFORE, arguments, keywords, NULL);
  result = python.call(python.list_item(parts, WRAPPED), arguments, keywords);
  if (result != NULL) {
    call_hook(parts, AFTER, arguments, keywords, result);
  } else if (python.list_item(parts, AFTER) != python.none) {
    object *type, *value, *traceback;
    python.fetch_error(&type, &value, &traceback);
    call_hook(parts, AFTER, arguments, keywords, python.ellipsis);
    python.restore_error(type, value, traceback);
  }
  return result;
}

/* `parts` is the list [wrapped, before, after, failed], `module` a string. Called through ctypes.PyDLL,
 * which holds the interpreter's lock; returns a new reference or NULL. */
RERAIL_EXPORT void *rerail_wrap(object *parts, object *module, const char *name, const char *doc,
                                int is_method) {
  static int is_known;
  struct method_definition *definition;
  object *function, *method;
  if (!is_known) is_known = find_python();
  if (!is_known || (definition = calloc(1, sizeof *definition)) == NULL) return NULL;
  definition->name = strdup(name);
  definition->doc = doc != NULL ? strdup(doc) : NULL;
  definition->function = call_between_hooks;
  definition->flags = METHOD_TAKES_ARGUMENTS_AND_KEYWORDS;
  function = python.new_function(definition, parts, module);
  if (function == NULL || !is_method) return function;
  method = python.new_method(function);
  python.decref(function);
  return method;
}
