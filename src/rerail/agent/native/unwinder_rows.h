/* How LLVM's unwinder, which is compiled into the wheels, remembers rows of a function's table.
 *
 * By itself it takes a piece of the stack for each and gives none back before the table's end: 552
 * bytes on x86-64 and 1.5 KB on arm64, and the loop of CPython 3.14 remembers 982 in Debian's build.
 * Put before its sources (build_native.py) this file has it take rows that can be given back, of
 * which a few are enough: tables remember one within another hardly ever. See frames.c.
 */
#ifndef RERAIL_UNWINDER_ROWS_H
#define RERAIL_UNWINDER_ROWS_H
#ifndef __ASSEMBLER__

#include <stddef.h>

#ifdef __cplusplus
#include "config.h" /* the unwinder's */
#undef _LIBUNWIND_REMEMBER_ALLOC
#undef _LIBUNWIND_REMEMBER_FREE
#define _LIBUNWIND_REMEMBER_ALLOC(size) unwinder_take_row(size)
#define _LIBUNWIND_REMEMBER_FREE(row) unwinder_give_row_back(row)
#define _LIBUNWIND_REMEMBER_CLEANUP_NEEDED
extern "C" {
#endif

void *unwinder_take_row(size_t size); /* NULL: there is no more */
void unwinder_give_row_back(void *row);

#ifdef __cplusplus
}
#endif

#endif
#endif
