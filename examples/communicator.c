/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that uses MPI itself: one context of all its processes, one of every second one, both at the same time.
 *     mpicc communicator.c $(pkg-config --cflags --libs halay) -o communicator && mpirun -np 4 ./communicator
 */
#include <halay_mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void die(const char *what, enum halay_status status)
{
    fprintf(stderr, "%s: %s\n", what, halay_status_string(status));
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* The number of ranks, found the hard way. */
static float count(struct halay_context *ctx)
{
    float one = 1;
    enum halay_status status = halay_allreduce(ctx, "one", NULL, &one, 1, HALAY_F32, HALAY_SUM);

    if (status != HALAY_OK)
        die("halay_allreduce", status);
    return one;
}

int main(int argc, char **argv)
{
    struct halay_context *all, *half;
    int level, rank, size;
    MPI_Comm every_second;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &every_second);

    enum halay_status status = halay_init_mpi(MPI_COMM_WORLD, NULL, &all);
    if (status != HALAY_OK)
        die("halay_init_mpi", status);
    status = halay_init_mpi(every_second, NULL, &half);
    if (status != HALAY_OK)
        die("halay_init_mpi", status);
    printf("process %d of %d: %g ranks in all, %g with numbers as %s as mine, where I am %d\n", rank, size,
           (double)count(all), (double)count(half), rank % 2 ? "odd" : "even", halay_rank(half));
    halay_fini(half);
    halay_fini(all);
    MPI_Comm_free(&every_second);
    MPI_Finalize();
    return 0;
}
