/* SPDX-License-Identifier: Apache-2.0
 *
 * A program in C++ that uses what the headers define themselves: blocking calls, getters, names. Alone, so that it
 * needs no launcher. installed.sh builds it against the installed library.
 */
#include <cstdio>
#include <cstring>
#include <halay.h>
#include <halay_coll.h>
#include <halay_elastic.h>
#include <halay_tools.h>
#include <halay_xla.h>

static int faults;

static void expect(bool holds, const char *what)
{
    if (holds)
        return;
    std::printf("%s: %s\n", what, halay_error_text());
    faults++;
}

static void use_engine(halay_context *ctx)
{
    float data[4] = { 1, 2, 3, 4 }, out[4] = { 0, 0, 0, 0 };
    std::size_t rows[1] = { 0 }, got = 0, first = 9;
    int last = -1, member = -1;

    expect(halay_rank(ctx) == 0 && halay_size(ctx) == 1 && halay_local_size(ctx) == 1 && halay_is_homogeneous(ctx),
           "ranks");
    expect(!halay_elastic_is_on(ctx), "elastic");
    halay_process_set *all = halay_process_set_find(ctx, 0);
    halay_process_set_ranks(all, &member);
    expect(halay_process_set_size(all) == 1 && halay_process_set_is_included(all) && member == 0, "process set");
    expect(halay_allreduce(ctx, "sum", nullptr, data, 4, HALAY_F32, HALAY_SUM) == HALAY_OK && data[3] == 4, "sum");
    expect(halay_broadcast(ctx, nullptr, data, 4, HALAY_F32, 0) == HALAY_OK, "broadcast");
    expect(halay_allgather(ctx, "gather", data, 2, 2, HALAY_F32, out, 2, rows) == HALAY_OK && rows[0] == 2 &&
               out[3] == 4,
           "all-gather");
    expect(halay_scatter(ctx, "scatter", data, nullptr, 4, 1, HALAY_F32, out, 4, 0, &got) == HALAY_OK && got == 4,
           "scatter");
    got = rows[0] = 0;
    expect(halay_scatter(ctx, "small", data, nullptr, 4, 1, HALAY_F32, out, 2, 0, &got) == HALAY_ERR_ARGUMENT &&
               got == 4,
           "too small for a scatter");
    expect(halay_allgather(ctx, "small too", data, 2, 2, HALAY_F32, out, 1, rows) == HALAY_ERR_ARGUMENT && rows[0] == 2,
           "too small for an all-gather");
    expect(halay_scatter_rows(5, 2, 1, &first) == 2 && first == 3, "rows of a scatter");
    expect(halay_barrier(ctx, nullptr) == HALAY_OK && halay_join(ctx, &last) == HALAY_OK && last == 0, "join");
}

/* What a language does that loads the library: descriptions, no plain calls. */
static void use_descriptions(halay_context *ctx)
{
    float out[2] = { 0, 0 }, in[2] = { 5, 6 };
    halay_tensor_info info;
    halay_result result;

    std::memset(&info, 0, sizeof info);
    std::memset(&result, 0, sizeof result);
    info.struct_size = sizeof info;
    info.name = "described";
    info.collective = HALAY_ALLGATHER;
    info.dimensions = 1;
    info.shape[0] = 2;
    info.in = in;
    expect(halay_run(ctx, &info, &result, nullptr) == HALAY_ERR_ARGUMENT, "a result without its size");
    result.struct_size = sizeof result;
    expect(halay_run(ctx, &info, &result, nullptr) == HALAY_OK && result.shape[0] == 2 && !result.data && !result.rows,
           "a result of the request's own is gone with it");
    info.out = out;
    info.out_bytes = sizeof out;
    expect(halay_run(ctx, &info, &result, nullptr) == HALAY_OK && result.data == out && out[1] == 6, "a result in out");
    info.collective = HALAY_JOIN;
    halay_tensor *tensor = nullptr;
    expect(halay_register(ctx, &info, &tensor) == HALAY_ERR_ARGUMENT, "a join is not registered");
    expect(halay_run(ctx, &info, &result, nullptr) == HALAY_OK && result.last_joined == 0, "a join by description");
    expect(halay_run(nullptr, &info, nullptr, nullptr) == HALAY_ERR_ARGUMENT, "no context");
}

static void use_group(halay_group *group)
{
    double data[2] = { 1, 2 };

    expect(halay_group_allreduce(group, data, data, 2, HALAY_F64, HALAY_MAX) == HALAY_OK, "all-reduce of a group");
    expect(halay_group_barrier(group) == HALAY_OK, "barrier of a group");
    expect(halay_group_rank(group) == 0 && halay_group_local_size(group) == 1 && *halay_group_transport(group),
           "group");
    expect(halay_group_broadcast(group, data, 2, HALAY_F64, 7) == HALAY_ERR_ARGUMENT, "no such root");
    expect(halay_coll_finish(nullptr) == HALAY_ERR_ARGUMENT, "no collective");
}

static void use_names()
{
    halay_dtype dtype;
    halay_reduction reduction;

    for (int i = 0; i < HALAY_DTYPE_COUNT; i++)
        expect(!halay_dtype_parse(halay_dtype_name(halay_dtype(i)), &dtype) && dtype == i && halay_dtype_size(dtype),
               "a type");
    for (int i = 0; i < HALAY_REDUCTION_COUNT; i++)
        expect(!halay_reduction_parse(halay_reduction_name(halay_reduction(i)), &reduction) && reduction == i &&
                   halay_reduction_takes(reduction, HALAY_F32) == (i != HALAY_BIT_AND && i != HALAY_BIT_OR),
               "a reduction");
    expect(halay_xla_calls()->struct_size == sizeof(struct halay_xla_calls), "functions for XLA");
}

int main()
{
    halay_context *ctx;
    halay_group *group;

    use_names();
    if (halay_init(nullptr, &ctx) != HALAY_OK)
        return 1;
    use_engine(ctx);
    use_descriptions(ctx);
    halay_fini(ctx);
    if (halay_group_open(nullptr, &group) != HALAY_OK)
        return 1;
    use_group(group);
    halay_group_close(group);
    return faults != 0;
}
