/* A forked child is the same program as its parent: its box begins with the same words.
 *
 * The stub writes them once, in the process that was exec'd, and has them remembered here. Written
 * by Python code in each child they would cost more than the fork: every object that is touched
 * there is a page that the kernel has to copy. Which word is which is in the stub's table alone;
 * the stub says so once.
 */
#include "first_page.h"

#include "agent.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_SIZE 256 /* the box's head is written by files.c */

enum place { RANK, WORLD_SIZE, COUNTED, COUNTED_END, TOLD, TOLD_END };
#define PLACES 6

static int64_t place_of[PLACES]; /* offsets in bytes */
static char page[FIRST_PAGE_SIZE];
static int is_known;

RERAIL_EXPORT void rerail_remember_first_page(const int64_t *given) {
  if (agent_box == NULL) return;
  memcpy(place_of, given, sizeof place_of);
  memcpy(page, agent_box, sizeof page);
  is_known = 1;
}

/* Launchers set these in their own environment before they fork each rank. */
static void put_number(enum place place, const char *variable) {
  const char *text = getenv(variable);
  char *end;
  int64_t value;
  if (text == NULL || *text < '0' || *text > '9') return;
  value = strtoll(text, &end, 10);
  if (*end == '\0') memcpy((char *)agent_box + place_of[place], &value, sizeof value);
}

void first_page_write(void) {
  if (!is_known) return;
  memcpy((char *)agent_box + HEAD_SIZE, page + HEAD_SIZE, sizeof page - HEAD_SIZE);
  put_number(RANK, "RANK");
  put_number(WORLD_SIZE, "WORLD_SIZE");
}

int first_page_says_nothing(const char *box) {
  if (!is_known) return 0;
  return memcmp(box + place_of[COUNTED], page + place_of[COUNTED],
                (size_t)(place_of[COUNTED_END] - place_of[COUNTED])) == 0 &&
         memcmp(box + place_of[TOLD], page + place_of[TOLD],
                (size_t)(place_of[TOLD_END] - place_of[TOLD])) == 0;
}
