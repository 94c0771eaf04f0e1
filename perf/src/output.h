/* SPDX-License-Identifier: Apache-2.0
 *
 * Output: the JSON file and the progress line that the subcommands share. Rank 0 alone uses them.
 */
#ifndef HALAY_PERF_OUTPUT_H
#define HALAY_PERF_OUTPUT_H

#include "base/output_file.h"
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Opens the JSON file before anything is measured, so that a bad path fails early. Returns nonzero after a line on
 * standard error. The file is dropped with halay_output_abort. */
int perf_json_open(const char *path, struct halay_output *json);
/* Writes the object, which it releases, and completes the file; path is for messages. Returns nonzero after a line on
 * standard error. */
int perf_json_finish(const char *path, struct halay_output *json, json_t *value);

/* A line on a terminal, rewritten at most ten times a second; nothing without a terminal. */
struct perf_progress {
    FILE *file; /* owned unless it is stderr; NULL: no terminal */
    int is_shown;
    int64_t next_us; /* not again before */
};
/* The terminal of standard error; of the launcher's, if a launcher reads ours through a pipe. */
void perf_progress_init(struct perf_progress *progress);
void perf_progress_fini(struct perf_progress *progress); /* zeroed or initialised */
/* Call it outside of what is measured. NULL is allowed. */
void perf_progress_show(struct perf_progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Remove the line before anything else is printed. NULL is allowed. */
void perf_progress_clear(struct perf_progress *progress);

#endif
