/* SPDX-License-Identifier: Apache-2.0
 *
 * Reasons to leave a plan, other than submissions. Driver only.
 */
#ifndef HALAY_REPLAY_REASONS_H
#define HALAY_REPLAY_REASONS_H

#include "fusion/requests/context.h"

/* Looks for reasons to leave a plan. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_replay_look(struct halay_context *ctx);
/* Returns the longest sleep that plans allow the driver; LONG_MAX: no limit. */
long halay_replay_sleep_us(const struct halay_context *ctx);

#endif
