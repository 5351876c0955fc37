/* Ways for native code to die, for tests of the recorder. Built by the test that uses it. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) void die_segv(void) { *(volatile int *)8 = 1; }

__attribute__((noinline)) void die_bus(void)
{
    char name[] = "/tmp/run-die-XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    if (ftruncate(fd, 4096)) _exit(99);
    volatile char *page = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (ftruncate(fd, 0)) _exit(99);
    (void)page[0];
}

__attribute__((noinline)) void die_fpe(void)
{
    volatile int zero = 0;
    volatile int result = 1 / zero;
    (void)result;
    raise(SIGFPE); /* division by zero does not fault on every processor */
}

__attribute__((noinline)) void die_ill(void)
{
#if defined(__x86_64__)
    __asm__ volatile("ud2");
#else
    raise(SIGILL);
#endif
}

__attribute__((noinline)) void die_abrt(void) { abort(); }
__attribute__((noinline)) void die_kill(void) { kill(getpid(), SIGKILL); pause(); }
__attribute__((noinline)) void die_term(void) { kill(getpid(), SIGTERM); pause(); }

__attribute__((noinline)) int die_deep(int depth)
{
    volatile char room[4096];
    room[depth % 4096] = (char)depth;
    return die_deep(depth + 1) + room[0];
}

static void *in_thread(void *way) { ((void (*)(void))way)(); return 0; }

void die_in_thread(void (*way)(void))
{
    pthread_t thread;
    pthread_create(&thread, 0, in_thread, (void *)way);
    pthread_join(thread, 0);
}
