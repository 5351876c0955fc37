/* Stores into the box that happen at every step or batch, without going through Python code. */
#ifndef RERAIL_COUNTING_H
#define RERAIL_COUNTING_H

#include <stdint.h>

/* What a wrapped call writes by itself. A word below 0 is not written. */
struct call_plan {
  int32_t before_word; /* phase while the call lasts */
  int32_t before_value;
  int32_t after_word; /* phase once it has ended */
  int32_t after_value;
  int32_t count_word;    /* one more for each call that did not raise */
  int32_t progress_word; /* the time of that */
  int64_t pause_ns;      /* Python hooks are left out when the last ones ran less than this ago */
  int64_t hooked_ns;
};

void counting_before(const struct call_plan *plan);
void counting_after(const struct call_plan *plan, int has_raised);
int counting_hooks_are_due(struct call_plan *plan);

#endif
