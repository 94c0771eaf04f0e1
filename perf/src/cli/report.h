/* SPDX-License-Identifier: Apache-2.0
 *
 * Report: the table and the JSON of a measured collective. Rank 0 alone uses it.
 */
#ifndef HALAY_PERF_REPORT_H
#define HALAY_PERF_REPORT_H

#include "perf/src/operation/measure.h"
#include <jansson.h>

/* The same for all sizes. All pointers are borrowed. */
struct perf_report {
    const char *command; /* as called: the operation's, or "roofline" */
    const struct perf_bench *bench;
    int hosts;
    const char *buffers; /* "shared", "private" */
    const char *mpi;     /* "openmpi", ...; NULL: not compared with it */
    const char *library; /* what that calls itself */
};

void perf_report_header(const struct perf_report *report);
void perf_report_row(const struct perf_report *report, const struct perf_result *result);

/* A row of "results"; NULL without memory. */
json_t *perf_report_result(const struct perf_report *report, const struct perf_result *result);
/* The whole object; results is borrowed. NULL without memory. */
json_t *perf_report_object(const struct perf_report *report, json_t *results);

#endif
