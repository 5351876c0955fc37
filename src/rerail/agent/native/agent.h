/* The agent's native part: what its files share.
 *
 * Comes in: RERAIL_AGENT, RERAIL_AGENT_MEMORY (folders) and RERAIL_T0 from the environment. Goes
 * out: up to four files per process in one of the two folders, <pid>-<start>.box, .crash, .stacks
 * and, for its children, .boxes (folders.c says in which one). Promises: no output, no Python API at link time, nothing allocated or locked inside a signal handler, and every
 * failure leaves the user's program as it was and a bit set in the box.
 */
#ifndef RERAIL_AGENT_H
#define RERAIL_AGENT_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#define RERAIL_EXPORT __attribute__((visibility("default")))

/* The box's first 256 bytes belong to C; the rest to the stub. The one table of the whole box
 * is stub/rerail_layout.py; a test compares it with rerail_head_layout(). */
#define BOX_MAGIC "RERAILBX"
#define BOX_VERSION 1
#define BOX_SIZE 32768
/* What stub and library hand to each other; INTERFACE in rerail_layout.py says when it changes. */
#define AGENT_INTERFACE 4

struct box_head {
  char magic[8];
  uint32_t version;
  uint32_t size;
  int64_t pid;
  int64_t start_ticks;
  int64_t parent_pid;
  int64_t started_ns;        /* monotonic clock */
  int64_t said_goodbye;      /* enum goodbye */
  int64_t handler_installed; /* how many of the fatal signals are ours */
  int64_t crash_signal;      /* the signal that a crash record was written for */
  int64_t stacks_signal;     /* send this for Python stacks, after looking at SigCgt */
  int64_t python_signal;     /* whose handler the crash handler calls for Python frames */
  int64_t fork_parent_had_threads; /* -1 unknown, 0, 1 */
  int64_t generation;        /* 0 for a process that was exec'd, +1 for each fork since */
  int64_t thread_count;
  int64_t trouble;           /* bits of enum trouble */
  int64_t is_native;         /* 1: written by this library, 0: by the stub alone */
  int64_t stacks_fd;         /* the sender makes sure that this is still the .stacks file */
  int64_t is_kept;           /* a lent box that no other child may have after this process */
};

enum goodbye {
  GOODBYE_NONE = 0,
  GOODBYE_PYTHON = 1,  /* atexit ran */
  GOODBYE_UNDERSCORE_EXIT = 2,
  GOODBYE_WORKER = 3,  /* a multiprocessing child that ended by itself */
  GOODBYE_C = 4,       /* exit() without the interpreter's own ending */
};

enum trouble {
  TROUBLE_NO_BOX = 1 << 0,
  TROUBLE_NO_CRASH_FILE = 1 << 1,
  TROUBLE_NO_STACKS_FILE = 1 << 2,
  TROUBLE_NO_ALTERNATE_STACK = 1 << 3,
  TROUBLE_NO_FREE_SIGNAL = 1 << 4,
  TROUBLE_SIGNAL_IGNORED = 1 << 5,  /* a fatal signal was ignored already: left so */
  TROUBLE_PLACE_GIVEN_UP = 1 << 6,  /* another handler uses the signal for its own work */
  TROUBLE_FILE_LIMIT = 1 << 7,      /* RLIMIT_FSIZE too low to write anything safely */
};

/* files.c */
/* A crash of a torch process with 362 mappings wrote 52 KiB; a map twice as long and the frames of
 * a hundred Python threads fit too. Writing goes past this where the disk allows it. */
#define CRASH_FILE_PREALLOCATED (192 * 1024)
extern struct box_head *agent_box; /* never NULL after files_open: a scratch page if no file */
extern int agent_crash_fd;         /* -1 when there is none */
extern int agent_stacks_fd;
extern volatile int agent_pid;     /* whose files these are */
int files_open(void);
void files_complete(void);
void files_python_forks(void); /* os.fork begins */
int files_open_crash_file(int pid); /* async-signal-safe: also used inside the handler */
int files_crash_fd_is_ours(void);
void files_release_reserve(void); /* at the end of a process that did not crash */
int64_t monotonic_ns(void);
int count_threads(void);

/* crash.c */
int crash_install(void);
void crash_after_fork(void);

/* guard.c: the signal that ends a phase of the handler which takes too long. */
extern int agent_deadline_signal;

#endif
