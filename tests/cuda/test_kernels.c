/* SPDX-License-Identifier: Apache-2.0
 *
 * Every member of the CUDA table against the processor's, on the same numbers: sizes that are no multiples of a vector,
 * a warp or a block, one sample, one variable, padding, dropout. Sums are made in another order there: the tolerances
 * say how much that may change. Codes, masks and copies are the same bits. Then once more with narrow activations
 * (tft/core/kernels/narrow.h), each of which is rounded when it is stored.
 */
#include "tests/cuda/emu.h"
#include "tests/test.h"
#include "tft/core/kernels/kernels.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct kernels *cpu, *cuda;
static struct queue *here, *there;
static uint32_t state = 12345;

static uint32_t next(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static float number(void)
{
    return (float)(next() % 20001) / 10000 - 1;
}

/* An array in both memories. */
struct both {
    void *near, *far;
    size_t bytes; /* of near */
    int is_narrow;
};

static int is_narrow; /* whether activations are, on the device */
static double narrow_tolerance = 0.03;

enum { BOTHS_MOST = 64 };
static struct both made[BOTHS_MOST];
static size_t made_count;

static struct both *both(const void *from, size_t bytes)
{
    struct both *x = &made[made_count++];

    REQUIRE(made_count <= BOTHS_MOST);
    *x = (struct both){ .near = malloc(bytes + 1), .far = cuda->alloc(bytes + 64), .bytes = bytes };
    REQUIRE(x->near && x->far);
    memcpy(x->near, from, bytes);
    cuda->to_device(there, from, bytes, x->far);
    return x;
}

static struct both *reals(size_t n)
{
    float *x = malloc((n + 1) * sizeof *x);

    REQUIRE(x);
    for (size_t i = 0; i < n; i++)
        x[i] = number();
    struct both *made_here = both(x, n * sizeof *x);
    free(x);
    return made_here;
}

/* The array as it is now in the host's memory, to the device. */
static void upload(const struct both *x)
{
    void *wide = x->is_narrow ? cuda->alloc(x->bytes + 64) : x->far;

    cuda->to_device(there, x->near, x->bytes, wide);
    if (!x->is_narrow)
        return;
    cuda->copy(there, wide, x->bytes / sizeof(float), x->far);
    cuda->to_host(there, wide, 0, NULL); /* waits */
    cuda->release(wide);
}

/* An array of activations. */
static struct both *acts(size_t n)
{
    struct both *x = reals(n);

    for (size_t i = 0; is_narrow && i < n; i++) { /* a number of bf16, so that both memories have the same */
        uint32_t bits;

        memcpy(&bits, (float *)x->near + i, sizeof bits);
        bits &= 0xffff0000u;
        memcpy((float *)x->near + i, &bits, sizeof bits);
    }
    if (is_narrow) {
        x->is_narrow = 1;
        x->far = tft_narrow_at(x->far);
        upload(x);
    }
    return x;
}

static struct both *codes(size_t n, int32_t most)
{
    int32_t *x = malloc((n + 1) * sizeof *x);

    REQUIRE(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (int32_t)(next() % (uint32_t)most);
    struct both *made_here = both(x, n * sizeof *x);
    free(x);
    return made_here;
}

static struct both *bytes(size_t n)
{
    uint8_t *x = calloc(n + 1, 1);

    REQUIRE(x);
    for (size_t i = 0; i < n; i++)
        x[i] = next() % 2;
    struct both *made_here = both(x, n);
    free(x);
    return made_here;
}

/* Padding of each sample, 0 to most; NULL with has 0. */
static struct both *paddings(size_t B, size_t most, int has)
{
    size_t x[300];

    for (size_t b = 0; b < B; b++)
        x[b] = b == 0 ? 0 : next() % (most + 1);
    return has ? both(x, B * sizeof *x) : NULL;
}

/* The device's array, to the host. */
static void download(const struct both *x, void *to)
{
    void *wide = x->is_narrow ? cuda->alloc(x->bytes + 64) : x->far;

    if (x->is_narrow)
        cuda->copy(there, x->far, x->bytes / sizeof(float), wide);
    cuda->to_host(there, wide, x->bytes, to);
    if (x->is_narrow)
        cuda->release(wide);
}

/* Each number is to within `each` of its own size, and `all` of the array's largest one, which counts as 0.25 at least:
 * sums of few numbers cancel out. */
static void near(const char *what, const struct both *x, const float *got, double each, double all)
{
    const float *want = x->near;
    const size_t n = x->bytes / sizeof *got;
    double largest = 0.25;

    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)want[i]));
    for (size_t i = 0; i < n; i++)
        if (!CHECK(fabs((double)got[i] - (double)want[i]) <= each * fabs((double)want[i]) + all * largest,
                   "%s, element %zu: %g, not %g; the largest is %g", what, i, (double)got[i], (double)want[i], largest))
            break;
}

/* Both memories hold the same: bits with tolerance 0, else to within that of the array's largest number. */
static void same(const char *what, const struct both *x, double tolerance)
{
    float *got = malloc(x->bytes + 1);

    REQUIRE(got);
    download(x, got);
    if (is_narrow && tolerance > 0)
        tolerance = fmax(tolerance, narrow_tolerance);
    if (tolerance > 0)
        near(what, x, got, 0, tolerance);
    else
        CHECK(!memcmp(got, x->near, x->bytes), "%s", what);
    free(got);
}

/* As same, of numbers that are computed in f32, and rounded at the end where the array is narrow. */
static void same_rounded(const char *what, const struct both *x, double tolerance)
{
    float *got = malloc(x->bytes + 1);

    REQUIRE(got);
    download(x, got);
    near(what, x, got, x->is_narrow ? 1.0 / 256 : 0, tolerance);
    free(got);
}

static void clean(void)
{
    cuda->to_host(there, NULL, 0, &state);
    for (size_t i = 0; i < made_count; i++) {
        free(made[i].near);
        cuda->release(tft_place_of(made[i].far));
    }
    made_count = 0;
}

/* Limits of a kernel's launches where there is much to do. A serial loop over rows has more accesses than any, and
 * lanes that each have a row more sectors. */
static const struct {
    const char *name;
    struct emu_limits limits;
} kernel_limits[] = {
    { "", { 128, 257, 20 } },            /* all others: four numbers a lane, in four rows */
    { "take_reals(", { 128, 257, 32 } }, /* from samples first to times first */
    { "take_codes(", { 128, 257, 32 } },
    { "rows_put(", { 384, 99, 32 } }, /* a tile of 1,024 keys is sorted, and rows lie where their codes are */
    { "sparse_put(", { 384, 99, 32 } },
    { "sparse_add(", { 0 } },
    { "attention", { 1024, 257, 20 } }, /* as many products as it takes, by all threads of a block */
    { "lstm", { 1024, 192, 16 } },
    { "sparse_squares(", { 128, 0, 16 } }, /* one block: few rows are touched */
};
static int is_wide;

static void limit(const char *call)
{
    size_t k = sizeof kernel_limits / sizeof *kernel_limits - 1;

    if (!is_wide || !emu_limit)
        return;
    while (strncmp(call + strlen("k->"), kernel_limits[k].name, strlen(kernel_limits[k].name)))
        k--;
    emu_limit(&kernel_limits[k].limits);
}

#define NEAR(x) ((x) ? (x)->near : NULL)
#define FAR(x) ((x) ? (x)->far : NULL)
/* Calls on both; the arguments name arrays by AT(x). */
#define BOTH(call_of)                  \
    do {                               \
        const struct kernels *k = cpu; \
        struct queue *q = here;        \
        int is_far = 0;                \
        call_of;                       \
        k = cuda;                      \
        q = there;                     \
        is_far = 1;                    \
        limit(#call_of);               \
        call_of;                       \
    } while (0)
#define AT(x) ((void *)(is_far ? FAR(x) : NEAR(x)))

/* ---- rows ---- */

static void check_rows(size_t R, size_t W)
{
    struct both *x = acts(R * W), *y = acts(R * W), *row = reals(W), *sum = reals(W), *column = reals(R),
                *wb = reals(2 * W), *wide = acts(R * W), *copied = reals(R * W), *acts_row = acts(W),
                *table = reals(7 * W), *code = codes(R, 7), *scratch = reals(cuda->rows_scratch(R, W));

    BOTH(k->add(q, AT(x), R * W, AT(y)));
    same("add", y, 1e-7);
    BOTH(k->rows_add(q, AT(row), R, W, AT(y)));
    same("rows_add", y, 1e-7);
    BOTH(k->rows_sum(q, AT(x), R, W, 1, AT(sum)));
    same("rows_sum, added", sum, 1e-5);
    BOTH(k->rows_sum(q, AT(y), R, W, 0, AT(sum)));
    same("rows_sum", sum, 1e-5);
    BOTH(k->rows_put(q, AT(x), AT(code), R, W, AT(table), FAR(scratch)));
    same("rows_put", table, 1e-5);
    BOTH(k->rows_take(q, AT(table), AT(code), R, W, AT(wide)));
    same("rows_take", wide, 1e-5);
    BOTH(k->outer(q, AT(column), AT(wb), R, W, AT(wide)));
    same("outer", wide, 1e-6);
    BOTH(k->outer_add(q, AT(column), AT(row), R, W, AT(wide)));
    same("outer_add", wide, 1e-6);
    BOTH(k->outer_sum(q, AT(x), AT(column), R, W, AT(sum)));
    same("outer_sum", sum, 1e-5);
    BOTH(k->rows_fill(q, AT(row), R, W, AT(wide)));
    same("rows_fill", wide, is_narrow ? narrow_tolerance : 0);
    BOTH(k->rows_fill(q, AT(acts_row), R, W, AT(wide)));
    same("rows_fill, by activations", wide, 0);
    BOTH(k->copy(q, AT(x), R * W, AT(wide)));
    same("copy", wide, 0);
    BOTH(k->copy(q, AT(wide), R * W, AT(copied)));
    same("copy to reals", copied, 0);
    BOTH(k->fill(q, -0.0, R * W, AT(wide)));
    same("fill", wide, 0);
    clean();
}

static void check_swaps(size_t A, size_t B, size_t C)
{
    struct both *x = acts(A * B * C), *y = reals(A * B * C), *sum = reals(B * C);

    BOTH(k->swap(q, AT(x), A, B, C, AT(y)));
    same("swap", y, 0);
    BOTH(k->samples_sum(q, AT(x), A * B, B, C, AT(sum)));
    same("samples_sum", sum, 1e-6);
    clean();
}

static void check_columns(size_t B, size_t steps, int pads)
{
    enum { COLUMNS = 3 };
    struct both *x = reals(B * steps * COLUMNS), *code = codes(B * steps * COLUMNS, 100), *y = reals(B * steps),
                *taken = codes(B * steps, 100), *padding = paddings(B, steps, pads);

    BOTH(k->take_reals(q, &(struct column){ B, steps, COLUMNS, 1, AT(padding) }, AT(x), AT(y)));
    same("take_reals", y, 0);
    BOTH(k->take_codes(q, &(struct column){ B, steps, COLUMNS, 2, AT(padding) }, AT(code), AT(taken)));
    same("take_codes", taken, 0);
    clean();
}

enum { WINDOW_ROWS = 90, WINDOW_ENTITIES = 3, WINDOWS_MOST = 8, PATCHES_MOST = 2 };

/* Windows of d's shape, some of them shorter, and patches of them; how columns are scaled: by themselves, by another
 * one, or not. */
static void draw_windows(const struct windows_data *d, size_t B, struct window_place *places,
                         struct window_patch *patches, int32_t *scaled_by)
{
    uint32_t E = (uint32_t)d->E, T = (uint32_t)(d->E + d->D);

    REQUIRE(B <= WINDOWS_MOST && T < WINDOW_ROWS);
    for (size_t b = 0; b < B; b++) {
        uint32_t length = b ? 1 + next() % E : E, begin = E - length, first = (uint32_t)b * PATCHES_MOST;
        int is_code = d->cats && b % 2;

        places[b] = (struct window_place){ next() % (WINDOW_ROWS - T), length, next() % WINDOW_ENTITIES, first, b % 3 };
        patches[first] =
            (struct window_patch){ WINDOW_REALS, next() % (uint32_t)d->reals, begin, E, .value = number() };
        patches[first + 1] = (struct window_patch){ is_code ? WINDOW_CODES : WINDOW_STATIC_CODES, 0, begin,
                                                    is_code ? T : begin + 1, .code = 77 };
    }
    for (size_t k = 0; k < d->reals; k++)
        scaled_by[k] = k % 3 == 0 ? -1 : (int32_t)(k % 3 == 1 ? k : k - 1);
    scaled_by[d->reals - 1] = (int32_t)d->reals - 1;
}

static void check_windows(size_t B, struct windows_data d, int scales)
{
    const size_t T = d.E + d.D, R = d.reals, C = d.cats, S = d.statics, Y = d.D * d.O;
    struct window_place place[WINDOWS_MOST];
    struct window_patch patch[WINDOWS_MOST * PATCHES_MOST];
    int32_t by[8];

    draw_windows(&d, B, place, patch, by);
    struct both *values = reals(WINDOW_ROWS * R), *code = codes(WINDOW_ROWS * C, 9),
                *statics = reals(WINDOW_ENTITIES * S), *static_code = codes(WINDOW_ENTITIES * S, 9),
                *weight = reals(WINDOW_ROWS * d.O), *places = both(place, B * sizeof *place),
                *patches = both(patch, B * PATCHES_MOST * sizeof *patch), *scaled = both(by, R * sizeof *by),
                *x = reals(B * T * R), *c = codes(B * T * C, 9), *sx = reals(B * S), *sc = codes(B * S, 9),
                *y = reals(B * Y), *w = reals(B * Y), *offset = reals(B * Y), *unit = reals(B * d.O);

    BOTH(k->windows_take(
        q, &(struct windows_run){ .data = &(struct windows_data){ d.E, d.D, d.O, R, C, S, S, AT(values), AT(code),
                                                                  AT(statics), AT(static_code), AT(weight) },
                                  .B = B,
                                  .places = AT(places),
                                  .patches = AT(patches),
                                  .scales = scales,
                                  .spread_least = .05f,
                                  .scaled_by = AT(scaled),
                                  .reals = AT(x),
                                  .static_reals = AT(sx),
                                  .targets = AT(y),
                                  .weights = AT(w),
                                  .offsets = AT(offset),
                                  .units = AT(unit),
                                  .cats = AT(c),
                                  .static_cats = AT(sc) }));
    same("windows_take: reals", x, 1e-6);
    same("windows_take: codes", c, 0);
    same("windows_take: static reals", sx, 0);
    same("windows_take: static codes", sc, 0);
    same("windows_take: targets", y, 1e-6);
    same("windows_take: weights", w, 0);
    same("windows_take: offsets", offset, 1e-6);
    same("windows_take: units", unit, 1e-6);
    clean();
}

static void check_all_windows(void)
{
    check_windows(1, (struct windows_data){ .E = 4, .D = 1, .O = 1, .reals = 1 }, 0);
    check_windows(5, (struct windows_data){ .E = 7, .D = 3, .O = 2, .reals = 5, .cats = 2, .statics = 1 }, 1);
    check_windows(8, (struct windows_data){ .E = 60, .D = 20, .O = 1, .reals = 8, .cats = 1, .statics = 3 }, 1);
}

/* ---- between the products ---- */

static void check_norm(size_t R, size_t W)
{
    struct both *y = acts(R * W), *inverse = reals(R), *z = acts(R * W), *gamma = reals(W), *beta = reals(W),
                *d_z = acts(R * W), *d_gamma = reals(W), *d_beta = reals(W);

    for (int add = 0; add < 2; add++) {
        BOTH(k->norm(q, &(struct norm){ R, W, 1e-3f, AT(gamma), AT(beta) }, AT(y), AT(inverse), AT(z)));
        same("norm: xhat", y, 1e-4);
        same("norm: inverse", inverse, 1e-4);
        same("norm: z", z, 1e-4);
        BOTH(k->norm_backward(
            q, &(struct norm_backward){ R, W, add, AT(y), AT(inverse), AT(gamma), AT(d_gamma), AT(d_beta), AT(d_z) }));
        same("norm_backward: d_gamma", d_gamma, 1e-4);
        same("norm_backward: d_beta", d_beta, 1e-4);
        same("norm_backward: d_y", d_z, 2e-3);
    }
    clean();
}

/* has_sum: with a selection's sum, of variable 1 of V. */
static void check_gate_norm(size_t R, size_t W, int has_sum)
{
    const size_t V = 3;
    struct both *v = acts(R * W), *s = acts(R * W), *xhat = acts(R * W), *skip = acts(R * W), *bias_v = reals(W),
                *bias_g = reals(W), *inverse = reals(R), *z = acts(R * W), *gamma = reals(W), *beta = reals(W),
                *weights = reals(R * V), *sum = acts(R * W), *d_z = acts(R * W), *d_v = acts(R * W), *d_g = acts(R * W),
                *sum_v = reals(W), *sum_g = reals(W), *d_gamma = reals(W), *d_beta = reals(W), *d_sum = acts(R * W),
                *d_weights = reals(R * V),
                *const results[] = { d_z, d_v, d_g, sum_v, sum_g, d_gamma, d_beta, d_weights };

#define WEIGHTS has_sum ? (float *)AT(weights) + 1 : NULL
    BOTH(k->gate_norm(q, &(struct gate_norm){ .norm = { R, W, 1e-3f, AT(gamma), AT(beta) },
                                              .bias_v = AT(bias_v),
                                              .bias_g = AT(bias_g),
                                              .skip = AT(skip),
                                              .v = AT(v),
                                              .s = AT(s),
                                              .xhat = AT(xhat),
                                              .inverse = AT(inverse),
                                              .z = has_sum ? NULL : AT(z),
                                              .weights = WEIGHTS,
                                              .V = V,
                                              .add = R % 2,
                                              .sum = AT(sum) }));
    same("gate_norm: xhat", xhat, 1e-4);
    same("gate_norm: inverse", inverse, 1e-4);
    same("gate_norm: z", z, 1e-4);
    same("gate_norm: sum", sum, 1e-4);
    for (int add = 0; add < 2; add++) {
        BOTH(k->gate_norm_backward(q,
                                   &(struct gate_norm_backward){ .norm = { R, W, add, AT(xhat), AT(inverse), AT(gamma),
                                                                           AT(d_gamma), AT(d_beta), AT(d_z) },
                                                                 .bias_v = AT(bias_v),
                                                                 .bias_g = AT(bias_g),
                                                                 .v = AT(v),
                                                                 .s = AT(s),
                                                                 .d_v = AT(d_v),
                                                                 .d_g = AT(d_g),
                                                                 .sum_v = AT(sum_v),
                                                                 .sum_g = AT(sum_g),
                                                                 .weights = WEIGHTS,
                                                                 .V = V,
                                                                 .beta = AT(beta),
                                                                 .d_sum = AT(d_sum),
                                                                 .d_weights = (float *)AT(d_weights) + 1 }));
        for (size_t i = 0; i < sizeof results / sizeof *results; i++)
            same("gate_norm_backward", results[i], 2e-3);
    }
#undef WEIGHTS
    clean();
}

static void check_elu(size_t R, size_t W)
{
    struct both *e = acts(R * W), *d_e = acts(R * W), *sum = reals(W);

    BOTH(k->elu(q, R * W, AT(e)));
    same("elu", e, 1e-6);
    for (int add = 0; add < 2; add++) {
        BOTH(k->elu_backward(q, AT(e), R, W, add, AT(d_e), AT(sum)));
        same("elu_backward: d", d_e, 1e-6);
        same("elu_backward: sum", sum, 1e-5);
    }
    clean();
}

static void check_dropout(size_t R, size_t B, size_t W, double p)
{
    struct both *x = acts(R * W), *bias = reals(W), *keep = bytes(R * W), *u = acts(R * W);
    const struct masked_rows rows = { .dropout = dropout_of(p, 17, 4, ((uint64_t)1 << 32) - 2),
                                      .site = { 99, W * 3, 1 },
                                      .row = 2 * B,
                                      .R = R,
                                      .B = B,
                                      .W = W };

    BOTH(k->dropout(q, &rows, AT(x), AT(bias), AT(keep), AT(u)));
    same("dropout: u", u, 1e-6);
    same("dropout: keep", keep, 0);
    BOTH(k->dropout(q, &rows, AT(x), NULL, AT(keep), AT(u)));
    same("dropout without bias", u, 1e-6);
    BOTH(k->dropout_backward(q, &rows.dropout, AT(keep), R, W, 0, AT(u), NULL));
    same("dropout_backward", u, 1e-6);
    for (int add = 0; add < 2; add++) {
        BOTH(k->dropout_backward(q, &rows.dropout, AT(keep), R, W, add, AT(x), AT(bias)));
        same("dropout_backward, with a sum: d", x, 1e-6);
        same("dropout_backward: sum", bias, 1e-5);
    }
    clean();
}

static void check_selection(size_t R, size_t V, size_t W)
{
    struct both *z = reals(R * V), *d_w = reals(R * V), *xhat = acts(R * W), *gamma = reals(W), *beta = reals(W),
                *out = acts(R * W), *d_z = acts(R * W), *d_weights = reals(R * V);
    const size_t j = V - 1;

    BOTH(k->softmax(q, R, V, AT(z)));
    same("softmax", z, 1e-6);
    BOTH(k->softmax_backward(q, AT(z), R, V, AT(d_w)));
    same("softmax_backward", d_w, 1e-6);
    for (int add = 0; add < 2; add++) {
        BOTH(k->weighted_sum(q, &(struct weighted){ R, W, V, (float *)AT(z) + j, AT(xhat), AT(gamma), AT(beta) }, add,
                             AT(out)));
        same("weigh", out, 1e-6);
    }
    BOTH(k->weighted_sum_backward(q, &(struct weighted){ R, W, V, (float *)AT(z) + j, AT(xhat), AT(gamma), AT(beta) },
                                  AT(out), AT(d_z), (float *)AT(d_weights) + j));
    same("weigh_backward: d_z", d_z, 1e-6);
    same("weigh_backward: d_weights", d_weights, 1e-5);
    clean();
}

static void check_resample(size_t in, size_t out)
{
    struct both *mask = reals(out), *s = reals(in * out), *d_s = reals(in * out), *d_mask = reals(out);

    BOTH(k->resample(q, NULL, in, out, AT(s)));
    same("resample without a mask", s, 1e-6);
    BOTH(k->resample(q, AT(mask), in, out, AT(s)));
    same("resample", s, 1e-6);
    BOTH(k->resample_backward(q, AT(mask), AT(d_s), in, out, AT(d_mask)));
    same("resample_backward", d_mask, 1e-6);
    clean();
}

/* ---- products and sequences ---- */

/* The first factor and the result are activations; or, with b_acts, both factors. */
static void check_product(size_t M, size_t N, size_t K, int a_t, int b_t, int add, size_t batch, int b_acts)
{
    const size_t lda = (a_t ? M : K) + 3, ldb = (b_t ? K : N) + 1, ldc = N;
    const size_t step_a = (a_t ? K : M) * lda, step_b = (b_t ? N : K) * ldb, step_to = M * ldc;
    struct both *a = acts(batch * step_a + 1), *b = b_acts ? acts(batch * step_b + 1) : reals(batch * step_b + 1),
                *c = b_acts ? reals(batch * step_to) : acts(batch * step_to), *bias = reals(N + 2);

    /* The second bias is aligned less than the first. */
    for (int has_bias = 0; has_bias < 3; has_bias++) {
        BOTH(k->product(q, &(struct product){ .a = { AT(a), lda, a_t },
                                              .b = { AT(b), ldb, b_t },
                                              .M = M,
                                              .N = N,
                                              .K = K,
                                              .to = { AT(c), ldc, add },
                                              .bias = has_bias ? (float *)AT(bias) + has_bias - 1 : NULL,
                                              .batch = batch,
                                              .step_a = step_a,
                                              .step_b = step_b,
                                              .step_to = step_to }));
        same("product", c, 1e-5);
    }
    clean();
}

/* A product whose factor has to be rounded, but is more than the queue has room for. */
static void check_no_room(void)
{
    const struct queue_needs needs = { .bf16 = 1, .others = 8 };
    struct queue *queue;
    struct both *a = acts(9), *b = reals(9), *c = acts(9);

    cuda->to_host(there, NULL, 0, NULL); /* waits */
    REQUIRE(cuda->open(&needs, &queue) == HALAY_OK);
    cuda->product(queue,
                  &(struct product){
                      .a = { a->far, 3, 0 }, .b = { b->far, 3, 0 }, .M = 3, .N = 3, .K = 3, .to = { c->far, 3, 0 } });
    CHECK(cuda->failure(queue) != NULL, "a factor of 9 numbers in room for 8");
    cuda->close(queue);
    clean();
}

/* Weights that forecasts derive are rounded once, by the first product with one of them, until `begin`. */
static void check_folded(void)
{
    enum { N = 5, EACH = 32 };
    const struct queue_needs needs = { .bf16 = 1, .folded = 2 * EACH };
    struct queue *queue;
    struct both *a = acts(N * N), *folded = reals(2 * EACH), *c = acts(N * N);

    cuda->to_host(there, NULL, 0, NULL); /* waits */
    REQUIRE(cuda->open(&needs, &queue) == HALAY_OK);
    for (int i = 0; i < 4; i++) {
        const size_t at = i % 2 * EACH, launches = emu_calls ? emu_calls("cudaLaunchKernelEx") : 0;

        if (i == 2) {
            for (size_t k = 0; k < 2 * EACH; k++)
                ((float *)folded->near)[k] += 1;
            cuda->to_device(queue, folded->near, folded->bytes, folded->far);
        }
        if (i % 2 == 0)
            cuda->begin(queue, folded->far, folded->far);
        for (int is_far = 0; is_far < 2; is_far++) {
            const struct product product = { .a = { AT(a), N, 0 },
                                             .b = { (float *)AT(folded) + at, N, 0 },
                                             .M = N,
                                             .N = N,
                                             .K = N,
                                             .to = { AT(c), N, 0 } };

            (is_far ? cuda : cpu)->product(is_far ? queue : here, &product);
        }
        cuda->to_host(queue, NULL, 0, NULL);
        CHECK(!cuda->failure(queue), "a product of folded weights: %s", cuda->failure(queue));
        CHECK(!emu_calls || emu_calls("cudaLaunchKernelEx") - launches == (i % 2 == 0), "product %d rounds", i);
        same("a product of folded weights", c, 1e-5);
    }
    cuda->close(queue);
    clean();
}

/* In two blocks of steps. */
static void check_lstm(size_t S, size_t B, size_t H, int pads, double tolerance)
{
    const size_t some = S / 2;
    struct both *u = reals(H * 4 * H), *gates = acts(S * B * 4 * H), *h = acts((S + 1) * B * H),
                *c = reals((S + 1) * B * H), *padding = paddings(B, S, pads), *d_out = acts(S * B * H),
                *d_h = acts(B * H), *d_c = acts(B * H), *near_scratch = reals(cpu->lstm_scratch(S, B, H)),
                *far_scratch = acts(cuda->lstm_scratch(S, B, H));
#define STEPS(at, count)                                              \
    &(struct lstm_run){ .S = count,                                   \
                        .B = B,                                       \
                        .H = H,                                       \
                        .first = at,                                  \
                        .padding = AT(padding),                       \
                        .u = AT(u),                                   \
                        .gates = (float *)AT(gates) + (at)*B * 4 * H, \
                        .h = (float *)AT(h) + (at)*B * H,             \
                        .c = (float *)AT(c) + (at)*B * H }
#define BACK(at, goes)                                                                             \
    &(struct lstm_gradient)                                                                        \
    {                                                                                              \
        .d_out = (float *)AT(d_out) + (at)*B * H, .d_h = AT(d_h), .d_c = AT(d_c), .goes_on = goes, \
        .scratch = is_far ? far_scratch->far : near_scratch->near                                  \
    }

    BOTH(k->lstm(q, STEPS(0, some)); k->lstm(q, STEPS(some, S - some)));
    same("lstm: gates", gates, tolerance);
    same("lstm: h", h, tolerance);
    same("lstm: c", c, tolerance);
    for (size_t t = 0; t < S && padding; t++) /* what is said of steps that do not exist */
        for (size_t b = 0; b < B; b++)
            if (t < ((const size_t *)padding->near)[b])
                memset((float *)d_out->near + (t * B + b) * H, 0, H * sizeof(float));
    upload(d_out);
    const size_t copies = emu_calls ? emu_calls("cudaMemcpyAsync") : 0;
    BOTH(k->lstm_backward(q, STEPS(some, S - some), BACK(some, 0)); k->lstm_backward(q, STEPS(0, some), BACK(0, 1)));
    if (emu_calls) /* none a step */
        CHECK(emu_calls("cudaMemcpyAsync") - copies <= some % 2 + (S - some) % 2, "%zu copies",
              emu_calls("cudaMemcpyAsync") - copies);
#undef STEPS
#undef BACK
    same("lstm_backward: gates", gates, 10 * tolerance);
    same("lstm_backward: d_h", d_h, 10 * tolerance);
    same("lstm_backward: d_c", d_c, 10 * tolerance);
    clean();
}

static void check_bf16_lstm(size_t S, size_t B, size_t H, int pads)
{
    const struct queue_needs bf16 = { .bf16 = 1 };
    struct queue *near_f32 = here, *far_f32 = there;

    REQUIRE(cpu->open(&bf16, &here) == HALAY_OK && cuda->open(&bf16, &there) == HALAY_OK);
    check_lstm(S, B, H, pads, 1e-2);
    cpu->close(here);
    cuda->close(there);
    here = near_f32;
    there = far_f32;
}

/* What a cell keeps over many steps is not rounded at each: with gates that let 1 - 1/256 of d_c pass, and nothing
 * else, .75 would become .5. */
static void check_long_memory(void)
{
    enum { S = 64, B = 70, H = 2, FORGET = H, STATE = B * H }; /* a launch for each step */
    struct both *u = reals(H * 4 * H), *gates = acts(S * STATE * 4), *h = acts((S + 1) * STATE),
                *c = reals((S + 1) * STATE), *d_out = acts(S * STATE), *d_h = acts(STATE), *d_c = acts(STATE),
                *scratch = acts(cuda->lstm_scratch(S, B, H));
    struct both *const zeros[] = { u, gates, d_out, d_h };
    float got[STATE];

    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
        memset(zeros[i]->near, 0, zeros[i]->bytes);
        for (size_t row = 0; zeros[i] == gates && row < S * B; row++)
            for (size_t k = 0; k < H; k++)
                ((float *)gates->near)[row * 4 * H + FORGET + k] = 1 - 1.0f / 256;
        upload(zeros[i]);
    }
    for (size_t i = 0; i < STATE; i++)
        ((float *)d_c->near)[i] = 0.75f;
    upload(d_c);
    cuda->lstm_backward(
        there, &(struct lstm_run){ .S = S, .B = B, .H = H, .u = u->far, .gates = gates->far, .h = h->far, .c = c->far },
        &(struct lstm_gradient){ .d_out = d_out->far, .d_h = d_h->far, .d_c = d_c->far, .scratch = scratch->far });
    download(d_c, got);
    CHECK(fabs(got[STATE - 1] / (0.75 * pow(1 - 1.0 / 256, S)) - 1) < 1.0 / 256, "d_c is %g", (double)got[STATE - 1]);
    clean();
}

/* U in f32 split over blocks, then in bf16 in each of them: as many blocks as there are multiprocessors, and more. */
static void check_all_lstm(void)
{
    check_lstm(4, 3, 5, 0, 1e-4);
    check_lstm(3, 2, 6, 1, 1e-4);
    check_lstm(4, 70, 3, 1, 1e-4); /* a launch for each step */
    check_long_memory();
    check_lstm(3, 9, 12, 1, 1e-4); /* by four */
    check_lstm(3, 33, 8, 0, 1e-4);
    check_lstm(3, 257, 1, 1, 1e-4);
    check_bf16_lstm(3, 3, 5, 1);
    check_bf16_lstm(3, 9, 18, 0);
    check_bf16_lstm(2, 35, 6, 1); /* two groups a block */
}

struct attention_sizes {
    size_t B, T, N, heads, d;
    int strict, pads;
    double dropout;
};

static void check_attention(const struct attention_sizes *z)
{
    const size_t B = z->B, T = z->T, N = z->N, heads = z->heads, d = z->d, H = heads * d;
    struct both *query = acts(N * B * H), *key = acts(T * B * H), *v = acts(T * B * d), *a = reals(B * heads * N * T),
                *keep = bytes(B * heads * N * d), *mean = acts(N * B * d),
                *near_scratch = reals(cpu->attention_scratch(B, T, N, heads, d)),
                *far_scratch = reals(cuda->attention_scratch(B, T, N, heads, d)),
                *padding = paddings(B, T - N, z->pads), *d_mean = acts(N * B * d), *d_q = acts(N * B * H),
                *d_k = acts(T * B * H), *d_v = acts(T * B * d);
#define RUN                                                              \
    &(struct attention_run){ .B = B,                                     \
                             .T = T,                                     \
                             .N = N,                                     \
                             .heads = heads,                             \
                             .d = d,                                     \
                             .strict = z->strict,                        \
                             .padding = AT(padding),                     \
                             .dropout = dropout_of(z->dropout, 3, 1, 8), \
                             .site = { 7, H, 0 },                        \
                             .q = AT(query),                             \
                             .k = AT(key),                               \
                             .v = AT(v),                                 \
                             .a = AT(a),                                 \
                             .keep = AT(keep),                           \
                             .scratch = is_far ? far_scratch->far : near_scratch->near }

    BOTH(k->attention(q, RUN, AT(mean)));
    same("attention: a", a, 1e-5);
    same("attention: mean", mean, 1e-5);
    if (z->dropout > 0)
        same("attention: keep", keep, 0);
    BOTH(k->attention_backward(q, RUN, &(struct attention_gradient){ AT(d_mean), AT(d_q), AT(d_k), AT(d_v) }));
    same_rounded("attention_backward: d_q", d_q, 1e-5);
    same_rounded("attention_backward: d_k", d_k, 1e-5);
    same_rounded("attention_backward: d_v", d_v, 1e-5);
#undef RUN
    clean();
}

/* ---- outputs and optimizer ---- */

static void check_outputs(size_t D, size_t B, size_t Q, size_t O)
{
    const double quantiles[] = { 0.1, 0.5, 0.9 }, zero = 0;
    struct both *o = reals(D * B * Q * O), *d_p = reals(D * B * Q * O), *y = reals(B * D * O), *w = reals(B * D * O),
                *loss = both(&zero, sizeof zero), *out = reals(B * D * O * Q);
    double got;

    BOTH(k->ascending(q, D * B, Q, O, AT(o)));
    same("ascending", o, 1e-6);
    BOTH(k->ascending_backward(q, AT(o), D * B, Q, O, AT(d_p)));
    same("ascending_backward", d_p, 1e-5);
    ((float *)w->near)[0] = 0;
    ((float *)y->near)[0] = NAN; /* masked: it may be anything */
    for (size_t i = 1; i < B * D * O; i++)
        ((float *)w->near)[i] = fabsf(((float *)w->near)[i]) + 0.1f;
    cuda->to_device(there, w->near, w->bytes, w->far);
    cuda->to_device(there, y->near, y->bytes, y->far);
    BOTH(k->loss(
        q,
        &(struct outputs_run){
            .D = D, .B = B, .P = Q, .O = O, .quantiles = quantiles, .scale = 0.25, .p = AT(o), .y = AT(y), .w = AT(w) },
        AT(loss), AT(d_p)));
    same("loss: d_p", d_p, 1e-6);
    cuda->to_host(there, loss->far, sizeof got, &got);
    CHECK(fabs(got - *(double *)loss->near) < 1e-6 * (1 + fabs(got))); /* of forecasts that differ by rounding */
    BOTH(k->samples_first(q, &(struct outputs_run){ .D = D, .B = B, .P = Q, .O = O, .p = AT(o) }, AT(out)));
    same("samples_first", out, 1e-6);
    clean();
}

static void check_loss(enum tft_loss which)
{
    enum { D = 3, B = 2, O = 2 };
    const size_t P = tft_loss_outputs(which, 0), n = D * B * O;
    const double zero = 0;
    struct both *p = reals(n * P), *d_p = reals(n * P), *y = reals(n), *w = reals(n), *offsets = reals(n),
                *units = reals(B * O), *loss = both(&zero, sizeof zero);
    double got;

    for (size_t i = 0; i < n; i++) {
        ((float *)w->near)[i] = i == 1 ? 0 : fabsf(((float *)w->near)[i]) + 0.1f;
        ((float *)y->near)[i] = tft_loss_is_unscaled(which) ? (float)(next() % 5) : ((float *)y->near)[i];
        if (i < B * O)
            ((float *)units->near)[i] = fabsf(((float *)units->near)[i]) + 0.5f;
    }
    cuda->to_device(there, w->near, w->bytes, w->far);
    cuda->to_device(there, y->near, y->bytes, y->far);
    cuda->to_device(there, units->near, units->bytes, units->far);
    BOTH(k->loss(q,
                 &(struct outputs_run){ .D = D,
                                        .B = B,
                                        .P = P,
                                        .O = O,
                                        .loss = which,
                                        .power = 1.5,
                                        .scale = 0.5,
                                        .p = AT(p),
                                        .y = AT(y),
                                        .w = AT(w),
                                        .offsets = AT(offsets),
                                        .units = AT(units) },
                 AT(loss), AT(d_p)));
    same("loss: d_p", d_p, 1e-6);
    cuda->to_host(there, loss->far, sizeof got, &got);
    CHECK(fabs(got - *(double *)loss->near) < 1e-9 * (1 + fabs(got)), "loss %d: %g", (int)which, got);
    clean();
}

/* Two tensors, of n numbers and of a few, one after the other on the processor, in chunks on the device. */
static void check_optimizer(size_t n, int clips)
{
    enum { FEW = 7, CHUNK = 100 };
    const size_t parts = (n + CHUNK - 1) / CHUNK, all = n + FEW, from[] = { 0, n }, count[] = { n, FEW };
    const double zeros[2] = { 0, 0 }, decay = 1e-1;
    struct both *g = reals(all), *m = reals(all), *v = reals(all), *p = reals(all),
                *squares = both(zeros, sizeof zeros);
    struct chunk *list = calloc(parts + 1, sizeof *list);
    double got[2];

    REQUIRE(list);
    for (size_t k = 0; k <= parts; k++)
        list[k] = k < parts ? (struct chunk){ 0, k * CHUNK, k + 1 < parts ? CHUNK : n - k * CHUNK, k ? 0 : parts, 1 }
                            : (struct chunk){ 1, n, FEW, 1, 0 };
    struct both *there_list = both(list, (parts + 1) * sizeof *list),
                *partial = both(list, (parts + 1) * sizeof(double));
    const struct chunks chunks = { there_list->far, partial->far, parts + 1, all };
    struct adam_run run = { .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7, .rate = 1e-2, .clip = 0.5 };

    for (size_t i = 0; i < all; i++)
        ((float *)v->near)[i] = fabsf(((float *)v->near)[i]);
    cuda->to_device(there, v->near, v->bytes, v->far);
    for (size_t t = 0; t < 2; t++)
        cpu->squares(here, (float *)g->near + from[t], count[t], (double *)squares->near + t);
    cuda->squares_all(there, &chunks, g->far, squares->far);
    cuda->to_host(there, squares->far, sizeof got, got);
    for (size_t t = 0; t < 2; t++)
        CHECK(fabs(got[t] - ((double *)squares->near)[t]) < 1e-9 * (1 + got[t]), "squares of tensor %zu", t);
    run.count = clips == 2 ? 2 : 1;
    for (size_t t = 0; t < 2; t++) {
        run.squares = clips == 2 ? squares->near : clips ? (double *)squares->near + t : NULL;
        run.decay = t ? 0 : decay; /* the second tensor does not */
        cpu->adam(here, &run, (float *)g->near + from[t], count[t], (float *)m->near + from[t],
                  (float *)v->near + from[t], (float *)p->near + from[t]);
    }
    run.squares = clips ? squares->far : NULL;
    run.decay = decay;
    cuda->adam_all(there, &run, &chunks, g->far, m->far, v->far, p->far);
    same("adam: m", m, 1e-6);
    same("adam: v", v, 1e-6);
    same("adam: p", p, 1e-5);
    BOTH(k->average(q, 0.3, AT(p), all, AT(m)));
    same("average", m, 1e-5);
    free(list);
    clean();
}

/* What a sparse gradient holds shows in the table that it updates. */
static void check_sparse(size_t R, int32_t rows, size_t W)
{
    const struct sparse shape = { 2 * R, W };
    const double zero = 0;
    struct both *x = acts(R * W), *y = acts(R * W), *code = codes(R, rows), *other = codes(R, rows),
                *left = reals(sparse_reals(shape.most, W)), *right = reals(sparse_reals(shape.most, W)),
                *m = reals((size_t)rows * W), *v = reals((size_t)rows * W), *p = reals((size_t)rows * W),
                *sum = both(&zero, sizeof zero), *scratch = reals(cuda->rows_scratch(R, W));
    double got;

    for (size_t i = 0; i < (size_t)rows * W; i++)
        ((float *)v->near)[i] = fabsf(((float *)v->near)[i]);
    cuda->to_device(there, v->near, v->bytes, v->far);
    BOTH(k->sparse_put(q, AT(x), AT(code), R, shape, AT(left), FAR(scratch)));
    BOTH(k->sparse_put(q, AT(y), AT(other), R, shape, AT(right), FAR(scratch)));
    BOTH(k->sparse_add(q, AT(right), shape, AT(left)));
    BOTH(k->sparse_squares(q, AT(left), shape, AT(sum)));
    cuda->to_host(there, sum->far, sizeof got, &got);
    CHECK(fabs(got - *(double *)sum->near) < 1e-5 * (1 + got));
    BOTH(k->sparse_adam(
        q, &(struct adam_run){ .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-7, .rate = 0.1, .clip = 1, .count = 1 },
        AT(left), shape, AT(m), AT(v), AT(p)));
    same("sparse_adam: m", m, 1e-5);
    same("sparse_adam: v", v, 1e-5);
    same("sparse_adam: p", p, 1e-4);
    clean();
}

/* Numbers of rows around those of a block and of powers of two, and codes that repeat much, little, or not at all. */
static void check_sparse_codes(size_t R, int32_t rows)
{
    const struct sparse shape = { R, 2 };
    const size_t n = sparse_reals(R, 2);
    struct both *x = reals(R * 2), *code = codes(R, rows), *to = reals(n),
                *scratch = reals(cuda->rows_scratch(R, shape.W));
    float *got = malloc(n * sizeof *got);

    REQUIRE(got);
    BOTH(k->sparse_put(q, AT(x), AT(code), R, shape, AT(to), FAR(scratch)));
    cuda->to_host(there, to->far, n * sizeof *got, got);
    const struct sparse_parts want = sparse_parts_of(to->near, shape), have = sparse_parts_of(got, shape);
    const size_t count = (size_t)*want.count;
    CHECK(*have.count == *want.count, "%zu rows of %d codes: %d, not %d", R, rows, *have.count, *want.count);
    CHECK(!memcmp(have.codes, want.codes, count * sizeof *want.codes), "%zu rows of %d codes: codes", R, rows);
    for (size_t i = 0; i < 2 * count; i++)
        if (!CHECK(fabsf(have.rows[i] - want.rows[i]) <= 1e-5f * (1 + fabsf(want.rows[i])),
                   "%zu rows of %d codes: sum %zu is %g, not %g", R, rows, i, (double)have.rows[i],
                   (double)want.rows[i]))
            break;
    free(got);
    clean();
}

static void check_all_sparse(void)
{
    check_sparse(6, 9, 5);
    check_sparse(3, 40, 33);
    check_sparse_codes(1, 1);
    check_sparse_codes(257, 1 << 30);
    check_sparse_codes(511, 1);
    check_sparse_codes(1000, 40);
    check_sparse_codes(1025, 4096);
}

/* Much to do for each kernel: no thread does much of it. */
static void check_wide(void)
{
    is_wide = 1;
    narrow_tolerance = 0.1; /* of sums over many rows */
    check_rows(2100, 20);
    check_swaps(16, 33, 20);
    check_columns(32, 32, 1);
    check_norm(512, 40);
    check_elu(512, 40);
    check_gate_norm(520, 40, 1);
    check_dropout(512, 8, 40, 0.3);
    check_selection(512, 3, 40);
    check_outputs(8, 128, 3, 1);
    check_sparse(512, 4096, 8);
    check_sparse_codes(2100, 5);
    check_attention(&(struct attention_sizes){ 2, 67, 35, 2, 32, 0, 0, 0 });
    check_lstm(2, 20, 32, 0, 1e-4);
    check_bf16_lstm(2, 40, 32, 0);
}

/* Sizes that are no multiples of anything. */
static void check_odd(void)
{
    check_rows(37, 12);
    check_rows(9, 33);
    check_rows(1, 1);
    check_swaps(3, 5, 7);
    check_swaps(4, 1, 2);
    check_all_windows();
    check_columns(3, 5, 0);
    check_columns(3, 5, 1);
    check_norm(19, 40);
    check_norm(3, 7);
    check_elu(21, 12);
    check_elu(5, 35);
    check_gate_norm(21, 12, 0);
    check_gate_norm(6, 70, 1);
    check_gate_norm(3, 201, 1);
    check_gate_norm(9, 260, 1); /* one kernel after the other */
    check_gate_norm(2, 260, 0);
    check_dropout(12, 3, 10, 0.3);
    check_dropout(4, 1, 7, 0);
    check_selection(11, 4, 12);
    check_selection(3, 40, 5);
    check_selection(2, 1, 9);
    check_resample(5, 12);
    check_resample(12, 5);
    check_resample(1, 3);
    check_product(5, 7, 9, 0, 0, 0, 1, 0);
    check_product(3, 4, 6, 1, 0, 1, 2, 1);
    check_product(4, 3, 5, 0, 1, 0, 3, 0);
    check_product(1, 2, 3, 1, 1, 1, 1, 1);
    if (is_narrow) {
        check_no_room();
        check_folded();
    }
    check_all_lstm();
    check_attention(&(struct attention_sizes){ 2, 9, 3, 2, 4, 0, 0, 0 });
    check_attention(&(struct attention_sizes){ 3, 7, 2, 1, 5, 1, 1, 0.2 });
    check_attention(&(struct attention_sizes){ 1, 40, 12, 3, 6, 0, 0, 0.1 });
    check_attention(&(struct attention_sizes){ 2, 67, 35, 1, 4, 0, 1, 0 });  /* more than a tile, of queries, too */
    check_attention(&(struct attention_sizes){ 1, 9, 6, 1, 1001, 0, 0, 0 }); /* 64 such keys have no room */
    if (is_narrow)
        check_attention(&(struct attention_sizes){ 1, 9, 8, 1, 4004, 0, 0, 0 }); /* chunks of one query */
    check_outputs(4, 3, 3, 2);
    check_outputs(1, 1, 1, 1);
    for (enum tft_loss which = TFT_LOSS_MAE; which <= TFT_LOSS_STUDENT_T; which++)
        check_loss(which);
    check_optimizer(300, 1);
    check_optimizer(250, 2);
    check_optimizer(5, 0);
    check_all_sparse();
}

int main(int argc, char **argv)
{
    cpu = tft_kernels_cpu();
    cuda = tft_kernels_cuda();
    if (getenv("EMU_SEED"))
        state = 2654435761u * (uint32_t)strtoul(getenv("EMU_SEED"), NULL, 10) + 1;
    for (is_narrow = 0; is_narrow < 2; is_narrow++) {
        const struct queue_needs needs = { 0 }, narrow = { .bf16 = 1, .others = 1 << 10 };

        REQUIRE(cpu->open(&needs, &here) == HALAY_OK);
        REQUIRE(cuda->open(is_narrow ? &narrow : &needs, &there) == HALAY_OK);
        if (argc > 1 && !strcmp(argv[1], "wide"))
            check_wide();
        else
            check_odd();
        cpu->close(here);
        cuda->close(there);
    }
    return test_end();
}
