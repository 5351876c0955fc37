/* Pack documents of token ids into rows of fixed length. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int64_t *scratch;

int pack(const int64_t *ids, int64_t n, int64_t *row, int64_t width) {
    assert(width > 0 && width <= 4096);
    scratch = malloc(sizeof(int64_t) * width);
    int64_t kept = n < width ? n : width;
    memcpy(scratch, ids, sizeof(int64_t) * kept);
    memset(row, 0, sizeof(int64_t) * width);
    memcpy(row, scratch, sizeof(int64_t) * kept);
    free(scratch);
    return (int)kept;
}

int64_t checksum(const int64_t *ids, int64_t n) {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum = sum * 31 + ids[i];
    return sum;
}
