/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI in this process. MPI can be initialised once and finalised once, so this state is the process's, not a context's:
 * contexts come and go, MPI stays up. That is why the module is linked to stay loaded (-z nodelete).
 *
 * The end. If we initialised MPI it is finalised at exit, by the thread that initialised it (MPI demands that), when
 * all of ours was closed in order. MPI_Finalize waits for all processes: after a failure, or while peers may still wait
 * for this process, it is left out, and the launcher is told by the missing call. If the program finalises MPI, an
 * attribute of MPI_COMM_SELF gives us the last word, as MPI promises to delete it first.
 *
 * A communicator is freed only when nothing can be on its way in it any more: a library may give its number to the next
 * one, and a late message would arrive there. What a close can't free yet stays on the list of remains.
 */
#include "collectives/transport/mpi/mpi_process.h"
#include <pthread.h>
#include <stdlib.h>

static struct {
    pthread_mutex_t lock; /* guards what follows */
    int initialised_here;
    pthread_t thread; /* that did */
    int has_keyval;
    int open;
    int failed;
    struct halay_mpi_remains *remains; /* owned */
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void sweep_locked(int last)
{
    struct halay_mpi_remains **at = &process.remains;

    while (*at) {
        struct halay_mpi_remains *next = (*at)->next;
        if ((*at)->sweep(*at, last))
            *at = next;
        else
            at = &(*at)->next;
    }
}

void halay_mpi_sweep(void)
{
    pthread_mutex_lock(&process.lock);
    sweep_locked(0);
    pthread_mutex_unlock(&process.lock);
}

void halay_mpi_leave_remains(struct halay_mpi_remains *remains)
{
    pthread_mutex_lock(&process.lock);
    remains->next = process.remains;
    process.remains = remains;
    sweep_locked(0);
    pthread_mutex_unlock(&process.lock);
}

void halay_mpi_count_open(int change)
{
    pthread_mutex_lock(&process.lock);
    process.open += change;
    pthread_mutex_unlock(&process.lock);
}

void halay_mpi_count_failure(void)
{
    pthread_mutex_lock(&process.lock);
    process.failed = 1;
    pthread_mutex_unlock(&process.lock);
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF first, while everything still works. */
static int before_finalize(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    pthread_mutex_lock(&process.lock);
    sweep_locked(1);
    pthread_mutex_unlock(&process.lock);
    return MPI_SUCCESS;
}

static void at_exit(void)
{
    int finalized = 0;

    if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized)
        return;
    pthread_mutex_lock(&process.lock);
    int is_clean = !process.open && !process.failed && pthread_equal(process.thread, pthread_self());
    pthread_mutex_unlock(&process.lock);
    if (is_clean)
        (void)MPI_Finalize(); /* nobody is left to be told */
}

static enum halay_status start_locked(const struct halay_host *host)
{
    int initialized = 0, finalized = 0, level = 0, keyval = 0;
    enum halay_status status;

    if ((status = halay_mpi_check(host, MPI_Finalized(&finalized), "MPI_Finalized")) != HALAY_OK ||
        (status = halay_mpi_check(host, MPI_Initialized(&initialized), "MPI_Initialized")) != HALAY_OK)
        return status;
    if (finalized) {
        halay_host_error(host, "MPI can't be used: the program has finalised it");
        return HALAY_ERR_UNSUPPORTED;
    }
    if (!initialized) {
        status = halay_mpi_check(host, MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
        if (status != HALAY_OK)
            return status;
        process.initialised_here = 1;
        process.thread = pthread_self();
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        if (atexit(at_exit))
            halay_host_warning(host, "MPI won't be finalised at exit: no room for a handler");
    }
    if (process.has_keyval)
        return HALAY_OK;
    status = halay_mpi_check(host, MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, before_finalize, &keyval, NULL),
                             "MPI_Comm_create_keyval");
    if (status != HALAY_OK)
        return status;
    process.has_keyval = 1;
    return halay_mpi_check(host, MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &process), "MPI_Comm_set_attr");
}

enum halay_status halay_mpi_start(const struct halay_host *host)
{
    pthread_mutex_lock(&process.lock);
    enum halay_status status = start_locked(host);
    pthread_mutex_unlock(&process.lock);
    return status;
}

const char *halay_mpi_why_not_drive(void)
{
    int level = MPI_THREAD_SINGLE;

    if (MPI_Query_thread(&level) != MPI_SUCCESS)
        return "MPI doesn't tell its thread level";
    if (level == MPI_THREAD_MULTIPLE)
        return NULL;
    if (!process.initialised_here) /* set before any transport is opened, never reset */
        return "the program initialised MPI below MPI_THREAD_MULTIPLE";
    return level >= MPI_THREAD_SERIALIZED ? NULL : "this MPI has no MPI_THREAD_SERIALIZED";
}

const char *halay_mpi_why_not_call(void)
{
    int level = MPI_THREAD_SINGLE, is_main = 0;

    if (MPI_Query_thread(&level) != MPI_SUCCESS || MPI_Is_thread_main(&is_main) != MPI_SUCCESS)
        return "MPI doesn't tell its thread level";
    if (level >= MPI_THREAD_SERIALIZED || is_main)
        return NULL;
    return "the program initialised MPI in another thread, below MPI_THREAD_SERIALIZED";
}

enum halay_status halay_mpi_check(const struct halay_host *host, int error, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (error == MPI_SUCCESS)
        return HALAY_OK;
    if (MPI_Error_string(error, text, &length) != MPI_SUCCESS)
        text[0] = '\0';
    halay_host_error(host, "%s: %s", what, text[0] ? text : "MPI gives no reason");
    return HALAY_ERR_SYSTEM;
}

enum halay_status halay_mpi_split(const struct halay_host *host, MPI_Comm of, int rank, MPI_Comm *out)
{
    MPI_Errhandler before;
    MPI_Comm comm = MPI_COMM_NULL;

    /* The program's handler would abort. */
    enum halay_status status = halay_mpi_check(host, MPI_Comm_get_errhandler(of, &before), "MPI_Comm_get_errhandler");
    if (status != HALAY_OK)
        return status;
    MPI_Comm_set_errhandler(of, MPI_ERRORS_RETURN);
    status = halay_mpi_check(host, MPI_Comm_split(of, 0, rank, &comm), "MPI_Comm_split");
    MPI_Comm_set_errhandler(of, before);
    MPI_Errhandler_free(&before);
    if (status != HALAY_OK)
        return status;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    *out = comm;
    return HALAY_OK;
}
