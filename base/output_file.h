/* SPDX-License-Identifier: Apache-2.0
 *
 * Output files: written whole or not at all.
 */
#ifndef HALAY_BASE_OUTPUT_FILE_H
#define HALAY_BASE_OUTPUT_FILE_H

#include "base/log.h"
#include <stdio.h>

/*
 * A file that replaces the one at its path once it is complete: written without a name (where the file system has no
 * such files, under another one), synced, named and renamed. Path "-" is standard output, written directly; a device or
 * a pipe is written in place. Errors go to the log; without one, errno has the cause.
 */
struct halay_output {
    struct halay_log *log; /* borrowed; may be NULL */
    FILE *file;            /* to write to; NULL while nothing is open */
    int is_nameless;       /* commit gives it the name `beside` */
    int keeps_first;       /* set after open: a file that exists at commit stays, and this one is dropped */
    char *path, *beside;   /* owned */
};
enum halay_status halay_output_open(struct halay_log *log, const char *path, struct halay_output *out);
/* The same, written in the folder `stage` until it is complete, on the same file system; "": beside path. */
enum halay_status halay_output_open_staged(struct halay_log *log, const char *stage, const char *path,
                                           struct halay_output *out);
/* Completes the file. Reports whether all writes succeeded, so callers need not check each. */
enum halay_status halay_output_commit(struct halay_output *out);
/* Writes a text as the whole file. */
enum halay_status halay_output_text(struct halay_log *log, const char *path, const char *text);
/* Drops the file: the path keeps its old one. Does nothing after commit; out may be zero-initialised. */
void halay_output_abort(struct halay_output *out);

/* Writes a text as a field of CSV, in quotes where it must be; the second always. */
void halay_write_field(FILE *file, const char *text);
void halay_write_quoted(FILE *file, const char *text);

#endif
