/* SPDX-License-Identifier: Apache-2.0
 *
 * Engine: the measurements of halay-perf engine. Every rank makes the same calls; every rank gets the results.
 */
#ifndef HALAY_PERF_ENGINE_H
#define HALAY_PERF_ENGINE_H

#include "halay.h"
#include "perf/src/engine/models.h"
#include "perf/src/output.h"
#include "perf/src/versus/peer.h"
#include <stddef.h>
#include <stdint.h>

/* The memory of tensors: of halay_alloc, the program's own, that of the current CUDA device, or the program's own that
 * is registered and begins 64 bytes after a page, as PyTorch's does. */
enum perf_memory { PERF_SHARED, PERF_PRIVATE, PERF_DEVICE, PERF_REGISTERED };

struct perf_engine {
    struct halay_context *context; /* owned */
    int rank, size;
    enum perf_memory memory;
    int is_apart;                     /* a model's gradients and their sums are in separate memory */
    enum halay_wire wire;             /* of a model's gradients */
    double register_seconds;          /* of this rank, of the memory registered now */
    int wrong;                        /* a tensor had a wrong result on some rank */
    size_t bucket_bytes;              /* the largest number of bytes that the engine fuses */
    const struct perf_peer_ops *peer; /* borrowed; NULL: no comparison */
    struct perf_progress *progress;   /* borrowed; NULL on ranks that show none */
    int64_t period_us;                /* between two submissions of the small tensor; 0: one right after the other */
};

enum halay_status perf_engine_open(struct perf_engine *engine, const char *transport, enum perf_memory memory);
void perf_engine_close(struct perf_engine *engine); /* zeroed or open */

/* Replaces values[i] by the maximum of all ranks' values[i]. Also a barrier. */
enum halay_status perf_engine_worst(struct perf_engine *engine, double *values, size_t count);

/* Allocates memory for tensors; freed by perf_engine_free. */
enum halay_status perf_engine_alloc(struct perf_engine *engine, size_t bytes, void **out);
void perf_engine_free(struct perf_engine *engine, void *ptr); /* NULL is allowed */
/* Returns the memory of a tensor as the program can access it: the memory itself or, if the program cannot access that,
 * memory of the same size for perf_engine_put and perf_engine_get, which then copy (all ranks call them). Freed by
 * perf_engine_free_near. */
enum halay_status perf_engine_near(struct perf_engine *engine, float *data, size_t count, float **near);
void perf_engine_free_near(struct perf_engine *engine, float *near);
enum halay_status perf_engine_put(struct perf_engine *engine, const float *near, size_t count, float *data);
enum halay_status perf_engine_get(struct perf_engine *engine, const float *data, size_t count, float *near);

/* The small tensor. */
enum { PERF_SMALL_BYTES = 4096 };

/* Returns a moment in the near future, the same on all ranks of a host. */
enum halay_status perf_engine_agree_on_start(struct perf_engine *engine, int64_t *start_us);
/* Sleeps until shortly before the moment, then spins. */
void perf_wait_until(int64_t moment_us);

/* The thread that moves the data of the tensor: the background thread, woken from its sleep, whose callback is the end;
 * or the thread that submitted, in halay_wait. */
enum perf_driver { PERF_BACKGROUND, PERF_DRIVEN };

/* Measures the seconds from submission to completion of the registered small tensor: seconds[i] is the slowest rank's
 * of submission i. */
enum halay_status perf_engine_latency(struct perf_engine *engine, enum perf_driver driver, long iterations,
                                      double *seconds);

/* Measures the same with a bare program, on this machine, now. HALAY_ERR_UNSUPPORTED over several hosts. */
enum halay_status perf_engine_floor(struct perf_engine *engine, enum perf_driver driver, long iterations,
                                    double *seconds);

/* Measures the processor time of the process in percent of one core while nothing is submitted, on the slowest rank. */
enum halay_status perf_engine_idle(struct perf_engine *engine, double seconds, double *percent);

/* Kinds of step: by the engine; by MPI, one call a tensor, or one a bucket of adjacent tensors; or the program computes
 * between the submissions, without any or with the engine. */
enum perf_step_row {
    PERF_STEP_ENGINE,
    PERF_STEP_PEER_TENSORS,
    PERF_STEP_PEER_BUCKETS,
    PERF_STEP_COMPUTE,
    PERF_STEP_OVERLAPPED,
    PERF_STEP_ROWS
};

/* Calls of a step: halay_submit of a registered tensor; halay_test of an ended request, with halay_request_free;
 * halay_submit_named of a tensor at another address than the last time, with a callback; that callback. */
enum perf_step_call { PERF_CALL_SUBMIT, PERF_CALL_COMPLETE, PERF_CALL_NAMED, PERF_CALL_CALLBACK, PERF_CALLS };

struct perf_step {
    /* From the first submission or call to the last completion, the slowest rank's, median; 0: not measured. */
    double seconds[PERF_STEP_ROWS];
    double exposed_seconds[PERF_STEP_ROWS]; /* the part of it after the last submission; the engine's rows only */
    /* Share of the communication time that computing hides: (engine + compute - overlapped) / engine. */
    double hidden;
    double messages;          /* the engine's own, of all ranks together */
    double calls[PERF_CALLS]; /* seconds a tensor, the slowest rank's, median; 0: not measured */
    size_t tensors;
    size_t bytes; /* of all tensors, one rank's */
};

/* Measures steps of a model's gradients, registered and adjacent in memory, the last ones submitted first.
 * compute_seconds: the time that the program computes in a step, before each submission in proportion to the tensor's
 * size; 0: without these rows. */
enum halay_status perf_engine_replay(struct perf_engine *engine, const struct perf_model *model, long steps,
                                     double compute_seconds, struct perf_step *step);

#endif
