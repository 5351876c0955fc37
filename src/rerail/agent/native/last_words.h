/* Why a process aborted, in the words of the library that did it. Called inside the handler, under
 * its guard; each writes one `message` line and returns 1, or returns 0. */
#ifndef RERAIL_LAST_WORDS_H
#define RERAIL_LAST_WORDS_H

#include "text.h"

void last_words_prime(void);
int last_words_of_c(struct text *text);   /* glibc: double free, assertion, buffer overflow */
int last_words_of_cxx(struct text *text); /* libstdc++: what std::terminate was called for */

#endif
