/* SPDX-License-Identifier: Apache-2.0
 *
 * What the mpi transport stands on, for ranks that share one process: mpi_process.h without anything kept once a
 * process (collectives/transport/mpi/mpi_process.c has the meaning), the bootstrap, and functions that the linker puts
 * in place of others (--wrap):
 *
 *     MPI_Testsome            waits where the rank has said so (simulated_block_next_look), else sees nothing
 *     MPI_Comm_get_attr       grants all tags
 *     halay_aligned_alloc     folds large blocks (simulated_fold_memory)
 *     free                    knows folded blocks
 *
 * Ranks are never interrupted outside MPI, so what they share needs no lock.
 */
#include "base/memory.h"
#include "collectives/transport/mpi/mpi_module.h"
#include "collectives/transport/mpi/mpi_process.h"
#include "perf/simulated/simulated.h"
#include <stdlib.h>
#include <string.h>

/* Below FOLD_LEAST bytes folding saves nothing; there are FOLDS_MAX lengths. */
enum { FOLD_LEAST = 64 << 10, FOLDS_MAX = 64 };

static unsigned char may_block[SIMULATED_RANKS_MAX]; /* each rank its own */
static int is_folding;

/* ---- the process ---- */

enum halay_status halay_mpi_start(const struct halay_host *host)
{
    (void)host;
    return HALAY_OK; /* main has initialised MPI */
}

const char *halay_mpi_why_not_drive(void)
{
    return NULL;
}

const char *halay_mpi_why_not_call(void)
{
    return NULL;
}

enum halay_status halay_mpi_check(const struct halay_host *host, int error, const char *what)
{
    if (error == MPI_SUCCESS)
        return HALAY_OK;
    halay_host_error(host, "%s: error %d of the simulated MPI", what, error);
    return HALAY_ERR_SYSTEM;
}

enum halay_status halay_mpi_split(const struct halay_host *host, MPI_Comm of, int rank, MPI_Comm *out)
{
    (void)rank; /* a simulated rank is the same everywhere */
    return halay_mpi_check(host, MPI_Comm_dup(of, out), "MPI_Comm_dup");
}

MPI_Comm halay_mpi_boot_comm(const struct halay_boot *boot)
{
    (void)boot;
    return MPI_COMM_WORLD;
}

void halay_mpi_count_open(int change)
{
    (void)change;
}

void halay_mpi_count_failure(void)
{
}

/* Every rank closes before any ends: whatever is in flight arrives. */
void halay_mpi_leave_remains(struct halay_mpi_remains *remains)
{
    do {
        simulated_block_next_look();
    } while (!remains->sweep(remains, 0));
}

void halay_mpi_sweep(void)
{
}

/* ---- bootstrap ---- */

/* Through shared memory: with messages a thousand ranks would take a minute to start. */
static enum halay_status boot_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                        int timeout_ms)
{
    static unsigned char *gathered; /* the first rank makes it, the last frees it */
    static int readers;
    int is_last;

    (void)timeout_ms;
    if (!gathered)
        gathered = malloc((size_t)boot->size * bytes);
    if (!gathered)
        return HALAY_ERR_NO_MEMORY;
    memcpy(gathered + (size_t)boot->rank * bytes, mine, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    memcpy(all, gathered, (size_t)boot->size * bytes);
    is_last = ++readers == boot->size;
    if (is_last) {
        free(gathered);
        gathered = NULL;
        readers = 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return HALAY_OK;
}

static void boot_destroy(struct halay_boot *boot)
{
    free(boot);
}

static const struct halay_boot_ops boot_ops = { .name = "simulated",
                                                .allgather = boot_allgather,
                                                .destroy = boot_destroy };

enum halay_status simulated_boot_create(struct halay_log *log, struct halay_boot **out)
{
    struct halay_boot *boot = malloc(sizeof *boot);
    int rank = 0, size = 0;

    if (!boot)
        return HALAY_ERR_NO_MEMORY;
    if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS || MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS) {
        free(boot);
        return HALAY_ERR_SYSTEM;
    }
    *boot = (struct halay_boot){ .ops = &boot_ops, .rank = rank, .size = size, .log = log };
    *out = boot;
    return HALAY_OK;
}

/* ---- waiting ---- */

static unsigned char *own_flag(void)
{
    int rank = 0;

    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank); /* it worked before */
    return &may_block[rank];
}

void simulated_block_next_look(void)
{
    *own_flag() = 1;
}

int __wrap_MPI_Testsome(int count, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses);

/* A futile test costs the simulator as much as a wait: test only where waiting is allowed, one request at a time; if
 * more are done, the next test returns at once. */
int __wrap_MPI_Testsome(int count, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses)
{
    unsigned char *flag = own_flag();

    *done = 0;
    if (!*flag)
        return MPI_SUCCESS;
    *flag = 0;
    int error = simulated_node_wait(count, requests, indices, statuses);
    if (error == MPI_SUCCESS)
        *done = indices[0] == MPI_UNDEFINED ? MPI_UNDEFINED : 1;
    return error;
}

/* ---- memory ---- */

void simulated_fold_memory(void)
{
    is_folding = 1;
}

/* SMPI takes a place in a source file for the name of a block; here its length is the name. */
void *simulated_folded(size_t bytes)
{
    return smpi_shared_malloc(bytes, "halay", (int)(bytes / HALAY_PAGE));
}

/* Folded blocks: one of each length, given to every rank that asks. A mapping for each would exceed the system's limit
 * for a process. */
static struct {
    size_t bytes;
    void *ptr;
} folds[FOLDS_MAX];

static void *fold(size_t bytes)
{
    int i = 0;

    while (i < FOLDS_MAX && folds[i].ptr && folds[i].bytes != bytes)
        i++;
    if (i == FOLDS_MAX)
        return simulated_folded(bytes);
    if (!folds[i].ptr) {
        folds[i].bytes = bytes;
        folds[i].ptr = simulated_folded(bytes);
    }
    return folds[i].ptr;
}

static int is_fold(const void *ptr)
{
    for (int i = 0; i < FOLDS_MAX && folds[i].ptr; i++)
        if (folds[i].ptr == ptr)
            return 1;
    return 0;
}

void *__real_halay_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_halay_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_halay_aligned_alloc(size_t alignment, size_t bytes)
{
    /* Blocks aligned to less than a page are an algorithm's state, not data. */
    if (!is_folding || bytes < FOLD_LEAST || alignment < HALAY_PAGE)
        return __real_halay_aligned_alloc(alignment, bytes);
    return fold(halay_round_up(bytes, HALAY_PAGE));
}

void __wrap_free(void *ptr);

void __wrap_free(void *ptr)
{
    if (!ptr || !is_fold(ptr))
        smpi_shared_free(ptr); /* passes on all other blocks */
}
