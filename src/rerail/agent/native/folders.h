/* Where the agent's files are made: in memory, or in the run folder. */
#ifndef RERAIL_FOLDERS_H
#define RERAIL_FOLDERS_H

#include <stddef.h>
#include <stdint.h>

/* How the space of a new file is kept free for it. */
enum reserve {
  RESERVE_NOTHING,
  RESERVE_BEHIND_END, /* the file stays empty; a disk that refuses costs only the reserve */
  RESERVE_CONTENT,    /* the file is that long; without the space there is no file */
};

int folders_find(void); /* 0: RERAIL_AGENT names none */
/* A new file of at most `size` bytes, or -1. Async-signal-safe with RESERVE_NOTHING. */
int folders_create(int pid, int64_t start, const char *ending, size_t size, enum reserve reserve);
void folders_remove(int pid, int64_t start, const char *ending);
/* At the end of a process: space that was kept free behind the end of this file is free again. */
void folders_release(int fd, size_t size);

#endif
