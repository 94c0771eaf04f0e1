/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace: records as a timeline in the trace event format of Chrome, which chrome://tracing and ui.perfetto.dev draw.
 *
 * One process, the rank; its rows:
 *     program        what it waited for, one row for each wait at a time
 *     engine         when it slept; its failure
 *     collectives    one row for each collective at a time: its name is that of its first tensor
 *     tensors        asynchronous events: from submission to end, with an instant where its collective started
 *
 * Times are microseconds of CLOCK_MONOTONIC. "otherData" says whose they are ("rank", "size", "host", "boot_id": ranks
 * with the same one share the clock), how to come to the time of day ("wall_us", to be added), and "dropped": how many
 * records were overwritten by newer ones.
 */
#ifndef HALAY_BASE_TRACE_H
#define HALAY_BASE_TRACE_H

#include "base/record.h"
#include <stdio.h>

/* Write the records from number `from` on (1: all) that the ring still has, as one JSON object. HALAY_ERR_NO_MEMORY,
 * HALAY_ERR_SYSTEM: out has an error. May be called while others add records; those are not waited for. */
enum halay_status halay_trace_write(const struct halay_ring *ring, uint64_t from, FILE *out);

#endif
