/* A library that a test compiles: functions with known names, exported, local and C++-like. */
#include <stdlib.h>

__attribute__((noinline)) static int writes_through_null(volatile int *place) {
  *place = 1;
  return *place;
}

__attribute__((noinline)) int senses_exported_fault(int deep) {
  if (deep > 0) return senses_exported_fault(deep - 1) + 1;
  return writes_through_null(0) + 1;
}
