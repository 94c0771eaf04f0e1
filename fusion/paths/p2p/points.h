/* SPDX-License-Identifier: Apache-2.0
 *
 * Points: sends and receives, between two ranks. Driver only.
 */
#ifndef HALAY_POINTS_H
#define HALAY_POINTS_H

#include "fusion/state/context.h"
#include "fusion/state/request.h"

/* This rank's program has submitted one. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_points_submitted(struct halay_context *ctx, struct halay_request *request);
/* Take it back, with request->withdrawn, if it has met nobody. *due (0: nothing): the peer must hear what was said up
 * to this number, and listens only if it is told to (halay_points_listen there). May be called again.
 * HALAY_ERR_NO_MEMORY. */
enum halay_status halay_points_withdraw(struct halay_context *ctx, struct halay_request *request, uint64_t *due);
/* That rank has said so much to this one. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_points_listen(struct halay_context *ctx, int rank, uint64_t due);
/* Do what can be done without waiting. *did grows if anything got further. HALAY_ERR_PEER: *rank (-1: not known) is
 * gone; other errors are this rank's. */
enum halay_status halay_points_progress(struct halay_context *ctx, size_t *did, int *rank);
/* Is anything to be said, heard or moved, or waited for? */
int halay_points_are_busy(const struct halay_context *ctx);
/* Report those that have waited for report_us (0: none), each report_us. HALAY_ERR_PEER: one has waited for limit_us
 * (0: none is given): the text, and *rank that is missing, -1 if it is none in particular. */
enum halay_status halay_points_look_for_stalls(struct halay_context *ctx, int64_t report_us, int64_t limit_us,
                                               char *text, size_t size, int *rank);
/* Give up everything; the caller ends the requests, whose memory nothing touches any more. */
void halay_points_abandon(struct halay_context *ctx);

#endif
