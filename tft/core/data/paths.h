/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths: lists of input files; folders.
 */
#ifndef HALAY_TFT_PATHS_H
#define HALAY_TFT_PATHS_H

#include "base/log.h"
#include <jansson.h>

struct tft_paths {
    char **list; /* owned, with what it points to */
    size_t count;
};

/* Files as they are; in place of a folder, its files that match one of the patterns (an array of texts, or NULL: every
 * file), in order of name. A folder without one is an error. On error nothing is held. */
enum halay_status tft_paths_expand(struct halay_log *log, const char *const *paths, size_t count,
                                   const json_t *patterns, struct tft_paths *out);
void tft_paths_fini(struct tft_paths *paths);

/* Make a folder (its parents must be there); one that exists is fine. */
enum halay_status tft_make_folder(struct halay_log *log, const char *path);

/* Keep other processes out of a folder: *lock is a descriptor to be closed by the caller (the lock ends with it, and
 * with the process), -1 if the file system has no locks. HALAY_ERR_ARGUMENT: another process holds it; what: what it
 * does there, for the message. */
enum halay_status tft_lock_folder(struct halay_log *log, const char *path, const char *what, int *lock);

/* folder + "/" + name, owned by the caller; NULL if there is no memory (logged). */
char *tft_path_join(struct halay_log *log, const char *folder, const char *name);

#endif
