/* SPDX-License-Identifier: Apache-2.0
 *
 * Floor: the time of a bare program, on this machine, for the least that an engine must do for a small tensor: no
 * names, no agreement, no checks. Time above the floor is the engine's, the rest is the machine's.
 *
 *     submitting thread   ....sleeps........spins.|data, number; wake own thread|..sleeps on a futex......
 *     its second thread   ....sleeps on a futex...........|woken|others' numbers|add all|..sleeps......
 *     driven: the submitting thread does all of it, and wakes no other thread
 *
 * Data and numbers are in a nameless file of rank 0, which the other ranks open through /proc: one host only.
 */
#include "base/clock.h"
#include "base/sync.h"
#include "perf/src/engine/engine.h"
#include "perf/src/stats.h"
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ELEMENTS = PERF_SMALL_BYTES / sizeof(float), LINE = 128, YIELD_LOOKS = 1000 };

struct seat {
    alignas(LINE) _Atomic uint32_t number; /* iterations whose data have arrived */
    alignas(LINE) float data[2][ELEMENTS]; /* of even and of odd iterations */
};

struct floor_run {
    struct perf_engine *engine; /* borrowed */
    struct seat *seats;         /* one a rank, mapped */
    long iterations;
    double *seconds;                     /* of each iteration */
    alignas(LINE) _Atomic uint32_t bell; /* iterations begun */
    alignas(LINE) _Atomic uint32_t done; /* and ended */
    double when;
    int is_given_up; /* written before bell */
    float sum[ELEMENTS];
};

static size_t seats_bytes(const struct perf_engine *engine)
{
    return (size_t)engine->size * sizeof(struct seat);
}

/* Maps the same file on all ranks, or returns an error on all of them. */
static enum halay_status map_seats(struct perf_engine *engine, struct seat **seats)
{
    int64_t place[2] = { getpid(), -1 }; /* of rank 0: process, descriptor */
    void *at = MAP_FAILED;
    int fd = engine->rank == 0 ? memfd_create("halay-perf", MFD_CLOEXEC) : -1;

    if (fd >= 0 && !ftruncate(fd, (off_t)seats_bytes(engine)))
        place[1] = fd;
    enum halay_status status = halay_broadcast(engine->context, "perf.floor", place, 2, HALAY_I64, 0);
    if (status == HALAY_OK && place[1] >= 0 && engine->rank != 0) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)place[0], (long long)place[1]);
        fd = open(path, O_RDWR | O_CLOEXEC);
    }
    if (fd >= 0 && place[1] >= 0)
        at = mmap(NULL, seats_bytes(engine), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    double failed = at == MAP_FAILED;
    if (status == HALAY_OK)
        status = perf_engine_worst(engine, &failed, 1); /* all ranks have opened it */
    if (fd >= 0)
        close(fd);
    if (status == HALAY_OK && failed > 0)
        status = HALAY_ERR_SYSTEM;
    if (status != HALAY_OK && at != MAP_FAILED)
        munmap(at, seats_bytes(engine));
    else if (status == HALAY_OK)
        *seats = at;
    return status;
}

static void take_data(struct floor_run *run, uint32_t i)
{
    for (size_t k = 0; k < ELEMENTS; k++)
        run->sum[k] = 0;
    for (int r = 0; r < run->engine->size; r++) {
        for (int looks = 1; (int32_t)(atomic_load_explicit(&run->seats[r].number, memory_order_acquire) - i) < 0;
             looks++)
            looks % YIELD_LOOKS ? halay_relax() : (void)sched_yield(); /* the peer may need this processor */
        for (size_t k = 0; k < ELEMENTS; k++)
            run->sum[k] += run->seats[r].data[i & 1][k];
    }
    run->when = perf_now();
}

static void sleep_until(_Atomic uint32_t *word, uint32_t i)
{
    uint32_t seen;

    while ((int32_t)((seen = atomic_load_explicit(word, memory_order_acquire)) - i) < 0)
        halay_futex_wait(word, seen, -1);
}

static void ring_peers(_Atomic uint32_t *word, uint32_t i)
{
    atomic_store_explicit(word, i, memory_order_release);
    halay_futex_wake(word, INT_MAX);
}

static void *second_thread(void *arg)
{
    struct floor_run *run = arg;

    for (long i = 1; i <= run->iterations; i++) {
        sleep_until(&run->bell, (uint32_t)i);
        if (run->is_given_up)
            break;
        take_data(run, (uint32_t)i);
        ring_peers(&run->done, (uint32_t)i);
    }
    return NULL;
}

static void run_iterations(struct floor_run *run, enum perf_driver driver, int64_t start_us)
{
    struct seat *own = &run->seats[run->engine->rank];

    for (long i = 1; i <= run->iterations; i++) {
        for (size_t k = 0; k < ELEMENTS; k++)
            own->data[i & 1][k] = (float)(run->engine->rank + 1);
        perf_wait_until(start_us + i * run->engine->period_us);
        double start = perf_now();
        atomic_store_explicit(&own->number, (uint32_t)i, memory_order_release);
        if (driver == PERF_BACKGROUND) {
            ring_peers(&run->bell, (uint32_t)i);
            sleep_until(&run->done, (uint32_t)i);
        } else {
            take_data(run, (uint32_t)i);
        }
        run->seconds[i - 1] = run->when - start;
    }
}

static enum halay_status run_floor(struct floor_run *run, enum perf_driver driver)
{
    int64_t start_us = 0;
    pthread_t thread;
    int has_thread = driver == PERF_BACKGROUND && !pthread_create(&thread, NULL, second_thread, run);
    double failed = driver == PERF_BACKGROUND && !has_thread;

    enum halay_status status = perf_engine_worst(run->engine, &failed, 1);
    if (status == HALAY_OK && failed > 0)
        status = HALAY_ERR_SYSTEM;
    if (status == HALAY_OK)
        status = perf_engine_agree_on_start(run->engine, &start_us);
    if (status == HALAY_OK) {
        run_iterations(run, driver, start_us);
    } else if (has_thread) {
        run->is_given_up = 1;
        ring_peers(&run->bell, 1);
    }
    if (has_thread)
        pthread_join(thread, NULL);
    return status == HALAY_OK ? perf_engine_worst(run->engine, run->seconds, (size_t)run->iterations) : status;
}

enum halay_status perf_engine_floor(struct perf_engine *engine, enum perf_driver driver, long iterations,
                                    double *seconds)
{
    if (halay_local_size(engine->context) != engine->size)
        return HALAY_ERR_UNSUPPORTED;
    struct floor_run *run = aligned_alloc(LINE, sizeof *run);
    double failed = !run;
    enum halay_status status = perf_engine_worst(engine, &failed, 1);
    if (status == HALAY_OK && failed > 0)
        status = HALAY_ERR_NO_MEMORY;
    if (status == HALAY_OK) {
        *run = (struct floor_run){ .engine = engine, .iterations = iterations, .seconds = seconds };
        status = map_seats(engine, &run->seats);
    }
    if (status == HALAY_OK) {
        status = run_floor(run, driver);
        munmap(run->seats, seats_bytes(engine));
    }
    free(run);
    return status;
}
