/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI in this process. MPI can be initialised once and finalised once, so this state is the process's, not a context's:
 * contexts come and go, MPI stays up. That is why the module is linked to stay loaded (-z nodelete).
 *
 * The end. If we initialised MPI it is finalised at exit, by the thread that initialised it (MPI demands that), when
 * all of ours was closed in order. A thread that may have ended by then, as each but the program's first one, has MPI
 * initialised by a keeper: a thread that waits for the exit. MPI_Finalize waits for all processes: after a failure, or
 * while peers may still wait for this process, it is left out, and the launcher learns it from the missing call. If the
 * program finalises MPI, an attribute of MPI_COMM_SELF gives us the last word, as MPI promises to delete it first.
 *
 * A communicator is freed only when nothing can be on its way in it any more: a library may give its number to the next
 * one, and a late message would arrive there. What a close can't free yet stays on the list of remains.
 */
#include "collectives/transport/mpi/mpi_process.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock; /* guards what follows */
    int initialised_here;
    pid_t pid;        /* of the process that did: a child of fork must leave MPI alone */
    pthread_t thread; /* that did */
    int has_keeper;   /* that thread is the keeper */
    int has_keyval;
    int open;
    int failed;
    struct halay_mpi_remains *remains; /* owned */
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* State shared by the keeper and the other threads. The keeper never takes process.lock: its starter holds that. */
static struct {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    int has_initialised;
    int error; /* of MPI_Init_thread */
    int finalises;
} keeper = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

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

static int initialise_mpi(void)
{
    int level;

    return MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
}

static void *keep_thread(void *unused)
{
    (void)unused;
    int error = initialise_mpi();
    pthread_mutex_lock(&keeper.lock);
    keeper.error = error;
    keeper.has_initialised = 1;
    pthread_cond_broadcast(&keeper.changed);
    while (!error && !keeper.finalises)
        pthread_cond_wait(&keeper.changed, &keeper.lock);
    pthread_mutex_unlock(&keeper.lock);
    if (!error)
        (void)MPI_Finalize(); /* the process is leaving: an error has no reader */
    return NULL;
}

/* Has MPI initialised by a keeper; the error of MPI_Init_thread in *error. It takes no signal: those are the
 * program's. Without an exit that finalises it goes with the process. */
static enum halay_status keeper_start(const struct halay_host *host, int *error)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&process.thread, NULL, keep_thread, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure)
        return halay_host_fail(host, HALAY_ERR_SYSTEM, "no thread for MPI: %s", strerror(failure));
    pthread_mutex_lock(&keeper.lock);
    while (!keeper.has_initialised)
        pthread_cond_wait(&keeper.changed, &keeper.lock);
    *error = keeper.error;
    keeper.has_initialised = 0; /* after an error the next start has a keeper of its own */
    pthread_mutex_unlock(&keeper.lock);
    if (*error)
        pthread_join(process.thread, NULL);
    else
        process.has_keeper = 1;
    return HALAY_OK;
}

static void keeper_finalise(void)
{
    pthread_mutex_lock(&keeper.lock);
    keeper.finalises = 1;
    pthread_cond_broadcast(&keeper.changed);
    pthread_mutex_unlock(&keeper.lock);
    pthread_join(process.thread, NULL);
}

static void at_exit(void)
{
    int finalized = 0;

    if (getpid() != process.pid || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized)
        return;
    pthread_mutex_lock(&process.lock);
    int has_keeper = process.has_keeper;
    int is_clean = !process.open && !process.failed && (has_keeper || pthread_equal(process.thread, pthread_self()));
    pthread_mutex_unlock(&process.lock);
    if (is_clean && has_keeper)
        keeper_finalise();
    else if (is_clean)
        (void)MPI_Finalize(); /* an error has no reader */
}

/* Initialises MPI, on this thread if it is the program's first one, which is there at exit. */
static enum halay_status initialise_locked(const struct halay_host *host)
{
    enum halay_status status = HALAY_OK;
    int error = MPI_SUCCESS;

    process.thread = pthread_self();
    if (syscall(SYS_gettid) == getpid())
        error = initialise_mpi();
    else
        status = keeper_start(host, &error);
    if (status == HALAY_OK)
        status = halay_mpi_check(host, error, "MPI_Init_thread");
    if (status != HALAY_OK)
        return status;
    process.initialised_here = 1;
    process.pid = getpid();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (atexit(at_exit))
        halay_host_warning(host, "MPI won't be finalised at exit: no room for a handler");
    return HALAY_OK;
}

static enum halay_status start_locked(const struct halay_host *host)
{
    int initialized = 0, finalized = 0, keyval = 0;
    enum halay_status status;

    if ((status = halay_mpi_check(host, MPI_Finalized(&finalized), "MPI_Finalized")) != HALAY_OK ||
        (status = halay_mpi_check(host, MPI_Initialized(&initialized), "MPI_Initialized")) != HALAY_OK)
        return status;
    if (finalized)
        return halay_host_fail(host, HALAY_ERR_UNSUPPORTED, "MPI can't be used: the program has finalised it");
    if (!initialized && (status = initialise_locked(host)) != HALAY_OK)
        return status;
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
    return halay_host_fail(host, HALAY_ERR_SYSTEM, "%s: %s", what, text[0] ? text : "MPI gives no reason");
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
