/* SPDX-License-Identifier: Apache-2.0
 *
 * Relay: plain streams of this process on one side, encrypted connections (base/secure/cipher.h) on the other.
 *
 *     on node 0 (tunnel.h)          on another node (join.h)
 *       standard input   =======>   the agent's standard input
 *       standard output  <=======   its standard output
 *       standard error   <=======   its standard error
 */
#ifndef HALAY_LAUNCHER_RELAY_H
#define HALAY_LAUNCHER_RELAY_H

#include "base/secure/cipher.h"

enum { RELAY_LINES = 3 };

/* One direction. The descriptors are borrowed. */
struct relay_line {
    int stream, socket;
    struct halay_cipher *cipher; /* the socket's; borrowed */
    int is_outgoing;             /* from the stream to the socket */
    int is_leading;              /* the relay ends when all such lines have */
    /* NULL, or: a zero byte at the end of an incoming line and the byte after it are not text but this exit code. */
    int *code;
};

/* Passes everything on, each line as fast as it can, until the leading lines have ended. An outgoing line ends with its
 * stream; an incoming one ends with the last record, and its stream is closed. An error on one line ends all:
 * HALAY_ERR_AUTH: data were altered on their way; HALAY_ERR_PEER: a connection ended without its last record;
 * HALAY_ERR_TIMEOUT: all streams have ended, and the other end takes nothing for silence_ms (below 0: forever);
 * HALAY_ERR_NO_MEMORY; HALAY_ERR_SYSTEM. SIGPIPE must be ignored or blocked. */
enum halay_status relay_run(const struct relay_line lines[RELAY_LINES], int silence_ms);
/* Reports such an error. */
void relay_report(enum halay_status status);

#endif
