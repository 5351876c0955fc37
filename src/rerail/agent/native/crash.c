/* The handler of fatal signals: writes the crash file, then lets the process end as it would have.
 *
 * Order of the record: what cannot fail first. Header, registers and memory map need system calls
 * only; the unwinder, the last words of the C and C++ libraries and Python's own dump may fault or
 * block, so each runs under a guard (guarded()) that a nested fault or a deadline leaves.
 * docs/design/what-may-a-signal-handler-do.md lists every call made here.
 */
#undef _FORTIFY_SOURCE /* its longjmp check does not know about alternate stacks everywhere */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent.h"
#include "last_words.h"
#include "machine.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#ifdef __APPLE__
#include <sys/ucontext.h> /* the other one is deprecated there */
#else
#include <ucontext.h>
#endif

#define FIRST_FRAMES 192
#define LAST_FRAMES 64
#define MOST_FRAMES 1000000 /* 8 MiB of stack hold 524,288 of the smallest */
#define MOST_BLOCKS 8       /* records in one crash file, should the process survive some */
#define MOST_PREVIOUS 8
#define UNWIND_SECONDS 3
#define WORDS_SECONDS 1
#define PYTHON_SECONDS 3
#define WAIT_FOR_OTHER_THREAD_MS 8000
#define SURVIVED_AFTER_NS 10000000000
#define ROOM_FOR_FRAMES (48 * 1024)
#define RESERVED (192 * 1024)

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
static struct text out;
static atomic_int owner;            /* thread that records, 0: nobody */
static volatile sig_atomic_t finished;
static volatile sig_atomic_t recorded_signal;
static volatile sig_atomic_t block_count;
static int64_t finished_ns;
static sigjmp_buf recovery;
static volatile sig_atomic_t recovery_is_armed;
static volatile sig_atomic_t is_python_signal_known;
static void (*python_dump)(int);
int agent_deadline_signal;

static uint64_t first_frames[FIRST_FRAMES];
static uint64_t last_frames[LAST_FRAMES];
static volatile uint64_t frame_total;
static uint64_t looked_for;
static int is_found;
static int has_cxx_runtime;

static void on_fatal_signal(int sig, siginfo_t *info, void *context);

/* ---- alternate stacks ---------------------------------------------------------------------- */

/* 64 KiB: the deepest handler run measured (unwinder, Python dump, a chained faulthandler) used
 * 9 KiB, and a signal frame with AMX state 11 KiB. Untouched pages cost nothing. */
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
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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

static void put_stack_bounds(const ucontext_t *context) {
  struct stack_note note;
  uint64_t base = (uint64_t)(uintptr_t)context->uc_stack.ss_sp;
  if (base == 0 || context->uc_stack.ss_size != ALTERNATE_STACK - 64) return;
  if (!machine_read(base + ALTERNATE_STACK - sizeof note, &note, sizeof note)) return;
  if (note.magic != STACK_NOTE_MAGIC || note.high == 0) return;
  text_put(&out, "stack ");
  text_put_hex(&out, note.low);
  text_put(&out, " ");
  text_put_hex(&out, note.high);
  text_put(&out, "\n");
}

/* ---- a guard round what may fault or block ------------------------------------------------- */

static void on_deadline(int sig) {
  (void)sig;
  if (recovery_is_armed && atomic_load(&owner) == machine_thread_id()) siglongjmp(recovery, 1000);
}

/* 0 when the phase came to its end; the signal that broke it; 1000 when it took too long. */
static int guarded(void (*phase)(int, void *), int sig, void *context, int seconds) {
  int broken = sigsetjmp(recovery, 1);
  if (broken == 0) {
    recovery_is_armed = 1;
    machine_deadline_start(agent_deadline_signal, seconds);
    phase(sig, context);
  }
  recovery_is_armed = 0;
  machine_deadline_stop();
  return broken;
}

static void put_note_if_broken(const char *what, int broken) {
  if (broken == 0) return;
  text_put(&out, "note ");
  text_put(&out, what);
  text_put(&out, broken == 1000 ? " took too long" : " was broken off by ");
  if (broken != 1000) text_put(&out, signal_name(broken));
  text_put(&out, "\n");
}

/* ---- the parts of a record ----------------------------------------------------------------- */

static void put_header(struct text *text, int sig, const siginfo_t *info) {
  char name[32];
  const char *code = signal_code_name(sig, info->si_code);
  int tid = machine_thread_id();
  text_put(text, "rerail-crash 1\nsignal ");
  text_put_decimal(text, sig);
  text_put(text, " ");
  text_put(text, signal_name(sig));
  text_put(text, "\ncode ");
  text_put_decimal(text, info->si_code);
  if (code != NULL) {
    text_put(text, " ");
    text_put(text, code);
  }
  if (signal_was_sent(sig, info)) {
    text_put(text, "\nsender ");
    text_put_decimal(text, info->si_pid);
    text_put(text, " ");
    text_put_decimal(text, info->si_uid);
  } else {
    text_put(text, "\naddress ");
    text_put_hex(text, (uint64_t)(uintptr_t)info->si_addr);
  }
  text_put(text, "\npid ");
  text_put_decimal(text, getpid());
  text_put(text, "\nparent ");
  text_put_decimal(text, getppid());
  text_put(text, "\ntid ");
  text_put_decimal(text, tid);
  text_put(text, "\nmain ");
#ifdef __APPLE__
  text_put_decimal(text, pthread_main_np());
#else
  text_put_decimal(text, tid == (int)getpid());
#endif
  machine_thread_name(name, sizeof name);
  text_put(text, "\nthread ");
  text_put_line_part(text, name, sizeof name);
  text_put(text, "\ntime ");
  text_put_decimal(text, monotonic_ns());
  text_put(text, "\n");
}

static char map_bytes[16 * 1024];

static void put_maps(void) {
  static const char cxx[] = "libstdc++.so";
  ssize_t length;
  int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    text_put(&out, "note no memory map on this system\n");
    return;
  }
  text_put(&out, "maps\n");
  text_flush(&out);
  while ((length = read(fd, map_bytes, sizeof map_bytes)) > 0 || (length < 0 && errno == EINTR)) {
    if (length < 0) continue;
    if (!has_cxx_runtime && memmem(map_bytes, (size_t)length, cxx, sizeof cxx - 1) != NULL) {
      has_cxx_runtime = 1;
    }
    text_put_bytes(&out, map_bytes, (size_t)length);
  }
  text_flush(&out);
  close(fd);
  if (out.failed) {
    /* The disk is full. The blocks reserved beforehand still hold: give up the end of the map for
     * the frames. */
    out.failed = 0;
    if (lseek(out.fd, RESERVED - ROOM_FOR_FRAMES, SEEK_SET) < 0) return;
    text_put(&out, "\nmaps-cut\n");
  }
  text_put(&out, "end-maps\n");
  text_flush(&out);
}

static int add_frame(uint64_t address) {
  if (frame_total < FIRST_FRAMES) {
    first_frames[frame_total] = address;
  } else {
    last_frames[(frame_total - FIRST_FRAMES) % LAST_FRAMES] = address;
  }
  frame_total++;
  return frame_total < MOST_FRAMES;
}

static _Unwind_Reason_Code collect_frame(struct _Unwind_Context *context, void *argument) {
  uint64_t address = (uint64_t)_Unwind_GetIP(context);
  (void)argument;
  /* The first few frames are this handler's own. */
  if (!is_found && address != looked_for) return _URC_NO_REASON;
  is_found = 1;
  if (address == 0) return _URC_END_OF_STACK;
  return add_frame(address) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void unwind(int sig, void *context) {
  struct spot spot = machine_spot(context);
  (void)sig;
  looked_for = spot.pc;
  _Unwind_Backtrace(collect_frame, NULL);
}

/* A call to an address that holds no code: step back to the caller by hand, since no table
 * describes where the program stands. */
static void unwind_from_caller(int sig, void *context) {
  struct spot spot = machine_spot(context);
  (void)sig;
  add_frame(spot.pc);
  looked_for = spot.link;
#if defined(__x86_64__)
  machine_move(context, spot.link, spot.sp + 8);
#else
  machine_move(context, spot.link, spot.sp);
#endif
  _Unwind_Backtrace(collect_frame, NULL);
}

static void walk_frame_pointers(int sig, void *context) {
  struct spot spot = machine_spot(context);
  uint64_t pair[2]; /* the caller's frame pointer, the return address */
  uint64_t at = spot.fp;
  (void)sig;
  if (frame_total == 0) add_frame(spot.pc);
  while (at != 0 && at % sizeof at == 0 && machine_read(at, pair, sizeof pair)) {
    if (pair[1] == 0 || !add_frame(pair[1])) break;
    if (pair[0] <= at) break; /* stacks grow down: callers lie above */
    at = pair[0];
  }
}

static void put_frame(uint64_t address) {
  text_put(&out, "frame ");
  text_put_hex(&out, address);
  text_put(&out, "\n");
}

static void put_frames(int sig, const siginfo_t *info, void *context) {
  struct spot spot = machine_spot(context);
  int is_call_to_nowhere = sig == SIGSEGV && !signal_was_sent(sig, info) && spot.link != 0 &&
                           (uint64_t)(uintptr_t)info->si_addr == spot.pc;
  int broken;
  uint64_t total, kept;
  frame_total = 0;
  is_found = 0;
  text_put(&out, "frames\n");
  text_flush(&out);
  broken = guarded(is_call_to_nowhere ? unwind_from_caller : unwind, sig, context, UNWIND_SECONDS);
  if (is_call_to_nowhere) machine_move(context, spot.pc, spot.sp);
  put_note_if_broken("the unwinder", broken);
  if (frame_total < 2) {
    uint64_t by_tables = frame_total;
    broken = guarded(walk_frame_pointers, sig, context, WORDS_SECONDS);
    if (frame_total > by_tables) text_put(&out, "note frames by frame pointer\n");
    put_note_if_broken("the walk by frame pointers", broken);
  }
  total = frame_total;
  for (uint64_t i = 0; i < total && i < FIRST_FRAMES; i++) put_frame(first_frames[i]);
  kept = total > FIRST_FRAMES ? total - FIRST_FRAMES : 0;
  if (kept > LAST_FRAMES) {
    text_put(&out, "skipped ");
    text_put_decimal(&out, (int64_t)(kept - LAST_FRAMES));
    text_put(&out, "\n");
  }
  for (uint64_t i = kept > LAST_FRAMES ? kept - LAST_FRAMES : 0; i < kept; i++) {
    put_frame(last_frames[i % LAST_FRAMES]);
  }
  text_put(&out, "frame-total ");
  text_put_decimal(&out, (int64_t)total);
  text_put(&out, "\nend-frames\n");
  text_flush(&out);
}

static void put_last_words(int sig, void *context) {
  (void)sig;
  (void)context;
  if (!last_words_of_c(&out) && has_cxx_runtime) last_words_of_cxx(&out);
  text_flush(&out);
}

static void call_python_dump(int sig, void *context) {
  (void)sig;
  (void)context;
  python_dump((int)agent_box->python_signal);
}

/* faulthandler writes to the number that it was told at registration. If the program has closed
 * that number and uses it for a file of its own, lend it to the crash file for the moment. */
static void put_python_frames(int fd) {
  struct sigaction now;
  int number = agent_crash_fd;
  int lent = -1;
  if (!is_python_signal_known || number < 0) return;
  /* An interpreter that has ended took its handler along; its tables are gone. */
  if (sigaction((int)agent_box->python_signal, NULL, &now) != 0 || now.sa_handler != python_dump) {
    return;
  }
  text_put(&out, "python\n");
  text_flush(&out);
  if (number != fd) {
    lent = dup(number);
    if (dup2(fd, number) != number) return;
  }
  put_note_if_broken("Python's dump", guarded(call_python_dump, 0, NULL, PYTHON_SECONDS));
  if (number != fd) {
    if (lent >= 0) {
      dup2(lent, number);
      close(lent);
    } else {
      close(number);
    }
  }
  text_put(&out, "\nend-python\n");
  text_flush(&out);
}

static void let_guards_work(void) {
  struct sigaction deadline;
  sigset_t needed;
  sigemptyset(&needed);
  for (int i = 0; i < FATAL_COUNT; i++) sigaddset(&needed, fatal_signals[i]);
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

static void stop_guards(void) {
  struct sigaction standard;
  if (agent_deadline_signal <= 0) return;
  memset(&standard, 0, sizeof standard);
  standard.sa_handler = SIG_IGN; /* first, so that one still on its way is dropped */
  sigaction(agent_deadline_signal, &standard, NULL);
  standard.sa_handler = SIG_DFL;
  sigaction(agent_deadline_signal, &standard, NULL);
}

static void record(int sig, siginfo_t *info, void *context) {
  int is_ours = files_crash_fd_is_ours();
  int fd = is_ours ? agent_crash_fd : files_open_crash_file((int)getpid());
  if (fd < 0) return;
  text_begin(&out, fd);
  put_header(&out, sig, info);
  put_stack_bounds(context);
  machine_put_registers(&out, context);
  text_flush(&out);
  put_maps();
  let_guards_work();
  put_frames(sig, info, context);
  if (sig == SIGABRT) {
    put_note_if_broken("the last words", guarded(put_last_words, sig, context, WORDS_SECONDS));
  }
  put_python_frames(fd);
  stop_guards();
  text_put(&out, "end\n");
  text_flush(&out);
  if (!is_ours) close(fd);
}

/* Between vfork and exec, or after a bare clone: the memory is another process's. Touch nothing
 * of it but what is on this stack. */
static void record_foreign(int sig, siginfo_t *info) {
  struct text text;
  int fd = files_open_crash_file((int)getpid());
  if (fd < 0) return;
  text_begin(&text, fd);
  put_header(&text, sig, info);
  text_put(&text, "note a process that shares its parent's memory\nend\n");
  text_flush(&text);
  close(fd);
}

/* ---- handing over --------------------------------------------------------------------------- */

static int index_of(int sig) {
  for (int i = 0; i < FATAL_COUNT; i++) {
    if (fatal_signals[i] == sig) return i;
  }
  return -1;
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
  int me = machine_thread_id();
  int nobody = 0;
  if (agent_pid != 0 && agent_pid != (int)getpid()) {
    record_foreign(sig, info);
  } else if (atomic_load(&owner) == me) {
    if (recovery_is_armed) siglongjmp(recovery, sig);
    /* Either a previous handler has raised the signal again (then it is the next one's turn), or
     * recording failed outside a guard. A different signal after a finished record is news. */
    if (finished && sig != recorded_signal && block_count < MOST_BLOCKS) {
      recorded_signal = sig;
      finished = 0;
      block_count++;
      record(sig, info, context);
    }
    finished = 1;
  } else if (atomic_compare_exchange_strong(&owner, &nobody, me)) {
    recorded_signal = sig;
    agent_box->crash_signal = sig;
    block_count++;
    record(sig, info, context);
    finished_ns = monotonic_ns();
    finished = 1;
  } else {
    wait_for_the_other_thread();
  }
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

static void (*stacks_dump)(int);

RERAIL_EXPORT void rerail_stacks_answer_to(int sig) {
  struct sigaction now;
  if (agent_box == NULL || sigaction(sig, NULL, &now) != 0) return;
  stacks_dump = now.sa_handler;
  agent_box->stacks_signal = sig;
}

/* A program that wants this signal for itself must not be sent it by a recorder. */
static void check_stacks_signal(void) {
  struct sigaction now;
  int sig = (int)agent_box->stacks_signal;
  if (sig > 0 && (sigaction(sig, NULL, &now) != 0 || now.sa_handler != stacks_dump)) {
    agent_box->stacks_signal = 0;
  }
}

RERAIL_EXPORT int rerail_keep_place(void) {
  if (agent_box == NULL) return 0;
  notice_survival();
  check_stacks_signal();
  for (int i = 0; i < FATAL_COUNT; i++) take_place(i);
  thread_give_stack();
  agent_box->handler_installed = count_places();
  agent_box->thread_count = count_threads();
  return (int)agent_box->handler_installed;
}

/* faulthandler.disable(): its function must not be called any more, though it may be remembered
 * as what came before us. */
RERAIL_EXPORT void rerail_forget_handler_of(int sig, void *function) {
  int i = index_of(sig);
  int kept = 0;
  if (i < 0) return;
  for (int k = 0; k < places[i].depth; k++) {
    if ((void *)places[i].previous[k].sa_sigaction == function) continue;
    places[i].previous[kept++] = places[i].previous[k];
  }
  places[i].depth = kept;
}

RERAIL_EXPORT void *rerail_handler_of(int sig) {
  struct sigaction now;
  if (sigaction(sig, NULL, &now) != 0 || is_our_handler(&now)) {
    int i = index_of(sig);
    if (i < 0 || places[i].depth == 0) return NULL;
    return (void *)places[i].previous[places[i].depth - 1].sa_sigaction;
  }
  return (void *)now.sa_sigaction;
}

RERAIL_EXPORT int rerail_use_python_dump(int sig) {
  struct sigaction now;
  if (agent_box == NULL || sigaction(sig, NULL, &now) != 0) return 0;
  if ((now.sa_flags & SA_SIGINFO) || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) {
    return 0;
  }
  python_dump = now.sa_handler;
  agent_box->python_signal = sig;
  is_python_signal_known = 1;
  return 1;
}

static _Unwind_Reason_Code ignore_frame(struct _Unwind_Context *context, void *argument) {
  (void)context;
  return ++*(int *)argument < 4 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* What the handler will use must have been used: no first-time work inside it. */
void crash_prime(void) {
  int frames = 0;
  _Unwind_Backtrace(ignore_frame, &frames);
  last_words_prime();
}

int crash_install(void) {
  if (!has_stack_key) {
    has_stack_key = pthread_key_create(&stack_key, take_stack_away) == 0;
    crash_prime();
  }
  return rerail_keep_place();
}

void crash_after_fork(void) {
  atomic_store(&owner, 0);
  finished = 0;
  block_count = 0;
  recovery_is_armed = 0;
  for (int i = 0; i < FATAL_COUNT; i++) places[i].was_handed_over = 0;
}
