/* Boxes that a process sets aside for the children that it will fork: see lent_boxes.c. */
#ifndef RERAIL_LENT_BOXES_H
#define RERAIL_LENT_BOXES_H

#include <stdint.h>

/* Before the first fork; does nothing if it was done, or cannot be done. */
void lent_boxes_prepare(void);
/* In a child: map a free one at agent_box. 0: there is none, or no room to remember that. */
int lent_boxes_take(int pid);
int lent_boxes_has_own(void);
/* In a child, at once: what is known of the parent's own lent box is not this process's. */
void lent_boxes_after_fork(void);
/* The process ends well: if its box says nothing of interest, let another child have it. 1: done. */
int lent_boxes_give_back(void);
/* This process's box is worth keeping, whatever it says. */
void lent_boxes_keep(void);

#endif
