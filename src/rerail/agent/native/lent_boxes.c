/* Boxes for forked children, in one file that their parent makes before its first fork.
 *
 * Making a file takes a file system 0.1 to 0.5 ms, which is as long as fork itself: a program that
 * forks thousands of children would be several times slower with three files for each. So the
 * parent makes one file <pid>-<start>.boxes with room for MOST_LENT boxes and maps it; a child
 * takes the first free one with a single store and maps it at the address of its box, without a
 * descriptor, since the program may have closed that. A box is SIGKILL-proof from the first moment.
 *
 * The first KEPT_BOXES stay for good. The others are given back by children that end well and have
 * nothing to say, so that they suffice for any number. When none is free, a child makes files of
 * its own, as it does where the kernel cannot map a mapping twice. Handlers, signal masks and the
 * alternate stack need nothing: fork hands them on.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "lent_boxes.h"

#include "agent.h"
#include "first_page.h"
#include "folders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BOXES_MAGIC "RERAILBS"
#define MOST_LENT 64
#define KEPT_BOXES 32
#define BOXES_HEAD 4096 /* a page; the boxes come behind it */

/* The stub's table (rerail_layout.py) says the same; a test compares them. */
struct boxes_head {
  char magic[8];
  uint32_t version;
  uint32_t count;
  _Atomic int32_t owners[MOST_LENT]; /* the pid of whoever took the box, 0: free */
};

#ifdef __linux__

static struct boxes_head *lent; /* NULL: none, or not yet */
static int was_tried;
static int own = -1;            /* which one is ours */

static char *box_at(int index) { return (char *)lent + BOXES_HEAD + (size_t)index * BOX_SIZE; }

static int is_of_no_interest(const struct box_head *box) {
  return box->crash_signal == 0 && box->trouble == 0 && !box->is_kept &&
         first_page_says_nothing((const char *)box);
}

/* Who has said goodbye before os._exit writes nothing more, and did no more than that itself: what
 * runs in a forked child is dearer than the same here. */
static void take_back(void) {
  for (int i = KEPT_BOXES; i < MOST_LENT; i++) {
    const struct box_head *box = (const struct box_head *)box_at(i);
    int32_t owner = atomic_load(&lent->owners[i]);
    if (owner == 0) return; /* they are taken in order: nobody is behind this one, or soon not */
    if (box->pid != owner || box->said_goodbye != GOODBYE_UNDERSCORE_EXIT) continue;
    if (is_of_no_interest(box)) atomic_compare_exchange_strong(&lent->owners[i], &owner, 0);
  }
}

void lent_boxes_prepare(void) {
  const size_t size = BOXES_HEAD + (size_t)MOST_LENT * BOX_SIZE;
  void *at;
  int fd;
  if (lent != NULL) take_back();
  if (was_tried || agent_box == NULL || agent_pid != (int)getpid()) return;
  was_tried = 1;
  if (agent_box->trouble & (TROUBLE_NO_BOX | TROUBLE_FILE_LIMIT)) return;
  /* The space is there before anybody writes through the mapping, or a full disk would be SIGBUS. */
  fd = folders_create(agent_pid, agent_box->start_ticks, ".boxes", size, RESERVE_CONTENT);
  if (fd < 0) return;
  at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) {
    folders_remove(agent_pid, agent_box->start_ticks, ".boxes");
    return;
  }
  lent = at;
  lent->version = BOX_VERSION;
  lent->count = MOST_LENT;
  memcpy(lent->magic, BOXES_MAGIC, sizeof lent->magic);
}

int lent_boxes_take(int pid) {
  if (lent == NULL) return 0;
  for (int i = 0; i < MOST_LENT; i++) {
    int32_t nobody = 0;
    if (atomic_load(&lent->owners[i]) != 0) continue;
    if (!atomic_compare_exchange_strong(&lent->owners[i], &nobody, (int32_t)pid)) continue;
    /* An old size of 0 maps the same pages a second time. */
    if (mremap(box_at(i), 0, BOX_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, agent_box) != agent_box) {
      atomic_store(&lent->owners[i], 0);
      return 0;
    }
    memset(agent_box, 0, FIRST_PAGE_SIZE); /* more of it nobody used who gave it back */
    own = i;
    return 1;
  }
  return 0;
}

int lent_boxes_has_own(void) { return own >= 0; }

void lent_boxes_after_fork(void) {
  own = -1;
}

int lent_boxes_give_back(void) {
  int mine = own;
  if (mine < KEPT_BOXES || agent_pid != (int)getpid()) return 0;
  if (!is_of_no_interest(agent_box)) return 0;
  own = -1;
  /* What is still written from here on must not be in the next child's. */
  if (mmap(agent_box, BOX_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
           0) == MAP_FAILED) {
    return 1; /* it stays taken; what it says is true */
  }
  atomic_store(&lent->owners[mine], 0);
  return 1;
}

void lent_boxes_keep(void) {
  if (own >= 0) agent_box->is_kept = 1;
}

#else

void lent_boxes_prepare(void) {}
int lent_boxes_take(int pid) { (void)pid; return 0; }
int lent_boxes_has_own(void) { return 0; }
void lent_boxes_after_fork(void) {}
int lent_boxes_give_back(void) { return 0; }
void lent_boxes_keep(void) {}

#endif
