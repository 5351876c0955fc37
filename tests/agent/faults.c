/* Real faults, each in a function whose name says what happens. Built by the tests. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

__attribute__((noinline)) void write_through_null(void) { *(volatile int *)16 = 1; }

__attribute__((noinline)) void read_past_end_of_file(void) {
  char name[] = "/tmp/rerail-fault-XXXXXX";
  int fd = mkstemp(name);
  volatile char *at;
  unlink(name);
  if (ftruncate(fd, 4096) != 0) abort();
  at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  if (ftruncate(fd, 0) != 0) abort();
  (void)*at;
}

__attribute__((noinline)) void divide_by_zero(void) {
  volatile int zero = 0, one = 1;
  one = one / zero;
}

#ifdef __aarch64__ /* where a trap of the compiler's is a breakpoint */
__attribute__((noinline)) void illegal_instruction(void) { __asm__ volatile(".inst 0"); }
#else
__attribute__((noinline)) void illegal_instruction(void) { __builtin_trap(); }
#endif

__attribute__((noinline)) void abort_here(void) { abort(); }

#ifdef __aarch64__
#define BREAKPOINT "brk #0"
#define LOSE_THE_STACK "mov x9, #256\n\tmov sp, x9\n\tmov x29, x9\n\tstr x9, [sp]"
#else
#define BREAKPOINT "int3"
#define LOSE_THE_STACK "mov $0x100, %rsp\n\tmov $0x100, %rbp\n\tmovl $1, 16"
#endif

__attribute__((noinline)) void breakpoint_trap(void) { __asm__ volatile(BREAKPOINT); }

/* A sandbox that answers getpriority with SIGSYS. */
__attribute__((noinline)) void forbidden_system_call(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpriority, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) abort();
  syscall(SYS_getpriority, 0, 0);
}

void fault(int sig) {
  switch (sig) {
    case SIGSEGV: write_through_null(); break;
    case SIGBUS: read_past_end_of_file(); break;
    case SIGFPE: divide_by_zero(); break;
    case SIGILL: illegal_instruction(); break;
    case SIGABRT: abort_here(); break;
    case SIGTRAP: breakpoint_trap(); break;
    case SIGSYS: forbidden_system_call(); break;
  }
  fprintf(stderr, "fault %d did not happen\n", sig);
  _exit(99);
}

static void *thread_main(void *argument) {
  prctl(PR_SET_NAME, "omp-worker", 0, 0, 0);
  fault((int)(long)argument);
  return NULL;
}

void fault_in_native_thread(int sig) {
  pthread_t thread;
  pthread_create(&thread, NULL, thread_main, (void *)(long)sig);
  pthread_join(thread, NULL);
}

static int (*volatile deeper)(int);
__attribute__((noinline)) int recurse_for_ever(int depth) {
  volatile char room[512];
  room[depth % 512] = (char)depth;
  deeper = recurse_for_ever;
  return deeper(depth + 1) + room[(depth + 7) % 512];
}

static void *overflow(void *argument) {
  prctl(PR_SET_NAME, "omp-worker", 0, 0, 0);
  recurse_for_ever((int)(long)argument);
  return NULL;
}

void overflow_in_native_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, overflow, NULL);
  pthread_join(thread, NULL);
}

static void (*volatile release)(void *) = free;
__attribute__((noinline)) void free_twice(void) {
  void *block = malloc(1000);
  release(block);
  release(block);
  __asm__ volatile("");
}

void crash_at_exit(void) { atexit(write_through_null); }

static void *volatile nothing;
__attribute__((noinline)) void call_nothing(void) {
  ((void (*)(void))nothing)();
  __asm__ volatile("");
}

/* The stack pointer itself is lost: unwinding from here reads memory that is not there. */
__attribute__((noinline)) void lose_the_stack(void) {
  __asm__ volatile(LOSE_THE_STACK);
}

static pthread_barrier_t barrier;
static void *crash_together(void *argument) {
  pthread_barrier_wait(&barrier);
  fault((int)(long)argument);
  return NULL;
}

void many_threads_crash_at_once(int count) {
  pthread_t threads[64];
  pthread_barrier_init(&barrier, NULL, (unsigned)count);
  for (int i = 0; i < count; i++) {
    pthread_create(&threads[i], NULL, crash_together, (void *)(long)(i % 2 ? SIGSEGV : SIGILL));
  }
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

/* A runtime for which faults are daily work: its handler makes the page readable and goes on. */
static char *lazy_page;
static void make_readable(int sig, siginfo_t *info, void *context) {
  (void)sig; (void)context;
  if ((char *)info->si_addr != lazy_page) _exit(98);
  mprotect(lazy_page, 4096, PROT_READ | PROT_WRITE);
}

void install_lazy_pages(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = make_readable;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, NULL);
  lazy_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int touch_lazy_page(void) {
  *lazy_page = 7;
  return *lazy_page;
}

int forked_without_python(int sig) {
  int pid = fork();
  if (pid == 0) fault(sig);
  return pid;
}

int vforked(int sig) {
  int pid = vfork();
  if (pid == 0) { kill(getpid(), sig); _exit(97); }
  return pid;
}
