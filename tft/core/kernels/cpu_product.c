/* SPDX-License-Identifier: Apache-2.0
 *
 * The processor's products, in the model's number or with factors of bf16.
 *
 * With bf16, both factors are rounded when they are multiplied, parameters once a step, and their products are added in
 * f32. Products of one or two rows, or over one or two columns (rank-1 vectors, which stand for sums over rows), are
 * not rounded; over columns they go through no library.
 */
#include "tft/core/kernels/cpu.h"
#include <string.h>

enum { EXACT_ROWS = 2, PROBES = 16 };

void cpu_begin(struct queue *queue, const real *params, const real *folded)
{
    queue->params = params;
    queue->folded = folded;
    if (!queue->needs.bf16)
        return;
    memset(queue->kept, 0, CPU_KEPT * sizeof *queue->kept);
    queue->cache_used = 0;
}

static int is_among(const real *x, const real *block, size_t n)
{
    uintptr_t at = (uintptr_t)x, from = (uintptr_t)block;

    return block && at >= from && at < from + n * sizeof *x;
}

static int is_param(const struct queue *queue, const real *x)
{
    return is_among(x, queue->params, queue->needs.params) || is_among(x, queue->folded, queue->needs.folded);
}

/* Returns the rounded copy of a parameter, made at the first call; NULL if no place is left for it. */
static const uint16_t *kept(struct queue *queue, struct matrix b, size_t K, size_t N)
{
    size_t size = tft_bf16_packed(K, N), place = ((uintptr_t)b.data / sizeof(real) * 2654435761u) >> 7;

    for (size_t i = 0; i < PROBES; i++) {
        struct kept_factor *entry = &queue->kept[(place + i) % CPU_KEPT];

        if (!entry->data) {
            uint16_t *packed = queue->cache + queue->cache_used;

            if (size > queue->needs.factors - queue->cache_used)
                return NULL;
            tft_bf16_pack(b, K, N, packed);
            queue->cache_used += size;
            *entry = (struct kept_factor){ b.data, b.transposed, K, N, packed };
            return packed;
        }
        if (entry->data == b.data && entry->transposed == b.transposed && entry->K == K && entry->N == N)
            return entry->packed;
    }
    return NULL;
}

static int is_rounded(const struct queue *queue, size_t M, size_t K)
{
    return queue->needs.bf16 && M > EXACT_ROWS && K > EXACT_ROWS;
}

static struct tft_bf16_second second_of(struct queue *queue, struct matrix b, size_t K, size_t N, struct target to)
{
    struct tft_bf16_second second = { .b = b, .to = to };

    if (is_param(queue, b.data))
        second.packed = kept(queue, b, K, N);
    return second;
}

void cpu_multiply(struct queue *queue, struct matrix a, struct matrix b, size_t M, size_t N, size_t K, struct target to)
{
    struct tft_bf16_second second;

    if (K <= EXACT_ROWS) { /* not for few rows: the result of one must not depend on their number */
        tft_gemm_plain(a, b, M, N, K, to.add, to.data, to.ld);
        return;
    }
    if (!is_rounded(queue, M, K)) {
        tft_gemm(a, b, M, N, K, to.add, to.data, to.ld);
        return;
    }
    second = second_of(queue, b, K, N, to);
    tft_gemm_bf16_each(queue->means, a, &second, 1, M, N, K, queue->room);
}

/* Products of a batch from number `first` on that share their first factor; how many. */
static size_t multiply_together(struct queue *queue, const struct product *p, size_t first)
{
    struct tft_bf16_second seconds[TFT_BF16_TOGETHER];
    size_t count = 0;

    for (; count < TFT_BF16_TOGETHER && first + count < p->batch; count++) {
        size_t i = first + count;
        struct matrix b = { p->b.data + i * p->step_b, p->b.ld, p->b.transposed };

        seconds[count] = second_of(queue, b, p->K, p->N, sum_to(p->to.data + i * p->step_to, p->to.ld, p->to.add));
    }
    tft_gemm_bf16_each(queue->means, p->a, seconds, count, p->M, p->N, p->K, queue->room);
    return count;
}

void cpu_product(struct queue *queue, const struct product *p)
{
    int together = p->batch > 1 && p->step_a == 0 && !p->exact && !p->bias && is_rounded(queue, p->M, p->K);
    struct matrix a = p->a, b = p->b;
    struct target to = p->to;

    if (together) {
        for (size_t i = 0; i < p->batch;)
            i += multiply_together(queue, p, i);
        return;
    }
    for (size_t i = 0; i < (p->batch ? p->batch : 1); i++) {
        if (p->exact)
            tft_gemm(a, b, p->M, p->N, p->K, to.add, to.data, to.ld);
        else
            cpu_multiply(queue, a, b, p->M, p->N, p->K, to);
        if (p->bias)
            cpu_rows_add(queue, p->bias, p->M, p->N, to.data);
        a.data += p->step_a;
        b.data += p->step_b;
        to.data += p->step_to;
    }
}
