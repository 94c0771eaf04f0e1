/* SPDX-License-Identifier: Apache-2.0
 *
 * Run: the dispatched buckets. Driver only.
 */
#ifndef HALAY_RUN_H
#define HALAY_RUN_H

#include "fusion/requests/context.h"

/* Starts buckets that can be started, progresses running ones, ends ended ones. Returns nonzero if anything
 * progressed. */
size_t halay_buckets_progress(struct halay_context *ctx);

#endif
