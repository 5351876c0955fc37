/* See counting.h. Which word is which is in the stub's table alone: the stub says so once. */
#include "counting.h"
#include "agent.h"

#include <math.h>
#include <string.h>

enum step_word { STEPS, PHASE, PROGRESS, LOSS, NONFINITE, HISTORY, HISTORY_LENGTH, IN_STEP, IN_TRAIN,
                 IN_VALIDATE, STEP_WORDS };

static int64_t word_of[STEP_WORDS];
static int has_words;
static int is_loss_new; /* read since the last step */
static int64_t due_step = INT64_MAX; /* from which on the stub wants to be told of one */

static int64_t *words(void) { return (int64_t *)agent_box; }

int64_t counting_clock(const struct call_plan *plan) {
  return plan->time_word >= 0 || plan->pause_ns > 0 ? monotonic_ns() : 0;
}

void counting_before(const struct call_plan *plan) {
  if (plan->before_word >= 0) words()[plan->before_word] = plan->before_value;
}

void counting_after(const struct call_plan *plan, int64_t began_ns, int has_raised) {
  int64_t now = plan->time_word >= 0 || plan->progress_word >= 0 ? monotonic_ns() : 0;
  if (plan->after_word >= 0) words()[plan->after_word] = plan->after_value;
  if (plan->time_word >= 0) words()[plan->time_word] += now - began_ns;
  if (has_raised) return;
  if (plan->count_word >= 0) words()[plan->count_word]++;
  if (plan->progress_word >= 0) words()[plan->progress_word] = now;
}

int counting_hooks_are_due(struct call_plan *plan, int64_t now_ns) {
  if (plan->pause_ns == 0) return 1;
  if (now_ns - plan->hooked_ns < plan->pause_ns) return 0;
  plan->hooked_ns = now_ns;
  return 1;
}

void counting_validates(void) {
  if (has_words) words()[word_of[PHASE]] = word_of[IN_VALIDATE];
}

RERAIL_EXPORT void rerail_use_words(const int64_t *given) {
  memcpy(word_of, given, sizeof word_of);
  has_words = 1;
}

RERAIL_EXPORT void rerail_step_begins(void) {
  if (has_words) words()[word_of[PHASE]] = word_of[IN_STEP];
}

RERAIL_EXPORT void rerail_note_loss(double loss) {
  if (!has_words) return;
  memcpy(&words()[word_of[LOSS]], &loss, sizeof loss);
  is_loss_new = 1;
  if (!isfinite(loss) && words()[word_of[NONFINITE]] < 0) {
    words()[word_of[NONFINITE]] = words()[word_of[STEPS]] + 1; /* the step in progress */
  }
}

RERAIL_EXPORT int64_t rerail_step_ended(void) {
  int64_t *box = words();
  int64_t now, step, at;
  if (!has_words) return 0;
  now = monotonic_ns();
  step = box[word_of[STEPS]] + 1;
  at = word_of[HISTORY] + step % word_of[HISTORY_LENGTH] * 3;
  box[at + 1] = now;
  if (is_loss_new) {
    box[at + 2] = box[word_of[LOSS]];
  } else {
    double unknown = NAN;
    memcpy(&box[at + 2], &unknown, sizeof unknown);
  }
  box[at] = step;
  is_loss_new = 0;
  box[word_of[STEPS]] = step;
  box[word_of[PROGRESS]] = now;
  box[word_of[PHASE]] = word_of[IN_TRAIN];
  return step;
}

RERAIL_EXPORT void rerail_tell_of_step(int64_t step) { due_step = step; }

int counting_step_is_due(int64_t step) { return step >= due_step; }
