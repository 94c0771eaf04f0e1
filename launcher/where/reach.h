/* SPDX-License-Identifier: Apache-2.0
 *
 * Reach: by which of its addresses another host can be reached from here. Found by trying: names of interfaces say
 * nothing of it.
 */
#ifndef HALAY_LAUNCHER_REACH_H
#define HALAY_LAUNCHER_REACH_H

#include "base/log.h"
#include <stddef.h>

/* Connects to all addresses ("10.0.0.1:4000", "[fd00::1]:4000", NULL at the end) at once; the number of the first that
 * takes a connection, which is closed again, or -1 when none has within timeout_ms. One that this host has, too, as
 * hosts with containers have 172.17.0.1, counts only if no other can be reached: whoever listens there may be somebody
 * else. why: what came of each so far, "10.0.0.1:4000 reached, [fd00::1]:4000 Network is unreachable". Blocks for that
 * long. */
int reach_first(struct halay_log *log, char *const *addresses, int timeout_ms, char *why, size_t size);

#endif
