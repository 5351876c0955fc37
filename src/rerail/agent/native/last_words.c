/* See last_words.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "last_words.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#define LONGEST_MESSAGE 900

/* glibc keeps the text of its last fatal message here for debuggers. */
struct abort_message {
  unsigned int size;
  char text[];
};
static struct abort_message **abort_message;

void last_words_prime(void) {
#ifdef __linux__
  abort_message = (struct abort_message **)dlsym(RTLD_DEFAULT, "__abort_msg");
#endif
}

int last_words_of_c(struct text *text) {
  const struct abort_message *said = abort_message != NULL ? *abort_message : NULL;
  size_t length;
  if (said == NULL || said->size <= sizeof *said) return 0;
  length = said->size - sizeof *said;
  text_put(text, "message ");
  text_put_line_part(text, said->text, length < LONGEST_MESSAGE ? length : LONGEST_MESSAGE);
  text_put(text, "\n");
  return 1;
}

/* The Itanium C++ ABI, as libstdc++ has it on 64-bit machines: what lies in front of a thrown
 * object, and the parts of type_info that a catch clause uses. */
struct cxx_exception {
  struct cxx_type *type;
  void *destructor;
  void *unexpected_handler;
  void *terminate_handler;
  struct cxx_exception *next;
  int handler_count;
  int handler_switch;
  const unsigned char *action;
  const unsigned char *language_data;
  void *catch_temp;
  void *adjusted;
  struct {
    uint64_t exception_class; /* "GNUCC++\0"; the last byte 1 for a rethrown copy */
    void *cleanup;
    uint64_t private_1, private_2;
  } __attribute__((aligned(16))) header;
};

struct cxx_type_table {
  void *destroy, *delete, *is_pointer, *is_function;
  char (*would_catch)(const struct cxx_type *self, const struct cxx_type *thrown, void **object,
                      unsigned outer);
};

struct cxx_type {
  const struct cxx_type_table *table;
  const char *name;
};

struct cxx_std_exception {
  const struct {
    void *destroy, *delete;
    const char *(*what)(const void *self);
  } *table;
};

#define GNU_CXX_CLASS 0x474e5543432b2b00u

int last_words_of_cxx(struct text *text) {
#if defined(__linux__) && defined(__LP64__)
  /* Looking up a loaded library takes the loader's lock and allocates nothing; should the crash
   * have happened inside the loader, the guard's deadline ends this. */
  void *runtime = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  struct cxx_exception **(*globals)(void);
  const struct cxx_type *standard;
  struct cxx_exception *caught;
  void *object;
  if (runtime == NULL) return 0;
  *(void **)&globals = dlsym(runtime, "__cxa_get_globals_fast");
  standard = dlsym(runtime, "_ZTISt9exception");
  if (globals == NULL) return 0;
  caught = *globals();
  if (caught == NULL || caught->header.exception_class != GNU_CXX_CLASS) return 0;
  text_put(text, "message terminate called after throwing an instance of '");
  text_put_line_part(text, caught->type->name, 200);
  text_put(text, "'");
  object = caught + 1;
  if (standard != NULL && standard->table->would_catch(standard, caught->type, &object, 1)) {
    const struct cxx_std_exception *exception = object;
    text_put(text, "; what(): ");
    text_put_line_part(text, exception->table->what(exception), LONGEST_MESSAGE);
  }
  text_put(text, "\n");
  return 1;
#else
  (void)text;
  return 0;
#endif
}
