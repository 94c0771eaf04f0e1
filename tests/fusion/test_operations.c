/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations by rows, and the barrier, over the fake transport: results, sizes that differ between ranks and
 * change, results in the request's memory, errors on one rank, errors that negotiation finds on every rank, and steady
 * steps without negotiation. Random programs are in test_programs.c.
 */
#include "fusion/coordinator/coordinator.h"
#include "halay_tools.h"
#include "tests/fusion/random.h"
#include "tests/fusion/ranks.h"

/* Row i of a rank. */
static float row_value(int rank, size_t i)
{
    return (float)(rank * 1000 + (int)i);
}

static void fill_rows(float *data, size_t rows, size_t columns, int rank)
{
    for (size_t i = 0; i < rows * columns; i++)
        data[i] = row_value(rank, i / columns) + (float)(i % columns) / 16;
}

static uint64_t count_negotiations(struct halay_context *ctx)
{
    struct halay_counters counters = { .struct_size = sizeof counters };

    REQUIRE(halay_counters_read(ctx, &counters) == HALAY_OK);
    return counters.negotiations;
}

/* ---- all-gather ---- */

enum { COLUMNS = 3, ROWS = 8 };

static void check_gathered(const float *data, const size_t *rows, int size, size_t rows_each)
{
    size_t at = 0;

    for (int r = 0; r < size; r++) {
        CHECK(rows[r] == rows_each + (size_t)r, "rank %d gave %zu rows", r, rows[r]);
        for (size_t i = 0; i < rows[r] * COLUMNS; i++, at++)
            CHECK(data[at] == row_value(r, i / COLUMNS) + (float)(i % COLUMNS) / 16);
    }
}

/* The result is in the request's memory, by handle; then by name with other rows. */
static void check_held(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    float in[(ROWS + RANKS_MAX) * COLUMNS];
    struct halay_result result = { .struct_size = sizeof result };
    struct halay_request *request;
    struct halay_tensor *tensor;

    fill_rows(in, 1 + (size_t)run->rank, COLUMNS, run->rank);
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "held",
                                      .collective = HALAY_ALLGATHER,
                                      .dimensions = 2,
                                      .shape = { 1 + (size_t)run->rank, COLUMNS },
                                      .in = in };
    CHECK(halay_register(ctx, &info, &tensor) == HALAY_OK);
    for (int step = 0; step < 3; step++) {
        CHECK(halay_submit(tensor, NULL, NULL, &request) == HALAY_OK);
        CHECK(halay_wait(request, -1) == HALAY_OK && halay_request_result(request, &result) == HALAY_OK);
        check_gathered(result.data, result.rows, run->size, 1);
        CHECK(result.dimensions == 2 && result.shape[1] == COLUMNS && result.bytes == result.shape[0] * COLUMNS * 4);
        halay_request_free(request);
    }
    /* Registered, but submitted by name with other rows. */
    info.shape[0] = 2 + (size_t)run->rank;
    fill_rows(in, info.shape[0], COLUMNS, run->rank);
    CHECK(halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_OK && halay_wait(request, -1) == HALAY_OK);
    CHECK(halay_request_result(request, &result) == HALAY_OK);
    check_gathered(result.data, result.rows, run->size, 2);
    halay_request_free(request);
    CHECK(halay_unregister(tensor) == HALAY_OK);
}

/* The last rank has too little room: only it gets an error, with its data, and the engine still works. */
static void check_short(struct rank_run *run)
{
    float in[(ROWS + RANKS_MAX) * COLUMNS], out[RANKS_MAX * (ROWS + RANKS_MAX) * COLUMNS];
    struct halay_result result = { .struct_size = sizeof result };
    struct halay_request *request;
    int is_short = run->rank == run->size - 1;

    fill_rows(in, 2 + (size_t)run->rank, COLUMNS, run->rank);
    size_t total = 2 * (size_t)run->size + (size_t)(run->size * (run->size - 1) / 2);
    out[(total - 1) * COLUMNS] = -1;
    CHECK(halay_allgather_async(run->ctx, "short", in, 2 + (size_t)run->rank, COLUMNS, HALAY_F32, out,
                                is_short ? total - 1 : total, &request) == HALAY_OK);
    CHECK(halay_wait(request, -1) == (is_short ? HALAY_ERR_ARGUMENT : HALAY_OK));
    CHECK(halay_request_result(request, &result) == (is_short ? HALAY_ERR_ARGUMENT : HALAY_OK));
    check_gathered(result.data, result.rows, run->size, 2);
    if (is_short) {
        char want[100];
        snprintf(want, sizeof want, "tensor 'short': out has room for %zu bytes, the result has %zu",
                 (total - 1) * COLUMNS * 4, total * COLUMNS * 4);
        CHECK(!strcmp(halay_request_text(request), want), "'%s'", halay_request_text(request));
        CHECK(out[(total - 1) * COLUMNS] == -1, "written beyond the room");
    }
    halay_request_free(request);
}

static void body_allgather(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    float in[(ROWS + RANKS_MAX) * COLUMNS], out[RANKS_MAX * (ROWS + RANKS_MAX) * COLUMNS];
    size_t rows_from[RANKS_MAX], room = sizeof out / sizeof *out / COLUMNS;
    uint64_t before = 0;

    /* Three equal steps, then other rows: each change is negotiated once. */
    for (int step = 0; step < 9; step++) {
        size_t mine = (size_t)(step / 3 + run->rank);
        fill_rows(in, mine, COLUMNS, run->rank);
        CHECK(halay_allgather(ctx, "ragged", in, mine, COLUMNS, HALAY_F32, out, room, rows_from) == HALAY_OK);
        check_gathered(out, rows_from, run->size, (size_t)step / 3);
        if (step % 3 == 0)
            before = count_negotiations(ctx);
        CHECK(count_negotiations(ctx) == before, "a steady step sends ids only");
    }

    check_held(run);
    check_short(run);

    /* No rank has rows. */
    CHECK(halay_allgather(ctx, "none", NULL, 0, COLUMNS, HALAY_F32, NULL, 0, rows_from) == HALAY_OK);
    CHECK(halay_allgather(ctx, "no columns", NULL, 5, 0, HALAY_F32, NULL, 0, rows_from) == HALAY_OK &&
          rows_from[0] == 5);
}

/* Rows that are in the result already: at their place, or one row beside it. */
static void body_allgather_in_place(struct rank_run *run)
{
    float out[RANKS_MAX * (ROWS + RANKS_MAX) * COLUMNS];
    size_t rows_from[RANKS_MAX], first = 0;

    for (int beside = 0; beside < 2; beside++)
        for (size_t each = 0; each < 4; each++) {
            size_t mine = each + (size_t)run->rank;
            first = each * (size_t)run->rank + (size_t)(run->rank * (run->rank - 1) / 2);
            for (size_t i = 0; i < sizeof out / sizeof *out; i++)
                out[i] = -1;
            float *in = out + (first + (size_t)beside) * COLUMNS;
            fill_rows(in, mine, COLUMNS, run->rank);
            CHECK(halay_allgather(run->ctx, "place", in, mine, COLUMNS, HALAY_F32, out,
                                  sizeof out / sizeof *out / COLUMNS, rows_from) == HALAY_OK);
            check_gathered(out, rows_from, run->size, each);
        }
}

/* ---- reduce-scatter ---- */

static void body_reduce_scatter(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    struct halay_result result = { .struct_size = sizeof result };
    struct halay_request *request;

    for (size_t rows = 0; rows < 12; rows++)
        for (int kind = 0; kind < 4; kind++) { /* sum, average with factors, in place, in the request's memory */
            float in[12 * COLUMNS], out[12 * COLUMNS];
            size_t first, mine = halay_scatter_rows(rows, run->size, run->rank, &first);
            struct halay_tensor_info info = { .struct_size = sizeof info,
                                              .name = "scattered",
                                              .dimensions = 2,
                                              .collective = HALAY_REDUCE_SCATTER,
                                              .shape = { rows, COLUMNS },
                                              .in = in,
                                              .out = out };
            if (kind == 2)
                info.out = in + first * COLUMNS;
            if (kind == 3)
                info.out = NULL;
            fill_rows(in, rows, COLUMNS, run->rank);
            if (kind == 1) {
                info.reduction = HALAY_AVERAGE;
                info.prescale = 4;
                info.postscale = 0.5;
            }
            CHECK(halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_OK);
            CHECK(halay_wait(request, -1) == HALAY_OK);
            CHECK(halay_request_result(request, &result) == HALAY_OK && result.shape[0] == mine &&
                  result.bytes == mine * COLUMNS * 4 && !result.rows);
            for (size_t i = 0; i < mine * COLUMNS; i++) {
                float sum = 0;
                for (int r = 0; r < run->size; r++)
                    sum += row_value(r, first + i / COLUMNS) + (float)(i % COLUMNS) / 16;
                float want = kind == 1 ? sum / (float)run->size * 2 : sum, got = ((float *)result.data)[i];
                CHECK(got > want - 0.01f && got < want + 0.01f, "%zu rows, kind %d: %g, not %g", rows, kind,
                      (double)got, (double)want);
            }
            halay_request_free(request);
        }
    size_t all = 0, first;
    for (int r = 0; r < 5; r++) {
        size_t n = halay_scatter_rows(13, 5, r, &first);
        CHECK(first == all && n == (r < 3 ? 3u : 2u));
        all += n;
    }
    CHECK(all == 13 && halay_scatter_rows(13, 5, 5, NULL) == 0 && halay_scatter_rows(13, 0, 0, NULL) == 0);
}

/* Returns the rows of a rank's part: more for odd ranks, none for every third. */
static size_t split_of(int rank, size_t each)
{
    return rank % 3 == 2 ? 0 : each * (1 + (size_t)(rank % 2)) + (size_t)rank;
}

/* Parts by splits that change each time; by handle, by name, in place. */
static void body_scatter_splits(struct rank_run *run)
{
    float in[RANKS_MAX * 16 * COLUMNS], out[16 * COLUMNS];
    size_t splits[RANKS_MAX];

    for (size_t each = 0; each < 4; each++)
        for (int kind = 0; kind < 3; kind++) {
            struct halay_request *request;
            struct halay_tensor *tensor = NULL;
            size_t rows = 0, first = 0, mine = split_of(run->rank, each);
            for (int r = 0; r < run->size; r++) {
                first += r < run->rank ? split_of(r, each) : 0;
                rows += splits[r] = split_of(r, each);
            }
            struct halay_tensor_info info = { .struct_size = sizeof info,
                                              .name = "split",
                                              .collective = HALAY_REDUCE_SCATTER,
                                              .dimensions = 2,
                                              .shape = { rows, COLUMNS },
                                              .in = in,
                                              .out = kind == 2 ? in + first * COLUMNS : out,
                                              .splits = splits };
            float *result = info.out;
            fill_rows(in, rows, COLUMNS, run->rank);
            CHECK(kind || halay_register(run->ctx, &info, &tensor) == HALAY_OK);
            for (int step = 0; step < (kind ? 1 : 2); step++) {
                if (!kind)
                    memset(splits, 0, sizeof splits); /* a handle has its own splits */
                CHECK((kind ? halay_submit_named(run->ctx, &info, NULL, NULL, &request)
                            : halay_submit(tensor, NULL, NULL, &request)) == HALAY_OK);
                CHECK(halay_wait(request, -1) == HALAY_OK);
                halay_request_free(request);
            }
            for (size_t i = 0; i < mine * COLUMNS; i++) {
                float sum = 0;
                for (int r = 0; r < run->size; r++)
                    sum += row_value(r, first + i / COLUMNS) + (float)(i % COLUMNS) / 16;
                CHECK(result[i] > sum - 0.01f && result[i] < sum + 0.01f, "%g, not %g", (double)result[i], (double)sum);
            }
            CHECK(halay_unregister(tensor) == HALAY_OK);
        }
}

/* ---- all-to-all ---- */

static void body_alltoall(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    float in[RANKS_MAX * RANKS_MAX * COLUMNS], out[RANKS_MAX * RANKS_MAX * COLUMNS];
    size_t splits[RANKS_MAX], rows_from[RANKS_MAX], room = RANKS_MAX * RANKS_MAX;
    uint64_t before = 0;

    /* Rank r sends (r + to + step / 3) % 4 rows to rank `to`, and keeps one row that it sends to no rank. */
    for (int step = 0; step < 9; step++) {
        size_t rows = 1, at = 0;
        for (int to = 0; to < run->size; to++)
            rows += splits[to] = (size_t)(run->rank + to + step / 3) % 4;
        fill_rows(in, rows, COLUMNS, run->rank);
        CHECK(halay_alltoall(ctx, "splits", in, splits, rows, COLUMNS, HALAY_F32, out, room, rows_from) == HALAY_OK);
        for (int from = 0; from < run->size; from++) {
            size_t skipped = 0;
            for (int to = 0; to < run->rank; to++)
                skipped += (size_t)(from + to + step / 3) % 4;
            CHECK(rows_from[from] == (size_t)(from + run->rank + step / 3) % 4);
            for (size_t i = 0; i < rows_from[from] * COLUMNS; i++, at++)
                CHECK(out[at] == row_value(from, skipped + i / COLUMNS) + (float)(i % COLUMNS) / 16);
        }
        if (step % 3 == 0)
            before = count_negotiations(ctx);
        CHECK(count_negotiations(ctx) == before, "a steady step sends ids only");
    }
    /* Without splits each rank gets the same number of rows. */
    fill_rows(in, 2 * (size_t)run->size, COLUMNS, run->rank);
    CHECK(halay_alltoall(ctx, "even", in, NULL, 2 * (size_t)run->size, COLUMNS, HALAY_F32, out, room, NULL) ==
          HALAY_OK);
    for (int from = 0; from < run->size; from++)
        CHECK(out[2 * from * COLUMNS] == row_value(from, 2 * (size_t)run->rank));
    /* Only the last rank sends rows, to the first one. */
    int gives = run->rank == run->size - 1;
    memset(splits, 0, sizeof splits);
    splits[0] = gives ? 2 : 0;
    CHECK(halay_alltoall(ctx, "one way", in, splits, splits[0], COLUMNS, HALAY_F32, out, room, rows_from) == HALAY_OK);
    CHECK(rows_from[run->size - 1] == (run->rank == 0 ? 2u : 0u));
}

/* ---- groups ---- */

enum { MEMBERS = 5 };

struct group_data {
    float a[7], b[1000], copied[1000];
    double d[3];
    uint16_t empty[1];
};

static void make_group(struct group_data *g, struct halay_member *members, int rank)
{
    memset(members, 0, MEMBERS * sizeof *members);
    members[0] = (struct halay_member){ .out = g->a, .dtype = HALAY_F32, .dimensions = 1, .shape = { 7 } };
    members[1] = (struct halay_member){ .out = g->d, .dtype = HALAY_F64, .dimensions = 2, .shape = { 1, 2 } };
    members[2] = (struct halay_member){
        .in = g->b, .out = g->copied, .dtype = HALAY_F32, .dimensions = 2, .shape = { 10, 100 }
    };
    members[3] = (struct halay_member){ .out = g->empty, .dtype = HALAY_F16, .dimensions = 1, .shape = { 0 } };
    members[4] = (struct halay_member){ .out = &g->d[2], .dtype = HALAY_F64, .dimensions = 0 };
    for (int i = 0; i < 7; i++)
        g->a[i] = (float)(rank + i);
    for (int i = 0; i < 1000; i++)
        g->b[i] = (float)(rank * i);
    for (int i = 0; i < 3; i++)
        g->d[i] = rank + 10 * i;
}

static int group_is_right(const struct group_data *g, int size, double factor)
{
    double ranks = size * (size - 1) / 2;

    for (int i = 0; i < 7; i++)
        if (g->a[i] != (float)(factor * (ranks + size * i)))
            return 0;
    for (int i = 0; i < 1000; i++)
        if (g->copied[i] != (float)(factor * ranks * i))
            return 0;
    for (int i = 0; i < 3; i++)
        if (g->d[i] != factor * (ranks + size * 10 * i))
            return 0;
    return 1;
}

static void refuse_groups(struct rank_run *run)
{
    struct group_data g;
    struct halay_member members[MEMBERS];
    struct halay_request *request;
    struct halay_tensor_info good = { .struct_size = sizeof good,
                                      .name = "r",
                                      .members = members,
                                      .member_count = MEMBERS,
                                      .member_bytes = sizeof(struct halay_member) };
    struct halay_tensor_info info = good;

    make_group(&g, members, run->rank);
    info.member_count = 0;
    CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_ERR_ARGUMENT);
    info = good;
    info.collective = HALAY_BROADCAST;
    CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_ERR_ARGUMENT);
    info = good;
    info.reduction = HALAY_BIT_AND;
    CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_ERR_ARGUMENT, "one is refused: all are");
    info = good;
    info.wire = HALAY_WIRE_F16;
    CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_ERR_ARGUMENT, "f64 is not compressed");
    members[2].out = &g.b[1];
    CHECK(halay_submit_named(run->ctx, &good, NULL, NULL, &request) == HALAY_ERR_ARGUMENT, "overlap");
    info = good;
    info.members = NULL;
    info.priority = 40000;
    info.out = &g;
    CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_ERR_ARGUMENT, "priority");
}

static void body_group(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    struct group_data g;
    struct halay_member members[MEMBERS];
    struct halay_request *request, *single;
    struct halay_tensor *tensor;
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "grads",
                                      .members = members,
                                      .member_count = MEMBERS,
                                      .member_bytes = sizeof(struct halay_member),
                                      .postscale = 2 };
    uint64_t before = 0;

    for (int step = 0; step < 4; step++) { /* by name, with a factor, together with a single tensor */
        float one = 1;
        make_group(&g, members, run->rank);
        CHECK(halay_submit_named(ctx, &info, NULL, NULL, &request) == HALAY_OK);
        CHECK(halay_allreduce_async(ctx, "single", NULL, &one, 1, HALAY_F32, HALAY_SUM, &single) == HALAY_OK);
        CHECK(halay_wait(request, -1) == HALAY_OK && halay_wait(single, -1) == HALAY_OK);
        CHECK(group_is_right(&g, run->size, 2) && one == (float)run->size);
        halay_request_free(request);
        halay_request_free(single);
        if (step == 1)
            before = count_negotiations(ctx);
        CHECK(step < 1 || count_negotiations(ctx) == before, "a steady step sends ids only");
    }
    info.name = "registered";
    info.postscale = 0;
    make_group(&g, members, run->rank);
    CHECK(halay_register(ctx, &info, &tensor) == HALAY_OK);
    for (int step = 0; step < 3; step++) {
        make_group(&g, members, run->rank);
        memset(members, 0, sizeof members); /* they were copied */
        CHECK(halay_submit(tensor, NULL, NULL, &request) == HALAY_OK && halay_wait(request, -1) == HALAY_OK);
        CHECK(group_is_right(&g, run->size, 1));
        halay_request_free(request);
    }
    CHECK(halay_unregister(tensor) == HALAY_OK);
    refuse_groups(run);
}

/* ---- joining ---- */

struct join_case {
    enum halay_join_average average;
    enum halay_deterministic mode;
    uint64_t seed; /* of the order of submissions */
    uint64_t bits; /* results on the last rank */
    _Atomic int checked;
};

static void configure_join(struct halay_config *config, void *arg)
{
    const struct join_case *j = arg;

    config->join_average = j->average;
    config->deterministic = j->mode;
    config->fusion_threshold = 20000;
}

/* Rank r has r + 1 steps of data: in step s the ranks from s on take part, and the others have joined. */
static void join_step(struct rank_run *run, int round, int step)
{
    struct halay_context *ctx = run->ctx;
    int givers = run->size - step;
    float sum = 3, average = (float)run->size, least = (float)(10 + run->rank), compressed = 2;
    double largest = -5 - run->rank;
    int32_t product = 2, all = 6;
    uint16_t least_half = 0x4400; /* 4 */
    int8_t least_byte = 9;
    struct halay_request *requests[10];
    struct halay_member members[2] = { { .out = &all, .dtype = HALAY_I32 }, { .out = &least_byte, .dtype = HALAY_I8 } };
    struct halay_tensor_info group = { .struct_size = sizeof group,
                                       .name = "j.group",
                                       .members = members,
                                       .member_count = 2,
                                       .member_bytes = sizeof(struct halay_member),
                                       .reduction = HALAY_MIN,
                                       .prescale = -1,
                                       .postscale = -1 };
    struct halay_tensor_info wire = {
        .struct_size = sizeof wire, .name = "j.wire", .out = &compressed, .wire = HALAY_WIRE_F16
    };
    char fresh[32];
    int n = 0;

    snprintf(fresh, sizeof fresh, "j.%d.%d", round,
             step); /* a name that ranks which have joined receive only in the bucket */
    all += run->rank;
    least_byte = (int8_t)(least_byte + run->rank);
    CHECK(halay_allreduce_async(ctx, fresh, NULL, &sum, 1, HALAY_F32, HALAY_SUM, &requests[n++]) == HALAY_OK);
    CHECK(halay_allreduce_async(ctx, "j.avg", NULL, &average, 1, HALAY_F32, HALAY_AVERAGE, &requests[n++]) == HALAY_OK);
    CHECK(halay_allreduce_async(ctx, "j.min", NULL, &least, 1, HALAY_F32, HALAY_MIN, &requests[n++]) == HALAY_OK);
    CHECK(halay_allreduce_async(ctx, "j.max", NULL, &largest, 1, HALAY_F64, HALAY_MAX, &requests[n++]) == HALAY_OK);
    CHECK(halay_allreduce_async(ctx, "j.prod", NULL, &product, 1, HALAY_I32, HALAY_PRODUCT, &requests[n++]) ==
          HALAY_OK);
    CHECK(halay_allreduce_async(ctx, "j.half", NULL, &least_half, 1, HALAY_F16, HALAY_MIN, &requests[n++]) == HALAY_OK);
    CHECK(halay_submit_named(ctx, &group, NULL, NULL, &requests[n++]) == HALAY_OK);
    CHECK(halay_submit_named(ctx, &wire, NULL, NULL, &requests[n++]) == HALAY_OK);
    CHECK(halay_barrier_async(ctx, "j.barrier", &requests[n++]) == HALAY_OK);
    for (int i = 0; i < n; i++) {
        CHECK(halay_wait(requests[i], 60000) == HALAY_OK, "%d: %s", i, halay_request_text(requests[i]));
        halay_request_free(requests[i]);
    }
    int divisor =
        run->arg && ((struct join_case *)run->arg)->average == HALAY_JOIN_AVERAGE_PRESENT ? givers : run->size;
    CHECK(average == (float)run->size * (float)givers / (float)divisor, "%g of %d", (double)average, givers);
    CHECK(sum == (float)(3 * givers) && least == (float)(10 + step), "%g %g", (double)sum, (double)least);
    CHECK(largest == -5 - step && product == 1 << givers && least_half == 0x4400 && compressed == (float)(2 * givers));
    CHECK(all == 6 + run->size - 1 && least_byte == 9 + run->size - 1, "the least of what is negative: %d, %d",
          (int)all, least_byte);
}

static void body_join(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    struct halay_request *request, *other;
    _Atomic int *checked = &((struct join_case *)run->arg)->checked;
    int last = -1, odd = run->size - 1;
    float x = 1;

    for (int round = 0; round < 3; round++) {
        for (int step = 0; step <= run->rank; step++)
            join_step(run, round, step);
        CHECK(halay_join(ctx, &last) == HALAY_OK && last == odd, "rank %d was last", last);
        CHECK(halay_allreduce(ctx, "j.after", NULL, &x, 1, HALAY_F32, HALAY_MAX) == HALAY_OK && x == 1);
    }
    if (run->rank < odd) { /* only the last rank has data; the joins of the other ranks must arrive before it counts */
        CHECK(halay_join_async(ctx, &request) == HALAY_OK);
        CHECK(halay_join_async(ctx, &other) == HALAY_ERR_DUPLICATE);
        CHECK(halay_allreduce_async(ctx, "r", NULL, &x, 1, HALAY_F32, HALAY_SUM, &other) == HALAY_ERR_ARGUMENT);
        atomic_fetch_add(checked, 1);
    } else {
        while (atomic_load(checked) < odd) /* the other ranks' joins must not end before */
            sched_yield();
        CHECK(halay_broadcast_async(ctx, "r.b", &x, 1, HALAY_F32, 0, &request) == HALAY_OK);
        CHECK(halay_wait(request, 60000) == (run->size > 1 ? HALAY_ERR_UNSUPPORTED : HALAY_OK));
        CHECK(run->size == 1 || !strcmp(halay_request_text(request), "tensor 'r.b': only all-reduces and barriers are "
                                                                     "possible while rank 0 has joined"),
              "'%s'", halay_request_text(request));
        halay_request_free(request);
        CHECK(halay_join_async(ctx, &request) == HALAY_OK);
    }
    CHECK(halay_wait(request, 60000) == HALAY_OK);
    struct halay_result result = { .struct_size = sizeof result };
    CHECK(halay_request_result(request, &result) == HALAY_OK && result.last_joined == odd);
    halay_request_free(request);
    CHECK(halay_allreduce(ctx, "join", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT, "a name that is kept");
}

/* Returns i or, at the place of the k-th, the last one. */
static void put_into_order(size_t *order, size_t i, size_t k)
{
    order[i] = order[k];
    order[k] = i;
}

/* Rank r has 2 r + 1 steps of ten gradients in an order of its own, and sometimes waits for one of them; a rank that
 * has fewer steps submits three of the next one and joins. */
static void body_join_bits(struct rank_run *run)
{
    enum { TENSORS = 10, MOST = 4000 };
    struct join_case *j = run->arg;
    struct random random = { j->seed * 16 + (uint64_t)run->rank };
    static const size_t counts[TENSORS] = { 1, 300, 7, MOST, 1000, 0, 2500, 33, 3999, 64 };
    struct halay_tensor *tensors[TENSORS];
    struct halay_request *requests[TENSORS];
    float *data = calloc(TENSORS * MOST, sizeof *data);
    uint64_t bits = 1469598103934665603u;
    char name[16];

    REQUIRE(data);
    for (size_t t = 0; t < TENSORS; t++) {
        snprintf(name, sizeof name, "g%zu", t);
        struct halay_tensor_info info = { .struct_size = sizeof info,
                                          .name = name,
                                          .dimensions = 1,
                                          .shape = { counts[t] },
                                          .out = data + t * MOST,
                                          .reduction = t % 2 ? HALAY_AVERAGE : HALAY_SUM };
        REQUIRE(halay_register(run->ctx, &info, &tensors[t]) == HALAY_OK);
    }
    for (int step = 0; step < 2 * run->rank + 2; step++) {
        int is_last = step == 2 * run->rank + 1;
        size_t submits = run->rank < run->size - 1 ? 3 : 0, order[TENSORS];
        if (!is_last)
            submits = TENSORS;
        for (size_t i = 0; i < TENSORS; i++) /* those three are the same in every run */
            put_into_order(order, i, is_last ? i : random_below(&random, i + 1));
        for (size_t i = 0; i < TENSORS * MOST; i++)
            data[i] = (float)(i % 91 + 1) / (float)(3 * run->rank + step + 7);
        for (size_t i = 0; i < submits; i++)
            CHECK(halay_submit(tensors[order[i]], NULL, NULL, &requests[order[i]]) == HALAY_OK);
        if (is_last)
            CHECK(halay_join(run->ctx, NULL) == HALAY_OK);
        for (size_t i = 0; i < submits; i++) {
            CHECK(halay_wait(requests[order[i]], 60000) == HALAY_OK, "%s", halay_request_text(requests[order[i]]));
            halay_request_free(requests[order[i]]);
        }
        for (size_t i = 0; i < TENSORS * MOST; i++)
            if (!is_last && i % MOST < counts[i / MOST]) {
                uint32_t word;
                memcpy(&word, &data[i], sizeof word);
                bits = (bits ^ word) * 1099511628211u;
            }
    }
    if (run->rank == run->size - 1)
        j->bits = bits;
    for (size_t t = 0; t < TENSORS; t++)
        CHECK(halay_unregister(tensors[t]) == HALAY_OK);
    free(data);
}

/* The results have the same bits for every order and delay. */
static void check_join_bits(int size, enum halay_deterministic mode, enum halay_join_average average)
{
    uint64_t first = 0;

    for (uint64_t seed = 1; seed < 5; seed++) {
        struct join_case j = { .mode = mode, .average = average, .seed = seed };
        ranks_run(size, seed * 3, &(struct rank_run){ .body = body_join_bits, .arg = &j, .configure = configure_join },
                  NULL, NULL);
        first = first ? first : j.bits;
        CHECK(j.bits == first, "%d ranks, mode %d, seed %d: other bits", size, (int)mode, (int)seed);
    }
}

static void check_joins(int size, uint64_t delay)
{
    for (enum halay_deterministic mode = HALAY_DETERMINISTIC_OFF; mode <= HALAY_DETERMINISTIC_RANKS; mode++)
        for (enum halay_join_average a = HALAY_JOIN_AVERAGE_ALL; a <= HALAY_JOIN_AVERAGE_PRESENT; a++) {
            struct join_case j = { .mode = mode, .average = a };
            ranks_run(size, delay,
                      &(struct rank_run){ .body = body_join, .arg = &j, .configure = configure_join, .expected = "" },
                      NULL, NULL);
        }
}

/* ---- wire types ---- */

enum { WIRE_COUNT = 3000 };

/* Two tensors, fused: in place in shared memory, out of place in private memory. */
static void check_wire(struct rank_run *run, float *const data[2], const float *in, enum halay_wire wire,
                       enum halay_reduction op, double prescale, double postscale)
{
    double factor = prescale * postscale * (op == HALAY_SUM ? run->size : 1);
    struct halay_request *requests[2];

    for (int t = 0; t < 2; t++) {
        const char *const names[] = { "0", "1" };
        struct halay_tensor_info info = { .struct_size = sizeof info,
                                          .name = names[t],
                                          .dimensions = 1,
                                          .shape = { WIRE_COUNT },
                                          .in = t ? in : NULL,
                                          .out = data[t],
                                          .reduction = op,
                                          .wire = wire,
                                          .prescale = prescale,
                                          .postscale = postscale };
        memcpy(data[t], in, WIRE_COUNT * sizeof *in);
        CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &requests[t]) == HALAY_OK);
    }
    for (int t = 0; t < 2; t++) {
        size_t right = 0;
        CHECK(halay_wait(requests[t], -1) == HALAY_OK);
        halay_request_free(requests[t]);
        for (int i = 0; i < WIRE_COUNT; i++)
            right += data[t][i] == (float)(in[i] * factor);
        CHECK(right == WIRE_COUNT, "wire %d, %s, tensor %d: %zu are right", (int)wire, halay_reduction_name(op), t,
              right);
    }
}

static float one_over_the_wire(struct rank_run *run, float value, double prescale, double postscale)
{
    struct halay_request *request;
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "one",
                                      .out = &value,
                                      .reduction = HALAY_MAX,
                                      .wire = HALAY_WIRE_F16,
                                      .prescale = prescale,
                                      .postscale = postscale };

    CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_OK && halay_wait(request, -1) == HALAY_OK);
    halay_request_free(request);
    return value;
}

static void body_wire(struct rank_run *run)
{
    float *data[2], in[WIRE_COUNT];

    REQUIRE(halay_alloc(run->ctx, sizeof in, (void **)&data[0]) == HALAY_OK);
    REQUIRE((data[1] = malloc(sizeof in)) != NULL);
    for (int i = 0; i < WIRE_COUNT; i++)
        in[i] = (float)(i % 16);
    for (int wire = HALAY_WIRE_F16; wire <= HALAY_WIRE_BF16; wire++) {
        check_wire(run, data, in, (enum halay_wire)wire, HALAY_SUM, 1, 1);
        check_wire(run, data, in, (enum halay_wire)wire, HALAY_SUM, 0.5, 6);
        check_wire(run, data, in, (enum halay_wire)wire, HALAY_AVERAGE, 1, 1);
        check_wire(run, data, in, (enum halay_wire)wire, HALAY_ADASUM, 1, 1);
    }
    CHECK(one_over_the_wire(run, 1 + 1.0f / 4096, 1, 1) == 1 || run->size == 1, "it is rounded");
    CHECK(one_over_the_wire(run, 80000, 0.125, 8) == 80000, "prescale keeps it within f16");
    halay_free(run->ctx, data[0]);
    free(data[1]);
}

/* ---- priorities: by a coordinator alone ---- */

struct given_out {
    char names[8][2]; /* [id] */
    char order[8];
    int count, others; /* failures, questions */
};

static enum halay_status note_item(void *arg, int rank, const struct halay_item *item)
{
    struct given_out *given = arg;

    (void)rank;
    given->others += item->kind == HALAY_ITEM_FAIL || item->kind == HALAY_ITEM_ASK;
    if (item->kind == HALAY_ITEM_AGREE)
        given->names[item->id][0] = item->name[0];
    for (size_t i = 0; item->kind == HALAY_ITEM_BUCKET && i < item->range_count; i++)
        for (uint32_t k = 0; k < item->ranges[i].count; k++)
            given->order[given->count++] = given->names[item->ranges[i].first + k][0];
    return HALAY_OK;
}

static void check_priorities(size_t threshold, const char *want)
{
    static const int priorities[] = { 0, -5, 7, 0, 7, -5 };
    struct given_out given = { .count = 0 };
    struct halay_coordinator_options options = {
        .size = 1, .threshold = threshold, .ids_max = 100, .emit = note_item, .arg = &given
    };
    struct halay_coordinator *c;
    int emitted;

    REQUIRE(halay_coordinator_create(&options, &c) == HALAY_OK);
    for (int i = 0; i < 6; i++) {
        char name = (char)('a' + i);
        struct halay_item item = { .kind = HALAY_ITEM_ANNOUNCE,
                                   .name = &name,
                                   .name_length = 1,
                                   .signature = { .prescale = 1, .postscale = 1, .priority = priorities[i] } };
        CHECK(halay_coordinator_receive(c, 0, &item, 0) == HALAY_OK);
    }
    CHECK(halay_coordinator_decide(c, 1, &emitted) == HALAY_OK && emitted);
    CHECK(!strcmp(given.order, want), "'%s', not '%s'", given.order, want);
    halay_coordinator_destroy(c);
}

/* A rank that has joined waits while other ranks have data: this is not a stall. A rank that leaves without joining is
 * an error. */
static void check_waiting_to_join(void)
{
    struct given_out given = { .count = 0 };
    struct halay_coordinator_options options = {
        .size = 2, .threshold = 1000, .ids_max = 100, .emit = note_item, .arg = &given
    };
    struct halay_item join = { .kind = HALAY_ITEM_ANNOUNCE,
                               .name = "join",
                               .name_length = 4,
                               .signature = { .collective = HALAY_JOIN, .prescale = 1, .postscale = 1 } };
    struct halay_item bye = { .kind = HALAY_ITEM_BYE }, own = { .kind = HALAY_ITEM_PING, .name = "" };
    struct halay_coordinator *c;
    int emitted;

    REQUIRE(halay_coordinator_create(&options, &c) == HALAY_OK);
    CHECK(halay_coordinator_receive(c, 0, &join, 0) == HALAY_OK);
    CHECK(halay_coordinator_receive(c, 0, &join, 0) == HALAY_ERR_FORMAT, "twice");
    CHECK(halay_coordinator_look_for_stalls(c, 1000000000, 1000000, 50000000, &own) == HALAY_OK && !given.others);
    CHECK(halay_coordinator_decide(c, 1, &emitted) == HALAY_OK && !emitted);
    CHECK(halay_coordinator_receive(c, 1, &bye, 0) == HALAY_OK && given.others == 1);
    halay_coordinator_destroy(c);
}

/* ---- barrier ---- */

static void body_barrier(struct rank_run *run)
{
    _Atomic int *entered = run->arg;
    struct halay_request *request;

    for (int round = 1; round <= 20; round++) {
        atomic_fetch_add(entered, 1);
        if (round % 2) {
            CHECK(halay_barrier(run->ctx, NULL) == HALAY_OK);
        } else {
            CHECK(halay_barrier_async(run->ctx, "named", &request) == HALAY_OK && halay_wait(request, -1) == HALAY_OK);
            halay_request_free(request);
        }
        CHECK(atomic_load(entered) >= round * run->size, "it let through before all had come");
    }
}

/* ---- refused calls ---- */

static void body_refused(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    float a[64] = { 0 }, b[64] = { 0 };
    size_t splits[RANKS_MAX] = { 0 };
    struct halay_request *request;
    struct halay_tensor_info scalar = { .struct_size = sizeof scalar, .name = "r", .in = a, .out = b };

    for (int op = HALAY_ALLGATHER; op <= HALAY_ALLTOALL; op++) {
        scalar.collective = (enum halay_collective)op;
        CHECK(halay_submit_named(ctx, &scalar, NULL, NULL, &request) == HALAY_ERR_ARGUMENT, "a scalar");
    }
    splits[0] = 5;
    CHECK(halay_alltoall(ctx, "r", a, splits, 4, 1, HALAY_F32, b, 64, NULL) == HALAY_ERR_ARGUMENT,
          "more than there is");
    splits[0] = (size_t)-1;
    splits[run->size - 1] = 2;
    CHECK(halay_alltoall(ctx, "r", a, splits, 4, 1, HALAY_F32, b, 64, NULL) == HALAY_ERR_ARGUMENT || run->size == 1);
    if (run->size > 1)
        CHECK(halay_alltoall(ctx, "r", a, NULL, (size_t)run->size + 1, 1, HALAY_F32, b, 64, NULL) ==
              HALAY_ERR_ARGUMENT);
    CHECK(halay_allgather(ctx, "r", NULL, 4, 1, HALAY_F32, b, 64, NULL) == HALAY_ERR_ARGUMENT, "no in");
    CHECK(halay_allgather(ctx, "r", a, 4, 1, HALAY_F32, a + 2, 64, NULL) == HALAY_ERR_ARGUMENT, "overlap");
    CHECK(halay_allgather(ctx, "r", a, 4, 1, HALAY_F32, (char *)b + 1, 8, NULL) == HALAY_ERR_ARGUMENT, "misaligned");
    CHECK(halay_reduce_scatter(ctx, "r", a, a + 1, 4, 4, HALAY_F32, HALAY_SUM) == HALAY_ERR_ARGUMENT, "overlap");
    CHECK(halay_reduce_scatter(ctx, "r", a, b, 4, 1, HALAY_F32, HALAY_ADASUM) == HALAY_ERR_UNSUPPORTED);
    struct halay_tensor_info split = { .struct_size = sizeof split,
                                       .name = "r",
                                       .collective = HALAY_REDUCE_SCATTER,
                                       .dimensions = 1,
                                       .shape = { 4 },
                                       .in = a,
                                       .out = b,
                                       .splits = splits };
    CHECK(halay_submit_named(ctx, &split, NULL, NULL, &request) == HALAY_ERR_ARGUMENT, "other rows than the splits");
    CHECK(halay_reduce_scatter(ctx, "r", a, b, 4, 1, HALAY_I32, HALAY_AVERAGE) == HALAY_ERR_UNSUPPORTED);
    CHECK(halay_allgather_async(ctx, "r", a, 1, 1, HALAY_F32, NULL, 0, &request) == HALAY_OK, "nothing remained");
    struct halay_result result = { .struct_size = 1 };
    CHECK(halay_request_result(request, &result) == HALAY_ERR_ARGUMENT);
    CHECK(halay_wait(request, -1) == HALAY_OK);
    halay_request_free(request);
}

/* ---- mismatches: every rank gets the same text ---- */

struct difference {
    const char *text;
    struct halay_tensor_info info[2]; /* the values of the other ranks, and of the odd one */
};

static void check_difference(struct rank_run *run, const struct difference *d)
{
    int odd = run->size - 1;
    struct halay_request *request;
    char want[200];

    CHECK(halay_submit_named(run->ctx, &d->info[run->rank == odd], NULL, NULL, &request) == HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_ERR_MISMATCH);
    snprintf(want, sizeof want, d->text, odd);
    CHECK(!strcmp(halay_request_text(request), want), "'%s', not '%s'", halay_request_text(request), want);
    halay_request_free(request);
    struct halay_tensor_info good = d->info[0];
    CHECK(halay_submit_named(run->ctx, &good, NULL, NULL, &request) == HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_OK, "the engine still works");
    halay_request_free(request);
}

/* The descriptions of one tensor on two ranks: an all-gather, a reduce-scatter, an all-to-all, a barrier, an
 * all-reduce, a group of two members, and reduce-scatters with splits. */
struct sayings {
    float in[64], out[8 * 64];
    size_t splits[RANKS_MAX], all[RANKS_MAX], most[RANKS_MAX];
    struct halay_member two[2], deviating[3][2];
    struct halay_tensor_info g, s, a, b, r, m, u, v;
};

static void make_sayings(struct sayings *x)
{
    *x = (struct sayings){ .splits = { 1, 1, 1, 1 }, .all = { 4 }, .most = { 3, 1 } };
    x->g = (struct halay_tensor_info){ .struct_size = sizeof x->g,
                                       .name = "m",
                                       .collective = HALAY_ALLGATHER,
                                       .dimensions = 2,
                                       .shape = { 4, 8 },
                                       .in = x->in,
                                       .out = x->out,
                                       .out_bytes = sizeof x->out };
    x->s = x->a = x->b = x->r = x->g;
    x->s.collective = HALAY_REDUCE_SCATTER;
    x->a.collective = HALAY_ALLTOALL;
    x->a.splits = x->splits;
    x->b.collective = HALAY_BARRIER;
    x->r.collective = HALAY_ALLREDUCE;
    x->u = x->v = x->s;
    x->u.splits = x->all;
    x->v.splits = x->most;
    x->two[0] = (struct halay_member){ .out = x->out, .dtype = HALAY_F32, .dimensions = 1, .shape = { 4 } };
    x->two[1] = (struct halay_member){ .out = x->out + 8, .dtype = HALAY_F64, .dimensions = 1, .shape = { 3 } };
    x->m = (struct halay_tensor_info){ .struct_size = sizeof x->m,
                                       .name = "m",
                                       .members = x->two,
                                       .member_count = 2,
                                       .member_bytes = sizeof(struct halay_member) };
    for (int i = 0; i < 3; i++)
        memcpy(x->deviating[i], x->two, sizeof x->two);
    x->deviating[0][1].dimensions = 2;
    x->deviating[0][1].shape[1] = 2;
    x->deviating[1][1].shape[0] = 2;
    x->deviating[2][0].dtype = HALAY_F16;
}

static void check_differences(struct rank_run *run, struct sayings *x)
{
    struct difference kinds[] = {
        { "tensor 'm': rank %d has shape [*,4], rank 0 has [*,8]", { x->g, x->g } },
        { "tensor 'm': rank %d has shape [*,8,1], rank 0 has [*,8]", { x->g, x->g } },
        { "tensor 'm': rank %d has type i32, rank 0 has f32", { x->g, x->g } },
        { "tensor 'm': rank %d has collective alltoall, rank 0 has allgather", { x->g, x->a } },
        { "tensor 'm': rank %d has collective barrier, rank 0 has reduce-scatter", { x->s, x->b } },
        { "tensor 'm': rank %d has shape [5,8], rank 0 has [4,8]", { x->s, x->s } },
        { "tensor 'm': rank %d has reduction max, rank 0 has sum", { x->s, x->s } },
        { "tensor 'm': rank %d has scale factors 2, 1, rank 0 has 1, 1", { x->s, x->s } },
        { "tensor 'm': rank %d has shape [*,2], rank 0 has [*,8]", { x->a, x->a } },
        { "tensor 'm': rank %d has collective allgather, rank 0 has alltoall", { x->a, x->g } },
        { "tensor 'm': rank %d has collective reduce-scatter, rank 0 has barrier", { x->b, x->s } },
        { "tensor 'm': rank %d has wire type bf16, rank 0 has as is", { x->r, x->r } },
        { "tensor 'm': rank %d has priority 3, rank 0 has 0", { x->r, x->r } },
        { "tensor 'm': rank %d has no members, rank 0 has 2 members", { x->m, x->r } },
        { "tensor 'm': rank %d has 1 member, rank 0 has 2 members", { x->m, x->m } },
        { "tensor 'm': rank %d has member 1 f64 [3,2], rank 0 has f64 [3]", { x->m, x->m } },
        { "tensor 'm': rank %d has member 1 f64 [2], rank 0 has f64 [3]", { x->m, x->m } },
        { "tensor 'm': rank %d has member 0 f16 [4], rank 0 has f32 [4]", { x->m, x->m } },
        { "tensor 'm': rank %d has splits, rank 0 has no splits", { x->s, x->u } },
        { "tensor 'm': rank %d has no splits, rank 0 has splits", { x->u, x->s } },
        { "tensor 'm': rank %d has 4 rows for rank 0 in its splits, rank 0 has 3", { x->v, x->u } }
    };

    kinds[0].info[1].shape[1] = 4;
    kinds[1].info[1].dimensions = 3;
    kinds[1].info[1].shape[2] = 1;
    kinds[2].info[1].dtype = HALAY_I32;
    kinds[5].info[1].shape[0] = 5;
    kinds[6].info[1].reduction = HALAY_MAX;
    kinds[7].info[1].prescale = 2;
    kinds[8].info[1].shape[1] = 2;
    kinds[11].info[1].wire = HALAY_WIRE_BF16;
    kinds[12].info[1].priority = 3;
    kinds[14].info[1].member_count = 1;
    for (int i = 0; i < 3; i++)
        kinds[15 + i].info[1].members = x->deviating[i];
    for (int round = 0; round < 2; round++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            check_difference(run, &kinds[k]);
}

static void body_mismatch(struct rank_run *run)
{
    struct sayings x;
    struct halay_request *request;

    make_sayings(&x);
    check_differences(run, &x);
    /* Only rows may differ, also after a mismatch in which they did. */
    for (size_t rows = 1; rows < 4; rows++) {
        size_t rows_from[RANKS_MAX];
        struct difference columns = { "tensor 'm': rank %d has shape [*,4], rank 0 has [*,8]", { x.g, x.g } };
        columns.info[0].shape[0] = columns.info[1].shape[0] = rows;
        columns.info[1].shape[1] = 4;
        check_difference(run, &columns);
        CHECK(halay_allgather(run->ctx, "m", x.in, rows, 8, HALAY_F32, x.out, 64, rows_from) == HALAY_OK &&
              rows_from[0] == rows);
    }
    /* The rows of all ranks exceed any memory. */
    CHECK(halay_allgather_async(run->ctx, "huge", x.in, SIZE_MAX / 2 / (size_t)run->size + 1, 1, HALAY_U8, NULL, 0,
                                &request) == HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_ERR_ARGUMENT);
    CHECK(!strcmp(halay_request_text(request), "tensor 'huge': all ranks' rows together are more than fits in memory"),
          "'%s'", halay_request_text(request));
    halay_request_free(request);
}

int main(void)
{
    static const int sizes[] = { 1, 2, 3, 4 };

    check_waiting_to_join();
    check_priorities(0, "ceadbf");
    check_priorities(1 << 20, "ceadbf");
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t delay = 0; delay < 2; delay++) {
            ranks_run(sizes[s], delay * 5, &(struct rank_run){ .body = body_allgather, .expected = "'short'" }, NULL,
                      NULL);
            ranks_run(sizes[s], delay * 6, &(struct rank_run){ .body = body_reduce_scatter }, NULL, NULL);
            ranks_run(sizes[s], delay * 14, &(struct rank_run){ .body = body_allgather_in_place }, NULL, NULL);
            ranks_run(sizes[s], delay * 15, &(struct rank_run){ .body = body_scatter_splits }, NULL, NULL);
            ranks_run(sizes[s], delay * 7, &(struct rank_run){ .body = body_alltoall }, NULL, NULL);
            ranks_run(sizes[s], delay * 11, &(struct rank_run){ .body = body_group, .expected = "'r'" }, NULL, NULL);
            ranks_run(sizes[s], delay * 12, &(struct rank_run){ .body = body_wire }, NULL, NULL);
            check_joins(sizes[s], delay * 13);
            _Atomic int entered = 0;
            ranks_run(sizes[s], delay * 8, &(struct rank_run){ .body = body_barrier, .arg = &entered }, NULL, NULL);
            ranks_run(sizes[s], delay * 9, &(struct rank_run){ .body = body_refused, .expected = "'r'" }, NULL, NULL);
            if (sizes[s] > 1)
                ranks_run(sizes[s], delay * 10, &(struct rank_run){ .body = body_mismatch, .expected = "tensor" }, NULL,
                          NULL);
        }
    check_join_bits(3, HALAY_DETERMINISTIC_RUN, HALAY_JOIN_AVERAGE_ALL);
    check_join_bits(3, HALAY_DETERMINISTIC_RANKS, HALAY_JOIN_AVERAGE_PRESENT);
    return test_end();
}
