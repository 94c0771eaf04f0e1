/* SPDX-License-Identifier: Apache-2.0
 *
 * Listen for tunnels: the other end of tunnel.h. This host waits to be told what to start, starts it, and learns how
 * the job ended.
 */
#ifndef HALAY_LAUNCHER_TUNNEL_LISTEN_H
#define HALAY_LAUNCHER_TUNNEL_LISTEN_H

#include "base/store/store.h"
#include "launcher/remote/tunnel.h"

struct tunnel_result {
    int code;
    char text[TUNNEL_TEXT_MAX + 1]; /* host of the first cause, newline, the lines about it; "" if there is none */
};

/* Wait on the port, at most timeout_ms, for the first host's tunnels (`first` is its name, for messages); run its agent
 * on standard input, output and error; then wait for the result. Blocks until the job has ended. *result is always
 * filled in, also when the first host is lost. */
void tunnel_listen(struct halay_log *log, const char *first, int port, const unsigned char secret[HALAY_SECRET_BYTES],
                   int timeout_ms, struct tunnel_result *result);

#endif
