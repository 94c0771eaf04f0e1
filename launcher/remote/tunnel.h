/* SPDX-License-Identifier: Apache-2.0
 *
 * Tunnel: an encrypted connection between two halayruns, where every host runs halayrun already and there is no ssh.
 * Every host but the first listens (tunnel_listen.h); halayrun on the first opens the tunnels. Both ends prove that
 * they hold the job's secret (base/secure/handshake.h); everything after that is encrypted and authenticated
 * (base/secure/cipher.h).
 *
 *   purpose  what it carries
 *   'a'      what ssh carries otherwise: standard input and output of the agent (frame.h)
 *   'e'      the agent's standard error, then a zero byte and the agent's exit code
 *   'r'      the job's result, one record: exit code (1 byte), host of the first cause, newline, the lines about it.
 *            Opened first and kept open: while it lasts, the first host is alive
 */
#ifndef HALAY_LAUNCHER_TUNNEL_H
#define HALAY_LAUNCHER_TUNNEL_H

#include "base/secure/handshake.h"

enum { TUNNEL_AGENT = 'a', TUNNEL_ERRORS = 'e', TUNNEL_RESULT = 'r', TUNNEL_TEXT_MAX = 2048 };

struct tunnel {
    int fd; /* -1: none */
    struct halay_session session;
};

/* Retries until the host answers and both ends have proved the secret: names may resolve late, and hosts start at
 * different speeds. Gives up after three answers with another secret or version. 0: tunnel->fd is the caller's. 1
 * (reported): no tunnel by the deadline, which one attempt of 10 s and a name lookup may exceed. */
int tunnel_open(const char *host, int port, const unsigned char secret[HALAY_SECRET_BYTES], unsigned char purpose,
                int64_t deadline_us, struct tunnel *tunnel);

/* Stand in for ssh (ssh.h): carry the streams of host's agent until it ends. Errors go to standard error. Returns the
 * agent's exit code, or 255. */
int tunnel_run(const char *host, int port, const unsigned char secret[HALAY_SECRET_BYTES]);

/* Send the job's result through its tunnel and close that; no error if the host has gone already. */
void tunnel_send_result(struct tunnel *tunnel, int code, const char *text);

#endif
