/* The k best of what was looked at so far, for both searches. */
#include <stdint.h>

/* Keeps best[0..k) sorted, largest first; an equal score stays behind the one that was there. */
static void insert(float *best, int64_t *ids, int64_t k, float score, int64_t id) {
    int64_t place = k - 1;
    for (; place > 0 && best[place - 1] < score; place--) {
        best[place] = best[place - 1];
        ids[place] = ids[place - 1];
    }
    best[place] = score;
    ids[place] = id;
}
