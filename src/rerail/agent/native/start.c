/* The library's door: what the stub calls, and how the stub gets in where the interpreter does not
 * look at PYTHONPATH.
 *
 * Loaded by the stub, the constructor finds a running interpreter and does nothing. Preloaded into
 * a process that has an interpreter in it, it asks that interpreter, through the public audit
 * hook, to be told when code begins to run, and runs the stub then. Preloaded anywhere else it
 * does nothing at all.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent.h"
#include "alternate_stack.h"
#include "lent_boxes.h"
#include "machine.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For stacks on request, the Python frames of all threads and of the crashed one, the deadline. */
static int free_signals[4];
#define DEADLINE 3

static int is_free(int sig) {
  struct sigaction now;
  return sigaction(sig, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
         now.sa_handler == SIG_DFL;
}

static void choose_signals(void) {
  int found = 0;
#ifdef SIGRTMAX
  /* From the top: programs that use real-time signals count up from SIGRTMIN, and valgrind and
   * some profilers keep the last few. */
  for (int sig = SIGRTMAX - 4; sig > SIGRTMIN + 1 && found < 4; sig--) {
    if (is_free(sig)) free_signals[found++] = sig;
  }
#else
  /* No real-time signals: two that hardly anybody uses, and no deadline. */
  static const int unused[] = {SIGINFO, SIGEMT};
  for (int i = 0; i < 2; i++) {
    if (is_free(unused[i])) free_signals[found++] = unused[i];
  }
#endif
  if (found < 2) agent_box->trouble |= TROUBLE_NO_FREE_SIGNAL;
  agent_deadline_signal = free_signals[DEADLINE];
}

RERAIL_EXPORT int rerail_may_open(void) { return machine_may_open(); }

RERAIL_EXPORT int rerail_interface(void) { return AGENT_INTERFACE; }

/* The box's address, or 0: no folder, no memory. Again in a forked child of Python's. */
RERAIL_EXPORT void *rerail_start(void) {
  int is_first = agent_box == NULL;
  if (!files_open()) return NULL;
  if (is_first) choose_signals();
  crash_install();
  return agent_box;
}

RERAIL_EXPORT int rerail_crash_fd(void) { return agent_crash_fd; }
RERAIL_EXPORT int rerail_stacks_fd(void) { return agent_stacks_fd; }
RERAIL_EXPORT int rerail_free_signal(int which) {
  return which >= 0 && which < DEADLINE ? free_signals[which] : 0;
}
RERAIL_EXPORT void rerail_thread_enter(void) { thread_give_stack(); }

RERAIL_EXPORT void rerail_complete_files(void) { files_complete(); }

RERAIL_EXPORT void rerail_goodbye(int how) {
  if (agent_box == NULL || agent_pid != (int)getpid()) return;
  agent_box->said_goodbye = how;
  if (!lent_boxes_give_back()) agent_box->thread_count = count_threads();
}

__attribute__((destructor)) static void say_goodbye_at_exit(void) {
  if (agent_box != NULL && agent_box->said_goodbye == GOODBYE_NONE) rerail_goodbye(GOODBYE_C);
  files_release_reserve();
}

/* ---- preloaded ------------------------------------------------------------------------------ */

#ifdef __linux__

static int is_preloaded;
static int (*is_initialized)(void);
static int (*run_string)(const char *);
static char bootstrap[4096];

/* Called by the interpreter, with its lock held, for every audited event. The first code that runs
 * comes before the program's own. */
static int on_audit_event(const char *event, void *arguments, void *user) {
  static int is_done;
  (void)arguments;
  (void)user;
  if (is_done || strcmp(event, "exec") != 0 || !is_initialized()) return 0;
  is_done = 1;
  run_string(bootstrap);
  return 0;
}

/* The stub lies beside this library: <agent>/native.abi3.so and <agent>/stub/. By its real path,
 * which is the one in PYTHONPATH: the library may have been named by a link (agent/preload.py). */
static int write_bootstrap(void) {
  static const char before[] = "exec(compile(open('";
  static const char middle[] = "/stub/rerail_bootstrap.py', 'rb').read(), 'rerail_bootstrap.py', "
                               "'exec'), {'__name__': 'rerail_bootstrap', 'folder': '";
  static const char after[] = "/stub'})\n";
  static char path[PATH_MAX];
  Dl_info self;
  const char *slash;
  size_t length;
  if (dladdr((void *)&is_preloaded, &self) == 0 || self.dli_fname == NULL) return 0;
  if (realpath(self.dli_fname, path) == NULL) return 0;
  slash = strrchr(path, '/');
  if (slash == NULL) return 0;
  length = (size_t)(slash - path);
  if (2 * length + sizeof before + sizeof middle + sizeof after >= sizeof bootstrap) return 0;
  if (strcspn(path, "'\\\n") != strlen(path)) return 0;
  strcpy(bootstrap, before);
  strncat(bootstrap, path, length);
  strcat(bootstrap, middle);
  strncat(bootstrap, path, length);
  strcat(bootstrap, after);
  return 1;
}

__attribute__((constructor)) static void look_around(void) {
  int (*add_hook)(int (*)(const char *, void *, void *), void *);
  if (getenv("RERAIL_AGENT") == NULL || getenv("LD_PRELOAD") == NULL) return;
  *(void **)&is_initialized = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  *(void **)&add_hook = dlsym(RTLD_DEFAULT, "PySys_AddAuditHook");
  *(void **)&run_string = dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
  if (is_initialized == NULL || add_hook == NULL || run_string == NULL) return;
  if (is_initialized()) return; /* brought in by the stub */
  if (!write_bootstrap()) return;
  is_preloaded = 1;
  add_hook(on_audit_event, NULL);
}

struct thread_start {
  void *(*routine)(void *);
  void *argument;
};

static void *begin_thread(void *argument) {
  struct thread_start start = *(struct thread_start *)argument;
  free(argument);
  thread_give_stack();
  return start.routine(start.argument);
}

typedef int (*create_thread)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* In front of the C library's only where this library was preloaded; loaded by the stub it is a
 * private name that nobody calls. */
RERAIL_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                 void *(*routine)(void *), void *argument) {
  static create_thread real;
  struct thread_start *start;
  int error;
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
  if (!is_preloaded || agent_box == NULL || (start = malloc(sizeof *start)) == NULL) {
    return real(thread, attributes, routine, argument);
  }
  start->routine = routine;
  start->argument = argument;
  error = real(thread, attributes, begin_thread, start);
  if (error != 0) free(start);
  return error;
}

#endif

/* For the test that compares this with the stub's table: name and offset of each field. */
#define FIELD(name) #name, (const char *)offsetof(struct box_head, name)
RERAIL_EXPORT const char *const *rerail_head_layout(void) {
  static const char *const fields[] = {
      FIELD(magic), FIELD(version), FIELD(size), FIELD(pid), FIELD(start_ticks),
      FIELD(parent_pid), FIELD(started_ns), FIELD(said_goodbye), FIELD(handler_installed),
      FIELD(crash_signal), FIELD(stacks_signal), FIELD(python_signal),
      FIELD(fork_parent_had_threads), FIELD(generation), FIELD(thread_count), FIELD(trouble),
      FIELD(is_native), FIELD(stacks_fd), FIELD(is_kept), NULL};
  return fields;
}
