/* SPDX-License-Identifier: Apache-2.0
 *
 * Run: what has been given out. Driver only.
 */
#ifndef HALAY_RUN_H
#define HALAY_RUN_H

#include "fusion/state/context.h"

/* Start what can be started, progress what runs, end what has ended. Nonzero if anything got further. */
size_t halay_buckets_progress(struct halay_context *ctx);

#endif
