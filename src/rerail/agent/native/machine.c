/* See machine.h. Everything but machine_stack_bounds is called inside a signal handler. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "machine.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifdef __APPLE__
#include <sys/ucontext.h> /* the other one is deprecated there */
#else
#include <ucontext.h>
#endif

#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#endif

const char *signal_name(int sig) {
  switch (sig) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGILL: return "SIGILL";
    case SIGABRT: return "SIGABRT";
    case SIGTRAP: return "SIGTRAP";
    case SIGSYS: return "SIGSYS";
    default: return "SIG?";
  }
}

struct code_name {
  int sig, code;
  const char *name;
};

static const struct code_name code_names[] = {
    {SIGSEGV, SEGV_MAPERR, "SEGV_MAPERR"},
    {SIGSEGV, SEGV_ACCERR, "SEGV_ACCERR"},
#ifdef SEGV_BNDERR
    {SIGSEGV, SEGV_BNDERR, "SEGV_BNDERR"},
#endif
#ifdef SEGV_PKUERR
    {SIGSEGV, SEGV_PKUERR, "SEGV_PKUERR"},
#endif
    {SIGBUS, BUS_ADRALN, "BUS_ADRALN"},
    {SIGBUS, BUS_ADRERR, "BUS_ADRERR"},
    {SIGBUS, BUS_OBJERR, "BUS_OBJERR"},
#ifdef BUS_MCEERR_AR
    {SIGBUS, BUS_MCEERR_AR, "BUS_MCEERR_AR"},
    {SIGBUS, BUS_MCEERR_AO, "BUS_MCEERR_AO"},
#endif
    {SIGFPE, FPE_INTDIV, "FPE_INTDIV"},
    {SIGFPE, FPE_INTOVF, "FPE_INTOVF"},
    {SIGFPE, FPE_FLTDIV, "FPE_FLTDIV"},
    {SIGFPE, FPE_FLTOVF, "FPE_FLTOVF"},
    {SIGFPE, FPE_FLTUND, "FPE_FLTUND"},
    {SIGFPE, FPE_FLTRES, "FPE_FLTRES"},
    {SIGFPE, FPE_FLTINV, "FPE_FLTINV"},
    {SIGFPE, FPE_FLTSUB, "FPE_FLTSUB"},
    {SIGILL, ILL_ILLOPC, "ILL_ILLOPC"},
    {SIGILL, ILL_ILLOPN, "ILL_ILLOPN"},
    {SIGILL, ILL_ILLADR, "ILL_ILLADR"},
    {SIGILL, ILL_ILLTRP, "ILL_ILLTRP"},
    {SIGILL, ILL_PRVOPC, "ILL_PRVOPC"},
    {SIGILL, ILL_PRVREG, "ILL_PRVREG"},
    {SIGILL, ILL_COPROC, "ILL_COPROC"},
    {SIGILL, ILL_BADSTK, "ILL_BADSTK"},
    {SIGTRAP, TRAP_BRKPT, "TRAP_BRKPT"},
    {SIGTRAP, TRAP_TRACE, "TRAP_TRACE"},
#ifdef __linux__
    {SIGSYS, 1, "SYS_SECCOMP"}, /* older C libraries have no name for it */
#endif
    {0, SI_USER, "SI_USER"},
    {0, SI_QUEUE, "SI_QUEUE"},
#ifdef SI_TKILL
    {0, SI_TKILL, "SI_TKILL"},
#endif
#ifdef SI_KERNEL
    {0, SI_KERNEL, "SI_KERNEL"},
#endif
    {0, SI_TIMER, "SI_TIMER"},
};

const char *signal_code_name(int sig, int code) {
  for (size_t i = 0; i < sizeof code_names / sizeof *code_names; i++) {
    if (code_names[i].code == code && (code_names[i].sig == sig || code_names[i].sig == 0)) {
      return code_names[i].name;
    }
  }
  return NULL;
}

int signal_was_sent(int sig, const siginfo_t *info) {
  (void)sig;
#ifdef __APPLE__
  return sig == SIGABRT || info->si_code == 0 || info->si_code >= SI_USER;
#else
  return info->si_code <= 0;
#endif
}

static void put_register(struct text *text, const char *name, uint64_t value) {
  text_put(text, "register ");
  text_put(text, name);
  text_put(text, " ");
  text_put_hex(text, value);
  text_put(text, "\n");
}

#if defined(__linux__) && defined(__x86_64__)

static const struct {
  const char *name;
  int index;
} x86_registers[] = {{"rip", REG_RIP}, {"rsp", REG_RSP}, {"rbp", REG_RBP}, {"rax", REG_RAX},
                     {"rbx", REG_RBX}, {"rcx", REG_RCX}, {"rdx", REG_RDX}, {"rsi", REG_RSI},
                     {"rdi", REG_RDI}, {"r8", REG_R8},   {"r9", REG_R9},   {"r10", REG_R10},
                     {"r11", REG_R11}, {"r12", REG_R12}, {"r13", REG_R13}, {"r14", REG_R14},
                     {"r15", REG_R15}, {"eflags", REG_EFL}, {"err", REG_ERR},
                     {"trapno", REG_TRAPNO}, {"cr2", REG_CR2}};

void machine_put_registers(struct text *text, const void *context) {
  const greg_t *values = ((const ucontext_t *)context)->uc_mcontext.gregs;
  for (size_t i = 0; i < sizeof x86_registers / sizeof *x86_registers; i++) {
    put_register(text, x86_registers[i].name, (uint64_t)values[x86_registers[i].index]);
  }
}

uint64_t machine_register(const void *context, int number) {
  static const int in_order[MACHINE_REGISTERS] = {
      REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return (uint64_t)((const ucontext_t *)context)->uc_mcontext.gregs[in_order[number]];
}

struct spot machine_spot(const void *context) {
  const greg_t *values = ((const ucontext_t *)context)->uc_mcontext.gregs;
  struct spot spot = {(uint64_t)values[REG_RIP], (uint64_t)values[REG_RSP],
                      (uint64_t)values[REG_RBP], 0};
  /* A call has just pushed where it came from. */
  if (!machine_read(spot.sp, &spot.link, sizeof spot.link)) spot.link = 0;
  return spot;
}

void machine_move(void *context, uint64_t pc, uint64_t sp) {
  greg_t *values = ((ucontext_t *)context)->uc_mcontext.gregs;
  values[REG_RIP] = (greg_t)pc;
  values[REG_RSP] = (greg_t)sp;
}

#else

#if defined(__aarch64__) || defined(__arm64__)

static void put_numbered(struct text *text, int number, uint64_t value) {
  char name[4] = {'x', '0', '\0', '\0'};
  if (number < 10) {
    name[1] = (char)('0' + number);
  } else {
    name[1] = (char)('0' + number / 10);
    name[2] = (char)('0' + number % 10);
  }
  put_register(text, name, value);
}

#ifdef __APPLE__
#define ARM_STATE(context) (((const ucontext_t *)(context))->uc_mcontext->__ss)
#define ARM_X(context, i) \
  ((i) < 29 ? (uint64_t)ARM_STATE(context).__x[i] \
            : (i) == 29 ? (uint64_t)ARM_STATE(context).__fp : (uint64_t)ARM_STATE(context).__lr)
#define ARM_PC(context) ((uint64_t)ARM_STATE(context).__pc)
#define ARM_SP(context) ((uint64_t)ARM_STATE(context).__sp)
#else
#define ARM_STATE(context) (((const ucontext_t *)(context))->uc_mcontext)
#define ARM_X(context, i) ((uint64_t)ARM_STATE(context).regs[i])
#define ARM_PC(context) ((uint64_t)ARM_STATE(context).pc)
#define ARM_SP(context) ((uint64_t)ARM_STATE(context).sp)
#endif

#ifdef __linux__
uint64_t machine_register(const void *context, int number) { return ARM_X(context, number); }
#endif

void machine_put_registers(struct text *text, const void *context) {
  put_register(text, "pc", ARM_PC(context));
  put_register(text, "sp", ARM_SP(context));
  for (int i = 0; i < 31; i++) put_numbered(text, i, ARM_X(context, i));
}

struct spot machine_spot(const void *context) {
  struct spot spot = {ARM_PC(context), ARM_SP(context), ARM_X(context, 29), ARM_X(context, 30)};
  return spot;
}

void machine_move(void *context, uint64_t pc, uint64_t sp) {
#ifdef __APPLE__
  ((ucontext_t *)context)->uc_mcontext->__ss.__pc = pc;
  ((ucontext_t *)context)->uc_mcontext->__ss.__sp = sp;
#else
  ((ucontext_t *)context)->uc_mcontext.pc = pc;
  ((ucontext_t *)context)->uc_mcontext.sp = sp;
#endif
}

#elif defined(__APPLE__) && defined(__x86_64__)

void machine_put_registers(struct text *text, const void *context) {
  struct spot spot = machine_spot(context);
  put_register(text, "rip", spot.pc);
  put_register(text, "rsp", spot.sp);
  put_register(text, "rbp", spot.fp);
}

struct spot machine_spot(const void *context) {
  const ucontext_t *u = context;
  struct spot spot = {u->uc_mcontext->__ss.__rip, u->uc_mcontext->__ss.__rsp,
                      u->uc_mcontext->__ss.__rbp, 0};
  return spot;
}

void machine_move(void *context, uint64_t pc, uint64_t sp) {
  ((ucontext_t *)context)->uc_mcontext->__ss.__rip = pc;
  ((ucontext_t *)context)->uc_mcontext->__ss.__rsp = sp;
}

#else /* a processor nobody has described yet: no registers, the unwinder alone */

void machine_put_registers(struct text *text, const void *context) {
  (void)context;
  (void)put_register;
  text_put(text, "note no registers for this processor\n");
}

struct spot machine_spot(const void *context) {
  struct spot spot = {0, 0, 0, 0};
  (void)context;
  return spot;
}

void machine_move(void *context, uint64_t pc, uint64_t sp) {
  (void)context;
  (void)pc;
  (void)sp;
}

#endif
#endif

#ifdef __linux__

int machine_read(uint64_t address, void *into, size_t length) {
  struct iovec here = {into, length};
  struct iovec there = {(void *)(uintptr_t)address, length};
  long n = syscall(SYS_process_vm_readv, (long)getpid(), &here, 1L, &there, 1L, 0L);
  if (n == (long)length) return 1;
  if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
    /* A sandbox forbids the call: read directly. The caller is guarded against the fault. */
    memcpy(into, (const void *)(uintptr_t)address, length);
    return 1;
  }
  return 0;
}

static volatile sig_atomic_t dies_of;

void machine_dies_of(int sig) { dies_of = sig; }

/* A container has a filter from the start, so only a change counts. Inside one, the mode stays the
 * same when a program adds a filter; without privileges it has to give up new ones first. */
int machine_may_open(void) {
  static int at_start = -1;
  int mode = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
  int now = (mode > 0 ? mode : 0) << 1 | (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
  if (at_start < 0) at_start = now;
  return mode <= 0 || now == at_start || dies_of == SIGSYS;
}

int machine_thread_id(void) { return (int)syscall(SYS_gettid); }

void machine_thread_name(char *into, size_t size) {
  memset(into, 0, size);
  prctl(PR_GET_NAME, into, 0, 0, 0);
}

void machine_raise_again(int sig, siginfo_t *info) {
  long pid = (long)getpid(), tid = machine_thread_id();
  /* With the sender as it was; a kernel that refuses that still knows tgkill. */
  if (syscall(SYS_rt_tgsigqueueinfo, pid, tid, (long)sig, info) != 0) {
    syscall(SYS_tgkill, pid, tid, (long)sig);
  }
}

#ifndef SIGEV_THREAD_ID
#define SIGEV_THREAD_ID 4
#endif
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static int deadline_timer = -1;

/* The raw calls: the C library's timer_create may allocate. */
int machine_deadline_start(int sig, int seconds) {
  struct sigevent event;
  struct itimerspec when = {{0, 0}, {seconds, 0}};
  if (sig <= 0) return 0;
  if (deadline_timer < 0) {
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = sig;
    event.sigev_notify_thread_id = machine_thread_id();
    if (syscall(SYS_timer_create, (long)CLOCK_MONOTONIC, &event, &deadline_timer) != 0) {
      deadline_timer = -1;
      return 0;
    }
  }
  return syscall(SYS_timer_settime, (long)deadline_timer, 0L, &when, NULL) == 0;
}

void machine_deadline_stop(void) {
  if (deadline_timer < 0) return;
  syscall(SYS_timer_delete, (long)deadline_timer);
  deadline_timer = -1;
}

#ifdef __GLIBC__
extern void *__libc_stack_end;
#endif

void machine_stack_bounds(uint64_t *low, uint64_t *high) {
  *low = *high = 0;
#ifdef __GLIBC__
  if (machine_thread_id() == (int)getpid()) {
    /* pthread_getattr_np would read all of /proc/self/maps for the main thread. */
    struct rlimit limit;
    *high = (uint64_t)(uintptr_t)__libc_stack_end;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
      *low = *high - (uint64_t)limit.rlim_cur;
    }
    return;
  }
#endif
  {
    pthread_attr_t attributes;
    void *base = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    if (pthread_attr_getstack(&attributes, &base, &size) == 0) {
      *low = (uint64_t)(uintptr_t)base;
      *high = *low + size;
    }
    pthread_attr_destroy(&attributes);
  }
}

#else /* macOS and others: less is known, nothing is harmed */

int machine_read(uint64_t address, void *into, size_t length) {
  memcpy(into, (const void *)(uintptr_t)address, length); /* guarded by the caller */
  return 1;
}

int machine_may_open(void) { return 1; }

void machine_dies_of(int sig) { (void)sig; }

int machine_thread_id(void) {
#ifdef __APPLE__
  return (int)pthread_mach_thread_np(pthread_self());
#else
  return (int)(uintptr_t)pthread_self();
#endif
}

void machine_thread_name(char *into, size_t size) {
  memset(into, 0, size);
#ifdef __APPLE__
  pthread_getname_np(pthread_self(), into, size);
#endif
}

void machine_raise_again(int sig, siginfo_t *info) {
  (void)info;
  pthread_kill(pthread_self(), sig);
}

int machine_deadline_start(int sig, int seconds) {
  (void)sig;
  (void)seconds;
  return 0;
}

void machine_deadline_stop(void) {}

void machine_stack_bounds(uint64_t *low, uint64_t *high) {
  *low = *high = 0;
#ifdef __APPLE__
  *high = (uint64_t)(uintptr_t)pthread_get_stackaddr_np(pthread_self());
  *low = *high - pthread_get_stacksize_np(pthread_self());
#endif
}

#endif
