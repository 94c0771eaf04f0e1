/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce, gather and scatter over the fake transport, compared with a plain loop: every type, any root, sets of some
 * ranks, rows that differ and change, no rows, in place, results in the request's memory, errors on one rank, and
 * errors that negotiation finds on all ranks. Random programs mix them with other operations (program.c).
 */
#include "base/half.h"
#include "halay_tools.h"
#include "tests/fusion/ranks.h"

enum { COLUMNS = 3, ROWS = 6, ROOM = RANKS_MAX * (ROWS + RANKS_MAX) * COLUMNS };

/* The ranks of a set in which this body runs; by = the number in the set. */
struct part {
    struct halay_process_set *set; /* NULL: all */
    int size, by, ranks[RANKS_MAX];
};

static struct part all_of(const struct rank_run *run)
{
    struct part part = { .size = run->size, .by = run->rank };

    for (int r = 0; r < run->size; r++)
        part.ranks[r] = r;
    return part;
}

/* Returns an element of a member's input: an odd number, small enough for each type. */
static unsigned element_of(int member, size_t i)
{
    return (unsigned)((size_t)member * 29 + i * 7) % 120 | 1;
}

static void put_bytes(void *data, size_t count, size_t element, int member)
{
    for (size_t i = 0; i < count * element; i++)
        ((unsigned char *)data)[i] = (unsigned char)element_of(member, i);
}

static int has_bytes(const void *data, size_t first, size_t count, size_t element, int member)
{
    for (size_t i = 0; i < count * element; i++)
        if (((const unsigned char *)data)[i] != (unsigned char)element_of(member, first * element + i))
            return 0;
    return 1;
}

/* Runs it to its end; the request is the caller's. */
static struct halay_request *run_info(struct rank_run *run, const struct halay_tensor_info *info)
{
    struct halay_request *request;

    REQUIRE(halay_submit_named(run->ctx, info, NULL, NULL, &request) == HALAY_OK);
    CHECK(halay_wait(request, 60000) == HALAY_OK, "%s", halay_request_text(request));
    return request;
}

/* ---- gather and scatter ---- */

static size_t rows_of(int member, size_t each)
{
    return member % 3 == 2 ? 0 : each * (size_t)(member + 1) % (ROWS + 1);
}

struct moved {
    enum halay_dtype dtype;
    size_t each; /* the number of a member's rows, for rows_of */
    int root;    /* a number in the set */
    enum { PLAIN, HELD, IN_PLACE, BESIDE } where;
};

static void run_gather(struct rank_run *run, const struct part *part, const struct moved *m)
{
    size_t element = halay_dtype_size(m->dtype), row = COLUMNS * element, first = 0, all = 0;
    size_t mine = rows_of(part->by, m->each);
    double in[ROOM], out[ROOM]; /* aligned for each type */
    struct halay_result result = { .struct_size = sizeof result };
    int is_root = part->by == m->root;

    for (int r = 0; r < part->size; r++) {
        first += r < part->by ? rows_of(r, m->each) : 0;
        all += rows_of(r, m->each);
    }
    memset(out, 0xee, sizeof out);
    char *from = (char *)in;
    if (is_root && m->where >= IN_PLACE)
        from = (char *)out + (first + (m->where == BESIDE)) * row;
    put_bytes(from, mine * COLUMNS, element, part->by);
    struct halay_request *request =
        run_info(run, &(struct halay_tensor_info){ .struct_size = sizeof(struct halay_tensor_info),
                                                   .name = "gather",
                                                   .collective = HALAY_GATHER,
                                                   .dtype = m->dtype,
                                                   .dimensions = 2,
                                                   .shape = { mine, COLUMNS },
                                                   .in = from,
                                                   .out = m->where == HELD ? NULL : out,
                                                   .out_bytes = sizeof out,
                                                   .root = part->ranks[m->root],
                                                   .set = part->set });
    CHECK(halay_request_result(request, &result) == HALAY_OK);
    CHECK(result.shape[0] == (is_root ? all : 0) && result.bytes == result.shape[0] * row);
    size_t at = 0;
    for (int r = 0; r < part->size; r++) {
        CHECK(result.rows[r] == rows_of(r, m->each));
        if (is_root)
            CHECK(has_bytes((char *)result.data + at * row, 0, rows_of(r, m->each) * COLUMNS, element, r),
                  "%s from rank %d, case %d", halay_dtype_name(m->dtype), r, (int)m->where);
        at += rows_of(r, m->each);
    }
    size_t wrong = 0;
    for (size_t i = is_root && m->where != HELD ? (all + 1) * row : 0; i < sizeof out; i++)
        wrong += ((unsigned char *)out)[i] != 0xee;
    CHECK(!wrong, "%zu bytes written outside", wrong);
    halay_request_free(request);
}

static void run_scatter(struct rank_run *run, const struct part *part, const struct moved *m, int has_splits)
{
    size_t element = halay_dtype_size(m->dtype), row = COLUMNS * element, first = 0, all = 0, splits[RANKS_MAX];
    double in[ROOM], out[ROOM];
    struct halay_result result = { .struct_size = sizeof result };
    int is_root = part->by == m->root;

    for (int r = 0; r < part->size; r++)
        all += splits[r] = rows_of(r, m->each);
    for (int r = 0; r < part->size && !has_splits; r++)
        splits[r] = halay_scatter_rows(all, part->size, r, NULL);
    for (int r = 0; r < part->by; r++)
        first += splits[r];
    memset(out, 0xee, sizeof out);
    put_bytes(in, all * COLUMNS, element, m->root);
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "scatter",
                                      .collective = HALAY_SCATTER,
                                      .dtype = m->dtype,
                                      .dimensions = 2,
                                      .shape = { is_root ? all : 1000, COLUMNS }, /* the root's counts */
                                      .in = is_root ? in : NULL,
                                      .out = m->where == HELD ? NULL : out,
                                      .out_bytes = sizeof out,
                                      .splits = is_root && has_splits ? splits : NULL,
                                      .root = part->ranks[m->root],
                                      .set = part->set };
    if (is_root && m->where == IN_PLACE)
        info.out = (char *)in + first * row;
    struct halay_request *request = run_info(run, &info);
    CHECK(halay_request_result(request, &result) == HALAY_OK);
    CHECK(result.shape[0] == splits[part->by] && result.bytes == splits[part->by] * row);
    CHECK(result.rows[m->root] == splits[part->by]);
    CHECK(has_bytes(result.data, first * COLUMNS, splits[part->by] * COLUMNS, element, m->root), "%s, case %d",
          halay_dtype_name(m->dtype), (int)m->where);
    CHECK(!is_root || has_bytes(in, 0, all * COLUMNS, element, m->root), "the rows were written to");
    halay_request_free(request);
}

static void run_move(struct rank_run *run, const struct part *part)
{
    for (int dtype = 0; dtype < HALAY_DTYPE_COUNT; dtype++)
        for (int root = 0; root < part->size; root++)
            for (int where = PLAIN; where <= BESIDE; where++) {
                struct moved m = { (enum halay_dtype)dtype, (size_t)(dtype + where) % 4, root, where };
                run_gather(run, part, &m);
                run_scatter(run, part, &m, (dtype + root) % 2);
            }
}

/* ---- reduce ---- */

enum { COUNT = 100 };

static void run_reduce(struct rank_run *run, const struct part *part, enum halay_reduction reduction, int root,
                       int kind)
{
    float in[COUNT], out[COUNT], want;
    struct halay_result result = { .struct_size = sizeof result };
    int is_root = part->by == root, is_scaled = kind == 2;
    size_t count = kind == 3 ? 0 : COUNT;

    for (size_t i = 0; i < COUNT; i++) {
        in[i] = (float)element_of(part->by, i);
        out[i] = kind == 1 ? in[i] : -1;
    }
    struct halay_request *request =
        run_info(run, &(struct halay_tensor_info){ .struct_size = sizeof(struct halay_tensor_info),
                                                   .name = "reduce",
                                                   .collective = HALAY_REDUCE,
                                                   .dimensions = 1,
                                                   .shape = { count },
                                                   .in = kind == 1 ? NULL : in,
                                                   .out = kind == 1 || is_root ? out : NULL,
                                                   .reduction = reduction,
                                                   .prescale = is_scaled ? 2 : 0,
                                                   .postscale = is_scaled ? 0.5 : 0,
                                                   .root = part->ranks[root],
                                                   .set = part->set });
    CHECK(halay_request_result(request, &result) == HALAY_OK && !result.rows);
    CHECK(result.data == (is_root ? out : NULL) && result.bytes == (is_root ? count * sizeof *out : 0));
    for (size_t i = 0; i < COUNT; i++) {
        want = (float)element_of(0, i);
        for (int r = 1; r < part->size; r++) {
            float one = (float)element_of(r, i);
            if (reduction == HALAY_MAX)
                want = one > want ? one : want;
            else
                want += one;
        }
        want = reduction == HALAY_AVERAGE ? want / (float)part->size : want;
        if (is_root && i < count)
            CHECK(out[i] > want - 0.01f && out[i] < want + 0.01f, "%g, not %g", (double)out[i], (double)want);
        else
            CHECK(out[i] == (kind == 1 ? in[i] : -1), "written where nothing was due");
        CHECK(in[i] == (float)element_of(part->by, i));
    }
    halay_request_free(request);
}

static void put_number(void *data, enum halay_dtype dtype, int number)
{
    float f = (float)number;
    double d = number;
    uint16_t half = dtype == HALAY_F16 ? halay_f32_to_f16(f) : halay_f32_to_bf16(f);
    int64_t i = dtype == HALAY_BOOL ? number != 0 : number; /* integers lie lowest byte first */
    const void *from = &i;

    if (dtype == HALAY_F32)
        from = &f;
    else if (dtype == HALAY_F64)
        from = &d;
    else if (dtype == HALAY_F16 || dtype == HALAY_BF16)
        from = &half;
    memcpy(data, from, halay_dtype_size(dtype));
}

/* Sums of every type. */
static void reduce_type(struct rank_run *run, const struct part *part, enum halay_dtype dtype, int root)
{
    double in, out, want;

    put_number(&in, dtype, part->by + 1);
    put_number(&want, dtype, part->size * (part->size + 1) / 2);
    CHECK(halay_reduce(run->ctx, "one", &in, &out, 1, dtype, HALAY_SUM, root) == HALAY_OK);
    CHECK(part->by != root || !memcmp(&out, &want, halay_dtype_size(dtype)), "%s", halay_dtype_name(dtype));
}

static void reduce_all(struct rank_run *run, const struct part *part)
{
    static const enum halay_reduction reductions[] = { HALAY_SUM, HALAY_AVERAGE, HALAY_MAX };

    for (size_t k = 0; k < sizeof reductions / sizeof *reductions; k++)
        for (int root = 0; root < part->size; root++)
            for (int kind = 0; kind < 4; kind++) /* plain, in place, scaled, empty */
                run_reduce(run, part, reductions[k], root, kind);
    for (int dtype = 0; dtype < HALAY_DTYPE_COUNT && !part->set; dtype++)
        reduce_type(run, part, (enum halay_dtype)dtype, part->size / 2);
}

/* ---- bodies ---- */

static void body_all(struct rank_run *run)
{
    struct part part = all_of(run);

    run_move(run, &part);
    reduce_all(run, &part);
}

/* Two sets, one without rank 0, both at work at once; roots are ranks of the job. */
static void body_sets(struct rank_run *run)
{
    struct part part = { .size = 0 };

    for (int r = run->rank % 2 ? 1 : 0; r < run->size; r += 2) {
        part.by = r == run->rank ? part.size : part.by;
        part.ranks[part.size++] = r;
    }
    REQUIRE(halay_process_set_create(run->ctx, part.ranks, (size_t)part.size, &part.set) == HALAY_OK);
    run_move(run, &part);
    reduce_all(run, &part);
    float x = 0;
    struct halay_request *request;
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "r",
                                      .collective = HALAY_REDUCE,
                                      .out = &x,
                                      .root = 1 - run->rank % 2,
                                      .set = part.set };
    CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_ERR_ARGUMENT, "root is not a member");
}

static uint64_t count_negotiations(struct halay_context *ctx)
{
    struct halay_counters counters = { .struct_size = sizeof counters };

    REQUIRE(halay_counters_read(ctx, &counters) == HALAY_OK);
    return counters.negotiations;
}

/* By handle, without negotiation from the second time on; plain calls; too little room at the root alone. */
static void body_steady(struct rank_run *run)
{
    enum { KINDS = 3 };
    int32_t in[RANKS_MAX], out[RANKS_MAX], root = run->size - 1;
    static const enum halay_collective kinds[KINDS] = { HALAY_REDUCE, HALAY_GATHER, HALAY_SCATTER };
    static const char *const names[KINDS] = { "reduce", "gather", "scatter" };
    struct halay_tensor *tensors[KINDS];
    struct halay_request *requests[KINDS];
    size_t rows_from[RANKS_MAX], got = 77;
    uint64_t before = 0;

    for (int k = 0; k < KINDS; k++) {
        size_t rows = k == 2 ? (size_t)run->size : 1;
        struct halay_tensor_info info = { .struct_size = sizeof info,
                                          .name = names[k],
                                          .collective = kinds[k],
                                          .dtype = HALAY_I32,
                                          .dimensions = 1,
                                          .shape = { rows },
                                          .in = in,
                                          .out = k == 1 ? out + 1 : &out[k / 2 * (RANKS_MAX - 1)],
                                          .out_bytes = k == 2 ? 4 : 4 * (RANKS_MAX - 2),
                                          .root = root };
        REQUIRE(halay_register(run->ctx, &info, &tensors[k]) == HALAY_OK);
    }
    for (int step = 0; step < 4; step++) {
        for (int r = 0; r < run->size; r++)
            in[r] = run->rank + 1 + r + step;
        CHECK(halay_submit_many(tensors, KINDS, NULL, NULL, requests) == HALAY_OK);
        CHECK(halay_wait_all(requests, KINDS, 60000) == HALAY_OK);
        for (int k = 0; k < KINDS; k++)
            halay_request_free(requests[k]);
        CHECK(out[RANKS_MAX - 1] == root + 1 + run->rank + step, "%d", out[RANKS_MAX - 1]);
        if (run->rank == root)
            CHECK(out[0] == run->size * (run->size + 1) / 2 + run->size * step && out[1] == 1 + step);
        before = step ? before : count_negotiations(run->ctx);
        CHECK(count_negotiations(run->ctx) == before, "a steady step sends ids only");
    }
    for (int k = 0; k < KINDS; k++)
        CHECK(halay_unregister(tensors[k]) == HALAY_OK);
    CHECK(halay_scatter(run->ctx, "s", in, NULL, (size_t)run->size, 1, HALAY_I32, out, 1, 0, &got) == HALAY_OK);
    CHECK(got == 1 && out[0] == 4 + run->rank);
    int lacks = run->rank == root;
    CHECK(halay_gather(run->ctx, "short", in, 2, 1, HALAY_I32, out, 1, root, rows_from) ==
          (lacks ? HALAY_ERR_ARGUMENT : HALAY_OK));
    CHECK(rows_from[0] == 2);
}

/* No request ends without the missing rank; withdrawn, they end in the same way on all ranks, and the next ones
 * complete. */
static void body_canceled(struct rank_run *run)
{
    struct halay_request *request;
    int32_t x[RANKS_MAX] = { 0 }, y[RANKS_MAX];

    for (int kind = 0; kind < 3; kind++) {
        if (run->rank == run->size - 1)
            CHECK(halay_barrier(run->ctx, "the others have") == HALAY_OK);
        enum halay_status status =
            kind == 0   ? halay_reduce_async(run->ctx, "c", x, y, 1, HALAY_I32, HALAY_SUM, 0, &request)
            : kind == 1 ? halay_gather_async(run->ctx, "c", x, 1, 1, HALAY_I32, y, RANKS_MAX, 0, &request)
                        : halay_scatter_async(run->ctx, "c", x, NULL, 8, 1, HALAY_I32, y, RANKS_MAX, 0, &request);
        CHECK(status == HALAY_OK);
        if (run->rank == 0)
            CHECK(halay_cancel(request) == HALAY_OK);
        if (run->rank < run->size - 1)
            CHECK(halay_wait(request, 60000) == HALAY_ERR_CANCELED &&
                  halay_barrier(run->ctx, "the others have") == HALAY_OK);
        CHECK(halay_wait(request, 60000) == HALAY_ERR_CANCELED, "%s", halay_request_text(request));
        halay_request_free(request);
    }
    CHECK(halay_reduce(run->ctx, "c", x, y, 1, HALAY_I32, HALAY_SUM, 0) == HALAY_OK);
}

/* Each rank's text has the ranks and both values. */
static void body_different(struct rank_run *run)
{
    float in[64] = { 0 }, out[64];
    struct halay_tensor_info good = { .struct_size = sizeof good,
                                      .name = "m",
                                      .dimensions = 2,
                                      .shape = { 4, 2 },
                                      .in = in,
                                      .out = out,
                                      .out_bytes = sizeof out };
    static const char *const names[] = { "reduce", "gather", "scatter" };
    static const size_t none[RANKS_MAX] = { 0 };
    int odd = run->rank == run->size - 1, last = run->size - 1;
    char want[120];

    for (int kind = 0; kind < 3; kind++)
        for (int fault = 0; fault < 4; fault++) {
            struct halay_tensor_info info = good;
            struct halay_request *request;
            info.collective = (enum halay_collective)(HALAY_REDUCE + kind);
            if (fault == 0) {
                info.root = odd;
                snprintf(want, sizeof want, "tensor 'm': rank %d has root 1, rank 0 has 0", last);
            } else if (fault == 1) {
                info.shape[1] += (size_t)odd;
                snprintf(want, sizeof want, "tensor 'm': rank %d has shape [%s,3], rank 0 has [%s,2]", last,
                         kind ? "*" : "4", kind ? "*" : "4");
            } else if (fault == 2) {
                info.dtype = odd ? HALAY_I32 : HALAY_F32;
                snprintf(want, sizeof want, "tensor 'm': rank %d has type i32, rank 0 has f32", last);
            } else {
                info.collective = odd ? HALAY_ALLTOALL : info.collective;
                info.splits = odd ? none : NULL;
                snprintf(want, sizeof want, "tensor 'm': rank %d has collective alltoall, rank 0 has %s", last,
                         names[kind]);
            }
            CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_OK);
            CHECK(halay_wait(request, 60000) == HALAY_ERR_MISMATCH);
            CHECK(!strcmp(halay_request_text(request), want), "'%s', not '%s'", halay_request_text(request), want);
            halay_request_free(request);
        }
}

static void body_refused(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    float a[16] = { 0 }, b[16];
    size_t splits[RANKS_MAX] = { 5 };
    int me = run->rank;

    CHECK(halay_reduce(ctx, "r", a, b, 4, HALAY_F32, HALAY_SUM, run->size) == HALAY_ERR_ARGUMENT, "no such root");
    CHECK(halay_gather(ctx, "r", a, 4, 1, HALAY_F32, b, 16, -1, NULL) == HALAY_ERR_ARGUMENT, "no such root");
    CHECK(halay_reduce(ctx, "r", a, NULL, 4, HALAY_F32, HALAY_SUM, me) == HALAY_ERR_ARGUMENT, "the root has no out");
    CHECK(halay_reduce(ctx, "r", NULL, NULL, 4, HALAY_F32, HALAY_SUM, me) == HALAY_ERR_ARGUMENT, "nothing at all");
    CHECK(halay_reduce(ctx, "r", a, a + 1, 4, HALAY_F32, HALAY_SUM, me) == HALAY_ERR_ARGUMENT, "overlap");
    CHECK(halay_reduce(ctx, "r", a, b, 4, HALAY_F32, HALAY_ADASUM, 0) == HALAY_ERR_UNSUPPORTED);
    CHECK(halay_reduce(ctx, "r", a, b, 4, HALAY_BOOL, HALAY_AVERAGE, 0) == HALAY_ERR_UNSUPPORTED);
    CHECK(halay_gather(ctx, "r", NULL, 4, 1, HALAY_F32, b, 16, 0, NULL) == HALAY_ERR_ARGUMENT, "no in");
    CHECK(halay_scatter(ctx, "r", NULL, NULL, 4, 1, HALAY_F32, b, 16, me, NULL) == HALAY_ERR_ARGUMENT, "no in");
    CHECK(halay_scatter(ctx, "r", a, splits, 5, 1, HALAY_F32, a + 1, 16, me, NULL) == HALAY_ERR_ARGUMENT, "overlap");
    CHECK(halay_scatter(ctx, "r", a, splits, 6, 1, HALAY_F32, b, 16, me, NULL) == HALAY_ERR_ARGUMENT);
    char want[120];
    snprintf(want, sizeof want, "tensor 'r': the splits of rank %d have 5 rows together, its first dimension is 6", me);
    CHECK(!strcmp(halay_error_text(), want), "'%s'", halay_error_text());
    CHECK(halay_barrier(ctx, "r") == HALAY_OK, "nothing remained");
}

int main(void)
{
    static const int sizes[] = { 1, 2, 3, 5 };

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t delay = 0; delay < 2; delay++) {
            int size = sizes[s];
            ranks_run(size, delay * 3, &(struct rank_run){ .body = body_all }, NULL, NULL);
            ranks_run(size, delay * 4, &(struct rank_run){ .body = body_steady, .expected = "'short'" }, NULL, NULL);
            ranks_run(size, delay * 5, &(struct rank_run){ .body = body_refused, .expected = "'r'" }, NULL, NULL);
            if (size == 1)
                continue;
            ranks_run(size, delay * 6, &(struct rank_run){ .body = body_sets, .expected = "'r'" }, NULL, NULL);
            ranks_run(size, delay * 7, &(struct rank_run){ .body = body_canceled, .expected = "'c'" }, NULL, NULL);
            ranks_run(size, delay * 8, &(struct rank_run){ .body = body_different, .expected = "'m'" }, NULL, NULL);
        }
    return test_end();
}
