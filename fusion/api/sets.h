/* SPDX-License-Identifier: Apache-2.0
 *
 * Process sets, the program's side: those that halay_init makes.
 */
#ifndef HALAY_API_SETS_H
#define HALAY_API_SETS_H

#include "halay.h"

/* Those that halay_init makes: the program's, and the configuration's. Find out whether there are any (*wanted), and
 * whether they can be read: HALAY_ERR_CONFIG, HALAY_ERR_ARGUMENT. */
enum halay_status halay_process_sets_read_static(struct halay_context *ctx, const struct halay_rank_list *lists,
                                                 size_t count, int *wanted);
/* Make them. If any rank wants some, every rank calls this; one that wants none thereby disagrees. Blocks until all
 * ranks have asked, at most HALAY_START_TIMEOUT. */
enum halay_status halay_process_sets_create_static(struct halay_context *ctx, const struct halay_rank_list *lists,
                                                   size_t count);

#endif
