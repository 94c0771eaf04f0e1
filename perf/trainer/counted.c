/* SPDX-License-Identifier: Apache-2.0
 *
 * The counts are those of tft/core/kernels/kernels.def, and of what is not a plain sum the functions count_<name> here;
 * tests/cuda/test_model.c compares the launches with those that the kernels make in emulation.
 */
#include "perf/trainer/counted.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A count needs the shapes only. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"

enum { GRANULE_MOST = 4096, EXACT_ROWS = 2, REAL = sizeof(real) };

struct queue {
    struct queue_head head;
    struct queue_needs needs;
    struct counted_launch *launches; /* owned */
    size_t count, capacity;
    const real *params, *folded; /* as `begin` had them */
    int has_folded;              /* they have a narrow copy */
    int failed;                  /* memory ran out */
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

/* Launches that move this number of reals each. */
static void moves(struct queue *queue, const char *kernel, size_t times, double reals)
{
    if (times)
        note(queue, (struct counted_launch){ .kernel = kernel, .times = times, .bytes = REAL * reals });
}

/* One launch that moves n numbers of x and m of y. */
static void between(struct queue *queue, const char *kernel, const real *x, double n, const real *y, double m)
{
    const double bytes = n * (double)tft_bytes_of(x) + m * (double)tft_bytes_of(y);

    note(queue, (struct counted_launch){ .kernel = kernel, .times = 1, .bytes = bytes });
}

/* One launch that moves n numbers of x. */
static void acts(struct queue *queue, const char *kernel, const real *x, double n)
{
    between(queue, kernel, x, n, NULL, 0);
}

/* A sum over rows, n numbers of x: one slab, or slabs and then their sums. As in device.cuh. */
static void sums(struct queue *queue, const char *kernel, const real *x, size_t R, double n, size_t W)
{
    enum { SLABS = 256, ALONE = 512, PARTIAL = 1 << 18 };
    const size_t slabs = PARTIAL / W < SLABS ? PARTIAL / W : SLABS;

    acts(queue, kernel, x, n);
    if (R > ALONE && slabs > 1)
        moves(queue, kernel, 1, (double)(slabs * W));
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
    queue->head.narrow = needs->bf16;
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

/* A narrow queue's copy of the parameters. */
static void counted_begin(struct queue *queue, const real *params, const real *folded)
{
    const double n = (double)(queue->needs.params - queue->needs.inputs);

    queue->params = params;
    queue->folded = folded;
    queue->has_folded = 0;
    if (queue->head.narrow && n > 0)
        note(queue, (struct counted_launch){ .kernel = "copy", .times = 1, .bytes = n * (REAL + TFT_NARROW_BYTES) });
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

static size_t counted_rows_scratch(size_t R, size_t W)
{
    return 0;
}

static size_t counted_lstm_scratch(size_t S, size_t B, size_t H)
{
    return 2 * B * H;
}

static size_t counted_attention_scratch(size_t B, size_t T, size_t N, size_t heads, size_t d)
{
    return B * heads * (N + T) * d;
}

/* ---- kernels.def: COUNT ------------------------------------------------------------------------------------------ */

static enum tft_dtype dtype_of(const struct queue *queue, const struct product *p)
{
    if (tft_is_narrow(p->a.data) || tft_is_narrow(p->b.data) || tft_is_narrow(p->to.data))
        return TFT_BF16;
    if (p->exact || p->M <= EXACT_ROWS || p->K <= EXACT_ROWS)
        return TFT_F32;
    if (queue->needs.bf16)
        return TFT_BF16;
    return queue->needs.tf32 ? TFT_TF32 : TFT_F32;
}

/* What is neither narrow nor a parameter is rounded in front of a product with what is. */
static void round_factor(struct queue *queue, const char *kernel, const real *x, double n)
{
    const struct queue_needs *needs = &queue->needs;

    if (queue->folded && x >= queue->folded && x < queue->folded + needs->folded) {
        n = queue->has_folded ? 0 : (double)needs->folded; /* all of it, once */
        queue->has_folded = 1;
    }
    if (n > 0 && !tft_is_narrow(x) && !(x >= queue->params + needs->inputs && x < queue->params + needs->params))
        note(queue, (struct counted_launch){ .kernel = kernel, .times = 1, .bytes = n * (REAL + TFT_NARROW_BYTES) });
}

static void multiply(struct queue *queue, const char *kernel, size_t times, const struct product *p)
{
    double batch = p->batch ? (double)p->batch : 1, M = (double)p->M, N = (double)p->N, K = (double)p->K;
    double a = M * K * (p->step_a ? batch : 1), b = K * N * (p->step_b ? batch : 1);
    const int is_narrow = tft_is_narrow(p->a.data) || tft_is_narrow(p->b.data) || tft_is_narrow(p->to.data);
    const double to = M * N * batch * (p->to.add ? 2 : 1) * (double)tft_bytes_of(p->to.data);

    if (is_narrow)
        round_factor(queue, kernel, p->a.data, a);
    if (is_narrow)
        round_factor(queue, kernel, p->b.data, b);
    note(queue, (struct counted_launch){
                    .kernel = kernel,
                    .times = times,
                    .bytes = (is_narrow ? TFT_NARROW_BYTES : REAL) * (a + b) + to,
                    .flops = 2 * M * N * K * batch,
                    .dtype = dtype_of(queue, p),
                });
}

static void count_product(struct queue *queue, const struct product *p)
{
    if (p->K)
        multiply(queue, "product", 1, p);
    else
        moves(queue, "product", 1, (double)(p->M * p->N * (p->batch ? p->batch : 1)));
}

/* Instructions: what nvcc makes of a counter of four draws for sm_90. */
static void count_dropout(struct queue *queue, const struct masked_rows *rows, int copies, const real *u)
{
    const double each = 88, n = (double)(rows->R * rows->W), bytes = 2 * (double)tft_bytes_of(u);

    if (rows->dropout.threshold)
        note(queue, (struct counted_launch){
                        .kernel = "dropout", .times = 1, .bytes = (bytes + 1) * n, .instructions = each * n });
    else if (copies)
        acts(queue, "dropout", u, 2 * n);
}

static void count_dropout_backward(struct queue *queue, const struct dropout *dropout, size_t R, size_t W,
                                   const real *d, const real *sum)
{
    const double n = (double)(R * W), mask = n / (double)tft_bytes_of(d);

    if (sum)
        sums(queue, "dropout_backward", d, R, dropout->threshold ? 2 * n + mask : n, W);
    else if (dropout->threshold)
        acts(queue, "dropout_backward", d, 2 * n + mask);
}

static void count_fill(struct queue *queue, size_t n, const real *y)
{
    if (n)
        acts(queue, "fill", y, (double)n);
}

static void count_windows_take(struct queue *queue, const struct windows_run *run)
{
    const struct windows_data *d = run->data;

    moves(
        queue, "windows_take", run->scales ? 2 : 1,
        2 * (double)(run->B * ((d->E + d->D) * (d->reals + d->cats) + d->statics + d->static_cats + 3 * d->D * d->O)));
}

enum { ROW_MOST = 256 }; /* as in gate_norm.cu: one kernel for rows that a warp has in registers */

static void count_gate_norm(struct queue *queue, const struct gate_norm *g)
{
    const double n = (double)(g->norm.R * g->norm.W), z = g->z != NULL, sum = g->weights ? g->add ? 2 : 1 : 0;

    if (g->norm.W <= ROW_MOST) {
        acts(queue, "gate_norm", g->v, n * (4 + z + sum));
        return;
    }
    acts(queue, "gate_norm", g->v, 4 * n);
    acts(queue, "gate_norm", g->v, n * (2 + z));
    if (g->weights)
        acts(queue, "gate_norm", g->v, n * (1 + sum));
}

static void count_gate_norm_backward(struct queue *queue, const struct gate_norm_backward *b)
{
    enum { SUMS = 4, WARPS = 4, SLABS = 256, PARTIAL = 1 << 18 };
    const size_t R = b->norm.R, W = b->norm.W;
    const double n = (double)(R * W);

    if (W <= ROW_MOST) {
        size_t slabs = (R + WARPS - 1) / WARPS, most = PARTIAL / (SUMS * W);

        slabs = slabs < SLABS ? slabs : SLABS;
        between(queue, "gate_norm_backward", b->v, 5 * n, b->d_v, 2 * n);
        moves(queue, "gate_norm_backward", 1, (double)((slabs < most ? slabs : most) * SUMS * W));
        return;
    }
    if (b->weights)
        acts(queue, "gate_norm_backward", b->v, 3 * n);
    sums(queue, "gate_norm_backward", b->v, R, 2 * n, 2 * W);
    acts(queue, "gate_norm_backward", b->v, 3 * n);
    sums(queue, "gate_norm_backward", b->v, R, 5 * n, 2 * W);
}

/* As in sparse.cu: keys are sorted in tiles, then pairs of runs are merged. */
static void count_sort(struct queue *queue, const char *kernel, size_t R)
{
    enum { TILE = 1024, KEY = 2 };

    moves(queue, kernel, 1, (double)(R * (1 + KEY)));
    for (size_t run = TILE; run < R; run *= 2)
        moves(queue, kernel, 1, 2 * (double)(R * KEY));
}

/* Rows are added up in chunks; each one's first and last sum are rows again. */
static void count_sums(struct queue *queue, const char *kernel, const real *x, size_t R, size_t W)
{
    enum { CHUNK = 32 };
    size_t chunks;

    do {
        chunks = (R + CHUNK - 1) / CHUNK;
        between(queue, kernel, x, (double)(R * W), NULL, (double)(2 * chunks * W));
        x = NULL; /* the sums are reals */
        R = 2 * chunks;
    } while (chunks > 1);
}

static void count_rows_put(struct queue *queue, const real *x, size_t R, size_t W)
{
    count_sort(queue, "rows_put", R);
    count_sums(queue, "rows_put", x, R, W);
}

static void count_sparse_put(struct queue *queue, const real *x, size_t R, size_t W)
{
    if (!R)
        return;
    count_sort(queue, "sparse_put", R);
    moves(queue, "sparse_put", 2, 2 * (double)R);
    count_sums(queue, "sparse_put", x, R, W);
}

/* As lstm_alone.cu on this device: every block has all of U in bf16. */
static int steps_alone(const struct queue *queue, const struct lstm_run *run)
{
    enum { UNITS = 16, TILES_MOST = 10 };

    return queue->needs.bf16 && run->B > EXACT_ROWS && run->H > EXACT_ROWS && run->H <= UNITS * TILES_MOST;
}

/* As lstm_split.cu on this device: with the widest part of U that fits in a block there is one for every 16 samples. */
static int steps_split(const struct lstm_run *run)
{
    enum { SAMPLES_MOST = 16, UNITS_MOST = 64, SUMS = 4096, MULTIPROCESSORS = 132, REALS_MOST = (227 << 10) / REAL };
    size_t H = run->H, left = SAMPLES_MOST * 4 * H + SUMS; /* of the product's left factor, and of its sums */
    size_t units = left < REALS_MOST ? (REALS_MOST - left) / (4 * H) / 4 * 4 : 0;

    if (!units)
        return 0;
    units = units < UNITS_MOST ? units : UNITS_MOST;
    size_t across = (H + units - 1) / units;
    return run->B <= MULTIPROCESSORS / across * SAMPLES_MOST;
}

/* One launch for all steps; each waits for the one before. */
static int steps_together(struct queue *queue, const char *kernel, const struct lstm_run *run)
{
    double state = (double)(run->B * run->H), H = (double)run->H, width = (double)tft_bytes_of(run->gates);
    int alone = steps_alone(queue, run);

    if (!alone && !steps_split(run))
        return 0;
    note(queue, (struct counted_launch){ .kernel = kernel,
                                         .times = 1,
                                         .bytes = (double)run->S * state * (9 * width + REAL) + REAL * 4 * H * H,
                                         .flops = 8 * (double)run->S * state * H,
                                         .dtype = alone ? TFT_BF16 : TFT_F32,
                                         .steps = run->S });
    return 1;
}

static void count_lstm(struct queue *queue, const struct lstm_run *run)
{
    double state = (double)(run->B * run->H);
    const struct product step = { .a.data = run->h,
                                  .b.data = run->u,
                                  .M = run->B,
                                  .N = 4 * run->H,
                                  .K = run->H,
                                  .to = { .data = run->gates, .add = 1 } };

    if (steps_together(queue, "lstm", run))
        return;
    multiply(queue, "lstm", run->S, &step);
    for (size_t t = 0; t < run->S; t++)
        between(queue, "lstm", run->gates, 9 * state, run->c, 2 * state);
}

static void count_lstm_backward(struct queue *queue, const struct lstm_run *run)
{
    double state = (double)(run->B * run->H);
    const struct product step = { .a.data = run->gates,
                                  .b.data = run->u,
                                  .M = run->B,
                                  .N = run->H,
                                  .K = 4 * run->H,
                                  .to = { .data = run->gates, .add = 1 } };

    if (steps_together(queue, "lstm_backward", run))
        return;
    for (size_t t = 0; t < run->S; t++)
        between(queue, "lstm_backward", run->gates, 11 * state, run->c, 4 * state);
    multiply(queue, "lstm_backward", run->S, &step);
    if (run->S % 2)
        acts(queue, "lstm_backward", run->gates, 2 * state);
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

static void count_attention(struct queue *queue, const struct attention_run *run, const real *mean)
{
    const struct attended of = attended_by(run);
    const double width = (double)tft_bytes_of(run->q);

    note(queue, (struct counted_launch){ .kernel = "attention",
                                         .times = 1,
                                         .bytes = width * (of.q + of.k + of.v) + REAL * (of.a + of.o),
                                         .flops = 4 * of.a * (double)run->d });
    if (run->dropout.threshold)
        moves(queue, "attention", 1, 0.25 * of.o);
    between(queue, "attention", NULL, 1.25 * of.o, mean, of.o / (double)run->heads);
}

static void count_attention_backward(struct queue *queue, const struct attention_run *run,
                                     const struct attention_gradient *to)
{
    const struct attended of = attended_by(run);
    const double flops = 4 * of.a * (double)run->d, width = (double)tft_bytes_of(run->q);

    between(queue, "attention_backward", NULL, 1.25 * of.o, to->d_mean, of.o / (double)run->heads);
    note(queue, (struct counted_launch){ .kernel = "attention_backward",
                                         .times = 1,
                                         .bytes = width * (of.v + 2 * of.k + 2 * of.q) + REAL * (of.o + of.a),
                                         .flops = 1.5 * flops });
    note(queue, (struct counted_launch){ .kernel = "attention_backward",
                                         .times = 1,
                                         .bytes = width * of.v + REAL * (of.a + of.o),
                                         .flops = flops / 2 });
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define MOVES(reals) moves(queue, kernel, 1, (double)(reals))
#define LAUNCHES(times, reals) moves(queue, kernel, times, (double)(reals))
#define ACTS(x, n) acts(queue, kernel, x, (double)(n))
#define BETWEEN(x, n, y, m) between(queue, kernel, x, (double)(n), y, (double)(m))
#define SUMS(x, R, n, W) sums(queue, kernel, x, R, (double)(n), W)
#define COUNT(name, ...) count_##name(queue, __VA_ARGS__)
#define CPU_KERNEL(name, parameters, arguments, condition)
#define KERNEL(name, parameters, arguments, condition, traffic)             \
    static void counted_##name(struct queue *queue, KERNEL_LIST parameters) \
    {                                                                       \
        const char *kernel = #name;                                         \
        traffic;                                                            \
    }
#include "tft/core/kernels/kernels.def"

static const struct kernels table = {
    .name = "counted",
    .block_rows = SIZE_MAX,
    .granule_most = GRANULE_MOST,
    .has_bf16 = counted_has_bf16,
    .use = counted_use,
    .room = counted_room,
    .alloc = counted_alloc,
    .release = counted_release,
    .open = counted_open,
    .close = counted_close,
    .failure = counted_failure,
    .begin = counted_begin,
    .to_device = counted_to_device,
    .to_host_later = counted_to_host,
    .to_host = counted_to_host,
    .rows_scratch = counted_rows_scratch,
    .lstm_scratch = counted_lstm_scratch,
    .attention_scratch = counted_attention_scratch,
#define CPU_KERNEL(name, parameters, arguments, condition)
#define KERNEL(name, parameters, arguments, condition, traffic) .name = counted_##name,
#include "tft/core/kernels/kernels.def"
};

const struct kernels *tft_kernels_counted(void)
{
    return &table;
}
