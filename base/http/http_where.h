/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a server listens: from its text to a socket.
 */
#ifndef HALAY_BASE_HTTP_WHERE_H
#define HALAY_BASE_HTTP_WHERE_H

#include "base/log.h"
#include "halay_types.h"

struct halay_http_place {
    int fd;          /* listening, not blocking, closed on exec */
    char *unix_path; /* of the socket's file, owned; NULL: it is none */
    int is_local;    /* no other host reaches it */
    char text[160];  /* for people */
};

/* As halay_http_open says. *place is to be given to halay_http_place_fini, whatever comes of it. */
enum halay_status halay_http_place_open(struct halay_log *log, const char *where, struct halay_http_place *place);
/* Closes the socket, if fd is not -1, and removes its file. */
void halay_http_place_fini(struct halay_http_place *place);

#endif
