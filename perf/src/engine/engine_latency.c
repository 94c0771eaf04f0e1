/* SPDX-License-Identifier: Apache-2.0
 *
 * Latency of one small tensor, and the cost of an idle engine.
 *
 * Latency of a sleeping engine: all threads sleep before each submission, and all ranks submit at the same moment, as
 * waiting for a late rank is not the engine's time. So rank 0 chooses a moment of the clock that all processes of a
 * host share; submission i is i periods later; each rank sleeps until shortly before and spins the rest, as the timer's
 * slack exceeds the time to be measured:
 *
 *     submitting thread   ....sleeps........spins.|submit|..sleeps on a semaphore......
 *     engine's thread     ....sleeps..............|woken |agrees, reduces, calls back.|..sleeps....
 *                                                 <------- measured ------------------>
 *
 * The period is longer than any wait spins, so the engines are asleep by then. Its length determines how cold their
 * code and data are: other programs use the caches of a sleeping virtual processor.
 */
#include "base/clock.h"
#include "perf/src/engine/engine.h"
#include "perf/src/stats.h"
#include <errno.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { ELEMENTS = PERF_SMALL_BYTES / sizeof(float), SPIN_US = 150, START_US = 20000, WARMUP = 10, TIMEOUT_MS = 60000 };

/* The end of a submission, as seen by the callback. */
struct completion {
    sem_t done;
    double when;              /* written before done is posted */
    enum halay_status status; /* the same */
};

static void note_completion(void *arg, enum halay_status status, const char *text)
{
    struct completion *c = arg;

    (void)text;
    c->when = perf_now();
    c->status = status;
    sem_post(&c->done);
}

static void wait_completion(struct completion *c)
{
    while (sem_wait(&c->done) && errno == EINTR)
        continue;
}

void perf_wait_until(int64_t moment_us)
{
    int64_t left = moment_us - SPIN_US - halay_now_us();

    if (left > 0) {
        struct timespec t = { .tv_sec = left / 1000000, .tv_nsec = left % 1000000 * 1000 };
        while (nanosleep(&t, &t) && errno == EINTR)
            continue;
    }
    while (halay_now_us() < moment_us)
        continue;
}

enum halay_status perf_engine_agree_on_start(struct perf_engine *engine, int64_t *start_us)
{
    int64_t moment = halay_now_us() + START_US;

    enum halay_status status = halay_broadcast(engine->context, "perf.start", &moment, 1, HALAY_I64, 0);
    if (status == HALAY_OK)
        *start_us = moment;
    return status;
}

static enum halay_status submit_to_background(struct halay_tensor *tensor, struct completion *c, double *seconds)
{
    double start = perf_now();
    enum halay_status status = halay_submit(tensor, note_completion, c, NULL);

    if (status != HALAY_OK)
        return status;
    wait_completion(c);
    *seconds = c->when - start;
    return c->status;
}

static enum halay_status submit_and_drive(struct halay_tensor *tensor, double *seconds)
{
    struct halay_request *request;
    double start = perf_now();
    enum halay_status status = halay_submit(tensor, NULL, NULL, &request);

    if (status != HALAY_OK)
        return status;
    status = halay_wait(request, TIMEOUT_MS);
    *seconds = perf_now() - start;
    halay_request_free(request);
    return status;
}

static enum halay_status repeat_submission(struct perf_engine *engine, enum perf_driver driver,
                                           struct halay_tensor *tensor, float *data, float *near, long iterations,
                                           double *seconds)
{
    struct completion c = { .status = HALAY_OK };
    double warm = 0, expected = (double)engine->size * (engine->size + 1) / 2;
    int64_t start_us = 0;
    enum halay_status status = perf_engine_agree_on_start(engine, &start_us);

    if (sem_init(&c.done, 0, 0))
        return HALAY_ERR_SYSTEM;
    for (long i = -WARMUP; i < iterations && status == HALAY_OK; i++) {
        for (size_t k = 0; k < ELEMENTS; k++)
            near[k] = (float)(engine->rank + 1);
        status = perf_engine_put(engine, near, ELEMENTS, data);
        if (status != HALAY_OK)
            break;
        perf_progress_show(engine->progress, "latency, %s: %ld of %ld",
                           driver == PERF_BACKGROUND ? "engine asleep" : "driven by the waiter", i < 0 ? 0 : i,
                           iterations);
        perf_wait_until(start_us + (i + WARMUP) * engine->period_us);
        double *slot = i < 0 ? &warm : &seconds[i];
        status = driver == PERF_BACKGROUND ? submit_to_background(tensor, &c, slot) : submit_and_drive(tensor, slot);
        if (status == HALAY_OK)
            status = perf_engine_get(engine, data, ELEMENTS, near);
        engine->wrong |= status == HALAY_OK && ((double)near[0] != expected || (double)near[ELEMENTS - 1] != expected);
    }
    sem_destroy(&c.done);
    return status;
}

enum halay_status perf_engine_latency(struct perf_engine *engine, enum perf_driver driver, long iterations,
                                      double *seconds)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "perf.small",
                                      .collective = HALAY_ALLREDUCE,
                                      .dtype = HALAY_F32,
                                      .dimensions = 1,
                                      .shape = { ELEMENTS },
                                      .reduction = HALAY_SUM,
                                      .memory =
                                          engine->memory == PERF_DEVICE ? HALAY_MEMORY_DEVICES : HALAY_MEMORY_ANY };
    struct halay_tensor *tensor;
    float *near = NULL;
    enum halay_status status = perf_engine_alloc(engine, ELEMENTS * sizeof(float), &info.out);

    if (status != HALAY_OK)
        return status;
    status = perf_engine_near(engine, info.out, ELEMENTS, &near);
    if (status == HALAY_OK)
        status = halay_register(engine->context, &info, &tensor);
    if (status != HALAY_OK)
        goto err_free;
    status = repeat_submission(engine, driver, tensor, info.out, near, iterations, seconds);
    if (status == HALAY_OK)
        status = perf_engine_worst(engine, seconds, (size_t)iterations);
    halay_unregister(tensor);
err_free:
    perf_engine_free_near(engine, near);
    perf_engine_free(engine, info.out);
    return status;
}

/* ---- idle -------------------------------------------------------------------------------------------------------- */

static double processor_seconds(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage))
        return 0;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

enum halay_status perf_engine_idle(struct perf_engine *engine, double seconds, double *percent)
{
    enum { SETTLE_US = 100000 };
    double worst = 0;
    enum halay_status status =
        perf_engine_worst(engine, &worst, 1); /* all ranks have arrived: none has work for another */

    if (status != HALAY_OK)
        return status;
    perf_wait_until(halay_now_us() + SETTLE_US);
    double wall = perf_now(), used = processor_seconds();
    struct timespec t = { .tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    while (nanosleep(&t, &t) && errno == EINTR)
        continue;
    used = processor_seconds() - used;
    wall = perf_now() - wall;
    worst = 100 * used / wall;
    status = perf_engine_worst(engine, &worst, 1);
    if (status == HALAY_OK)
        *percent = worst;
    return status;
}
