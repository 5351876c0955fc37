/* What a box says of a process that has done nothing yet: see first_page.c. */
#ifndef RERAIL_FIRST_PAGE_H
#define RERAIL_FIRST_PAGE_H

#define FIRST_PAGE_SIZE 4096

/* In a forked child, into a box of zeros: who it is. */
void first_page_write(void);
/* Whether no hook has written anything since. */
int first_page_says_nothing(const char *box);

#endif
