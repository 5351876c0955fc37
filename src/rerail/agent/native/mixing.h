/* Numbers and addresses spread over a table, or summed up to one number that tells them apart. */
#ifndef RERAIL_MIXING_H
#define RERAIL_MIXING_H

#include <stdint.h>

static inline uint64_t mixed(uint64_t value) {
  value *= UINT64_C(0x9E3779B97F4A7C15);
  return value ^ value >> 29;
}

#endif
