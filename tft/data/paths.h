/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths: lists of input files, and files that are written whole or not at all.
 */
#ifndef HALAY_TFT_PATHS_H
#define HALAY_TFT_PATHS_H

#include "base/log.h"
#include <jansson.h>
#include <stdio.h>

struct tft_paths {
    char **list; /* owned, with what it points to */
    size_t count;
};

/* Files as they are; of folders, the files that match one of the patterns (an array of texts, or NULL: every file), in
 * order of name. A folder without one is an error. On error nothing is held. */
enum halay_status tft_paths_expand(struct halay_log *log, const char *const *paths, size_t count,
                                   const json_t *patterns, struct tft_paths *out);
void tft_paths_fini(struct tft_paths *paths);

/*
 * A file that replaces its name at the end or not at all: written under a name beside it, synced, renamed. path "-" is
 * standard output, written directly.
 */
struct tft_output {
    struct halay_log *log; /* borrowed */
    FILE *file;            /* to write to; NULL while nothing is open */
    char *path, *beside;   /* owned */
};
enum halay_status tft_output_open(struct halay_log *log, const char *path, struct tft_output *out);
/* The same, written in the folder stage until it is complete, which is on the file system of path's; "": beside
 * path. */
enum halay_status tft_output_open_staged(struct halay_log *log, const char *stage, const char *path,
                                         struct tft_output *out);
/* Complete it. Also says whether all the writes went well, so that callers need not look at each. */
enum halay_status tft_output_commit(struct tft_output *out);
/* The document, indented, is all there is to be in it; complete it, or give it up. */
enum halay_status tft_output_commit_json(struct tft_output *out, const json_t *document);
/* A whole file of JSON, indented, in one call; stage as above. */
enum halay_status tft_output_json(struct halay_log *log, const char *stage, const char *path, const json_t *document);
/* Give it up: the name keeps what it had. Does nothing after commit; out may be zero-initialised. */
void tft_output_abort(struct tft_output *out);

/* Make a folder (its parents must be there); one that exists is fine. */
enum halay_status tft_make_folder(struct halay_log *log, const char *path);

/* Keep other processes out of a folder: *lock is a descriptor to be closed by the caller (the lock ends with it, and
 * with the process), -1 where the file system knows no locks. HALAY_ERR_ARGUMENT: another process has it; what: what it
 * does there. */
enum halay_status tft_lock_folder(struct halay_log *log, const char *path, const char *what, int *lock);

/* folder + "/" + name, owned by the caller; NULL if there is no memory (logged). */
char *tft_path_join(struct halay_log *log, const char *folder, const char *name);

#endif
