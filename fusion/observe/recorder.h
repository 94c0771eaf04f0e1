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
#include "fusion/requests/observers.h"
#include "halay.h"

struct halay_process_set;
struct halay_request;

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
