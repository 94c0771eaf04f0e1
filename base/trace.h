/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace: records as a timeline in the trace event format of Chrome, for chrome://tracing and ui.perfetto.dev.
 *
 * One process, the rank; its rows:
 *     program        its waits, one row for each at a time
 *     engine         its sleeps; its failure
 *     collectives    one row for each collective at a time: its name is that of its first tensor
 *     tensors        asynchronous events: from submission to end, with an instant where its collective started
 *
 * Times are microseconds of CLOCK_MONOTONIC. "otherData" has their source ("rank", "size", "host", "boot_id": ranks
 * with the same one share the clock), the difference to the time of day ("wall_us", to be added), and "dropped", the
 * number of records that newer ones have overwritten.
 */
#ifndef HALAY_BASE_TRACE_H
#define HALAY_BASE_TRACE_H

#include "base/record.h"
#include <stdio.h>

/* Writes the records from number `from` on (1: all) that the ring still has, as one JSON object. Other threads may add
 * records meanwhile; it does not wait for them. HALAY_ERR_NO_MEMORY, HALAY_ERR_SYSTEM: out has an error. */
enum halay_status halay_trace_write(const struct halay_ring *ring, uint64_t from, FILE *out);

#endif
