/* See frames.h. The first and the last frames are kept: an endless recursion has both ends. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "frames.h"

#include "guard.h"
#include "machine.h"

#include <stdint.h>
#include <string.h>
#ifdef RERAIL_LLVM_UNWINDER
#include "unwinder_rows.h"
#include <libunwind.h>
#else
#include <unwind.h>
#endif

#define FIRST_FRAMES 192
#define LAST_FRAMES 64
#define MOST_FRAMES 1000000 /* 8 MiB of stack hold 524,288 of the smallest */
#define UNWIND_SECONDS 3
#define WALK_SECONDS 1

static uint64_t first_frames[FIRST_FRAMES];
static uint64_t last_frames[LAST_FRAMES];
static volatile uint64_t frame_total;

static int add_frame(uint64_t address) {
  if (frame_total < FIRST_FRAMES) {
    first_frames[frame_total] = address;
  } else {
    last_frames[(frame_total - FIRST_FRAMES) % LAST_FRAMES] = address;
  }
  frame_total++;
  return frame_total < MOST_FRAMES;
}

#ifdef RERAIL_LLVM_UNWINDER

#define ROWS 16
#define ROW_BYTES 2048

static _Alignas(16) char rows[ROWS][ROW_BYTES];
static char is_row_taken[ROWS];

void *unwinder_take_row(size_t size) {
  for (int i = 0; i < ROWS && size <= ROW_BYTES; i++) {
    if (is_row_taken[i]) continue;
    is_row_taken[i] = 1;
    return rows[i];
  }
  return NULL; /* the unwinder stops here, as at a table that it cannot read */
}

void unwinder_give_row_back(void *row) { is_row_taken[((char *)row - rows[0]) / ROW_BYTES] = 0; }

/* From the registers as the signal found them: musl describes no way from a handler to what was
 * interrupted. This unwinder takes every address for that of a call's return, and so leaves out the
 * row of the table that begins just there, as the row after a prologue's last instruction does when
 * the stack overflows. One byte further on it takes that row. */
static void unwind_from(const void *context, uint64_t pc, uint64_t sp, int into_instruction) {
  unw_context_t here;
  unw_cursor_t cursor;
  unw_word_t address;
  memset(is_row_taken, 0, sizeof is_row_taken); /* one that was broken off has given none back */
  if (unw_getcontext(&here) != 0 || unw_init_local(&cursor, &here) != 0) return;
  for (int i = 0; i < MACHINE_REGISTERS; i++) unw_set_reg(&cursor, i, machine_register(context, i));
  unw_set_reg(&cursor, UNW_REG_SP, sp);
  unw_set_reg(&cursor, UNW_REG_IP, pc + (uint64_t)into_instruction); /* looks up its table: last */
  if (!add_frame(pc)) return;
  while (unw_step(&cursor) > 0 && unw_get_reg(&cursor, UNW_REG_IP, &address) == 0) {
    if (address == 0 || !add_frame(address)) return;
  }
}

#else

static uint64_t looked_for;
static int is_found;

static _Unwind_Reason_Code collect_frame(struct _Unwind_Context *context, void *argument) {
  uint64_t address = (uint64_t)_Unwind_GetIP(context);
  (void)argument;
  /* The first few frames are this handler's own. */
  if (!is_found && address != looked_for) return _URC_NO_REASON;
  is_found = 1;
  if (address == 0) return _URC_END_OF_STACK;
  return add_frame(address) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void unwind_from(void *context, uint64_t pc, uint64_t sp, int into_instruction) {
  (void)into_instruction;
  looked_for = pc;
  is_found = 0;
  machine_move(context, pc, sp); /* the unwinder comes by the context on its way */
  _Unwind_Backtrace(collect_frame, NULL);
}

#endif

static void unwind(int sig, void *context) {
  struct spot spot = machine_spot(context);
  (void)sig;
  unwind_from(context, spot.pc, spot.sp, 1);
}

/* A call to an address that holds no code: step back to the caller by hand, since no table
 * describes where the program stands. */
static void unwind_from_caller(int sig, void *context) {
  struct spot spot = machine_spot(context);
  (void)sig;
  add_frame(spot.pc);
#if defined(__x86_64__)
  spot.sp += 8; /* the call has pushed where it came from */
#endif
  unwind_from(context, spot.link, spot.sp, 0);
}

static void walk_frame_pointers(int sig, void *context) {
  struct spot spot = machine_spot(context);
  uint64_t pair[2]; /* the caller's frame pointer, the return address */
  uint64_t at = spot.fp;
  (void)sig;
  if (frame_total == 0) add_frame(spot.pc);
  while (at != 0 && at % sizeof at == 0 && machine_read(at, pair, sizeof pair)) {
    if (pair[1] == 0 || !add_frame(pair[1])) break;
    if (pair[0] <= at) break; /* stacks grow down: callers lie above */
    at = pair[0];
  }
}

static void put_frame(struct text *text, uint64_t address) {
  text_put(text, "frame ");
  text_put_hex(text, address);
  text_put(text, "\n");
}

void frames_put(struct text *text, int sig, const siginfo_t *info, void *context) {
  struct spot spot = machine_spot(context);
  int is_call_to_nowhere = sig == SIGSEGV && !signal_was_sent(sig, info) && spot.link != 0 &&
                           (uint64_t)(uintptr_t)info->si_addr == spot.pc;
  uint64_t total, kept;
  frame_total = 0;
  text_put(text, "frames\n");
  text_flush(text);
  guarded(text, "the unwinder", is_call_to_nowhere ? unwind_from_caller : unwind, sig, context,
          UNWIND_SECONDS);
  machine_move(context, spot.pc, spot.sp);
  if (frame_total < 2) {
    uint64_t by_tables = frame_total;
    guarded(text, "the walk by frame pointers", walk_frame_pointers, sig, context, WALK_SECONDS);
    if (frame_total > by_tables) text_put(text, "note frames by frame pointer\n");
  }
  total = frame_total;
  for (uint64_t i = 0; i < total && i < FIRST_FRAMES; i++) put_frame(text, first_frames[i]);
  kept = total > FIRST_FRAMES ? total - FIRST_FRAMES : 0;
  if (kept > LAST_FRAMES) {
    text_put(text, "skipped ");
    text_put_decimal(text, (int64_t)(kept - LAST_FRAMES));
    text_put(text, "\n");
  }
  for (uint64_t i = kept > LAST_FRAMES ? kept - LAST_FRAMES : 0; i < kept; i++) {
    put_frame(text, last_frames[i % LAST_FRAMES]);
  }
  text_put(text, "frame-total ");
  text_put_decimal(text, (int64_t)total);
  text_put(text, "\nend-frames\n");
  text_flush(text);
}

#ifdef RERAIL_LLVM_UNWINDER

void frames_prime(void) {
  unw_context_t here;
  unw_cursor_t cursor;
  if (unw_getcontext(&here) != 0 || unw_init_local(&cursor, &here) != 0) return;
  for (int frames = 0; frames < 4 && unw_step(&cursor) > 0; frames++) continue;
}

#else

static _Unwind_Reason_Code ignore_frame(struct _Unwind_Context *context, void *argument) {
  (void)context;
  return ++*(int *)argument < 4 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void frames_prime(void) {
  int frames = 0;
  _Unwind_Backtrace(ignore_frame, &frames);
}

#endif
