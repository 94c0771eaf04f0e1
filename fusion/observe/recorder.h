/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorder: what the engine does, as records (base/record.h), for the flight recorder's file and for the timeline.
 *
 * While neither is wanted each hook costs one branch: callers ask halay_recording() first. What is called then never
 * blocks: a ring takes records from several threads without a lock.
 */
#ifndef HALAY_RECORDER_H
#define HALAY_RECORDER_H

#include "base/record.h"
#include "fusion/state/observers.h"
#include "halay.h"

struct halay_process_set;
struct halay_request;

/* By the configuration; a file that cannot be made is an error. */
enum halay_status halay_recorder_open(struct halay_context *ctx);
/* The file of this rank, and of this generation of an elastic job; the caller's to free, NULL: no memory. */
char *halay_recorder_path(const struct halay_context *ctx, const char *pattern);
/* Ends a timeline that is on. Nobody records any more. Accepts one that was zeroed. */
void halay_recorder_close(struct halay_context *ctx);

/* ---- hooks: only while halay_recording() ---- */

/* Under ctx->lock: the request is complete, but not yet queued. */
void halay_record_submitted(struct halay_context *ctx, struct halay_request *request);
/* Driver: a collective starts, of these requests; *record is to be kept for its end. */
void halay_record_started(struct halay_context *ctx, struct halay_request *const *requests, size_t count,
                          uint64_t collective, enum halay_dtype dtype, struct halay_record *record);
void halay_record_finished(struct halay_context *ctx, const struct halay_record *record, enum halay_status status);
/* Driver: a request's own collective by express is over, which began at started_ns. It has no number. */
void halay_record_express(struct halay_context *ctx, const struct halay_request *request);
/* Driver: the request ends. */
void halay_record_ended(struct halay_context *ctx, const struct halay_request *request, enum halay_status status);
/* The program begins to wait, no lock held; *record is to be kept for the end of the wait. */
void halay_record_waits(struct halay_context *ctx, struct halay_request *request, struct halay_record *record);
void halay_record_waited(struct halay_context *ctx, struct halay_record *record);
/* The wait slept, and kept the driver's role throughout. */
void halay_record_slept(struct halay_context *ctx, int64_t since_ns);
/* A process set was made with this rank in it. */
void halay_record_set(struct halay_context *ctx, const struct halay_process_set *set);
/* JOINED, LEFT. */
void halay_record_event(struct halay_context *ctx, enum halay_record_kind kind);
void halay_record_failed(struct halay_context *ctx, enum halay_status status, const char *cause);

#endif
