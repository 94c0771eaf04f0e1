/* SPDX-License-Identifier: Apache-2.0
 *
 * The address of a server: opens a listening socket by its text.
 */
#ifndef HALAY_BASE_HTTP_WHERE_H
#define HALAY_BASE_HTTP_WHERE_H

#include "base/log.h"
#include "halay_types.h"

struct halay_http_place {
    int fd;          /* listening, not blocking, closed on exec */
    char *unix_path; /* of the socket's file, owned; NULL: a port */
    int is_local;    /* no other host can reach it */
    char text[160];  /* for messages */
};

/* Listens as halay_http_open documents. The caller calls halay_http_place_fini, also after an error. */
enum halay_status halay_http_place_open(struct halay_log *log, const char *where, struct halay_http_place *place);
/* Closes the socket, if fd is not -1, and removes its file. */
void halay_http_place_fini(struct halay_http_place *place);

#endif
