/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap from MPI: rank and size are those of MPI_COMM_WORLD, or of a communicator of the program's; blobs are
 * exchanged point to point over a copy of it, everyone with everyone, so that a rank that doesn't come can be named.
 *
 * After a failure the requests may never end: they and their memory are left to MPI, the communicator too, and every
 * later exchange fails. Cleanup: labels, in reverse order.
 */
#include "base/clock.h"
#include "collectives/transport/mpi/mpi_module.h"
#include "collectives/transport/mpi/mpi_process.h"
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOB_TAG = 1, SPIN_LOOKS = 1000 };

struct mpi_boot {
    struct halay_boot base;
    const struct halay_host *host; /* borrowed until destroy */
    MPI_Comm comm;                 /* owned; left to MPI after a failure */
    enum halay_status status;      /* the first error */
};

/* One exchange: what MPI may hold after we have given up. */
struct exchange {
    MPI_Request *requests; /* owned: from each rank, then to each rank */
    MPI_Status *statuses;  /* owned: as many */
    unsigned char *memory; /* owned: everyone's blobs, in order of rank */
};

static enum halay_status exchange_start(const struct mpi_boot *self, const struct exchange *ex, const void *mine,
                                        int bytes)
{
    int size = self->base.size, error = MPI_SUCCESS;
    const unsigned char *own = memcpy(ex->memory + (size_t)self->base.rank * (size_t)bytes, mine, (size_t)bytes);

    for (int i = 0; i < 2 * size; i++)
        ex->requests[i] = MPI_REQUEST_NULL;
    for (int r = 0; r < size && error == MPI_SUCCESS; r++)
        if (r != self->base.rank)
            error = MPI_Irecv(ex->memory + (size_t)r * (size_t)bytes, bytes, MPI_BYTE, r, BLOB_TAG, self->comm,
                              &ex->requests[r]);
    for (int r = 0; r < size && error == MPI_SUCCESS; r++)
        if (r != self->base.rank)
            error = MPI_Isend(own, bytes, MPI_BYTE, r, BLOB_TAG, self->comm, &ex->requests[size + r]);
    return halay_mpi_check(self->host, error, "exchange of addresses over MPI");
}

static void log_missing(const struct mpi_boot *self, const struct exchange *ex, int timeout_ms)
{
    char ranks[160] = "";
    size_t used = 0;

    for (int r = 0; r < self->base.size && used < sizeof ranks - 16; r++)
        if (ex->requests[r] != MPI_REQUEST_NULL)
            used += (size_t)snprintf(ranks + used, sizeof ranks - used, "%s%d", used ? ", " : "", r);
    if (used >= sizeof ranks - 16)
        snprintf(ranks + used, sizeof ranks - used, ", ...");
    halay_host_error(self->host, "timeout: nothing received for %d ms from rank %s", timeout_ms,
                     used ? ranks : "(all have sent, but not all have received ours)");
}

static enum halay_status exchange_wait(const struct mpi_boot *self, const struct exchange *ex, int timeout_ms)
{
    int64_t deadline = halay_deadline_us(timeout_ms);
    const struct timespec nap = { 0, 100 * 1000 };

    for (unsigned looks = 0;; looks++) {
        int is_done = 0;
        enum halay_status status =
            halay_mpi_check(self->host, MPI_Testall(2 * self->base.size, ex->requests, &is_done, ex->statuses),
                            "exchange of addresses over MPI");
        if (status != HALAY_OK || is_done)
            return status;
        if (halay_deadline_passed(deadline))
            break;
        if (looks < SPIN_LOOKS) {
            sched_yield();
            continue;
        }
        nanosleep(&nap, NULL);
    }
    log_missing(self, ex, timeout_ms);
    return HALAY_ERR_TIMEOUT;
}

static enum halay_status boot_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                        int timeout_ms)
{
    struct mpi_boot *self = (struct mpi_boot *)boot;
    size_t size = (size_t)boot->size;
    const char *why_not = halay_mpi_why_not_call();

    if (self->status != HALAY_OK)
        return self->status;
    if (why_not)
        return halay_host_fail(self->host, HALAY_ERR_UNSUPPORTED, "MPI can't be called here: %s", why_not);
    if (bytes > INT32_MAX || bytes > SIZE_MAX / size)
        return halay_host_fail(self->host, HALAY_ERR_ARGUMENT, "exchange of %zu bytes a rank: too long", bytes);

    struct exchange ex = { .requests = calloc(2 * size, sizeof *ex.requests),
                           .statuses = calloc(2 * size, sizeof *ex.statuses),
                           .memory = malloc(bytes * size + 1) };
    if (!ex.requests || !ex.statuses || !ex.memory) {
        halay_host_error(self->host, "out of memory: %zu bytes", bytes * size);
        self->status = HALAY_ERR_NO_MEMORY;
        goto out_free;
    }
    self->status = exchange_start(self, &ex, mine, (int)bytes);
    if (self->status == HALAY_OK)
        self->status = exchange_wait(self, &ex, timeout_ms);
    if (self->status != HALAY_OK) {
        halay_mpi_count_failure();
        return self->status; /* MPI holds them: they are its for good */
    }
    if (all)
        memcpy(all, ex.memory, bytes * size);

out_free:
    free(ex.memory);
    free(ex.statuses);
    free(ex.requests);
    return self->status;
}

static void boot_destroy(struct halay_boot *boot)
{
    struct mpi_boot *self = (struct mpi_boot *)boot;
    int finalized = 0;

    /* After a whole exchange nothing is on its way to this rank, and it is known here that nothing will be. Where MPI
     * is the program's it may be down already, or this thread may not call it: then the communicator goes with MPI. */
    if (self->status == HALAY_OK && MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized && !halay_mpi_why_not_call())
        (void)MPI_Comm_free(&self->comm);
    halay_mpi_count_open(-1);
    free(self);
}

static const struct halay_boot_ops boot_ops = {
    .name = "mpi",
    .allgather = boot_allgather,
    .destroy = boot_destroy,
};

/* The ABI of the MPI that this module is built for. */
#ifdef OPEN_MPI
static const enum halay_mpi_abi own_abi = HALAY_MPI_OPEN;
#else
static const enum halay_mpi_abi own_abi = HALAY_MPI_MPICH;
#endif

static const char *abi_name(enum halay_mpi_abi abi)
{
    if (abi == HALAY_MPI_OPEN)
        return "Open MPI";
    return abi == HALAY_MPI_MPICH ? "MPICH" : "an unknown MPI";
}

/* The launcher and this module's MPI don't go together. */
static enum halay_status refuse_launcher(const struct halay_host *host)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;

    if (MPI_Get_library_version(library, &length) != MPI_SUCCESS)
        library[0] = '\0';
    library[strcspn(library, ",\n")] = '\0';
    for (char *tab = library; (tab = strchr(tab, '\t'));)
        *tab = ' ';
    return halay_host_fail(
        host, HALAY_ERR_UNSUPPORTED,
        "%d ranks were started by the launcher of another MPI than '%s', with which halay's module works here: start "
        "them by the mpirun of that MPI, or by halayrun, which needs none, or build halay for the launcher's "
        "(configure --with-mpi=FOLDER, and --with-mpich=FOLDER for an MPICH beside it)",
        host->config->launchers.mpi_size, library);
}

/* The bootstrap of a communicator's ranks, with a copy of it. */
static enum halay_status boot_create(const struct halay_host *host, MPI_Comm of, struct mpi_boot **out)
{
    int rank = 0, size = 0;
    enum halay_status status;

    if ((status = halay_mpi_check(host, MPI_Comm_rank(of, &rank), "MPI_Comm_rank")) != HALAY_OK ||
        (status = halay_mpi_check(host, MPI_Comm_size(of, &size), "MPI_Comm_size")) != HALAY_OK)
        return status;
    struct mpi_boot *self = calloc(1, sizeof *self);
    if (!self)
        return halay_host_fail(host, HALAY_ERR_NO_MEMORY, "out of memory: bootstrap 'mpi'");
    self->base = (struct halay_boot){ .ops = &boot_ops, .rank = rank, .size = size, .log = host->log };
    self->host = host;
    status = halay_mpi_split(host, of, rank, &self->comm);
    if (status != HALAY_OK) {
        free(self);
        return status;
    }
    halay_mpi_count_open(1);
    *out = self;
    return HALAY_OK;
}

static enum halay_status check_thread(const struct halay_host *host)
{
    const char *why_not = halay_mpi_why_not_call();

    if (!why_not)
        return HALAY_OK;
    return halay_host_fail(host, HALAY_ERR_UNSUPPORTED, "bootstrap 'mpi' can't be used: %s", why_not);
}

enum halay_status halay_mpi_boot_create(const struct halay_host *host, struct halay_boot **out)
{
    struct mpi_boot *self;
    int size = 0;

    if (own_abi == HALAY_MPI_MPICH && host->config->launchers.mpi_is_open_mpi)
        return refuse_launcher(host); /* some MPICHs would abort in MPI_Init */
    enum halay_status status = halay_mpi_start(host);
    if (status != HALAY_OK)
        return status;
    halay_mpi_sweep();
    if ((status = check_thread(host)) != HALAY_OK ||
        (status = halay_mpi_check(host, MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size")) != HALAY_OK)
        return status;
    if (size == 1 && host->config->launchers.mpi_size > 1) /* each of them is alone in its MPI_COMM_WORLD */
        return refuse_launcher(host);
    if ((status = boot_create(host, MPI_COMM_WORLD, &self)) != HALAY_OK)
        return status;
    *out = &self->base;
    return HALAY_OK;
}

static enum halay_status check_comm(const struct halay_host *host, const void *comm, enum halay_mpi_abi abi)
{
    int initialized = 0, is_inter = 0;

    if (abi != own_abi)
        return halay_host_fail(host, HALAY_ERR_ARGUMENT, "the communicator is of %s, halay was built with %s here",
                               abi_name(abi), abi_name(own_abi));
    enum halay_status status = halay_mpi_check(host, MPI_Initialized(&initialized), "MPI_Initialized");
    if (status != HALAY_OK)
        return status;
    if (!initialized)
        return halay_host_fail(host, HALAY_ERR_UNSUPPORTED, "a communicator, but MPI is not initialised");
    status = halay_mpi_start(host); /* it is up, or finalised */
    if (status == HALAY_OK)
        status = check_thread(host);
    if (status != HALAY_OK)
        return status;
    if (*(const MPI_Comm *)comm == MPI_COMM_NULL)
        return halay_host_fail(host, HALAY_ERR_ARGUMENT,
                               "the communicator is MPI_COMM_NULL: a process that is not in it must not come");
    status = halay_mpi_check(host, MPI_Comm_test_inter(*(const MPI_Comm *)comm, &is_inter), "MPI_Comm_test_inter");
    if (status == HALAY_OK && is_inter) {
        halay_host_error(host, "the communicator joins two groups: merge them first (MPI_Intercomm_merge)");
        status = HALAY_ERR_ARGUMENT;
    }
    return status;
}

enum halay_status halay_mpi_boot_create_from(const struct halay_host *host, const void *comm, enum halay_mpi_abi abi,
                                             struct halay_boot **out)
{
    struct mpi_boot *self;

    enum halay_status status = check_comm(host, comm, abi);
    if (status != HALAY_OK)
        return status;
    halay_mpi_sweep();
    status = boot_create(host, *(const MPI_Comm *)comm, &self);
    if (status == HALAY_OK)
        *out = &self->base;
    return status;
}

MPI_Comm halay_mpi_boot_comm(const struct halay_boot *boot)
{
    return boot->ops == &boot_ops ? ((const struct mpi_boot *)boot)->comm : MPI_COMM_WORLD;
}
