/* For the recorder, which has gigabytes of output to number lines of: the interpreter's own count
 * looks at one byte after another. */
#include "agent.h"

/* In blocks that the sums of a vector of bytes cannot overflow in, so that a compiler uses one. */
#define BLOCK 240

#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("O3"))) /* at O2 older ones do not */
#endif
RERAIL_EXPORT int64_t rerail_count_newlines(const unsigned char *data, int64_t size) {
  int64_t total = 0;
  while (size > 0) {
    int64_t block = size < BLOCK ? size : BLOCK;
    unsigned char in_block = 0;
    for (int64_t i = 0; i < block; i++) in_block = (unsigned char)(in_block + (data[i] == '\n'));
    total += in_block;
    data += block;
    size -= block;
  }
  return total;
}
