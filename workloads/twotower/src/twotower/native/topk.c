/* The k rows of a bank with the largest inner product, for each of several queries.
 *
 * Each thread takes some queries and walks the bank in blocks that stay in its cache. Every sum
 * is made in one fixed order, so the answer does not depend on the number of threads.
 */
#include "best.h"
#include "parallel.h"

enum { BLOCK_ROWS = 256, LANES = 16 };

typedef struct {
    const float *queries, *bank;
    float *best;
    int64_t *ids;
    int64_t count, rows, width, k;
} job_t;

static float inner_product(const float *a, const float *b, int64_t width) {
    float sums[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES)
        for (int lane = 0; lane < LANES; lane++) sums[lane] += a[i + lane] * b[i + lane];
    float sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    for (; i < width; i++) sum += a[i] * b[i];
    return sum;
}

static void search_share(int32_t *global_id, int32_t *bound_id, job_t *job) {
    (void)global_id, (void)bound_id;
    int64_t begin, end;
    share_of_thread(job->count, &begin, &end);
    for (int64_t block = 0; block < job->rows; block += BLOCK_ROWS) {
        int64_t block_end = block + BLOCK_ROWS < job->rows ? block + BLOCK_ROWS : job->rows;
        for (int64_t q = begin; q < end; q++) {
            float *best = job->best + q * job->k;
            int64_t *ids = job->ids + q * job->k;
            for (int64_t row = block; row < block_end; row++) {
                float score = inner_product(job->queries + q * job->width,
                                            job->bank + row * job->width, job->width);
                if (score > best[job->k - 1]) insert(best, ids, job->k, score, row);
            }
        }
    }
}

/* `best` comes in as -inf, `ids` as -1. */
void search_top_k(const float *queries, const float *bank, float *best, int64_t *ids, int64_t count,
                  int64_t rows, int64_t width, int64_t k) {
    job_t job = {queries, bank, best, ids, count, rows, width, k};
    __kmpc_fork_call(&here, 1, (microtask_t)search_share, &job);
}
