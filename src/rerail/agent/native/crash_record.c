/* See crash_record.h.
 *
 * Order of the record: what cannot fail first. Header, registers and memory map need system calls
 * only; the unwinder, the last words of the C and C++ libraries and Python's own dump may fault or
 * block, so each runs under a guard that a nested fault or a deadline leaves.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "crash_record.h"

#include "agent.h"
#include "alternate_stack.h"
#include "frames.h"
#include "guard.h"
#include "last_words.h"
#include "machine.h"
#include "python_frames.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define WORDS_SECONDS 1
#define ROOM_FOR_FRAMES (48 * 1024)

static struct text out; /* one thread records at a time */
static int has_cxx_runtime;

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

static void put_maps(struct text *text) {
  static const char cxx[] = "libstdc++.so";
  ssize_t length;
  int fd = machine_may_open() ? open("/proc/self/maps", O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) {
    text_put(text, "note no memory map: this system has none, or a filter may forbid to open it\n");
    return;
  }
  text_put(text, "maps\n");
  text_flush(text);
  while ((length = read(fd, map_bytes, sizeof map_bytes)) > 0 || (length < 0 && errno == EINTR)) {
    if (length < 0) continue;
    if (!has_cxx_runtime && memmem(map_bytes, (size_t)length, cxx, sizeof cxx - 1) != NULL) {
      has_cxx_runtime = 1;
    }
    text_put_bytes(text, map_bytes, (size_t)length);
  }
  text_flush(text);
  close(fd);
  if (text->failed) {
    /* The disk is full. The blocks reserved beforehand still hold: give up the end of the map for
     * the frames. */
    text->failed = 0;
    if (lseek(text->fd, CRASH_FILE_PREALLOCATED - ROOM_FOR_FRAMES, SEEK_SET) < 0) return;
    text_put(text, "\nmaps-cut\n");
  }
  text_put(text, "end-maps\n");
  text_flush(text);
}

static void put_last_words(int sig, void *context) {
  (void)sig;
  (void)context;
  if (!last_words_of_c(&out) && has_cxx_runtime) last_words_of_cxx(&out);
  text_flush(&out);
}

void record_crash(int sig, const siginfo_t *info, void *context, const sigset_t *fatal) {
  int64_t began_ns = monotonic_ns();
  int fd = files_crash_fd_is_ours() ? agent_crash_fd : files_open_crash_file((int)getpid());
  if (fd < 0) return;
  text_begin(&out, fd);
  put_header(&out, sig, info);
  stack_put_bounds(&out, context);
  machine_put_registers(&out, context);
  text_flush(&out);
  put_maps(&out);
  guards_begin(fatal);
  frames_put(&out, sig, info, context);
  if (sig == SIGABRT) {
    guarded(&out, "the last words", put_last_words, sig, context, WORDS_SECONDS);
  }
  python_frames_put(&out, fd);
  guards_end();
  text_put(&out, "took ");
  text_put_decimal(&out, monotonic_ns() - began_ns);
  text_put(&out, "\nend\n");
  text_flush(&out);
  if (fd != agent_crash_fd) close(fd);
}

/* Between vfork and exec, or after a bare clone: the memory is another process's. Touch nothing
 * of it but what is on this stack. */
void record_crash_in_foreign_memory(int sig, const siginfo_t *info) {
  struct text text;
  int fd = files_open_crash_file((int)getpid());
  if (fd < 0) return;
  text_begin(&text, fd);
  put_header(&text, sig, info);
  text_put(&text, "note a process that shares its parent's memory\nend\n");
  text_flush(&text);
  close(fd);
}
