/* An alternate stack for every thread: a handler cannot run on a stack that has overflowed.
 *
 * The bounds of the thread's ordinary stack lie just above the alternate one, where the handler
 * finds them without a call: an address near them tells a stack overflow from a stray pointer.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "alternate_stack.h"

#include "agent.h"
#include "machine.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __APPLE__
#include <sys/ucontext.h> /* the other one is deprecated there */
#else
#include <ucontext.h>
#endif

/* The deepest run measured (unwinder, Python dump, a chained faulthandler, CPython 3.8 to 3.14, a
 * torch process) used 10 KiB; a signal frame with AMX state alone takes 11. Every thread has one, and
 * what is mapped counts where a limit on addresses is set (ulimit -v): no more than this. */
#define ALTERNATE_STACK (64 * 1024)
#define ENOUGH_ALTERNATE_STACK (32 * 1024)
#define GUARD 4096
#define STACK_NOTE_MAGIC 0x7265726169735354u

struct stack_note { /* lies just above the alternate stack, where the handler finds it */
  uint64_t magic;
  uint64_t low, high; /* the thread's ordinary stack */
};

static pthread_key_t stack_key;
static int has_stack_key;

static void take_stack_away(void *mapping) {
  stack_t off, now;
  memset(&off, 0, sizeof off);
  off.ss_flags = SS_DISABLE;
  off.ss_size = ALTERNATE_STACK;
  if (sigaltstack(NULL, &now) == 0 && now.ss_sp == (char *)mapping + GUARD) sigaltstack(&off, NULL);
  munmap(mapping, GUARD + ALTERNATE_STACK);
}

void thread_give_stack(void) {
  stack_t stack;
  struct stack_note note = {STACK_NOTE_MAGIC, 0, 0};
  char *mapping;
  if (!has_stack_key || sigaltstack(NULL, &stack) != 0) return;
  if (!(stack.ss_flags & SS_DISABLE) && stack.ss_size >= ENOUGH_ALTERNATE_STACK) return;
  mapping = pthread_getspecific(stack_key);
  if (mapping == NULL) {
    mapping = mmap(NULL, GUARD + ALTERNATE_STACK, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
      agent_box->trouble |= TROUBLE_NO_ALTERNATE_STACK;
      return;
    }
    mprotect(mapping, GUARD, PROT_NONE);
    machine_stack_bounds(&note.low, &note.high);
    memcpy(mapping + GUARD + ALTERNATE_STACK - sizeof note, &note, sizeof note);
    pthread_setspecific(stack_key, mapping);
  }
  memset(&stack, 0, sizeof stack);
  stack.ss_sp = mapping + GUARD;
  stack.ss_size = ALTERNATE_STACK - 64;
  if (sigaltstack(&stack, NULL) != 0) agent_box->trouble |= TROUBLE_NO_ALTERNATE_STACK;
}

void stack_put_bounds(struct text *text, const void *in_handler) {
  const ucontext_t *context = in_handler;
  struct stack_note note;
  uint64_t base = (uint64_t)(uintptr_t)context->uc_stack.ss_sp;
  if (base == 0 || context->uc_stack.ss_size != ALTERNATE_STACK - 64) return;
  if (!machine_read(base + ALTERNATE_STACK - sizeof note, &note, sizeof note)) return;
  if (note.magic != STACK_NOTE_MAGIC || note.high == 0) return;
  text_put(text, "stack ");
  text_put_hex(text, note.low);
  text_put(text, " ");
  text_put_hex(text, note.high);
  text_put(text, "\n");
}

int stack_prepare(void) {
  if (has_stack_key) return 0;
  has_stack_key = pthread_key_create(&stack_key, take_stack_away) == 0;
  return has_stack_key;
}
