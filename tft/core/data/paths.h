/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths: lists of input files; folders.
 */
#ifndef HALAY_TFT_PATHS_H
#define HALAY_TFT_PATHS_H

#include "base/log.h"
#include <jansson.h>
#include <limits.h>

struct tft_paths {
    char **list; /* owned, with the texts */
    size_t count;
};

/* Expands paths: a file is kept; a folder is replaced by its files that match one of the patterns (an array of texts,
 * or NULL: every file), in order of name. A folder without such a file is an error. On error nothing is held. */
enum halay_status tft_paths_expand(struct halay_log *log, const char *const *paths, size_t count,
                                   const json_t *patterns, struct tft_paths *out);
void tft_paths_fini(struct tft_paths *paths);

/* Makes a folder (its parents must exist); an existing one is fine. */
enum halay_status tft_make_folder(struct halay_log *log, const char *path);

/* Keeps other processes out of a folder: *lock is a descriptor to be closed by the caller (the lock ends with it, and
 * with the process), -1 if the file system has no locks. HALAY_ERR_ARGUMENT: another process holds it; what: its
 * action, for the message. */
enum halay_status tft_lock_folder(struct halay_log *log, const char *path, const char *what, int *lock);

/* A path. One that is longer than the system allows is cut, but not below that length: the system refuses it. */
struct tft_path {
    char text[PATH_MAX + 1];
};

/* Returns folder + "/" + name. */
struct tft_path tft_path_in(const char *folder, const char *name);

/* Writes a document as a folder's file of this name; NULL: memory has run out, which is logged. */
enum halay_status tft_folder_write(struct halay_log *log, const char *folder, const char *name, const json_t *document);
/* Reads it: a new reference; NULL where the folder has no such file. */
enum halay_status tft_folder_find(struct halay_log *log, const char *folder, const char *name, json_t **document);

#endif
