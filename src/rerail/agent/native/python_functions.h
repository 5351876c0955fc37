/* The running interpreter's own functions, found by name: nothing of Python is needed to build. */
#ifndef RERAIL_PYTHON_FUNCTIONS_H
#define RERAIL_PYTHON_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef struct python_object object;

struct method_definition { /* PyMethodDef, the same in every CPython 3 */
  const char *name;
  object *(*function)(object *self, object *arguments, object *keywords);
  int flags;
  const char *doc;
};
struct python_functions {
  object *(*new_function)(struct method_definition *, object *self, object *module);
  object *(*new_method)(object *function);
  object *(*list_item)(object *list, ptrdiff_t index);
  int (*set_list_item)(object *list, ptrdiff_t index, object *item); /* takes the reference */
  object *(*call)(object *callable, object *arguments, object *keywords);
  object *(*call_with)(object *callable, ...);
  /* From 3.11 on, else NULL: arguments as an array, names of the last ones in a tuple. */
  object *(*call_array)(object *callable, object *const *arguments, size_t count, object *names);
  object *(*new_tuple)(ptrdiff_t size);
  int (*set_tuple_item)(object *tuple, ptrdiff_t index, object *item); /* takes the reference */
  ptrdiff_t (*tuple_size)(object *tuple);
  object *(*tuple_item)(object *tuple, ptrdiff_t index);
  object *(*new_dict)(void);
  int (*set_dict_item)(object *dict, object *key, object *value);
  object *(*module_dict)(object *module);       /* borrowed */
  object *(*dict_item)(object *dict, object *key); /* borrowed */
  int (*next_in_dict)(object *dict, ptrdiff_t *at, object **key, object **value); /* borrowed */
  ptrdiff_t (*hash)(object *thing);
  object *(*intern)(const char *text);
  double (*as_double)(object *number);
  ptrdiff_t (*list_size)(object *list);
  long long (*as_long)(object *number);
  object *(*attribute)(object *owner, object *name);
  object *(*type_of)(object *thing);
  int (*is_subtype)(object *type, object *base);
  /* From 3.11 on, else NULL: the frame that runs, and what is known of one. */
  object *(*current_frame)(void); /* borrowed */
  object *(*frame_back)(object *frame);
  object *(*frame_code)(object *frame);
  int (*frame_instruction)(object *frame);
  int (*check_signals)(void); /* runs the user's handlers; not 0: one of them raised */
  int (*error_is)(object *type);
  void (*clear_error)(void);
  void (*fetch_error)(object **, object **, object **);
  void (*restore_error)(object *, object *, object *);
  void (*incref)(object *);
  void (*decref)(object *);
  object *exception; /* the type */
  object *none;
  object *ellipsis;
  object *parts_key;
};

extern struct python_functions python;

int python_is_found(void);
/* Takes the reference; -1 for NULL or what is no number: whatever was raised is forgotten. */
int64_t number_from(object *answer);
object *type_of_living(object *thing); /* borrowed: as long as `thing` lives */

#endif
