// Ways to end in native code; the names of the functions are those of the ways.
#include <vector>

static int *nowhere;
static bool is_to_crash;

extern "C" int throws(int at) { return std::vector<int>(32).at(at); }
extern "C" void traps(int bits) { if (bits != 8) __builtin_trap(); }
extern "C" int deep(int n) { volatile char pad[4096]; pad[0] = (char)n; return n + deep(n + 1) + pad[0]; }
extern "C" void crash_later(int) { is_to_crash = true; }

__attribute__((destructor)) static void flush_cache() { if (is_to_crash) *nowhere = 1; }
