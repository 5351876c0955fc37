/* Python's frames by Python's own hand: the functions that faulthandler.register installed. */
#ifndef RERAIL_PYTHON_FRAMES_H
#define RERAIL_PYTHON_FRAMES_H

#include "text.h"

#include <signal.h>

/* Inside the handler of fatal signals, between guards_begin and guards_end. */
void python_frames_put(struct text *out, int fd);

/* For the handler of fatal signals: does not return if this thread was answering a request for
 * stacks, and the fault came of reading a thread that runs on. */
void python_answer_break_off(int sig, const siginfo_t *info);
void python_check_request_signal(void);
void python_frames_after_fork(void);

#endif
