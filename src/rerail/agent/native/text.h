/* Text for a crash file, made with nothing but the stack and write(2): safe in a signal handler. */
#ifndef RERAIL_TEXT_H
#define RERAIL_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
  int fd;
  int failed;        /* errno of the first write that did not go through */
  size_t used;
  char bytes[2048];
};

void text_begin(struct text *text, int fd);
void text_put(struct text *text, const char *string);
void text_put_bytes(struct text *text, const char *bytes, size_t length);
void text_put_decimal(struct text *text, int64_t value);
void text_put_hex(struct text *text, uint64_t value);
/* At most `limit` bytes of `string`; control characters become spaces, so a line stays a line. */
void text_put_line_part(struct text *text, const char *string, size_t limit);
void text_flush(struct text *text);

/* Into a buffer of `size` bytes, always terminated; returns the length. */
size_t text_format_path(char *buffer, size_t size, const char *folder, int64_t pid, int64_t start,
                        const char *ending);

/* Field 22 of the text of /proc/PID/stat, 0 when it is not there. The process's name, in
 * parentheses, may hold spaces and parentheses itself. */
int64_t text_start_ticks(const char *stat, size_t length);

#endif
