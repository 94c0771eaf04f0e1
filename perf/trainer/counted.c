/* SPDX-License-Identifier: Apache-2.0
 *
 * The counts follow tft/core/kernels/cuda member by member; tests/cuda/test_model.c compares the launches with those
 * that the kernels make in emulation.
 */
#include "perf/trainer/counted.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A count needs the shapes only. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { GRANULE_MOST = 4096, EXACT_ROWS = 2, REAL = sizeof(real) };

struct queue {
    struct queue_head head;
    struct queue_needs needs;
    struct counted_launch *launches; /* owned */
    size_t count, capacity;
    int failed; /* memory ran out */
};

static void note(struct queue *queue, struct counted_launch launch)
{
    if (queue->count == queue->capacity) {
        size_t capacity = queue->capacity ? 2 * queue->capacity : 1024;
        struct counted_launch *grown = realloc(queue->launches, capacity * sizeof *grown);

        if (!grown) {
            queue->failed = 1;
            return;
        }
        queue->launches = grown;
        queue->capacity = capacity;
    }
    queue->launches[queue->count++] = launch;
}

/* So many launches that move so many reals each. */
static void moves(struct queue *queue, const char *kernel, size_t times, double reals)
{
    note(queue, (struct counted_launch){ .kernel = kernel, .times = times, .bytes = REAL * reals });
}

const struct counted_launch *tft_counted_take(struct queue *queue, size_t *count)
{
    *count = queue->count;
    queue->count = 0;
    return queue->failed ? NULL : queue->launches;
}

/* ---- memory and queues ------------------------------------------------------------------------------------------- */

/* The size lies in front of what is given out, in the one page that there is. */
static void *counted_alloc(size_t bytes)
{
    size_t page = 4096, all = page + (bytes + page - 1) / page * page;
    char *memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    memcpy(memory, &all, sizeof all);
    return memory + page;
}

static void counted_release(void *memory)
{
    size_t all;

    if (!memory)
        return;
    memcpy(&all, (char *)memory - 4096, sizeof all);
    munmap((char *)memory - 4096, all);
}

static int counted_has_bf16(void)
{
    return 1;
}

static void counted_use(int number)
{
}

/* Of an H100. */
static void counted_room(size_t *free, size_t *all)
{
    *free = *all = (size_t)80 << 30;
}

static const char *counted_failure(const struct queue *queue)
{
    return queue->failed ? "no memory for its launches" : NULL;
}

static enum halay_status counted_open(const struct queue_needs *needs, struct queue **out)
{
    struct queue *queue = calloc(1, sizeof *queue);

    if (!queue)
        return HALAY_ERR_NO_MEMORY;
    queue->head.kernels = tft_kernels_counted();
    queue->needs = *needs;
    *out = queue;
    return HALAY_OK;
}

static void counted_close(struct queue *queue)
{
    if (queue)
        free(queue->launches);
    free(queue);
}

static void counted_begin(struct queue *queue, const real *params, const real *folded)
{
}

static void counted_to_device(struct queue *queue, const void *host, size_t bytes, void *memory)
{
    if (bytes)
        note(queue, (struct counted_launch){ .kernel = "to_device", .times = 1, .bytes = (double)bytes });
}

static void counted_to_host(struct queue *queue, const void *memory, size_t bytes, void *host)
{
    memset(host, 0, bytes);
    if (bytes)
        note(queue, (struct counted_launch){ .kernel = "to_host", .times = 1, .bytes = (double)bytes });
}

static void counted_copy(struct queue *queue, const void *from, size_t bytes, void *to)
{
    note(queue, (struct counted_launch){ .kernel = "copy", .times = 1, .bytes = 2 * (double)bytes });
}

static void counted_fill(struct queue *queue, double value, size_t n, real *y)
{
    if (n)
        moves(queue, "fill", 1, (double)n);
}

/* ---- products and rows ------------------------------------------------------------------------------------------- */

static enum tft_dtype dtype_of(const struct queue *queue, const struct product *p)
{
    if (p->exact || p->M <= EXACT_ROWS || p->K <= EXACT_ROWS)
        return TFT_F32;
    if (queue->needs.bf16)
        return TFT_BF16;
    return queue->needs.tf32 ? TFT_TF32 : TFT_F32;
}

static void multiply(struct queue *queue, const char *kernel, size_t times, const struct product *p)
{
    double batch = p->batch ? (double)p->batch : 1, M = (double)p->M, N = (double)p->N, K = (double)p->K;
    double a = M * K * (p->step_a ? batch : 1), b = K * N * (p->step_b ? batch : 1);

    note(queue, (struct counted_launch){
                    .kernel = kernel,
                    .times = times,
                    .bytes = REAL * (a + b + M * N * batch * (p->to.add ? 2 : 1)),
                    .flops = 2 * M * N * K * batch,
                    .dtype = dtype_of(queue, p),
                });
}

static void counted_product(struct queue *queue, const struct product *p)
{
    if (p->K)
        multiply(queue, "product", 1, p);
    else
        moves(queue, "product", p->batch ? p->batch : 1, (double)(p->M * p->N));
}

static void counted_add(struct queue *queue, const real *x, size_t n, real *y)
{
    moves(queue, "add", 1, 3 * (double)n);
}

static void counted_rows_add(struct queue *queue, const real *b, size_t R, size_t W, real *y)
{
    moves(queue, "rows_add", 1, 2 * (double)(R * W));
}

static void counted_rows_fill(struct queue *queue, const real *row, size_t R, size_t W, real *y)
{
    moves(queue, "rows_fill", 1, (double)(R * W));
}

/* A sum over rows: slabs, then what they came to. */
static void sums(struct queue *queue, const char *kernel, double reals, size_t W)
{
    enum { SLABS = 64 };

    moves(queue, kernel, 1, reals);
    moves(queue, kernel, 1, (double)(SLABS * W));
}

static void counted_rows_sum(struct queue *queue, const real *x, size_t R, size_t W, int add, real *sum)
{
    sums(queue, "rows_sum", (double)(R * W), W);
}

static void counted_samples_sum(struct queue *queue, const real *x, size_t R, size_t B, size_t W, real *sum)
{
    moves(queue, "samples_sum", 1, (double)(R * W + 2 * B * W));
}

static void counted_swap(struct queue *queue, const real *x, size_t A, size_t B, size_t C, real *y)
{
    moves(queue, "swap", 1, 2 * (double)(A * B * C));
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static void counted_windows_take(struct queue *queue, const struct windows_run *run)
{
    const struct windows_data *d = run->data;

    moves(
        queue, "windows_take", run->scales ? 2 : 1,
        2 * (double)(run->B * ((d->E + d->D) * (d->reals + d->cats) + d->statics + d->static_cats + 3 * d->D * d->O)));
}

static void counted_take_reals(struct queue *queue, const struct column *column, const real *x, real *y)
{
    moves(queue, "take_reals", 1, 2 * (double)(column->B * column->steps));
}

static void counted_take_codes(struct queue *queue, const struct column *column, const int32_t *x, int32_t *y)
{
    moves(queue, "take_codes", 1, 2 * (double)(column->B * column->steps));
}

static void counted_rows_take(struct queue *queue, const real *table, const int32_t *codes, size_t R, size_t W, real *y)
{
    moves(queue, "rows_take", 1, 2 * (double)(R * W) + (double)R);
}

static void counted_rows_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, size_t W, real *table)
{
    moves(queue, "rows_put", 1, 3 * (double)(R * W) + (double)R);
}

static void counted_sparse_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, struct sparse shape,
                               real *to)
{
    moves(queue, "sparse_put", R ? 2 : 1, 2 * (double)(R * shape.W));
}

static void counted_sparse_add(struct queue *queue, const real *x, struct sparse shape, real *to)
{
    moves(queue, "sparse_add", 1, 3 * (double)(shape.most * shape.W));
}

static void counted_outer(struct queue *queue, const real *x, const real *wb, size_t R, size_t W, real *y)
{
    moves(queue, "outer", 1, (double)(R * W + R));
}

static void counted_outer_add(struct queue *queue, const real *x, const real *w, size_t R, size_t W, real *y)
{
    moves(queue, "outer_add", 1, (double)(2 * R * W + R));
}

static void counted_outer_sum(struct queue *queue, const real *d_y, const real *x, size_t R, size_t W, real *d_w)
{
    sums(queue, "outer_sum", (double)(R * W + R), W);
}

/* ---- between the products of a layer ----------------------------------------------------------------------------- */

static void counted_norm(struct queue *queue, const struct norm *norm, real *y, real *inverse, real *z)
{
    moves(queue, "norm", 1, (double)(norm->R * norm->W) * (z ? 3 : 2));
}

static void counted_norm_output(struct queue *queue, const struct norm *norm, const real *xhat, real *z)
{
    moves(queue, "norm_output", 1, 2 * (double)(norm->R * norm->W));
}

static void counted_norm_backward(struct queue *queue, const struct norm_backward *b)
{
    sums(queue, "norm_backward", 2 * (double)(b->R * b->W), 2 * b->W);
    moves(queue, "norm_backward", 1, 3 * (double)(b->R * b->W));
}

static void counted_elu(struct queue *queue, size_t n, real *x)
{
    moves(queue, "elu", 1, 2 * (double)n);
}

static void counted_elu_backward(struct queue *queue, const real *e, size_t R, size_t W, int add, real *d_e, real *sum)
{
    sums(queue, "elu_backward", 3 * (double)(R * W), W);
}

/* A mask is a byte for each real. */
static void counted_dropout(struct queue *queue, const struct masked_rows *rows, const real *x, const real *bias,
                            uint8_t *keep, real *u)
{
    double n = (double)(rows->R * rows->W);

    if (rows->dropout.threshold || bias || u != x)
        moves(queue, "dropout", 1, n * (rows->dropout.threshold ? 2.25 : 2));
}

static void counted_dropout_backward(struct queue *queue, const struct dropout *dropout, const uint8_t *keep, size_t n,
                                     real *d)
{
    if (dropout->threshold)
        moves(queue, "dropout_backward", 1, 2.25 * (double)n);
}

static void counted_gate(struct queue *queue, const struct gate *gate)
{
    moves(queue, "gate", 1, 6 * (double)(gate->R * gate->W));
}

static void counted_gate_backward(struct queue *queue, const struct gate_backward *b)
{
    sums(queue, "gate_backward", 5 * (double)(b->R * b->W), 2 * b->W);
}

/* ---- variable selection ------------------------------------------------------------------------------------------ */

static void counted_softmax(struct queue *queue, size_t R, size_t V, real *z)
{
    moves(queue, "softmax", 1, 2 * (double)(R * V));
}

static void counted_softmax_backward(struct queue *queue, const real *w, size_t R, size_t V, real *d_w)
{
    moves(queue, "softmax_backward", 1, 3 * (double)(R * V));
}

static void counted_weigh(struct queue *queue, const struct weigh *weigh, int add, real *out)
{
    moves(queue, "weigh", 1, (double)(weigh->R * weigh->W) * (add ? 3 : 2) + (double)weigh->R);
}

static void counted_weigh_backward(struct queue *queue, const struct weigh *weigh, const real *d_out, real *d_z,
                                   real *d_weights)
{
    moves(queue, "weigh_backward", 1, 3 * (double)(weigh->R * weigh->W) + 2 * (double)weigh->R);
}

static void counted_resample(struct queue *queue, const real *mask, size_t in, size_t out, real *s)
{
    moves(queue, "resample", 1, (double)(in * out + out));
}

static void counted_resample_backward(struct queue *queue, const real *mask, const real *d_s, size_t in, size_t out,
                                      real *d_mask)
{
    moves(queue, "resample_backward", 1, (double)(in * out + 2 * out));
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

/* One launch for all steps, where a block's part of U fits and the blocks do on the least device: as in lstm.cu. */
static int steps_together(struct queue *queue, const char *kernel, const struct lstm_run *run, double moved)
{
    enum { UNITS = 4, PART_MOST = 48 << 10, SAMPLES_MOST = 256, MULTIPROCESSORS = 108 };
    double state = (double)(run->B * run->H), H = (double)run->H;

    if (run->B > SAMPLES_MOST || run->H * UNITS * 4 * REAL > PART_MOST ||
        (run->H + UNITS - 1) / UNITS > MULTIPROCESSORS)
        return 0;
    note(queue, (struct counted_launch){ .kernel = kernel,
                                         .times = 1,
                                         .bytes = REAL * ((double)run->S * moved * state + 4 * H * H),
                                         .flops = 8 * (double)run->S * state * H,
                                         .barriers = run->S });
    return 1;
}

static void counted_lstm(struct queue *queue, const struct lstm_run *run)
{
    double state = (double)(run->B * run->H);
    const struct product step = { .M = run->B, .N = 4 * run->H, .K = run->H, .to = { .add = 1 } };

    if (steps_together(queue, "lstm", run, 11))
        return;
    multiply(queue, "lstm", run->S, &step);
    moves(queue, "lstm", run->S, 11 * state);
}

static void counted_lstm_backward(struct queue *queue, const struct lstm_run *run, const struct lstm_gradient *gradient)
{
    double state = (double)(run->B * run->H);
    const struct product step = { .M = run->B, .N = run->H, .K = 4 * run->H, .to = { .add = 1 } };

    if (steps_together(queue, "lstm_backward", run, 20))
        return;
    moves(queue, "lstm_backward", run->S, 15 * state);
    multiply(queue, "lstm_backward", run->S, &step);
    moves(queue, "lstm_backward", run->S, 2 * state);
}

static size_t counted_lstm_scratch(size_t S, size_t B, size_t H)
{
    return B * H;
}

/* Reals of the queries, keys and values, of the weights, and of what each head makes. */
struct attended {
    double q, k, v, a, o;
};

static struct attended attended_by(const struct attention_run *run)
{
    double rows = (double)(run->B * run->heads), d = (double)run->d, N = (double)run->N, T = (double)run->T;

    return (struct attended){ rows * N * d, rows * T * d, (double)run->B * T * d, rows * N * T, rows * N * d };
}

static void counted_attention(struct queue *queue, const struct attention_run *run, real *mean)
{
    const struct attended of = attended_by(run);

    note(queue, (struct counted_launch){ .kernel = "attention",
                                         .times = 1,
                                         .bytes = REAL * (of.q + of.k + of.v + of.a + of.o),
                                         .flops = 4 * of.a * (double)run->d });
    if (run->dropout.threshold)
        moves(queue, "attention", 1, 0.25 * of.o);
    moves(queue, "attention", 1, 1.25 * of.o + of.o / (double)run->heads);
}

static void counted_attention_backward(struct queue *queue, const struct attention_run *run,
                                       const struct attention_gradient *to)
{
    const struct attended of = attended_by(run);
    double flops = 4 * of.a * (double)run->d;

    moves(queue, "attention_backward", 1, 1.25 * of.o + of.o / (double)run->heads);
    note(queue, (struct counted_launch){ .kernel = "attention_backward",
                                         .times = 1,
                                         .bytes = REAL * (of.o + of.v + of.k + 2 * of.a + of.q),
                                         .flops = flops });
    note(queue, (struct counted_launch){
                    .kernel = "attention_backward", .times = 1, .bytes = REAL * (of.a + of.q + of.k), .flops = flops });
    note(queue, (struct counted_launch){
                    .kernel = "attention_backward", .times = 1, .bytes = REAL * (of.a + of.o + of.v), .flops = flops });
}

static size_t counted_attention_scratch(size_t B, size_t T, size_t N, size_t heads, size_t d)
{
    return B * heads * N * (d + T);
}

/* ---- outputs and optimizer --------------------------------------------------------------------------------------- */

static void counted_ascending(struct queue *queue, size_t R, size_t Q, size_t O, real *o)
{
    moves(queue, "ascending", 1, 2 * (double)(R * Q * O));
}

static void counted_ascending_backward(struct queue *queue, const real *p, size_t R, size_t Q, size_t O, real *d_p)
{
    moves(queue, "ascending_backward", 1, 3 * (double)(R * Q * O));
}

static void counted_loss(struct queue *queue, const struct outputs_run *run, double *loss, real *d_p)
{
    moves(queue, "loss", 1, (double)(run->D * run->B * run->O) * (2 + (double)run->P * (d_p ? 2 : 1)));
}

static void counted_samples_first(struct queue *queue, const struct outputs_run *run, real *y)
{
    moves(queue, "samples_first", 1, 2 * (double)(run->D * run->B * run->P * run->O));
}

static void counted_average(struct queue *queue, double share, const real *x, size_t n, real *y)
{
    moves(queue, "average", 1, 3 * (double)n);
}

static void counted_squares_all(struct queue *queue, const struct chunks *chunks, const real *x, double *sums)
{
    moves(queue, "squares_all", 1, (double)chunks->reals);
    moves(queue, "squares_all", 1, 0);
}

static void counted_adam_all(struct queue *queue, const struct adam_run *run, const struct chunks *chunks,
                             const real *gradient, real *m, real *v, real *p)
{
    moves(queue, "adam_all", 1, 7 * (double)chunks->reals);
}

static void counted_sparse_squares(struct queue *queue, const real *x, struct sparse shape, double *sum)
{
    moves(queue, "sparse_squares", 1, (double)(shape.most * shape.W));
}

static void counted_sparse_adam(struct queue *queue, const struct adam_run *run, const real *gradient,
                                struct sparse shape, real *m, real *v, real *p)
{
    moves(queue, "sparse_adam", 1, 7 * (double)(shape.most * shape.W));
}

#define MEMBER(member) .member = counted_##member

static const struct kernels table = {
    .name = "counted",
    .block_rows = SIZE_MAX,
    .granule_most = GRANULE_MOST,
    MEMBER(has_bf16),
    MEMBER(use),
    MEMBER(room),
    MEMBER(alloc),
    MEMBER(release),
    MEMBER(open),
    MEMBER(close),
    MEMBER(failure),
    MEMBER(begin),
    MEMBER(to_device),
    MEMBER(to_host),
    MEMBER(copy),
    MEMBER(fill),
    MEMBER(product),
    MEMBER(add),
    MEMBER(rows_add),
    MEMBER(rows_fill),
    MEMBER(rows_sum),
    MEMBER(samples_sum),
    MEMBER(swap),
    MEMBER(windows_take),
    MEMBER(take_reals),
    MEMBER(take_codes),
    MEMBER(rows_take),
    MEMBER(rows_put),
    MEMBER(sparse_put),
    MEMBER(sparse_add),
    MEMBER(outer),
    MEMBER(outer_add),
    MEMBER(outer_sum),
    MEMBER(norm),
    MEMBER(norm_output),
    MEMBER(norm_backward),
    MEMBER(elu),
    MEMBER(elu_backward),
    MEMBER(dropout),
    MEMBER(dropout_backward),
    MEMBER(gate),
    MEMBER(gate_backward),
    MEMBER(softmax),
    MEMBER(softmax_backward),
    MEMBER(weigh),
    MEMBER(weigh_backward),
    MEMBER(resample),
    MEMBER(resample_backward),
    MEMBER(lstm),
    MEMBER(lstm_backward),
    MEMBER(lstm_scratch),
    MEMBER(attention),
    MEMBER(attention_backward),
    MEMBER(attention_scratch),
    MEMBER(ascending),
    MEMBER(ascending_backward),
    MEMBER(loss),
    MEMBER(samples_first),
    MEMBER(average),
    MEMBER(squares_all),
    MEMBER(adam_all),
    MEMBER(sparse_squares),
    MEMBER(sparse_adam),
};

const struct kernels *tft_kernels_counted(void)
{
    return &table;
}
