/* See torch_looks.h. */
#include "torch_looks.h"

#include "agent.h"
#include "counting.h"
#include "mixing.h"

enum helper { TENSOR_TYPE, PARAMETER_TYPE, FUNCTION_MODES, DISPATCH_MODES, IS_PROFILED,
              IS_GRAD_ENABLED, NUMEL, ITEM, FLOAT_TYPE, INTEGER_TYPE, TEXT_TYPE, DICT_TYPE,
              TUPLE_TYPE, HELPER_COUNT };

#define MOST_PARTS 8 /* as in the stub */
#define MOST_DEPTH 3

static object *helper_of[HELPER_COUNT];
static object *list_type; /* of the list that the helpers came in */
static object *name_of_shape, *name_of_cpu;
static int is_known;
static object *device_loss; /* the last loss that was on a device; only its address is used */
static int is_item_wrapped;
static uint64_t last_batch;

int torch_is_known(void) { return is_known; }

/* One of torch's own functions; None stands for one that this torch does not have. */
static int64_t ask(enum helper which, object *argument) {
  if (helper_of[which] == python.none) return 0;
  return number_from(python.call_array(helper_of[which], &argument, argument != NULL, NULL));
}

int torch_is_quiet(void) { return ask(FUNCTION_MODES, NULL) == 0 && ask(DISPATCH_MODES, NULL) == 0; }

int torch_is_tensor(object *thing) {
  object *type = type_of_living(thing);
  return type == helper_of[TENSOR_TYPE] || type == helper_of[PARAMETER_TYPE];
}

/* ---- the loss --------------------------------------------------------------------------------- */

static void note(object *value) {
  if (type_of_living(value) == helper_of[FLOAT_TYPE]) rerail_note_loss(python.as_double(value));
}

/* Reading it is a load from memory: one element, on the CPU. On a device it would wait for that, so
 * only what the program fetches itself is seen (LOOK_FETCHED). */
static int see_loss(object *const *arguments, ptrdiff_t count) {
  object *loss = count > 0 ? arguments[0] : NULL, *type, *value;
  int has_gradient = count < 2 || arguments[1] != python.none;
  int64_t is_on_cpu;
  if (loss == NULL) return 0; /* given by its name */
  type = type_of_living(loss);
  if (type != helper_of[TENSOR_TYPE]) return type != list_type && type != helper_of[TUPLE_TYPE];
  if (!torch_is_quiet() || ask(IS_PROFILED, NULL) != 0) return 1;
  if (has_gradient && ask(NUMEL, loss) != 1) return 1; /* without one, torch takes a single element */
  is_on_cpu = number_from(python.attribute(loss, name_of_cpu));
  if (is_on_cpu == 0) {
    device_loss = loss;
    return is_item_wrapped;
  }
  value = is_on_cpu == 1 ? python.call_array(helper_of[ITEM], &loss, 1, NULL) : NULL;
  if (value == NULL) {
    python.clear_error();
    return 1;
  }
  note(value);
  python.decref(value);
  return 1;
}

/* ---- the shapes of a batch -------------------------------------------------------------------- */

static void add(uint64_t *sum, uint64_t value) { *sum = mixed(*sum ^ value); }

static int add_shape(object *tensor, uint64_t *sum) {
  object *shape = python.attribute(tensor, name_of_shape);
  ptrdiff_t count;
  if (shape == NULL) {
    python.clear_error();
    return 0;
  }
  count = python.tuple_size(shape);
  add(sum, 1000 + (uint64_t)count);
  for (ptrdiff_t i = 0; i < count; i++) {
    add(sum, (uint64_t)python.as_long(python.tuple_item(shape, i)));
  }
  python.clear_error(); /* a side that is no number */
  python.decref(shape);
  return 1;
}

/* 0: something that only the stub can describe. */
static int add_part(object *part, int depth, uint64_t *sum);

/* Whoever holds it may let go of it meanwhile. */
static int add_held(object *part, int depth, uint64_t *sum) {
  int is_added;
  python.incref(part);
  is_added = add_part(part, depth, sum);
  python.decref(part);
  return is_added;
}

static int add_part(object *part, int depth, uint64_t *sum) {
  object *type = type_of_living(part), *key, *value;
  ptrdiff_t count, at = 0;
  if (torch_is_tensor(part)) return add_shape(part, sum);
  add(sum, (uintptr_t)type);
  if (type == helper_of[FLOAT_TYPE] || type == helper_of[INTEGER_TYPE] ||
      type == helper_of[TEXT_TYPE] || part == python.none) {
    return 1;
  }
  if (depth == MOST_DEPTH) return 0;
  if (type == helper_of[DICT_TYPE]) {
    for (count = 0; count < MOST_PARTS && python.next_in_dict(part, &at, &key, &value); count++) {
      if (type_of_living(key) != helper_of[TEXT_TYPE]) return 0;
      add(sum, (uint64_t)python.hash(key));
      if (!add_held(value, depth + 1, sum)) return 0;
    }
    add(sum, (uint64_t)count);
    return 1;
  }
  if (type != list_type && type != helper_of[TUPLE_TYPE]) return 0;
  count = type == list_type ? python.list_size(part) : python.tuple_size(part);
  if (count > MOST_PARTS) count = MOST_PARTS;
  add(sum, (uint64_t)count);
  for (; at < count; at++) {
    value = type == list_type ? python.list_item(part, at) : python.tuple_item(part, at);
    if (value == NULL || !add_held(value, depth + 1, sum)) return 0;
  }
  return 1;
}

static int see_batch(object *batch) {
  uint64_t sum = (uint64_t)agent_pid; /* a forked child has written nothing into its box yet */
  /* Of the user's modes only one of functions would see that a shape is asked for. */
  if (batch == NULL || ask(FUNCTION_MODES, NULL) != 0 || !add_part(batch, 0, &sum)) {
    last_batch = 0;
    return 0;
  }
  if (ask(IS_GRAD_ENABLED, NULL) == 0) counting_validates();
  if (sum == last_batch) return 1;
  last_batch = sum;
  return 0;
}

/* ---- from pycall.c ---------------------------------------------------------------------------- */

int look_before(enum look look, object *const *arguments, ptrdiff_t count) {
  return is_known && look == LOOK_LOSS && see_loss(arguments, count);
}

int look_after(enum look look, object *const *arguments, ptrdiff_t count, object *result) {
  if (!is_known) return 0;
  if (look == LOOK_BATCH) return see_batch(result);
  if (look != LOOK_FETCHED) return 0;
  if (result != NULL && count > 0 && arguments[0] == device_loss) note(result);
  return 1;
}

/* `helpers`: a list in the order of enum helper, kept for good. */
RERAIL_EXPORT int rerail_use_torch(object *helpers) {
  if (!python_is_found() || python.call_array == NULL) return 0;
  if (python.list_size(helpers) != HELPER_COUNT) return 0;
  python.incref(helpers);
  list_type = type_of_living(helpers);
  for (int i = 0; i < HELPER_COUNT; i++) helper_of[i] = python.list_item(helpers, i);
  name_of_shape = python.intern("shape");
  name_of_cpu = python.intern("is_cpu");
  is_known = name_of_shape != NULL && name_of_cpu != NULL;
  return is_known;
}

/* From now on Tensor.item is wrapped with LOOK_FETCHED; `loss` is the first to be waited for. */
RERAIL_EXPORT void rerail_await_loss(object *loss) {
  device_loss = loss;
  is_item_wrapped = 1;
}
