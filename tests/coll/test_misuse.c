/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrong use of groups through their public header: each call gets a status and a line that says what is wrong, nothing
 * moves, and the group goes on. What the ranks of a group do differently is in checking.c.
 */
#include "halay_coll.h"
#include "halay_tools.h"
#include "tests/test.h"
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 16, IN_FLIGHT = 8 };

struct use {
    struct halay_group *group;
    float in[COUNT], out[COUNT];
};

/* The text is the group's newest error. */
static void expect(struct use *use, int line, enum halay_status got, enum halay_status want, const char *text)
{
    char said[512];

    halay_group_last_error(use->group, said, sizeof said);
    CHECK(got == want && strstr(said, text), "line %d: '%s' and '%s' instead of '%s' and '%s'", line,
          halay_status_string(got), said, halay_status_string(want), text);
    for (int i = 0; i < COUNT; i++)
        CHECK(use->in[i] == (float)i && use->out[i] == -1, "line %d: element %d has changed", line, i);
}

#define ARGUMENT(call, text) expect(u, __LINE__, call, HALAY_ERR_ARGUMENT, text)
#define UNSUPPORTED(call, text) expect(u, __LINE__, call, HALAY_ERR_UNSUPPORTED, text)

/* ---- opening: nobody has a log yet, so the line goes to standard error ---- */

static int saved_stderr, caught_stderr;

static void catch_stderr(void)
{
    FILE *file = tmpfile();

    fflush(stderr);
    saved_stderr = dup(STDERR_FILENO);
    REQUIRE(file && saved_stderr >= 0);
    caught_stderr = dup(fileno(file));
    REQUIRE(caught_stderr >= 0 && dup2(caught_stderr, STDERR_FILENO) >= 0 &&
            fcntl(caught_stderr, F_SETFL, O_APPEND) == 0);
    fclose(file);
}

static void release_stderr(void)
{
    REQUIRE(dup2(saved_stderr, STDERR_FILENO) >= 0);
    close(saved_stderr);
    close(caught_stderr);
}

/* What has been written since the last call. */
static void expect_stderr(int line, enum halay_status got, enum halay_status want, const char *text)
{
    char said[1024] = "";
    ssize_t length = pread(caught_stderr, said, sizeof said - 1, 0);

    CHECK(got == want && length > 0 && strstr(said, text), "line %d: '%s' and '%s' instead of '%s' and '%s'", line,
          halay_status_string(got), said, halay_status_string(want), text);
    REQUIRE(ftruncate(caught_stderr, 0) == 0);
}

#define LOUD(call, want, text) expect_stderr(__LINE__, call, want, text)

static void opening(void)
{
    struct {
        struct halay_options known;
        char more[16];
    } newer = { { .struct_size = sizeof newer, .bootstrap = "self" }, "" };
    struct halay_options options = { .struct_size = sizeof options, .bootstrap = "self", .transport = "tpc" };
    struct halay_group *group = NULL;
    const size_t wrong[] = { 0, 1, offsetof(struct halay_options, process_sets) - 1, 4097, SIZE_MAX };

    LOUD(halay_group_open(NULL, NULL), HALAY_ERR_ARGUMENT, "no place for the group");
    LOUD(halay_group_open(&options, &group), HALAY_ERR_CONFIG, "transport: 'tpc' is not one of auto, shm");
    options = (struct halay_options){ .struct_size = sizeof options, .bootstrap = "selv" };
    LOUD(halay_group_open(&options, &group), HALAY_ERR_CONFIG, "bootstrap: 'selv' is not one of auto, self");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options.struct_size = wrong[i];
        LOUD(halay_group_open(&options, &group), HALAY_ERR_ARGUMENT, "struct_size of struct halay_options is");
    }
    newer.more[sizeof newer.more - 1] = 1;
    LOUD(halay_group_open(&newer.known, &group), HALAY_ERR_ARGUMENT, "asks for something newer");
    CHECK(!group);
    newer.more[sizeof newer.more - 1] = 0;
    CHECK(halay_group_open(&newer.known, &group) == HALAY_OK && halay_group_size(group) == 1);
    halay_group_close(group);
    halay_group_close(NULL);
}

static void no_group(void)
{
    struct halay_coll *c = NULL;
    struct halay_group *group = NULL;
    float x = 0;
    size_t one = 1;
    void *memory = NULL;
    int rank = 0;

    LOUD(halay_group_allreduce(NULL, &x, &x, 1, HALAY_F32, HALAY_SUM), HALAY_ERR_ARGUMENT, "allreduce: no group");
    LOUD(halay_group_allreduce_adasum(NULL, &x, &x, &one, 1, HALAY_F32), HALAY_ERR_ARGUMENT, "adasum: no group");
    LOUD(halay_group_reduce(NULL, &x, &x, 1, HALAY_F32, HALAY_SUM, 0), HALAY_ERR_ARGUMENT, "reduce: no group");
    LOUD(halay_group_broadcast(NULL, &x, 1, HALAY_F32, 0), HALAY_ERR_ARGUMENT, "broadcast: no group");
    LOUD(halay_group_allgather(NULL, &x, &x, 1, HALAY_F32), HALAY_ERR_ARGUMENT, "allgather: no group");
    LOUD(halay_group_allgatherv(NULL, &x, &x, &one, HALAY_F32), HALAY_ERR_ARGUMENT, "allgather: no group");
    LOUD(halay_group_allgatherv(NULL, &x, &x, NULL, HALAY_F32), HALAY_ERR_ARGUMENT, "counts are missing");
    LOUD(halay_group_reduce_scatter(NULL, &x, &x, 1, HALAY_F32, HALAY_SUM), HALAY_ERR_ARGUMENT,
         "reduce-scatter: no group");
    LOUD(halay_group_reduce_scatterv(NULL, &x, &x, NULL, HALAY_F32, HALAY_SUM), HALAY_ERR_ARGUMENT,
         "counts are missing");
    LOUD(halay_group_alltoall(NULL, &x, &x, 1, HALAY_F32), HALAY_ERR_ARGUMENT, "alltoall: no group");
    LOUD(halay_group_alltoallv(NULL, &x, NULL, &x, &one, HALAY_F32), HALAY_ERR_ARGUMENT, "counts are missing");
    LOUD(halay_group_barrier(NULL), HALAY_ERR_ARGUMENT, "barrier: no group");
    LOUD(halay_group_barrier_start(NULL, &c), HALAY_ERR_ARGUMENT, "barrier: no group");
    LOUD(halay_coll_progress(NULL), HALAY_ERR_ARGUMENT, "no collective");
    LOUD(halay_coll_wait(NULL, 0), HALAY_ERR_ARGUMENT, "no collective");
    LOUD(halay_group_alloc(NULL, 1, &memory), HALAY_ERR_ARGUMENT, "alloc: no group");
    LOUD(halay_group_free(NULL, &x), HALAY_ERR_ARGUMENT, "free: no group");
    LOUD(halay_group_subset(NULL, &rank, 1, &group), HALAY_ERR_ARGUMENT, "subset: no parent");
    LOUD(halay_group_set_algorithm(NULL, "allreduce", "ring"), HALAY_ERR_ARGUMENT, "algorithm: no group");
    LOUD(halay_group_set_segment(NULL, 4096), HALAY_ERR_ARGUMENT, "segment: no group");
    LOUD(halay_group_set_slot(NULL, 4096), HALAY_ERR_ARGUMENT, "slot: no group");
    halay_coll_end(NULL);
    CHECK(!c && !group && !memory && halay_group_free(NULL, NULL) == HALAY_OK);
}

/* ---- calls on a group ---- */

static void types_and_reductions(struct use *u)
{
    enum halay_dtype dtype = (enum halay_dtype)HALAY_DTYPE_COUNT;
    enum halay_reduction op = (enum halay_reduction)HALAY_REDUCTION_COUNT;
    const size_t one = 1;

    for (int i = 0; i < 2; i++) {
        ARGUMENT(halay_group_allreduce(u->group, u->in, u->out, 1, dtype, HALAY_SUM), "no such type or reduction");
        ARGUMENT(halay_group_allreduce(u->group, u->in, u->out, 1, HALAY_F32, op), "no such type or reduction");
        ARGUMENT(halay_group_reduce(u->group, u->in, u->out, 1, HALAY_F32, op, 0), "no such type or reduction");
        ARGUMENT(halay_group_reduce_scatter(u->group, u->in, u->out, 1, HALAY_F32, op), "no such type or reduction");
        ARGUMENT(halay_group_broadcast(u->group, u->in, 1, dtype, 0), "no such type");
        ARGUMENT(halay_group_allgather(u->group, u->in, u->out, 1, dtype), "no such type");
        ARGUMENT(halay_group_alltoall(u->group, u->in, u->out, 1, dtype), "no such type");
        ARGUMENT(halay_group_allreduce_adasum(u->group, u->in, u->out, &one, 1, dtype), "no such type or reduction");
        dtype = (enum halay_dtype) - 1;
        op = (enum halay_reduction) - 1;
    }
    for (int t = 0; t < HALAY_DTYPE_COUNT; t++)
        for (int o = 0; o < HALAY_REDUCTION_COUNT; o++)
            if (!halay_reduction_takes((enum halay_reduction)o, (enum halay_dtype)t))
                UNSUPPORTED(
                    halay_group_allreduce(u->group, u->in, u->out, 1, (enum halay_dtype)t, (enum halay_reduction)o),
                    "does not take type");
    UNSUPPORTED(halay_group_reduce(u->group, u->in, u->out, 1, HALAY_F32, HALAY_ADASUM, 0),
                "adasum is for all-reduce only");
    UNSUPPORTED(halay_group_reduce_scatter(u->group, u->in, u->out, 1, HALAY_F32, HALAY_ADASUM), "all-reduce only");
}

static void buffers(struct use *u)
{
    char *odd = (char *)u->out + 1;
    const size_t one = 1;

    ARGUMENT(halay_group_allreduce(u->group, NULL, u->out, 1, HALAY_F32, HALAY_SUM), "a buffer is missing");
    ARGUMENT(halay_group_allreduce(u->group, u->in, NULL, 1, HALAY_F32, HALAY_SUM), "a buffer is missing");
    ARGUMENT(halay_group_allreduce(u->group, u->in, odd, 1, HALAY_F32, HALAY_SUM), "not aligned");
    ARGUMENT(halay_group_allreduce(u->group, u->out, u->out + 1, 2, HALAY_F32, HALAY_SUM), "in and out overlap");
    ARGUMENT(halay_group_reduce(u->group, u->in, NULL, 1, HALAY_F32, HALAY_SUM, 0), "a buffer is missing");
    ARGUMENT(halay_group_reduce(u->group, u->out + 1, u->out, 2, HALAY_F32, HALAY_SUM, 0), "in and out overlap");
    ARGUMENT(halay_group_broadcast(u->group, NULL, 1, HALAY_F32, 0), "a buffer is missing");
    ARGUMENT(halay_group_allgather(u->group, u->out + 1, u->out, 2, HALAY_F32), "not this rank's part");
    ARGUMENT(halay_group_allgatherv(u->group, u->in, NULL, &one, HALAY_F32), "a buffer is missing");
    ARGUMENT(halay_group_reduce_scatter(u->group, u->out + 1, u->out, 2, HALAY_F32, HALAY_SUM), "not this rank's part");
    ARGUMENT(halay_group_alltoall(u->group, u->out + 1, u->out, 2, HALAY_F32), "in and out overlap");
    ARGUMENT(halay_group_alltoallv(u->group, NULL, &one, u->out, &one, HALAY_F32), "a buffer is missing");
    ARGUMENT(halay_group_broadcast(u->group, u->in, 1, HALAY_F32, 1), "no such root");
    ARGUMENT(halay_group_broadcast(u->group, u->in, 1, HALAY_F32, -1), "no such root");
    ARGUMENT(halay_group_reduce(u->group, u->in, u->out, 1, HALAY_F32, HALAY_SUM, 1), "no such root");
    CHECK(halay_group_allreduce(u->group, NULL, NULL, 0, HALAY_F32, HALAY_SUM) == HALAY_OK);
}

static void counts(struct use *u)
{
    const size_t most = SIZE_MAX / 4 + 1, all = SIZE_MAX, half[2] = { SIZE_MAX / 2, SIZE_MAX / 2 + 2 };

    ARGUMENT(halay_group_allreduce(u->group, u->in, u->out, most, HALAY_F32, HALAY_SUM), "too large");
    ARGUMENT(halay_group_reduce(u->group, u->in, u->out, all, HALAY_F16, HALAY_SUM, 0), "too large");
    ARGUMENT(halay_group_broadcast(u->group, u->in, most, HALAY_F32, 0), "too large");
    ARGUMENT(halay_group_allgather(u->group, u->in, u->out, most, HALAY_F32), "too large");
    ARGUMENT(halay_group_allgatherv(u->group, u->in, u->out, &most, HALAY_F32), "too large");
    ARGUMENT(halay_group_reduce_scatter(u->group, u->in, u->out, most, HALAY_F32, HALAY_SUM), "too large");
    ARGUMENT(halay_group_reduce_scatterv(u->group, u->in, u->out, &most, HALAY_F32, HALAY_SUM), "too large");
    ARGUMENT(halay_group_alltoall(u->group, u->in, u->out, most, HALAY_F32), "too large");
    ARGUMENT(halay_group_alltoallv(u->group, u->in, &most, u->out, &most, HALAY_F32), "too large");
    ARGUMENT(halay_group_allreduce_adasum(u->group, u->in, u->out, half, 2, HALAY_F32), "too large");
    ARGUMENT(halay_group_allreduce_adasum(u->group, u->in, u->out, NULL, 1, HALAY_F32), "counts are missing");
    ARGUMENT(halay_group_allgatherv(u->group, u->in, u->out, NULL, HALAY_F32), "counts are missing");
    ARGUMENT(halay_group_reduce_scatterv(u->group, u->in, u->out, NULL, HALAY_F32, HALAY_SUM), "counts are missing");
    ARGUMENT(halay_group_alltoallv(u->group, u->in, &most, u->out, NULL, HALAY_F32), "counts are missing");
    ARGUMENT(halay_group_alltoallv(u->group, u->in, &half[0], u->out, &half[1], HALAY_U8),
             "disagree about what this rank keeps");
}

static void handles(struct use *u)
{
    struct halay_coll *c[IN_FLIGHT] = { NULL }, *more = NULL;

    ARGUMENT(halay_group_barrier_start(u->group, NULL), "no place for the collective's handle");
    ARGUMENT(halay_group_allreduce_start(u->group, u->in, u->out, 1, HALAY_F32, HALAY_SUM, NULL), "no place for");
    for (int k = 0; k < IN_FLIGHT; k++)
        CHECK(halay_group_barrier_start(u->group, &c[k]) == HALAY_OK);
    UNSUPPORTED(halay_group_barrier_start(u->group, &more), "too many collectives under way: 8");
    CHECK(!more);
    for (int k = 0; k < IN_FLIGHT; k++) {
        CHECK(halay_coll_wait(c[k], -1) == HALAY_OK);
        halay_coll_end(c[k]);
    }
    halay_coll_end(c[0]);
    ARGUMENT(HALAY_ERR_ARGUMENT, "a collective was ended twice");
    CHECK(halay_group_barrier(u->group) == HALAY_OK);
}

static void memory(struct use *u)
{
    struct halay_group *other = NULL;
    void *block = NULL, *others = NULL;
    const int all = 0;

    CHECK(halay_group_subset(u->group, &all, 1, &other) == HALAY_OK);
    CHECK(halay_group_alloc(u->group, 5000, &block) == HALAY_OK && halay_group_alloc(other, 1, &others) == HALAY_OK);
    ARGUMENT(halay_group_alloc(u->group, 1, NULL), "no place for the pointer");
    expect(u, __LINE__, halay_group_alloc(u->group, SIZE_MAX, &others), HALAY_ERR_NO_MEMORY, "cannot allocate");
    ARGUMENT(halay_group_free(u->group, (char *)block + 4096), "not freed");
    ARGUMENT(halay_group_free(u->group, u->in), "not freed");
    ARGUMENT(halay_group_free(u->group, others), "is not from halay_group_alloc of this group");
    CHECK(halay_group_free(u->group, block) == HALAY_OK);
    ARGUMENT(halay_group_free(u->group, block), "or was freed before");
    CHECK(halay_group_free(u->group, NULL) == HALAY_OK && halay_group_free(other, others) == HALAY_OK);
    halay_group_close(other);
}

static void settings(struct use *u)
{
    struct halay_group *group = NULL;
    const int ranks[] = { 0, 0, -1, 1 };
    char text[200];

    ARGUMENT(halay_group_set_algorithm(u->group, "allreduse", "ring"), "unknown operation 'allreduse'");
    ARGUMENT(halay_group_set_algorithm(u->group, NULL, "ring"), "unknown operation '(null)'");
    ARGUMENT(halay_group_set_algorithm(u->group, "allreduce", "rong"), "unknown algorithm 'rong'");
    ARGUMENT(halay_group_set_algorithm(u->group, "allreduce", NULL), "unknown algorithm '(null)'");
    ARGUMENT(halay_group_set_segment(u->group, 0), "at least one byte");
    ARGUMENT(halay_group_subset(u->group, ranks, 1, NULL), "no place for the group");
    ARGUMENT(halay_group_subset(u->group, NULL, 1, &group), "not a list of ranks");
    for (int i = 0; i < 4; i++)
        ARGUMENT(halay_group_subset(u->group, ranks + i, i ? 1 - i % 2 : -1, &group), "not a list of ranks");
    CHECK(!halay_group_algorithm(u->group, "allreduse", 0, NULL) && !halay_group_algorithm(u->group, NULL, 0, NULL));
    CHECK(!strcmp(halay_group_explain(u->group, "allreduse", 1, HALAY_F32, 0, text, sizeof text), "?"));
    CHECK(!strcmp(halay_group_explain(u->group, "allreduce", SIZE_MAX, HALAY_F32, 0, text, sizeof text), "?"));
    CHECK(!strcmp(text, "no such operation or type"));
}

int main(void)
{
    const struct halay_options options = { .struct_size = sizeof options, .bootstrap = "self" };
    struct use use, *u = &use;

    catch_stderr();
    opening();
    no_group();
    REQUIRE(halay_group_open(&options, &u->group) == HALAY_OK);
    for (int i = 0; i < COUNT; i++) {
        u->in[i] = (float)i;
        u->out[i] = -1;
    }
    types_and_reductions(u);
    buffers(u);
    counts(u);
    handles(u);
    memory(u);
    settings(u);
    CHECK(halay_group_allreduce(u->group, u->in, u->out, COUNT, HALAY_F32, HALAY_SUM) == HALAY_OK &&
          !memcmp(u->in, u->out, sizeof u->in));
    halay_group_close(u->group);
    release_stderr();
    return test_end();
}
