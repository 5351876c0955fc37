/* See python_frames.h.
 *
 * Python's dump of all threads reads the frames of threads that may be running: whoever crashed in a
 * call that had released the interpreter's lock does not hold the others still. Such a dump faults
 * now and then (measured: within a thousand dumps beside one busy thread), so it is never the first
 * and never unguarded: a crash writes its own thread's frames before everybody's, and a request for
 * stacks in a living process ends at the fault instead of ending the process.
 */
#undef _FORTIFY_SOURCE /* its longjmp check does not know about alternate stacks everywhere */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "python_frames.h"

#include "agent.h"
#include "guard.h"
#include "machine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <unistd.h>

#define OWN_SECONDS 2
#define ALL_SECONDS 3

/* A signal whose handler dumps; the handler is called, the signal never sent. */
struct dump {
  volatile sig_atomic_t signal;
  void (*function)(int);
};

static struct dump own, all;
static void (*answer)(int); /* what a request for stacks calls */
static atomic_int answering_thread;
static sigjmp_buf recovery;

/* An interpreter that has ended took its handlers along; its tables are gone. */
static int is_installed(const struct dump *dump) {
  struct sigaction now;
  return dump->signal > 0 && sigaction(dump->signal, NULL, &now) == 0 &&
         now.sa_handler == dump->function;
}

static void call(int sig, void *context) {
  const struct dump *dump = context;
  (void)sig;
  dump->function(dump->signal);
}

static void put(struct text *out, struct dump *dump, const char *what, int seconds) {
  if (!is_installed(dump)) return;
  text_put(out, "python\n");
  text_flush(out);
  guarded(out, what, call, 0, dump, seconds);
  text_put(out, "\nend-python\n");
  text_flush(out);
}

/* faulthandler writes to the number that it was told at registration. If the program has closed
 * that number and uses it for a file of its own, lend it to the crash file for the moment. */
void python_frames_put(struct text *out, int fd) {
  int number = agent_crash_fd;
  int lent = -1;
  if (number < 0) return;
  if (number != fd) {
    lent = dup(number);
    if (dup2(fd, number) != number) return;
  }
  put(out, &own, "Python's dump of this thread", OWN_SECONDS);
  put(out, &all, "Python's dump of all threads", ALL_SECONDS);
  if (number != fd) {
    if (lent >= 0) {
      dup2(lent, number);
      close(lent);
    } else {
      close(number);
    }
  }
}

/* ---- on request, in a process that lives on -------------------------------------------------- */

/* A place of its own to come back to, beside the guard's: while this thread answers, another one
 * may crash and be recorded. */
static void on_request(int sig) {
  volatile int saved_errno = errno; /* a dump that is broken off does not put it back */
  int nobody = 0;
  if (!atomic_compare_exchange_strong(&answering_thread, &nobody, machine_thread_id())) return;
  if (sigsetjmp(recovery, 1) == 0) answer(sig);
  atomic_store(&answering_thread, 0);
  errno = saved_errno;
}

void python_answer_break_off(int sig, const siginfo_t *info) {
  if (atomic_load(&answering_thread) != machine_thread_id()) return;
  if (!signal_was_sent(sig, info)) siglongjmp(recovery, sig);
}

void python_frames_after_fork(void) { atomic_store(&answering_thread, 0); }

RERAIL_EXPORT void rerail_stacks_answer_to(int sig) {
  struct sigaction action;
  if (agent_box == NULL || sigaction(sig, NULL, &action) != 0) return;
  if (action.sa_handler != on_request) answer = action.sa_handler;
  action.sa_handler = on_request;
  if (sigaction(sig, &action, NULL) == 0) agent_box->stacks_signal = sig;
}

/* A program that wants this signal for itself must not be sent it by a recorder. */
void python_check_request_signal(void) {
  struct sigaction now;
  int sig = (int)agent_box->stacks_signal;
  if (sig > 0 && (sigaction(sig, NULL, &now) != 0 || now.sa_handler != on_request)) {
    agent_box->stacks_signal = 0;
  }
}

RERAIL_EXPORT int rerail_use_python_dump(int sig, int is_of_all_threads) {
  struct sigaction now;
  struct dump *dump = is_of_all_threads ? &all : &own;
  if (agent_box == NULL || sigaction(sig, NULL, &now) != 0) return 0;
  if ((now.sa_flags & SA_SIGINFO) || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) {
    return 0;
  }
  dump->function = now.sa_handler;
  dump->signal = sig;
  if (is_of_all_threads) agent_box->python_signal = sig;
  return 1;
}
