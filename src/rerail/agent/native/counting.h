/* Stores into the box that happen at every step or batch, without going through Python code. */
#ifndef RERAIL_COUNTING_H
#define RERAIL_COUNTING_H

#include <stdint.h>

/* What a wrapped call writes by itself. A word below 0 is not written. */
struct call_plan {
  int16_t before_word; /* phase while the call lasts */
  int16_t before_value;
  int16_t after_word; /* phase once it has ended */
  int16_t after_value;
  int16_t count_word;    /* one more for each call that did not raise */
  int16_t progress_word; /* the time of that */
  int16_t time_word;     /* the time spent in such calls, in nanoseconds */
  int16_t collective;    /* see collectives.h; 0 for any other call */
  int16_t gradients;     /* which collective a backward call may hold; 0 for any other call */
  int16_t look;          /* enum look of torch_looks.h */
  int16_t unused[2];
  int64_t pause_ns;      /* Python hooks are left out when the last ones ran less than this ago */
  int64_t hooked_ns;
};

/* The time, for the others; 0 if nobody wants to know. */
int64_t counting_clock(const struct call_plan *plan);
void counting_before(const struct call_plan *plan);
void counting_after(const struct call_plan *plan, int64_t began_ns, int has_raised);
int counting_hooks_are_due(struct call_plan *plan, int64_t now_ns);
void counting_validates(void); /* the batch that was taken is not trained on */
int counting_step_is_due(int64_t step); /* whether the stub wants to be told that it has ended */
void rerail_step_begins(void);
int64_t rerail_step_ended(void);
void rerail_note_loss(double loss);

#endif
