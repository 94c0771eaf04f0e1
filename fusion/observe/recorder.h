/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorder: the engine's actions as records (base/record.h), for the flight recorder's file and for the timeline.
 *
 * While neither is on each hook costs one branch: callers check halay_recording() first. The hooks never block: a ring
 * takes records from several threads without a lock.
 */
#ifndef HALAY_RECORDER_H
#define HALAY_RECORDER_H

#include "base/record.h"
#include "fusion/requests/context.h"

struct halay_recorder {
    struct halay_ring *flight; /* owned, or NULL; set once before the engine starts */
    /* Takes records while it is not NULL: the ring below. Stored (release) once that is whole, loaded (acquire). */
    struct halay_ring *_Atomic timeline;
    struct halay_meters own; /* the context's, unless the flight recorder's file has them */
    int plans;               /* in force on this rank; driver only */
    size_t late;             /* submissions in flight that the flight recorder has; driver only */
    /* The last wait that the flight recorder has, while it lasts. */
    struct halay_request *_Atomic long_waited; /* NULL: none; stored under ctx->lock, relaxed; compared only */
    struct halay_record long_wait;             /* guarded by ctx->lock */
    int64_t long_wait_us;                      /* when it began; driver only */

    pthread_mutex_t lock; /* guards the following members; start and stop hold it, and may block in a file under it */
    struct halay_ring *store; /* owned: the timeline's ring, made at the first start, kept until the end */
    uint64_t from;            /* records before this number belong to an earlier timeline */
    char *path;               /* owned: the timeline's file; NULL: no timeline is on */
};

/* Opens the recorder as configured; a file that cannot be created is an error. */
enum halay_status halay_recorder_open(struct halay_context *ctx);
/* Returns the name of this rank's file in this generation of an elastic job; the caller frees it. NULL: no memory. */
char *halay_recorder_path(const struct halay_context *ctx, const char *pattern);
/* Ends a timeline that is on. No thread may record any more. Accepts a zeroed recorder. */
void halay_recorder_close(struct halay_context *ctx);

/* ---- hooks: only while halay_recording() ---- */

/* Records a submission. Under ctx->lock: the request is complete, but not yet queued. */
void halay_record_submitted(struct halay_context *ctx, struct halay_request *request);
/* Records the start of a collective of these requests, in the driver; *record is kept for its end. */
void halay_record_started(struct halay_context *ctx, struct halay_request *const *requests, size_t count,
                          uint64_t collective, enum halay_dtype dtype, struct halay_record *record);
void halay_record_finished(struct halay_context *ctx, const struct halay_record *record, enum halay_status status);
/* Records the end of a request, in the driver. */
void halay_record_ended(struct halay_context *ctx, const struct halay_request *request, enum halay_status status);
/* Records the start of a bucket of a plan with the requests of its last turn; *record is that of its last start. */
void halay_record_restarted(struct halay_context *ctx, uint64_t collective, struct halay_record *record);
/* Counts plans in force, by 1 or -1, in the driver, whether or not actions are recorded. */
void halay_record_plan(struct halay_context *ctx, int change);
/* Records the submissions that have not been started, each once; in the driver, without ctx->lock. */
void halay_record_in_flight(struct halay_context *ctx);
/* Records the program's wait once, if it has lasted since since_us; in the driver. wait_ended: that wait is over. */
void halay_record_long_wait(struct halay_context *ctx, int64_t since_us);
void halay_record_wait_ended(struct halay_context *ctx, const struct halay_request *waited);
/* Records that the program begins to wait, without a lock held; *record is kept for the end of the wait. */
void halay_record_waits(struct halay_context *ctx, struct halay_request *request, struct halay_record *record);
void halay_record_waited(struct halay_context *ctx, struct halay_record *record);
/* Records that the wait slept, and kept the driver's role throughout. */
void halay_record_slept(struct halay_context *ctx, int64_t since_ns);
/* Records that a process set with this rank in it was created. */
void halay_record_set(struct halay_context *ctx, const struct halay_process_set *set);
/* Records JOINED or LEFT. */
void halay_record_event(struct halay_context *ctx, enum halay_record_kind kind);
void halay_record_failed(struct halay_context *ctx, enum halay_status status, const char *cause);

#endif
