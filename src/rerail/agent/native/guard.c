/* See guard.h. One thread records at a time, so one place to come back to is enough. */
#undef _FORTIFY_SOURCE /* its longjmp check does not know about alternate stacks everywhere */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "guard.h"

#include "agent.h"
#include "machine.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#define TOOK_TOO_LONG 1000 /* beside the numbers of signals */

static sigjmp_buf recovery;
static volatile sig_atomic_t guarded_thread; /* 0: no phase is running */
int agent_deadline_signal;

void guard_break_off(int sig) {
  if (guarded_thread != 0 && guarded_thread == machine_thread_id()) siglongjmp(recovery, sig);
}

static void on_deadline(int sig) {
  (void)sig;
  guard_break_off(TOOK_TOO_LONG);
}

void guarded(struct text *text, const char *what, void (*phase)(int, void *), int sig,
             void *context, int seconds) {
  int broken = sigsetjmp(recovery, 1);
  if (broken == 0) {
    guarded_thread = machine_thread_id();
    machine_deadline_start(agent_deadline_signal, seconds);
    phase(sig, context);
  }
  guarded_thread = 0;
  machine_deadline_stop();
  if (broken == 0) return;
  text_put(text, "note ");
  text_put(text, what);
  text_put(text, broken == TOOK_TOO_LONG ? " took too long" : " was broken off by ");
  if (broken != TOOK_TOO_LONG) text_put(text, signal_name(broken));
  text_put(text, "\n");
}

void guard_forget(void) { guarded_thread = 0; }

void guards_begin(const sigset_t *fatal) {
  struct sigaction deadline;
  sigset_t needed = *fatal;
  if (agent_deadline_signal > 0) {
    memset(&deadline, 0, sizeof deadline);
    deadline.sa_handler = on_deadline;
    deadline.sa_flags = SA_ONSTACK;
    sigemptyset(&deadline.sa_mask);
    sigaction(agent_deadline_signal, &deadline, NULL);
    sigaddset(&needed, agent_deadline_signal);
  }
  pthread_sigmask(SIG_UNBLOCK, &needed, NULL);
}

void guards_end(void) {
  struct sigaction standard;
  if (agent_deadline_signal <= 0) return;
  memset(&standard, 0, sizeof standard);
  standard.sa_handler = SIG_IGN; /* first, so that one still on its way is dropped */
  sigaction(agent_deadline_signal, &standard, NULL);
  standard.sa_handler = SIG_DFL;
  sigaction(agent_deadline_signal, &standard, NULL);
}
