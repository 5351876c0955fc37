/* The agent's formatter and parsers, driven hard under AddressSanitizer, UBSan or valgrind.
 * Built with text.c and machine.c by test_agent_c_code.py. */
#define _GNU_SOURCE
#include "machine.h"
#include "text.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static char *read_back(int fd) {
  static char buffer[1 << 16];
  ssize_t n;
  lseek(fd, 0, SEEK_SET);
  n = read(fd, buffer, sizeof buffer - 1);
  assert(n >= 0);
  buffer[n] = '\0';
  if (ftruncate(fd, 0) != 0) abort();
  lseek(fd, 0, SEEK_SET);
  return buffer;
}

static void numbers(int fd) {
  const int64_t values[] = {0, 1, -1, 9, 10, 4711, INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    char expected[64];
    struct text text;
    text_begin(&text, fd);
    text_put_decimal(&text, values[i]);
    text_put(&text, " ");
    text_put_hex(&text, (uint64_t)values[i]);
    text_flush(&text);
    snprintf(expected, sizeof expected, "%lld 0x%llx", (long long)values[i],
             (unsigned long long)values[i]);
    assert(strcmp(read_back(fd), expected) == 0);
  }
}

static void long_texts(int fd) {
  for (size_t length = 0; length < 9000; length += 617) {
    char *bytes = malloc(length + 1); /* no room to spare: a byte too many is caught */
    struct text text;
    memset(bytes, 'x', length);
    bytes[length] = '\0';
    text_begin(&text, fd);
    text_put(&text, bytes);
    text_put_line_part(&text, bytes, length / 2);
    text_flush(&text);
    assert(text.failed == 0);
    assert(strlen(read_back(fd)) == length + length / 2);
    free(bytes);
  }
}

static void lines_stay_lines(int fd) {
  struct text text;
  text_begin(&text, fd);
  text_put_line_part(&text, "two\nlines\x7f\x01" "end", 100);
  text_flush(&text);
  assert(strcmp(read_back(fd), "two lines  end") == 0);
}

static void failing_writes(void) {
  struct text text;
  int full = open("/dev/full", O_WRONLY);
  text_begin(&text, full);
  for (int i = 0; i < 10000; i++) text_put(&text, "abc");
  text_flush(&text);
  assert(full < 0 || text.failed != 0);
  close(full);
  text_begin(&text, -1);
  text_put(&text, "nowhere");
  text_flush(&text);
  assert(text.failed != 0);
}

static void paths(void) {
  for (size_t size = 0; size < 40; size++) {
    char *buffer = malloc(size > 0 ? size : 1);
    size_t length = text_format_path(buffer, size, "/a/folder", 4711, 123456789, ".crash");
    if (size > 0) assert(length < size && buffer[length] == '\0');
    free(buffer);
  }
  {
    char buffer[64];
    text_format_path(buffer, sizeof buffer, "/f", 1, 0, ".box");
    assert(strcmp(buffer, "/f/1-0.box") == 0);
  }
}

static int64_t ticks_of(const char *stat) {
  size_t length = strlen(stat);
  char *exact = malloc(length > 0 ? length : 1); /* no terminator behind it */
  int64_t ticks;
  memcpy(exact, stat, length);
  ticks = text_start_ticks(exact, length);
  free(exact);
  return ticks;
}

static void start_ticks(void) {
  assert(ticks_of("7 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21\n") == 987654);
  assert(ticks_of("7 (a ) (b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 42 20\n") == 42);
  assert(ticks_of("") == 0);
  assert(ticks_of(")") == 0);
  assert(ticks_of("no parenthesis at all 1 2 3") == 0);
  assert(ticks_of("7 (a) S 1 2 3") == 0);
  assert(ticks_of("7 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20") == 0);
  assert(ticks_of("7 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 "
                  "99999999999999999999999999 20") == 0);
  srand(1);
  for (int round = 0; round < 20000; round++) {
    char stat[128];
    int length = rand() % (int)(sizeof stat - 1);
    for (int i = 0; i < length; i++) stat[i] = "0123456789 ()x-\n"[rand() % 16];
    stat[length] = '\0';
    assert(ticks_of(stat) >= 0);
  }
}

static void memory(int fd) {
  uint64_t value = 0, here = 0x1122334455667788u;
  ucontext_t context;
  struct text text;
  char name[32];
  assert(machine_read((uint64_t)(uintptr_t)&here, &value, sizeof value) && value == here);
  assert(!machine_read(16, &value, sizeof value));
  memset(&context, 0, sizeof context);
  text_begin(&text, fd);
  machine_put_registers(&text, &context);
  text_flush(&text);
  assert(strncmp(read_back(fd), "register ", 9) == 0);
  machine_move(&context, 0x1234, 0x5678);
  assert(machine_spot(&context).pc == 0x1234 && machine_spot(&context).sp == 0x5678);
  machine_thread_name(name, sizeof name);
  assert(strlen(name) > 0);
  for (int sig = 0; sig < 70; sig++) {
    assert(signal_name(sig) != NULL);
    for (int code = -70; code < 140; code++) (void)signal_code_name(sig, code);
  }
}

int main(void) {
  int fd = memfd_create("text", MFD_CLOEXEC);
  assert(fd >= 0);
  numbers(fd);
  long_texts(fd);
  lines_stay_lines(fd);
  failing_writes();
  paths();
  start_ticks();
  memory(fd);
  close(fd);
  puts("all well");
  return 0;
}
