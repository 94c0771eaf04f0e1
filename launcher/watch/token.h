/* SPDX-License-Identifier: Apache-2.0
 *
 * Token: the word that a client must send to get metrics.
 */
#ifndef HALAY_LAUNCHER_TOKEN_H
#define HALAY_LAUNCHER_TOKEN_H

enum { WATCH_TOKEN_MAX = 256 };

/* The first word of a file; "" if path is NULL. 0, or an exit code (reported). */
int watch_token_read(const char *path, char token[WATCH_TOKEN_MAX]);

#endif
