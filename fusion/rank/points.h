/* SPDX-License-Identifier: Apache-2.0
 *
 * Points: sends and receives, between two ranks. Driver only.
 */
#ifndef HALAY_POINTS_H
#define HALAY_POINTS_H

#include "fusion/state/context.h"
#include "fusion/state/request.h"

enum { HALAY_POINT_NAME_MAX = 200 };

/* This rank's program has submitted one. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_points_submitted(struct halay_context *ctx, struct halay_request *request);
/* Do what can be done without waiting. *did grows if anything got further. HALAY_ERR_PEER: *rank (-1: not known) is
 * gone; other errors are this rank's. */
enum halay_status halay_points_progress(struct halay_context *ctx, size_t *did, int *rank);
/* Is anything to be said or moved, or waited for? */
int halay_points_are_busy(const struct halay_context *ctx);
/* Give up everything; the caller ends the requests, whose memory nothing touches any more. */
void halay_points_abandon(struct halay_context *ctx);

#endif
