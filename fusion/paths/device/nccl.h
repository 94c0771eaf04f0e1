/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL: all-reduces of what is on devices of all ranks, where the user asks for it. Driver only, except opening and
 * closing.
 */
#ifndef HALAY_NCCL_H
#define HALAY_NCCL_H

#include "fusion/paths/device/device_state.h"
#include "fusion/run/bucket.h"

/* Called before the driver starts. */
void halay_nccl_init(struct halay_context *ctx);
/* Returns nonzero if NCCL may take this bucket: the same on all ranks. */
int halay_nccl_takes(const struct halay_bucket *b);
/* Starts a bucket that NCCL may take. Its requests' results end with the direct stream's `done`. */
void halay_nccl_start(struct halay_bucket *b);
/* Returns HALAY_OK once the bucket's sums are on the direct stream, or NCCL has been refused: see halay_nccl_takes.
 * HALAY_IN_PROGRESS, or an error. */
enum halay_status halay_nccl_progress(struct halay_bucket *b);
/* Drops the bucket. NCCL is aborted later (halay_nccl_abort), and may have the bucket's data until
 * halay_nccl_has_dropped returns 0. */
void halay_nccl_drop(struct halay_context *ctx);
int halay_nccl_has_dropped(const struct halay_context *ctx);
/* Returns nonzero once: a bucket that was dropped ends with the direct stream's `done`, which is set now. */
int halay_nccl_let_go(struct halay_context *ctx);
/* Looks for an error of what is under way, now and then. */
enum halay_status halay_nccl_check(struct halay_context *ctx);
/* Returns HALAY_OK if results on the device that have been marked as done are right. Those that this rank or another
 * one has aborted are marked, too. HALAY_IN_PROGRESS: it is not known yet. Or an error. */
enum halay_status halay_nccl_verdict(struct halay_context *ctx);

/* Starts to end the communicator, and what the device has of it, whose results are worth nothing, unless the other
 * ranks may not have the message of the failure yet. It takes as long as NCCL takes, which may wait for them. */
void halay_nccl_abort(struct halay_context *ctx);
/* Ends the communicator, once all ranks have had time to receive the message of a failure: waits for that time, and
 * then up to HALAY_SEGMENT_CLOSE_MS for NCCL. Returns what halay_nccl_let_go would. */
int halay_nccl_end(struct halay_context *ctx);
/* Ends NCCL once no rank has work of it left. After a failure call halay_nccl_end first. */
void halay_nccl_close(struct halay_context *ctx);
void halay_nccl_free(struct halay_context *ctx);

#endif
