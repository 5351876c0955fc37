/* What differs between processors and systems: registers, codes, reading memory that may be gone. */
#ifndef RERAIL_MACHINE_H
#define RERAIL_MACHINE_H

#include "text.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

struct spot {
  uint64_t pc, sp, fp, link; /* link: return address of a function just entered, 0 if unknown */
};

const char *signal_name(int sig);
const char *signal_code_name(int sig, int code); /* NULL when it has no name here */
int signal_was_sent(int sig, const siginfo_t *info); /* by a process, not by the instruction */

struct spot machine_spot(const void *context);
/* Linux: a register by the number that unwinding tables give it. */
#ifdef __x86_64__
#define MACHINE_REGISTERS 16
#else
#define MACHINE_REGISTERS 31
#endif
uint64_t machine_register(const void *context, int number);
void machine_move(void *context, uint64_t pc, uint64_t sp);
void machine_put_registers(struct text *text, const void *context);

/* 1 if all bytes were read. Fails instead of faulting where the kernel can read for us. */
int machine_read(uint64_t address, void *into, size_t length);

/* 0 once this thread has put a system call filter (seccomp) on itself since the first call. Such a
 * filter may end the process for opening a file, so the agent opens none from then on. */
int machine_may_open(void);

/* The signal of which the process dies, or 0. Such a filter ends a process with SIGSYS, so one that
 * dies of SIGSYS loses nothing by opening; with another signal it would end with the wrong one. */
void machine_dies_of(int sig);

int machine_thread_id(void);
void machine_thread_name(char *into, size_t size); /* at least 16 bytes */
void machine_raise_again(int sig, siginfo_t *info);

/* After `seconds`, `sig` goes to this thread alone. 0 where there is no such timer. */
int machine_deadline_start(int sig, int seconds);
void machine_deadline_stop(void);

/* The calling thread's stack, from the system's own books; not for use inside a handler. */
void machine_stack_bounds(uint64_t *low, uint64_t *high);

#endif
