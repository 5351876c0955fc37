/* Copies chosen rows of a mapped array side by side, all threads reading at once. */
#include <string.h>

#include "parallel.h"

typedef struct {
    const char *source;
    const int64_t *rows;
    char *out;
    int64_t count, row_bytes;
} job_t;

static void copy_share(int32_t *global_id, int32_t *bound_id, job_t *job) {
    (void)global_id, (void)bound_id;
    int64_t begin, end;
    share_of_thread(job->count, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        memcpy(job->out + i * job->row_bytes, job->source + job->rows[i] * job->row_bytes,
               job->row_bytes);
}

void gather_rows(const char *source, const int64_t *rows, char *out, int64_t count,
                 int64_t row_bytes) {
    job_t job = {source, rows, out, count, row_bytes};
    __kmpc_fork_call(&here, 1, (microtask_t)copy_share, &job);
}
