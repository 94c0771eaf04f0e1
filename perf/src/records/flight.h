/* SPDX-License-Identifier: Apache-2.0
 *
 * Flight: the records of several ranks side by side, and where they differ.
 *
 * Clocks. Ranks of one host since its boot share the clock of their records. Between hosts the time of day is taken,
 * which is only as good as the hosts' clocks; little more than the order of the differences depends on it.
 */
#ifndef HALAY_PERF_FLIGHT_H
#define HALAY_PERF_FLIGHT_H

#include "base/record.h"
#include <stddef.h>
#include <stdio.h>

/* What one rank's file holds. */
struct perf_flight {
    struct halay_ring_head head;
    struct halay_record *records; /* owned: in order, the times moved to the common clock */
    size_t count;
    int is_whole; /* nothing was overwritten: what it lacks did not happen */
};

/* Read a file. HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT, HALAY_ERR_NO_MEMORY; logged. */
enum halay_status perf_flight_read(struct halay_log *log, const char *path, struct perf_flight *flight);
void perf_flight_fini(struct perf_flight *flight); /* zeroed or read */

/* Bring the times of all to one clock. */
void perf_flight_align(struct perf_flight *flights, size_t count);

/* Where the ranks differ. */
struct perf_difference {
    int64_t time_ns; /* when the first rank got there */
    char text[1024]; /* names the tensor or the collective, and the ranks */
};

/*
 * Find the differences, in order of time:
 *   - a collective that is another one on some rank, or that some ranks have started or finished and others have not
 *   - a submission that some ranks made and others did not, or made as something else
 * What a rank's ring no longer reaches counts as the same. One array that is freed with free(); *count may be 0.
 * HALAY_ERR_NO_MEMORY.
 */
enum halay_status perf_flight_compare(const struct perf_flight *flights, size_t ranks, struct perf_difference **found,
                                      size_t *count);

/* What the rank was doing when its records end: "waits for 'w'", "has left"... and what it submitted last. */
void perf_flight_last(const struct perf_flight *flight, char *text, size_t size);

/* A record as a line of text, its time in seconds after origin_ns. */
void perf_flight_print(const struct halay_record *record, int64_t origin_ns, FILE *out);

#endif
