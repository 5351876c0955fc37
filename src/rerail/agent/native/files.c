/* The three files of a process, and what becomes of them when it forks.
 *
 * The box is mapped shared at an address that stays the same for the life of the process tree:
 * a forked child first gets private memory there, so that it cannot write into its parent's box,
 * and its own file once it turns out to be a process of Python's (files_open from the stub's
 * after-fork hook) rather than one about to exec. It takes one of the boxes that its parent set
 * aside (lent_boxes.c), and has the other two files made when they are needed: the crash file by
 * the handler itself, or beforehand by multiprocessing's workers; stacks on request go into the
 * parent's file, whose descriptor it has.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent.h"
#include "collectives.h"
#include "first_page.h"
#include "folders.h"
#include "lent_boxes.h"
#include "machine.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SMALLEST_FILE_LIMIT (16 * 1024 * 1024)
#define STACKS_FILE_COUNTED (16 * 1024) /* the Python stacks of a few hundred frames */

struct box_head *agent_box;
int agent_crash_fd = -1;
int agent_stacks_fd = -1;
volatile int agent_pid;

static struct stat crash_identity;
static struct stat inherited_crash; /* the parent's crash file, under the number of ours */
static int threads_before_fork;
static int64_t ticks_before_fork;
static int64_t ticks_per_second;
static int fork_handlers_registered;
static int is_python_forking; /* os.fork, and not a fork that will exec something else */

int64_t monotonic_ns(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0;
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* One system call: each thread is a folder in task/, and a folder's link count is two more than
 * the folders in it. */
int count_threads(void) {
  struct stat task;
  if (stat("/proc/self/task", &task) != 0 || task.st_nlink < 3) return 0;
  return (int)task.st_nlink - 2;
}

/* The kernel's own count of ticks since boot, which a process's start time is given in. */
static int64_t ticks_now(void) {
#ifdef __linux__
  struct timespec now;
  if (ticks_per_second > 0 && clock_gettime(CLOCK_BOOTTIME, &now) == 0) {
    return ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec) / (1000000000 / ticks_per_second);
  }
#endif
  return 0;
}

static int64_t read_start_ticks(void) {
  char stat_text[1024];
  ssize_t length;
  int fd = machine_may_open() ? open("/proc/self/stat", O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return 0;
  length = read(fd, stat_text, sizeof stat_text);
  close(fd);
  return length > 0 ? text_start_ticks(stat_text, (size_t)length) : 0;
}

/* Every block of the box is there before it is mapped: a store to a page that the file system has
 * no room for would be SIGBUS in the user's program. */
static int map_box(int pid, int64_t start) {
  void *at;
  int fd = folders_create(pid, start, ".box", BOX_SIZE, RESERVE_CONTENT);
  if (fd < 0) return 0;
  at = mmap(agent_box, BOX_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (at == MAP_FAILED) folders_remove(pid, start, ".box");
  close(fd);
  return at != MAP_FAILED;
}

/* Far above where programs look: low numbers stay as they would have been. */
static int move_high(int fd) {
  struct rlimit limit;
  int base = 1000;
  int high;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 1008) {
    if (limit.rlim_cur < 64) return fd;
    base = (int)limit.rlim_cur - 8;
  }
  high = fcntl(fd, F_DUPFD_CLOEXEC, base);
  if (high < 0) return fd;
  close(fd);
  return high;
}

/* Put a new file under the number that faulthandler was told, or under a high one at first. */
static int place(int fd, int number) {
  if (number < 0) return move_high(fd);
  if (dup2(fd, number) != number) {
    close(fd);
    return -1;
  }
  fcntl(number, F_SETFD, FD_CLOEXEC);
  close(fd);
  return number;
}

static int is_under_crash_fd(const struct stat *file) {
  struct stat now;
  return agent_crash_fd >= 0 && fstat(agent_crash_fd, &now) == 0 && now.st_dev == file->st_dev &&
         now.st_ino == file->st_ino;
}

int files_crash_fd_is_ours(void) {
  return agent_pid == (int)getpid() && is_under_crash_fd(&crash_identity);
}

/* Under the number that faulthandler was told, if the parent's file is still there. */
static int adopt(int fd) {
  if (fd != agent_crash_fd) {
    if (!is_under_crash_fd(&inherited_crash) || dup2(fd, agent_crash_fd) < 0) return fd;
    fcntl(agent_crash_fd, F_SETFD, FD_CLOEXEC);
    close(fd);
  }
  fstat(agent_crash_fd, &crash_identity);
  return agent_crash_fd;
}

static int create_crash_file(int pid, int64_t start, enum reserve reserve) {
  return folders_create(pid, start, ".crash", CRASH_FILE_PREALLOCATED, reserve);
}

int files_open_crash_file(int pid) {
  int fd = create_crash_file(pid, read_start_ticks(), RESERVE_NOTHING);
  if (fd < 0 && errno == EMFILE && is_under_crash_fd(&inherited_crash)) {
    close(agent_crash_fd); /* the parent's file, which we would never write into */
    fd = create_crash_file(pid, read_start_ticks(), RESERVE_NOTHING);
  }
  return fd >= 0 && agent_pid == pid ? adopt(fd) : fd;
}

static int file_limit_is_low(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < SMALLEST_FILE_LIMIT;
}

static void open_crash_file(int pid, int64_t start) {
  /* The size stays 0, so an empty file means no crash. */
  int fd = create_crash_file(pid, start, RESERVE_BEHIND_END);
  if (fd >= 0) fd = place(fd, agent_crash_fd);
  if (fd < 0 || fstat(fd, &crash_identity) != 0) {
    /* A forked child still has its parent's file under that number: never write there. */
    memset(&crash_identity, 0, sizeof crash_identity);
    agent_box->trouble |= TROUBLE_NO_CRASH_FILE;
    return;
  }
  agent_crash_fd = fd;
}

static void open_stacks_file(int pid, int64_t start) {
  int fd = folders_create(pid, start, ".stacks", STACKS_FILE_COUNTED, RESERVE_NOTHING);
  if (fd < 0) {
    agent_box->trouble |= TROUBLE_NO_STACKS_FILE;
    if (agent_stacks_fd < 0 || !machine_may_open()) return;
    fd = open("/dev/null", O_WRONLY | O_CLOEXEC); /* the number is still the parent's file */
    if (fd < 0) return;
  }
  agent_stacks_fd = place(fd, agent_stacks_fd);
  agent_box->stacks_fd = agent_stacks_fd;
}

static void write_head(int pid, int64_t start) {
  memcpy(agent_box->magic, BOX_MAGIC, sizeof agent_box->magic);
  agent_box->version = BOX_VERSION;
  agent_box->size = BOX_SIZE;
  agent_box->pid = pid;
  agent_box->start_ticks = start;
  agent_box->parent_pid = getppid();
  agent_box->started_ns = monotonic_ns();
  agent_box->is_native = 1;
}

static void before_fork(void) {
  threads_before_fork = count_threads();
  ticks_before_fork = ticks_now();
}

/* A child is born between the two moments. Mostly that is one tick, and the look into /proc, which
 * is dear in a new process, is not needed. */
static int64_t start_ticks_of_child(void) {
  int64_t now = ticks_now();
  return now > 0 && now == ticks_before_fork ? now : read_start_ticks();
}

static void after_fork_in_parent(void) { is_python_forking = 0; }

void files_python_forks(void) {
  lent_boxes_prepare();
  is_python_forking = 1;
}

/* Private memory, for a child that may be about to exec; or at once a box of its own. */
static int has_memory_of_its_own(int pid) {
  if (is_python_forking && lent_boxes_take(pid)) return 1;
  return mmap(agent_box, BOX_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
              -1, 0) != MAP_FAILED;
}

static void after_fork_in_child(void) {
  struct box_head head;
  int pid = (int)getpid();
  if (agent_box == NULL) return;
  head = *agent_box;
  agent_pid = 0;
  lent_boxes_after_fork();
  if (crash_identity.st_ino != 0) {
    inherited_crash = crash_identity;
    memset(&crash_identity, 0, sizeof crash_identity);
  }
  if (!has_memory_of_its_own(pid)) {
    /* The old mapping is still there and is the parent's. Nothing may be written any more, and
     * nothing here knows how to stop the stub; a kernel that refuses this call has no memory for
     * the child either. */
    return;
  }
  head.said_goodbye = GOODBYE_NONE;
  head.crash_signal = 0;
  head.trouble = 0;
  head.thread_count = 1;
  head.generation++;
  head.is_kept = 0;
  head.fork_parent_had_threads = threads_before_fork > 1;
  *agent_box = head;
  crash_after_fork();
  collectives_after_fork();
  if (lent_boxes_has_own()) {
    write_head(pid, start_ticks_of_child());
    first_page_write();
    agent_pid = pid;
  } else if (is_python_forking) {
    files_open();
  }
  is_python_forking = 0;
}

void files_release_reserve(void) {
  if (files_crash_fd_is_ours()) folders_release(agent_crash_fd, CRASH_FILE_PREALLOCATED);
}

/* For a process that will be there for a while: room for its crash on the disk beforehand. */
void files_complete(void) {
  if (agent_box == NULL || agent_pid != (int)getpid() || files_crash_fd_is_ours()) return;
  lent_boxes_keep();
  if (file_limit_is_low()) return;
  open_crash_file(agent_pid, agent_box->start_ticks);
  open_stacks_file(agent_pid, agent_box->start_ticks);
}

int files_open(void) {
  int pid = (int)getpid();
  int64_t start;
  struct box_head head;
  int has_forked = agent_box != NULL;
  if (agent_pid == pid) return 1;
  if (agent_box == NULL) {
    void *scratch;
    if (!folders_find()) return 0;
    scratch =
        mmap(NULL, BOX_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (scratch == MAP_FAILED) return 0;
    agent_box = scratch;
    agent_box->fork_parent_had_threads = -1;
  }
  start = read_start_ticks();
  head = *agent_box;
  if (file_limit_is_low()) {
    agent_box->trouble |= TROUBLE_FILE_LIMIT | TROUBLE_NO_BOX | TROUBLE_NO_CRASH_FILE;
  } else {
    if (map_box(pid, start)) {
      *agent_box = head;
    } else {
      agent_box->trouble |= TROUBLE_NO_BOX;
    }
    open_crash_file(pid, start);
    open_stacks_file(pid, start);
  }
  write_head(pid, start);
  agent_box->thread_count = count_threads();
  if (has_forked) first_page_write();
  agent_pid = pid;
  if (!fork_handlers_registered) {
    fork_handlers_registered = 1;
    ticks_per_second = sysconf(_SC_CLK_TCK);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  }
  return 1;
}
