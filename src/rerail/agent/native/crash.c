/* The handler of fatal signals: has the crash recorded, then lets the process end as it would have.
 *
 * docs/design/what-may-a-signal-handler-do.md lists every call made from here.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent.h"
#include "alternate_stack.h"
#include "crash_record.h"
#include "frames.h"
#include "guard.h"
#include "last_words.h"
#include "machine.h"
#include "python_frames.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_BLOCKS 8 /* records in one crash file, should the process survive some */
#define MOST_PREVIOUS 8
#define WAIT_FOR_OTHER_THREAD_MS 8000
#define SURVIVED_AFTER_NS 10000000000

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
#define FATAL_COUNT ((int)(sizeof fatal_signals / sizeof *fatal_signals))

/* Who held the signal before us, the latest last. Empty means the default action. */
struct place {
  struct sigaction previous[MOST_PREVIOUS];
  int depth;
  int was_handed_over; /* 1 to a handler after a sent signal, 2 after a faulting instruction */
  int is_given_up;
};

static struct place places[FATAL_COUNT];
static atomic_int owner;            /* thread that records, 0: nobody */
static volatile sig_atomic_t finished;
static volatile sig_atomic_t recorded_signal;
static volatile sig_atomic_t block_count;
static int64_t finished_ns;


/* ---- handing over --------------------------------------------------------------------------- */

static int index_of(int sig) {
  for (int i = 0; i < FATAL_COUNT; i++) {
    if (fatal_signals[i] == sig) return i;
  }
  return -1;
}

static sigset_t set_of_fatal_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  for (int i = 0; i < FATAL_COUNT; i++) sigaddset(&set, fatal_signals[i]);
  return set;
}

static int faults_again(int sig, const siginfo_t *info) {
  if (signal_was_sent(sig, info)) return 0;
#ifdef BUS_MCEERR_AO
  if (sig == SIGBUS && info->si_code == BUS_MCEERR_AO) return 0;
#endif
  /* After a breakpoint or a forbidden system call the program would go on behind it. */
  return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL;
}

static void hand_over(int sig, siginfo_t *info) {
  struct place *place = &places[index_of(sig)];
  struct sigaction next;
  memset(&next, 0, sizeof next);
  next.sa_handler = SIG_DFL;
  if (place->depth > 0) {
    next = place->previous[--place->depth];
    place->was_handed_over = faults_again(sig, info) ? 2 : 1;
  }
  sigaction(sig, &next, NULL);
  /* The instruction faults again by itself, with the true address, and so does the core file. */
  if (!faults_again(sig, info)) machine_raise_again(sig, info);
}

static void wait_for_the_other_thread(void) {
  struct timespec pause = {0, 5000000};
  for (int waited = 0; !finished && waited < WAIT_FOR_OTHER_THREAD_MS; waited += 5) {
    nanosleep(&pause, NULL);
  }
}

static void on_fatal_signal(int sig, siginfo_t *info, void *context) {
  int saved_errno = errno;
  sigset_t fatal = set_of_fatal_signals();
  int me = machine_thread_id();
  int nobody = 0;
  python_answer_break_off(sig, info);
  machine_dies_of(sig);
  if (agent_pid != 0 && agent_pid != (int)getpid()) {
    record_crash_in_foreign_memory(sig, info);
  } else if (atomic_load(&owner) == me) {
    guard_break_off(sig);
    /* Either a previous handler has raised the signal again (then it is the next one's turn), or
     * recording failed outside a guard. A different signal after a finished record is news. */
    if (finished && sig != recorded_signal && block_count < MOST_BLOCKS) {
      recorded_signal = sig;
      finished = 0;
      block_count++;
      record_crash(sig, info, context, &fatal);
    }
    finished = 1;
  } else if (atomic_compare_exchange_strong(&owner, &nobody, me)) {
    recorded_signal = sig;
    agent_box->crash_signal = sig;
    block_count++;
    record_crash(sig, info, context, &fatal);
    finished_ns = monotonic_ns();
    finished = 1;
  } else {
    wait_for_the_other_thread();
  }
  machine_dies_of(0);
  hand_over(sig, info);
  errno = saved_errno;
}

/* ---- taking the place, and keeping it --------------------------------------------------------- */

static int is_same_handler(const struct sigaction *a, const struct sigaction *b) {
  return a->sa_handler == b->sa_handler && (a->sa_flags & SA_SIGINFO) == (b->sa_flags & SA_SIGINFO);
}

static int is_our_handler(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_fatal_signal;
}

static void remember_previous(struct place *place, const struct sigaction *action) {
  if (!(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_DFL) {
    place->depth = 0;
    return;
  }
  for (int i = 0; i < place->depth; i++) {
    if (is_same_handler(&place->previous[i], action)) {
      place->depth = i; /* it has come back on top: what was above is out of the chain */
      break;
    }
  }
  if (place->depth == MOST_PREVIOUS) {
    memmove(place->previous, place->previous + 1, sizeof place->previous - sizeof *action);
    place->depth--;
  }
  place->previous[place->depth++] = *action;
}

static void take_place(int i) {
  struct sigaction ours, now;
  if (places[i].is_given_up || sigaction(fatal_signals[i], NULL, &now) != 0) return;
  if (is_our_handler(&now)) return;
  if (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN) {
    /* What is ignored stays ignored across exec, and a handler would not. */
    agent_box->trouble |= TROUBLE_SIGNAL_IGNORED;
    return;
  }
  remember_previous(&places[i], &now);
  memset(&ours, 0, sizeof ours);
  ours.sa_sigaction = on_fatal_signal;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigfillset(&ours.sa_mask);
  for (int k = 0; k < FATAL_COUNT; k++) sigdelset(&ours.sa_mask, fatal_signals[k]);
  if (agent_deadline_signal > 0) sigdelset(&ours.sa_mask, agent_deadline_signal);
  sigaction(fatal_signals[i], &ours, NULL);
}

static int count_places(void) {
  struct sigaction now;
  int count = 0;
  for (int i = 0; i < FATAL_COUNT; i++) {
    if (sigaction(fatal_signals[i], NULL, &now) == 0 && is_our_handler(&now)) count++;
  }
  return count;
}

/* A handler that we handed over to has brought the program back to life. */
static void notice_survival(void) {
  static const char word[] = "survived\n";
  int has_survived = 0;
  if (!finished || monotonic_ns() - finished_ns < SURVIVED_AFTER_NS) return;
  for (int i = 0; i < FATAL_COUNT; i++) {
    if (places[i].was_handed_over == 0) continue;
    has_survived = 1;
    if (places[i].was_handed_over == 2) {
      /* Faults are that handler's daily work (a managed runtime): stay out of its way. */
      places[i].is_given_up = 1;
      agent_box->trouble |= TROUBLE_PLACE_GIVEN_UP;
    }
    places[i].was_handed_over = 0;
  }
  if (!has_survived) return;
  if (files_crash_fd_is_ours() && lseek(agent_crash_fd, 0, SEEK_END) >= 0) {
    (void)!write(agent_crash_fd, word, sizeof word - 1);
  }
  agent_box->crash_signal = 0;
  finished = 0;
  atomic_store(&owner, 0);
}

RERAIL_EXPORT int rerail_keep_place(void) {
  if (agent_box == NULL) return 0;
  notice_survival();
  python_check_request_signal();
  for (int i = 0; i < FATAL_COUNT; i++) take_place(i);
  thread_give_stack();
  agent_box->handler_installed = count_places();
  agent_box->thread_count = count_threads();
  return (int)agent_box->handler_installed;
}

static void *function_of(const struct sigaction *action) {
  void *address; /* C knows no conversion of a function's address to this */
  memcpy(&address, &action->sa_sigaction, sizeof address);
  return address;
}

/* faulthandler.disable(): its function must not be called any more, though it may be remembered
 * as what came before us. */
RERAIL_EXPORT void rerail_forget_handler_of(int sig, void *function) {
  int i = index_of(sig);
  int kept = 0;
  if (i < 0) return;
  for (int k = 0; k < places[i].depth; k++) {
    if (function_of(&places[i].previous[k]) == function) continue;
    places[i].previous[kept++] = places[i].previous[k];
  }
  places[i].depth = kept;
}

RERAIL_EXPORT void *rerail_handler_of(int sig) {
  struct sigaction now;
  if (sigaction(sig, NULL, &now) != 0 || is_our_handler(&now)) {
    int i = index_of(sig);
    if (i < 0 || places[i].depth == 0) return NULL;
    return function_of(&places[i].previous[places[i].depth - 1]);
  }
  return function_of(&now);
}


/* What the handler will use must have been used: no first-time work inside it. */
static void crash_prime(void) {
  frames_prime();
  last_words_prime();
}

int crash_install(void) {
  if (stack_prepare()) crash_prime();
  return rerail_keep_place();
}

void crash_after_fork(void) {
  atomic_store(&owner, 0);
  finished = 0;
  block_count = 0;
  guard_forget();
  python_frames_after_fork();
  /* Only where there is something to change: a page that is written to has to be copied. */
  for (int i = 0; i < FATAL_COUNT; i++) {
    if (places[i].was_handed_over) places[i].was_handed_over = 0;
  }
}
