/* A loop shared among the threads of an OpenMP runtime of clang's kind (libomp, libiomp5).
 *
 * `clang -fopenmp` turns `#pragma omp parallel` into the calls below. They are written out here so
 * that any C compiler builds them: gcc's own OpenMP calls go to libgomp, and torch has put one of
 * those in front of every other.
 */
#include <stdint.h>

typedef struct {
    int32_t reserved_1, flags, reserved_2, reserved_3;
    const char *source;
} ident_t;

typedef void (*microtask_t)(int32_t *global_id, int32_t *bound_id, ...);

extern void __kmpc_fork_call(ident_t *, int32_t argc, microtask_t, ...);
extern int32_t __kmpc_bound_thread_num(ident_t *);
extern int32_t __kmpc_bound_num_threads(ident_t *);

static ident_t here = {0, 2 /* KMP_IDENT_KMPC */, 0, 0, ";twotower;kernel;0;0;;"};

/* The share [*begin, *end) of `total` that the calling thread takes. */
static void share_of_thread(int64_t total, int64_t *begin, int64_t *end) {
    int64_t thread = __kmpc_bound_thread_num(&here), threads = __kmpc_bound_num_threads(&here);
    *begin = total * thread / threads;
    *end = total * (thread + 1) / threads;
}
