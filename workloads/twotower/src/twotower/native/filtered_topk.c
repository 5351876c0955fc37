/* Exact top-k by inner product with a cheap first look: int8 products under a proven error bound.
 *
 * Every vector v is written as v = s·i + e: i in int8, s a scale, e what rounding left. Then
 *     <q, d>  <=  s_q s_d <i_q, i_d>  +  |e_q| |s_d i_d|  +  |q| |e_d|
 * so a row whose right-hand side is below a query's k-th best so far cannot be among its best. The
 * int8 product costs a quarter of the float one (VPDPBUSD); the few rows that pass are computed in
 * float. What comes out is the float answer; int8 only decides what need not be looked at.
 *
 * No OpenMP here: the caller starts threads, each with a range of rows and lists of its own.
 */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "best.h"

enum {
    TILE_QUERIES = 12, /* 12 x 2 accumulators, 2 documents' registers, 1 broadcast: 27 of 32 */
    GROUP = 16,        /* documents side by side in one register */
    BLOCK_ROWS = 256,  /* 196 KB packed at width 768: stays in the second-level cache */
};

/* Float sums of up to a few thousand terms, in two orders, differ by less than this part. */
static const float ROUNDING = 1e-5f;

typedef struct {
    float scale, norm, error; /* s, |v|, |e| */
} look_t;

/* The lanes of the 16 from `at` on that are within `width`. */
static __mmask16 lanes(int64_t at, int64_t width) {
    return width - at >= 16 ? 0xFFFF : (__mmask16)((1u << (width - at)) - 1);
}

/* One vector as int8. `bytes` holds `padded` values, the last ones zero. By hand in registers: the
 * compiler may not reorder float sums and took a quarter of the whole search for this. */
static look_t quantise(const float *v, int64_t width, int64_t padded, int8_t *bytes) {
    __m512 tops = _mm512_setzero_ps(), norms = tops, errors = tops;
    for (int64_t i = 0; i < width; i += 16)
        tops = _mm512_max_ps(tops, _mm512_abs_ps(_mm512_maskz_loadu_ps(lanes(i, width), v + i)));
    float top = _mm512_reduce_max_ps(tops), scale = top > 0 ? top / 127.0f : 1.0f;
    __m512 step = _mm512_set1_ps(scale), inverse = _mm512_set1_ps(1.0f / scale);
    memset(bytes + width, 0, padded - width);
    for (int64_t i = 0; i < width; i += 16) {
        __mmask16 there = lanes(i, width);
        __m512 values = _mm512_maskz_loadu_ps(there, v + i);
        __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(values, inverse));
        __m512 rest = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(rounded), step, values);
        _mm_mask_storeu_epi8(bytes + i, there, _mm512_cvtsepi32_epi8(rounded));
        norms = _mm512_fmadd_ps(values, values, norms);
        errors = _mm512_fmadd_ps(rest, rest, errors);
    }
    float norm2 = _mm512_reduce_add_ps(norms), error2 = _mm512_reduce_add_ps(errors);
    return (look_t){scale, sqrtf(norm2) * (1 + ROUNDING), sqrtf(error2) * (1 + ROUNDING)};
}

static float inner_product(const float *a, const float *b, int64_t width) {
    __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                     _mm512_setzero_ps()};
    int64_t i = 0;
    for (; i + 64 <= width; i += 64)
        for (int j = 0; j < 4; j++)
            sum[j] = _mm512_fmadd_ps(_mm512_loadu_ps(a + i + 16 * j),
                                     _mm512_loadu_ps(b + i + 16 * j), sum[j]);
    for (; i < width; i += 16) {
        __mmask16 there = lanes(i, width);
        sum[0] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(there, a + i),
                                 _mm512_maskz_loadu_ps(there, b + i), sum[0]);
    }
    return _mm512_reduce_add_ps(
        _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
}

typedef struct {
    const float *queries, *bank; /* (count, width), (rows, width) */
    float *best;                 /* (count, k), comes in as -inf */
    int64_t *ids;                /* (count, k), comes in as -1 */
    int64_t count, width, k, first_row, end_row;
    int64_t looked_at;           /* goes out: float products made */
} job_t;

typedef struct {
    int64_t padded, tiles; /* width in whole groups of four, queries in whole tiles */
    int8_t *queries;       /* (tiles * TILE_QUERIES, padded) */
    look_t *looks;
    int32_t *offsets;      /* -128 times the sum of a query's bytes: documents are stored as u8 */
    uint8_t *block;        /* (BLOCK_ROWS / GROUP, padded / 4, GROUP, 4) */
    float *scale, *norm, *error; /* of the block's rows */
} scratch_t;

static void pack_block(scratch_t *s, const float *rows, int64_t count, int64_t width) {
    int8_t bytes[s->padded];
    for (int64_t row = 0; row < BLOCK_ROWS; row++) {
        look_t look = {0, 0, 0};
        if (row < count)
            look = quantise(rows + row * width, width, s->padded, bytes);
        else
            memset(bytes, 0, s->padded);
        s->scale[row] = look.scale;
        s->norm[row] = look.norm + look.error; /* |s i| <= |v| + |e| */
        s->error[row] = look.error;
        uint8_t *to = s->block + (row / GROUP) * s->padded * GROUP + (row % GROUP) * 4;
        for (int64_t i = 0; i < s->padded; i += 4, to += 4 * GROUP) {
            uint32_t four;
            memcpy(&four, bytes + i, 4);
            four ^= 0x80808080u; /* adds 128 to each byte */
            memcpy(to, &four, 4);
        }
    }
}

/* _mm512_dpbusd_epi32, in place: with the intrinsic gcc 12 copies and spills the accumulators, which
 * made the whole search twice as slow. */
static inline __attribute__((always_inline)) void add_products(__m512i *sum, __m512i documents,
                                                               __m512i query) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(documents), "v"(query));
}

/* Which of 32 documents (two groups) may be among the best of each of 12 queries. */
static void look(const scratch_t *s, int64_t first_query, int64_t group, const float *bars,
                 uint32_t *passed) {
    __m512i sum[TILE_QUERIES][2];
    const int8_t *q = s->queries + first_query * s->padded;
#pragma GCC unroll 12
    for (int i = 0; i < TILE_QUERIES; i++)
        sum[i][0] = sum[i][1] = _mm512_set1_epi32(s->offsets[first_query + i]);
    const uint8_t *left = s->block + group * s->padded * GROUP, *right = left + s->padded * GROUP;
    for (int64_t k = 0; k < s->padded; k += 4) {
        __m512i documents_0 = _mm512_load_si512(left + k * GROUP);
        __m512i documents_1 = _mm512_load_si512(right + k * GROUP);
#pragma GCC unroll 12
        for (int i = 0; i < TILE_QUERIES; i++) {
            int32_t four;
            memcpy(&four, q + i * s->padded + k, 4);
            __m512i query = _mm512_set1_epi32(four);
            add_products(&sum[i][0], documents_0, query);
            add_products(&sum[i][1], documents_1, query);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < TILE_QUERIES; i++) {
        look_t query = s->looks[first_query + i];
        uint32_t bits = 0;
#pragma GCC unroll 2
        for (int side = 0; side < 2; side++) {
            int64_t at = (group + side) * GROUP;
            __m512 bound = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[i][side]),
                                         _mm512_mul_ps(_mm512_set1_ps(query.scale),
                                                       _mm512_loadu_ps(s->scale + at)));
            __m512 norm = _mm512_loadu_ps(s->norm + at);
            bound = _mm512_fmadd_ps(_mm512_set1_ps(query.error + ROUNDING * query.norm), norm,
                                    bound);
            bound = _mm512_fmadd_ps(_mm512_set1_ps(query.norm), _mm512_loadu_ps(s->error + at),
                                    bound);
            uint32_t above = _mm512_cmp_ps_mask(bound, _mm512_set1_ps(bars[i]), _CMP_GE_OQ);
            bits |= above << (GROUP * side);
        }
        passed[i] = bits;
    }
}

static void search_block(job_t *job, scratch_t *s, int64_t first_row, int64_t count) {
    pack_block(s, job->bank + first_row * job->width, count, job->width);
    for (int64_t tile = 0; tile < s->tiles; tile++) {
        int64_t first_query = tile * TILE_QUERIES;
        for (int64_t group = 0; group * GROUP < count; group += 2) {
            float bars[TILE_QUERIES];
            uint32_t passed[TILE_QUERIES];
            for (int i = 0; i < TILE_QUERIES; i++) {
                int64_t query = first_query + i;
                bars[i] = query < job->count ? job->best[query * job->k + job->k - 1] : INFINITY;
            }
            look(s, first_query, group, bars, passed);
            for (int i = 0; i < TILE_QUERIES; i++) {
                int64_t query = first_query + i;
                float *best = job->best + query * job->k;
                for (uint32_t bits = passed[i]; bits; bits &= bits - 1) {
                    int64_t row = group * GROUP + __builtin_ctz(bits);
                    if (row >= count || query >= job->count) break;
                    float score =
                        inner_product(job->queries + query * job->width,
                                      job->bank + (first_row + row) * job->width, job->width);
                    job->looked_at++;
                    if (score > best[job->k - 1])
                        insert(best, job->ids + query * job->k, job->k, score, first_row + row);
                }
            }
        }
    }
}

/* 0, or 1 when there is no memory. */
int search_rows(job_t *job) {
    scratch_t s = {.padded = (job->width + 3) / 4 * 4,
                   .tiles = (job->count + TILE_QUERIES - 1) / TILE_QUERIES};
    int64_t queries = s.tiles * TILE_QUERIES;
    s.queries = calloc(queries, s.padded);
    s.looks = calloc(queries, sizeof *s.looks);
    s.offsets = calloc(queries, sizeof *s.offsets);
    s.block = aligned_alloc(64, BLOCK_ROWS * s.padded);
    s.scale = calloc(3 * BLOCK_ROWS, sizeof(float));
    s.norm = s.scale + BLOCK_ROWS;
    s.error = s.norm + BLOCK_ROWS;
    int failed = !(s.queries && s.looks && s.offsets && s.block && s.scale);
    if (!failed) {
        for (int64_t q = 0; q < job->count; q++) {
            int8_t *bytes = s.queries + q * s.padded;
            s.looks[q] = quantise(job->queries + q * job->width, job->width, s.padded, bytes);
            for (int64_t i = 0; i < s.padded; i++) s.offsets[q] -= 128 * bytes[i];
        }
        for (int64_t row = job->first_row; row < job->end_row; row += BLOCK_ROWS) {
            int64_t left = job->end_row - row;
            search_block(job, &s, row, left < BLOCK_ROWS ? left : BLOCK_ROWS);
        }
    }
    free(s.queries);
    free(s.looks);
    free(s.offsets);
    free(s.block);
    free(s.scale);
    return failed;
}
