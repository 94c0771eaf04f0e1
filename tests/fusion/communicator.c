/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of a communicator (halay_mpi.h), under mpirun with at least three processes, for test_communicator.sh; built
 * once for each MPI. The communicator rotates the ranks; process 0 is not a member of a second one; contexts and a
 * group work at the same time, over shared memory and over MPI; wrong arguments are refused; MPI remains usable by the
 * program, below MPI_THREAD_MULTIPLE, too.
 * usage: communicator multiple | funneled
 */
#include "halay_mpi.h"
#include "tests/test.h"
#include <string.h>

static char last_line[500];

static void keep_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg, (void)level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static enum halay_status open_context(MPI_Comm comm, const char *transport, struct halay_context **ctx)
{
    struct halay_options options = { .struct_size = sizeof options, .transport = transport, .log = keep_line };

    return halay_init_mpi(comm, &options, ctx);
}

/* Each rank sets the element of its number, so that all ranks see which process has which number. */
static void check_ranks(struct halay_context *ctx, int rank, int size)
{
    float places[16] = { 0 };

    REQUIRE(size <= 16);
    CHECK(halay_rank(ctx) == rank && halay_size(ctx) == size, "%d of %d", halay_rank(ctx), halay_size(ctx));
    places[rank] = (float)rank + 1;
    CHECK(halay_allreduce(ctx, "places", NULL, places, 16, HALAY_F32, HALAY_SUM) == HALAY_OK);
    for (int r = 0; r < size; r++)
        CHECK(places[r] == (float)r + 1, "rank %d: %g", r, (double)places[r]);
}

static void check_group(MPI_Comm comm, int rank, int size)
{
    struct halay_group *group;
    int sum = rank;

    if (!CHECK(halay_group_open_mpi(comm, NULL, &group) == HALAY_OK))
        return;
    CHECK(halay_group_rank(group) == rank && halay_group_size(group) == size);
    CHECK(halay_group_allreduce(group, &sum, &sum, 1, HALAY_I32, HALAY_SUM) == HALAY_OK);
    CHECK(sum == size * (size - 1) / 2, "%d", sum);
    CHECK(halay_group_barrier(group) == HALAY_OK);
    halay_group_close(group);
}

/* A context of all ranks, rotated, and one without process 0, at the same time. */
static void check_two(const char *transport, int rank, int size)
{
    struct halay_context *all, *some = NULL;
    MPI_Comm turned, part;
    MPI_Errhandler handler;

    REQUIRE(!MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned));
    REQUIRE(!MPI_Comm_split(MPI_COMM_WORLD, rank ? 1 : MPI_UNDEFINED, rank, &part));
    if (!CHECK(open_context(turned, transport, &all) == HALAY_OK, "%s", last_line))
        return;
    if (rank)
        CHECK(open_context(part, transport, &some) == HALAY_OK, "%s", last_line);
    check_ranks(all, size - 1 - rank, size);
    if (some)
        check_ranks(some, rank - 1, size - 1);
    check_group(turned, size - 1 - rank, size);
    CHECK(!MPI_Comm_get_errhandler(turned, &handler) && handler == MPI_ERRORS_ARE_FATAL, "the handler stays");
    REQUIRE(!MPI_Errhandler_free(&handler) && !MPI_Comm_free(&turned)); /* not needed any more */
    check_ranks(all, size - 1 - rank, size);
    halay_fini(some);
    check_ranks(all, size - 1 - rank, size);
    halay_fini(all);
    if (part != MPI_COMM_NULL)
        REQUIRE(!MPI_Comm_free(&part));
}

static void check_refused(MPI_Comm comm, const char *want)
{
    struct halay_context *ctx;

    last_line[0] = 0;
    CHECK(open_context(comm, NULL, &ctx) == HALAY_ERR_ARGUMENT && strstr(last_line, want), "'%s'", last_line);
}

/* The checks are local and have the same result on all ranks, so that no rank waits. */
static void check_wrong(int rank)
{
    struct halay_options options = { .struct_size = sizeof options, .bootstrap = "store", .log = keep_line };
    struct halay_context *ctx;
    MPI_Comm comm = MPI_COMM_SELF, half, both;

    check_refused(MPI_COMM_NULL, "MPI_COMM_NULL");
    REQUIRE(!MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &half));
    REQUIRE(!MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank > 0 ? 0 : 1, 7, &both));
    check_refused(both, "joins two groups");
    REQUIRE(!MPI_Comm_free(&both) && !MPI_Comm_free(&half));
    CHECK(halay_init_mpi(comm, &options, &ctx) == HALAY_ERR_CONFIG && strstr(last_line, "'store' and a communicator"),
          "'%s'", last_line);
    CHECK(halay_init_communicator(NULL, HALAY_MPI_ABI, NULL, &ctx) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_open_communicator(NULL, HALAY_MPI_ABI, NULL, NULL) == HALAY_ERR_ARGUMENT);
    options.bootstrap = "mpi";
    CHECK(halay_init_communicator(&comm, (enum halay_mpi_abi)7, &options, &ctx) == HALAY_ERR_ARGUMENT &&
              strstr(last_line, "the communicator is of an unknown MPI, halay was built with "),
          "'%s'", last_line);
}

/* Each process is a job of its own; before MPI is initialised, and after it is finalised, contexts are refused. */
static void check_alone(enum halay_status want)
{
    struct halay_context *ctx;
    enum halay_status status = open_context(MPI_COMM_SELF, NULL, &ctx);

    if (!CHECK(status == want, "%s: %s", halay_status_string(status), last_line) || status != HALAY_OK)
        return;
    check_ranks(ctx, 0, 1);
    halay_fini(ctx);
}

int main(int argc, char **argv)
{
    int is_multiple = argc > 1 && !strcmp(argv[1], "multiple"), level, rank, size, finalized;
    struct halay_context *ctx = NULL;

    setvbuf(stdout, NULL, _IOLBF, 0);
    check_alone(HALAY_ERR_UNSUPPORTED);
    REQUIRE(!MPI_Init_thread(NULL, NULL, is_multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &level));
    REQUIRE(!MPI_Comm_rank(MPI_COMM_WORLD, &rank) && !MPI_Comm_size(MPI_COMM_WORLD, &size) && size >= 3);
    check_alone(HALAY_OK);
    check_wrong(rank);
    check_two(NULL, rank, size);
    if (level == MPI_THREAD_MULTIPLE)
        check_two("mpi", rank, size);
    else
        CHECK(open_context(MPI_COMM_WORLD, "mpi", &ctx) == HALAY_ERR_UNSUPPORTED, "%s", last_line);
    CHECK(open_context(MPI_COMM_WORLD, NULL, &ctx) == HALAY_OK, "%s", last_line);
    CHECK(!MPI_Finalized(&finalized) && !finalized);
    check_ranks(ctx, rank, size);
    REQUIRE(!MPI_Barrier(MPI_COMM_WORLD));
    REQUIRE(!MPI_Finalize());
    halay_fini(ctx); /* too late, but harmless where data do not move over MPI */
    check_alone(HALAY_ERR_UNSUPPORTED);
    int result = test_end();
    if (!result)
        printf("process %d of %d: %s passed\n", rank, size, is_multiple ? "multiple" : "funneled");
    return result;
}
