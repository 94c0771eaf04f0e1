/* SPDX-License-Identifier: Apache-2.0
 *
 * Process sets, the program's side: those that halay_init makes.
 */
#ifndef HALAY_API_SETS_H
#define HALAY_API_SETS_H

#include "halay.h"

/* Reads the sets that halay_init creates, the program's and the configuration's, and finds out whether there are any
 * (*wanted): HALAY_ERR_CONFIG, HALAY_ERR_ARGUMENT. */
enum halay_status halay_process_sets_read_static(struct halay_context *ctx, const struct halay_rank_list *lists,
                                                 size_t count, int *wanted);
/* Creates them. If any rank requests sets, every rank calls this; a rank that requests none thereby disagrees. Blocks
 * until all ranks have called, at most HALAY_START_TIMEOUT. */
enum halay_status halay_process_sets_create_static(struct halay_context *ctx, const struct halay_rank_list *lists,
                                                   size_t count);

#endif
