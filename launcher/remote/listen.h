/* SPDX-License-Identifier: Apache-2.0
 *
 * Listen: the other end of call.h: a host that waits to be told what to start, starts it, and learns how the job ended.
 */
#ifndef HALAY_LAUNCHER_LISTEN_H
#define HALAY_LAUNCHER_LISTEN_H

#include "base/store/store.h"

struct listen_result {
    int code;
    char text[2049]; /* CALL_TEXT_MAX: the first cause's host, a newline, its lines; "" if there is none */
};

/* Wait on the port, at most timeout_ms, until first (for messages) calls; then be its agent, on standard input, output
 * and error; then wait for the result. Blocks until the job has ended. Everything is filled in, also when the first
 * host is lost. */
void listen_run(struct halay_log *log, const char *first, int port, const unsigned char secret[HALAY_SECRET_BYTES],
                int timeout_ms, struct listen_result *result);

#endif
