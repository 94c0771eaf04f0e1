/* SPDX-License-Identifier: Apache-2.0
 *
 * User's secret: a file in the user's home that no other user can read. Hosts that share the home share the secret.
 */
#ifndef HALAY_BASE_USER_SECRET_H
#define HALAY_BASE_USER_SECRET_H

#include "base/secure/secret.h"
#include <limits.h>

/* Sets path to $XDG_CONFIG_HOME/halay/secret or ~/.config/halay/secret. Returns zero if the environment has neither. */
int halay_user_secret_path(char path[PATH_MAX]);
/* Makes that file, whole or not at all, whichever processes do so at once: the first one's stays. Returns zero (errno)
 * if it cannot be made and is not there. */
int halay_user_secret_make(const char *path);

enum { HALAY_USER_SECRET_MIN = 16 };

/* Makes a key from the word (HALAY_SECRET; NULL: none), otherwise from the user's file, which is made unless it is
 * there. HALAY_ERR_CONFIG, HALAY_ERR_AUTH, HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY, logged. */
enum halay_status halay_user_secret_key(struct halay_log *log, const char *word, unsigned char key[HALAY_SECRET_BYTES]);

#endif
