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

/* A file that appears under its name when it is complete, and not before. */
struct perf_json {
    FILE *file;
    char *path;      /* owned; NULL: standard output */
    char *temporary; /* owned */
};

/* Open it ("-": standard output) so that a path that cannot be written is found before anything is measured. Nonzero on
 * failure; standard error then says why. */
int perf_json_open(const char *path, struct perf_json *json);
/* Write the object and move the file to its name; closes in any case. value is released. Nonzero on failure. */
int perf_json_finish(struct perf_json *json, json_t *value);
void perf_json_abandon(struct perf_json *json); /* zeroed, open or finished */

/* A line on a terminal that is written over, at most ten times a second; nothing where nobody looks. */
struct perf_progress {
    FILE *file; /* owned unless it is stderr; NULL: no terminal */
    int is_shown;
    int64_t next_us; /* not again before */
};
/* The terminal is that of standard error; under a launcher, which reads it through a pipe, that of the launcher's. */
void perf_progress_init(struct perf_progress *progress);
void perf_progress_fini(struct perf_progress *progress); /* zeroed or initialised */
/* Outside of what is measured. NULL is allowed. */
void perf_progress_show(struct perf_progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Take the line away, before something else is printed. NULL is allowed. */
void perf_progress_clear(struct perf_progress *progress);

#endif
