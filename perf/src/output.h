/* SPDX-License-Identifier: Apache-2.0
 *
 * Output: the JSON file and the progress line that the subcommands share. Rank 0 alone uses them.
 */
#ifndef HALAY_PERF_OUTPUT_H
#define HALAY_PERF_OUTPUT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A file that appears under its name only when it is complete. */
struct perf_json {
    FILE *file;
    char *path;      /* owned; NULL: standard output */
    char *temporary; /* owned */
};

/* Open it ("-": standard output) before anything is measured, so that a bad path fails early. Nonzero on failure, after
 * a line on standard error. */
int perf_json_open(const char *path, struct perf_json *json);
/* Write the object and move the file to its name; closes in any case. value is released. Nonzero on failure. */
int perf_json_finish(struct perf_json *json, json_t *value);
void perf_json_abandon(struct perf_json *json); /* zeroed, open or finished */

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
