/* Where the agent's files are made.
 *
 * A disk that hangs stops whoever stores into a mapped file on it, because the kernel asks the file
 * system before a clean page becomes dirty. So the files are made in RERAIL_AGENT_MEMORY, a private
 * folder of the run on a memory file system, and the recorder copies them to the disk. They are
 * made in RERAIL_AGENT, the run folder's agent/, where that folder is not seen (another mount
 * namespace), is not ours (another user), is gone, or has no room left.
 *
 * The recorder wrote into <memory>/share how many bytes all processes of the run may take together.
 * Whoever makes a file takes its size from there first.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "folders.h"

#include "agent.h"
#include "machine.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LEAST_FREE (64 * 1024 * 1024)   /* of the memory file system, when a program starts */
#define SMALL_FILES (64 * 1024)         /* for what the stub writes: census, trackers */

static char run_folder[3072];
static char memory[512];                /* empty where there is none for this process */
static _Atomic int64_t *share;          /* bytes that may still be taken */

static int names_a_folder(const char *named, size_t room) {
  return named != NULL && named[0] == '/' && strlen(named) < room;
}

static void find_memory(void) {
  const char *named = getenv("RERAIL_AGENT_MEMORY");
  char path[sizeof memory + 8];
  struct stat status;
  struct statvfs file_system;
  void *at = MAP_FAILED;
  int fd;
  if (!names_a_folder(named, sizeof memory) || !machine_may_open()) return;
  if (lstat(named, &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid()) return;
  if (statvfs(named, &file_system) != 0) return;
  if ((uint64_t)file_system.f_bavail * file_system.f_frsize < LEAST_FREE) return;
  strcpy(path, named);
  strcat(path, "/share");
  fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_size >= (off_t)sizeof *share) {
    at = mmap(NULL, sizeof *share, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  if (at == MAP_FAILED) return;
  share = at;
  strcpy(memory, named);
}

int folders_find(void) {
  const char *named = getenv("RERAIL_AGENT");
  if (!names_a_folder(named, sizeof run_folder)) return 0;
  strcpy(run_folder, named);
  find_memory();
  return 1;
}

static int take(size_t size) {
  if (share == NULL) return 0;
  if (atomic_fetch_sub(share, (int64_t)size) >= (int64_t)size) return 1;
  atomic_fetch_add(share, (int64_t)size);
  return 0;
}

static void give_back(size_t size) {
  if (share != NULL) atomic_fetch_add(share, (int64_t)size);
}

static int has_reserved(int fd, size_t size, enum reserve reserve) {
#ifdef __linux__
  int error;
  if (reserve == RESERVE_NOTHING) return 1;
  if (reserve == RESERVE_BEHIND_END) return fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size) == 0;
  do {
    error = posix_fallocate(fd, 0, (off_t)size);
  } while (error == EINTR);
  return error == 0;
#else
  static const char zeros[4096];
  if (reserve != RESERVE_CONTENT) return 1;
  for (size_t done = 0; done < size; done += sizeof zeros) {
    if (write(fd, zeros, sizeof zeros) != (ssize_t)sizeof zeros) return 0;
  }
  return 1;
#endif
}

static int create_in(const char *folder, int pid, int64_t start, const char *ending, size_t size,
                     enum reserve reserve) {
  char path[sizeof run_folder + 64];
  int fd;
  text_format_path(path, sizeof path, folder, pid, start, ending);
  /* Never truncate: whoever still maps an older file of this name would get SIGBUS. */
  unlink(path);
  fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0 || has_reserved(fd, size, reserve)) return fd;
  /* In memory a file without its space would be the first to meet SIGBUS or "no space left". */
  if (reserve == RESERVE_BEHIND_END && folder == run_folder) return fd;
  close(fd);
  unlink(path);
  return -1;
}

int folders_create(int pid, int64_t start, const char *ending, size_t size, enum reserve reserve) {
  if (!machine_may_open()) {
    errno = EPERM;
    return -1;
  }
  if (take(size)) {
    int fd = create_in(memory, pid, start, ending, size, reserve);
    if (fd >= 0) return fd;
    give_back(size);
    if (errno == EMFILE) return -1; /* the same there, and the caller knows what to do */
  }
  return create_in(run_folder, pid, start, ending, size, reserve);
}

void folders_remove(int pid, int64_t start, const char *ending) {
  char path[sizeof run_folder + 64];
  if (share != NULL) {
    text_format_path(path, sizeof path, memory, pid, start, ending);
    if (unlink(path) == 0) return;
  }
  text_format_path(path, sizeof path, run_folder, pid, start, ending);
  unlink(path);
}

void folders_release(int fd, size_t size) {
#ifdef __linux__
  struct stat file, of_share;
  char path[sizeof memory + 8];
  if (share == NULL || !machine_may_open()) return;
  strcpy(path, memory);
  strcat(path, "/share");
  /* Only of a file in memory: on the disk it is free when the recorder has removed the file. */
  if (stat(path, &of_share) != 0 || fstat(fd, &file) != 0 || file.st_dev != of_share.st_dev) return;
  if (file.st_size != 0) return;
  if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)size) == 0) {
    give_back(size);
  }
#else
  (void)fd;
  (void)size;
#endif
}

/* For the files that the stub makes. Once a program, so that they stay together. */
RERAIL_EXPORT const char *rerail_folder(void) {
  return take(SMALL_FILES) ? memory : run_folder;
}
