/* SPDX-License-Identifier: Apache-2.0
 *
 * Reasons to leave a plan that no submission gives. Driver only.
 */
#ifndef HALAY_REPLAY_REASONS_H
#define HALAY_REPLAY_REASONS_H

#include "fusion/state/context.h"

/* Looks for reasons to leave a plan. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_replay_look(struct halay_context *ctx);
/* How long the driver may sleep, for the sake of plans; LONG_MAX: any time. */
long halay_replay_sleep_us(const struct halay_context *ctx);

#endif
