/* See collectives.h. Everything here runs with the interpreter's lock held. */
#include "collectives.h"

#include "agent.h"
#include "mixing.h"
#include "torch_looks.h"

#include <string.h>

enum word { COUNT, WAITED_FOR, RING, RING_LENGTH, ROW_WORDS, GROUP_SHIFT, PLACE_SHIFT, WORD_COUNT };
enum helper { GROUP_OF, IS_OWN, PLACE_OF, PLACE_FAR, WORK_TYPE, HELPER_COUNT };

#define MOST_GROUPS 8
#define CODES 1024
#define PLACES 512
#define PENDING 256
#define NEAR_FRAMES 10 /* further out the way there stands for the place */

static int64_t word_of[WORD_COUNT];
static object *helper_of[HELPER_COUNT];
static object *name_of_shape, *name_of_bytes;
static object *list_type; /* of the list that the helpers came in */
static int is_in_use;
static int has_rows; /* this process has called one */
static int gradients_are_due; /* a reducer waits for the backward call */

static struct group { object *group; int index; } groups[MOST_GROUPS + 1];
static int64_t calls_in[MOST_GROUPS + 1]; /* by index */
static struct code { object *code; int is_own; } codes[CODES];
static struct place { uint64_t key; int index; } places[PLACES]; /* index 0: to be asked anew */
static struct pending { object *work; int64_t number; } pending[PENDING];

static int64_t *words(void) { return (int64_t *)agent_box; }

int collectives_are_in_use(void) { return is_in_use; }

/* ---- which group ------------------------------------------------------------------------------ */

static int group_index(object *group) {
  for (int i = 0; i < MOST_GROUPS; i++) {
    if (groups[i].group == group) return groups[i].index;
  }
  int64_t index = number_from(call_hidden(helper_of[GROUP_OF], group));
  if (index < 1 || index > MOST_GROUPS) return 0;
  for (int i = 0; i < MOST_GROUPS; i++) {
    if (groups[i].group == NULL) {
      groups[i].group = group;
      groups[i].index = (int)index;
      break;
    }
  }
  return (int)index;
}

/* It is gone; its address may be another's soon. */
RERAIL_EXPORT void rerail_forget_group(object *group) {
  for (int i = 0; i < MOST_GROUPS; i++) {
    if (groups[i].group == group) groups[i].group = NULL;
  }
}

/* ---- which place in the user's own code ------------------------------------------------------- */

static int code_is_own(object *code) {
  size_t at = mixed((uintptr_t)code) % CODES;
  int is_own;
  for (size_t tried = 0; tried < CODES / 2; tried++, at = (at + 1) % CODES) {
    if (codes[at].code == code) return codes[at].is_own;
    if (codes[at].code != NULL) continue;
    is_own = number_from(call_hidden(helper_of[IS_OWN], code)) == 1;
    python.incref(code); /* for good: its address must stay its own */
    codes[at].code = code;
    codes[at].is_own = is_own;
    return is_own;
  }
  return 0;
}

static int place_index(uint64_t key, object *frame, enum helper asked) {
  size_t first = key % PLACES, at = first;
  for (size_t tried = 0; tried < 16; tried++, at = (at + 1) % PLACES) {
    if (places[at].key == key && places[at].index != 0) return places[at].index;
    if (places[at].key == key || places[at].key == 0) break;
  }
  int64_t index = number_from(call_hidden(helper_of[asked], frame));
  if (index < 1 || index > 127) return 0;
  places[at].key = key;
  places[at].index = (int)index;
  return (int)index;
}

RERAIL_EXPORT void rerail_forget_place(int index) {
  for (size_t i = 0; i < PLACES; i++) {
    if (places[i].index == index) places[i].index = 0;
  }
}

static int place_of_caller(void) {
  object *frame = python.current_frame(), *back, *code;
  uint64_t way = 0;
  int index = 0, is_own = 0;
  if (frame == NULL) return 0;
  python.incref(frame);
  for (int depth = 0; frame != NULL && depth < NEAR_FRAMES; depth++) {
    code = python.frame_code(frame);
    is_own = code_is_own(code);
    way = mixed(way + (uintptr_t)code + (uint64_t)python.frame_instruction(frame));
    if (is_own) {
      way = mixed((uintptr_t)code + (uint64_t)python.frame_instruction(frame));
      index = place_index(way, frame, PLACE_OF);
    }
    python.decref(code);
    if (is_own) break;
    back = python.frame_back(frame);
    python.decref(frame);
    frame = back;
  }
  if (frame != NULL && !is_own) index = place_index(way + 1, frame, PLACE_FAR);
  if (frame != NULL) python.decref(frame);
  return index;
}

/* ---- how large -------------------------------------------------------------------------------- */

/* As pack_shape of the stub's table. */
static int64_t packed(object *shape) {
  ptrdiff_t count = python.tuple_size(shape);
  int64_t bits = count < 7 ? count : 7;
  for (ptrdiff_t i = 0; i < count && i < 3; i++) {
    int64_t side = python.as_long(python.tuple_item(shape, i));
    if (side < 0 || side > 0xFFFFF) side = 0xFFFFF;
    bits |= side << (3 + 20 * i);
  }
  return bits;
}

static void measure(object *given, int64_t *bytes, int64_t *shape) {
  for (int depth = 0; given != NULL && depth < 3; depth++) {
    if (torch_is_tensor(given)) {
      python.incref(given); /* a list may let go of it meanwhile */
      if (torch_is_quiet()) {
        object *sides = python.attribute(given, name_of_shape);
        if (sides != NULL) {
          *shape = packed(sides);
          python.decref(sides);
        }
        python.clear_error(); /* a nested tensor has no shape; nothing is asked with one pending */
        *bytes = number_from(python.attribute(given, name_of_bytes));
        if (*bytes < 0) *bytes = 0;
      }
      python.decref(given);
      break;
    }
    if (type_of_living(given) != list_type || python.list_size(given) < 1) break;
    given = python.list_item(given, 0);
  }
}

/* ---- rows ------------------------------------------------------------------------------------- */

static int64_t enter(int op, object *const *arguments, ptrdiff_t count) {
  int64_t *box = words(), *row, number, bytes = 0, shape = 0;
  int group = count > 0 ? group_index(arguments[0]) : 0;
  int place = place_of_caller();
  measure(count > 1 ? arguments[1] : NULL, &bytes, &shape);
  number = box[word_of[COUNT]] + 1; /* not before: another thread may have run meanwhile */
  row = box + word_of[RING] + number % word_of[RING_LENGTH] * word_of[ROW_WORDS];
  row[0] = number;
  row[1] = monotonic_ns();
  row[2] = 0;
  row[3] = op | (int64_t)group << word_of[GROUP_SHIFT] | (int64_t)place << word_of[PLACE_SHIFT];
  row[4] = group > 0 ? ++calls_in[group] : 0;
  row[5] = bytes;
  row[6] = shape;
  box[word_of[COUNT]] = number;
  has_rows = 1;
  return number;
}

static void leave(int64_t number, int has_raised) {
  int64_t *box = words(), *row;
  if (number <= 0 || box[word_of[COUNT]] - number >= word_of[RING_LENGTH]) return;
  row = box + word_of[RING] + number % word_of[RING_LENGTH] * word_of[ROW_WORDS];
  row[2] = has_raised ? -monotonic_ns() : monotonic_ns();
}

static struct pending *pending_of(object *work) { return &pending[mixed((uintptr_t)work) % PENDING]; }

int64_t collectives_begin(int what, object *const *arguments, ptrdiff_t count) {
  int64_t number = 0;
  if (what == COLLECTIVE_WAIT) {
    struct pending *slot = count > 0 ? pending_of(arguments[0]) : NULL;
    if (slot != NULL && slot->work == arguments[0]) {
      number = slot->number;
      slot->work = NULL;
    }
  } else {
    number = enter(what, arguments, count);
  }
  words()[word_of[WAITED_FOR]] = number;
  return number;
}

/* With an exception pending nothing of Python's is asked. */
void collectives_end(int what, int64_t number, object *result) {
  words()[word_of[WAITED_FOR]] = 0;
  if (what != COLLECTIVE_WAIT && result != NULL) {
    object *type = python.type_of(result);
    int is_work = python.is_subtype(type, helper_of[WORK_TYPE]);
    python.decref(type);
    if (is_work) { /* entered; left when it has been waited for */
      struct pending *slot = pending_of(result);
      slot->work = result;
      slot->number = number;
      return;
    }
  }
  leave(number, result == NULL);
}

void gradients_will_come(void) { gradients_are_due = 1; }

/* Not waited for as other collectives are: computing goes on while they are reduced. */
int64_t gradients_begin(int op) {
  if (!gradients_are_due) return 0;
  gradients_are_due = 0;
  return enter(op, &python.none, 1); /* they are reduced in a group that nobody names */
}

void gradients_end(int64_t number, int has_raised) { leave(number, has_raised); }

/* A child's box is empty: what its parent keeps in its own is unknown there. */
void collectives_after_fork(void) {
  if (!has_rows) return; /* nothing is known, and no page of a worker's needs to be copied */
  has_rows = 0;
  gradients_are_due = 0;
  memset(groups, 0, sizeof groups);
  memset(calls_in, 0, sizeof calls_in);
  memset(places, 0, sizeof places);
  memset(pending, 0, sizeof pending);
}

/* `given`: enum word; `helpers`: a list in the order of enum helper, kept for good. */
RERAIL_EXPORT int rerail_use_collectives(const int64_t *given, object *helpers) {
  if (!python_is_found() || python.call_array == NULL || python.frame_instruction == NULL ||
      python.current_frame == NULL || python.frame_back == NULL || python.frame_code == NULL) {
    return 0;
  }
  if (python.list_size(helpers) != HELPER_COUNT) return 0;
  memcpy(word_of, given, sizeof word_of);
  python.incref(helpers);
  list_type = python.type_of(helpers);
  for (int i = 0; i < HELPER_COUNT; i++) helper_of[i] = python.list_item(helpers, i);
  name_of_shape = python.intern("shape");
  name_of_bytes = python.intern("nbytes");
  is_in_use = name_of_shape != NULL && name_of_bytes != NULL;
  return is_in_use;
}
