/* See text.h. Kept apart from the handler so that sanitizers and valgrind can run it alone. */
#include "text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void text_begin(struct text *text, int fd) {
  text->fd = fd;
  text->failed = 0;
  text->used = 0;
}

void text_flush(struct text *text) {
  size_t done = 0;
  while (done < text->used && text->failed == 0) {
    ssize_t n = write(text->fd, text->bytes + done, text->used - done);
    if (n > 0) {
      done += (size_t)n;
    } else if (n == 0 || errno != EINTR) {
      text->failed = n == 0 ? EIO : errno;
    }
  }
  text->used = 0;
}

void text_put_bytes(struct text *text, const char *bytes, size_t length) {
  while (length > 0) {
    size_t room = sizeof text->bytes - text->used;
    size_t part = length < room ? length : room;
    memcpy(text->bytes + text->used, bytes, part);
    text->used += part;
    bytes += part;
    length -= part;
    if (text->used == sizeof text->bytes) text_flush(text);
  }
}

void text_put(struct text *text, const char *string) {
  text_put_bytes(text, string, strlen(string));
}

static size_t digits_of(char *end, uint64_t value, unsigned base) {
  size_t length = 0;
  do {
    *--end = "0123456789abcdef"[value % base];
    value /= base;
    length++;
  } while (value != 0);
  return length;
}

void text_put_decimal(struct text *text, int64_t value) {
  char buffer[24];
  /* Negated as unsigned: -INT64_MIN does not exist as a signed number. */
  uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  size_t length = digits_of(buffer + sizeof buffer, magnitude, 10);
  if (value < 0) text_put_bytes(text, "-", 1);
  text_put_bytes(text, buffer + sizeof buffer - length, length);
}

void text_put_hex(struct text *text, uint64_t value) {
  char buffer[24];
  size_t length = digits_of(buffer + sizeof buffer, value, 16);
  text_put_bytes(text, "0x", 2);
  text_put_bytes(text, buffer + sizeof buffer - length, length);
}

void text_put_line_part(struct text *text, const char *string, size_t limit) {
  for (size_t i = 0; i < limit && string[i] != '\0'; i++) {
    char c = string[i];
    if ((unsigned char)c < 0x20 || c == 0x7f) c = ' ';
    text_put_bytes(text, &c, 1);
  }
}

static size_t append(char *buffer, size_t size, size_t at, const char *bytes, size_t length) {
  for (size_t i = 0; i < length && at + 1 < size; i++) buffer[at++] = bytes[i];
  buffer[at] = '\0';
  return at;
}

size_t text_format_path(char *buffer, size_t size, const char *folder, int64_t pid, int64_t start,
                        const char *ending) {
  char digits[24];
  size_t at = 0;
  size_t length;
  if (size == 0) return 0;
  at = append(buffer, size, at, folder, strlen(folder));
  at = append(buffer, size, at, "/", 1);
  length = digits_of(digits + sizeof digits, (uint64_t)pid, 10);
  at = append(buffer, size, at, digits + sizeof digits - length, length);
  at = append(buffer, size, at, "-", 1);
  length = digits_of(digits + sizeof digits, (uint64_t)start, 10);
  at = append(buffer, size, at, digits + sizeof digits - length, length);
  return append(buffer, size, at, ending, strlen(ending));
}

int64_t text_start_ticks(const char *stat, size_t length) {
  size_t at = length;
  while (at > 0 && stat[at - 1] != ')') at--;
  /* Field 3 follows the closing parenthesis and a space; 22 is the nineteenth after it. */
  int field = 2;
  uint64_t value = 0;
  int digits = 0;
  if (at == 0) return 0;
  for (; at < length; at++) {
    char c = stat[at];
    if (c == ' ' || c == '\n') {
      if (field == 22) break;
      field++;
    } else if (field == 22) {
      if (c < '0' || c > '9' || ++digits > 18) return 0;
      value = value * 10 + (uint64_t)(c - '0');
    }
  }
  return digits > 0 ? (int64_t)value : 0;
}
