/* SPDX-License-Identifier: Apache-2.0
 *
 * Output files: written whole or not at all.
 */
#ifndef HALAY_TFT_OUTPUT_FILE_H
#define HALAY_TFT_OUTPUT_FILE_H

#include "base/log.h"
#include <jansson.h>
#include <stdio.h>

/*
 * A file that replaces the one at its path at the end, or not at all: it is written without a name (where the file
 * system knows none, under another one), synced, named and renamed. path "-" is standard output, written directly.
 */
struct tft_output {
    struct halay_log *log; /* borrowed */
    FILE *file;            /* to write to; NULL while nothing is open */
    int is_nameless;       /* it becomes `beside` when it is complete */
    char *path, *beside;   /* owned */
};
enum halay_status tft_output_open(struct halay_log *log, const char *path, struct tft_output *out);
/* The same, written in the folder `stage` until it is complete, on the same file system; "": beside path. */
enum halay_status tft_output_open_staged(struct halay_log *log, const char *stage, const char *path,
                                         struct tft_output *out);
/* Complete it. Also reports whether all writes succeeded, so that callers need not check each. */
enum halay_status tft_output_commit(struct tft_output *out);
/* Write the document, indented, as the whole file and complete it; on error give it up. */
enum halay_status tft_output_commit_json(struct tft_output *out, const json_t *document);
/* A whole file of JSON, indented, in one call; stage as above. */
enum halay_status tft_output_json(struct halay_log *log, const char *stage, const char *path, const json_t *document);
/* Give it up: the path keeps its old file. Does nothing after commit; out may be zero-initialised. */
void tft_output_abort(struct tft_output *out);

#endif
