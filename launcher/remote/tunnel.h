/* SPDX-License-Identifier: Apache-2.0
 *
 * Tunnel: an encrypted connection between two halayruns, where every node runs halayrun already, without ssh
 * (join.h). Node 0 listens, the others open the tunnels. Both ends prove that they hold the job's secret
 * (base/secure/handshake.h); everything after that is encrypted and authenticated (base/secure/cipher.h).
 *
 *   purpose       what it carries
 *   't'           what both send about the job (join_talk.h)
 *   'a' + ticket  what ssh carries otherwise: standard input and output of the agent (frame.h). The ticket, times 256,
 *                 names the node, of those that talk with node 0, that it belongs to
 *   'e' + ticket  the agent's standard error, then a zero byte and the agent's exit code
 */
#ifndef HALAY_LAUNCHER_TUNNEL_H
#define HALAY_LAUNCHER_TUNNEL_H

#include "base/secure/handshake.h"

enum { TUNNEL_TALK = 't', TUNNEL_AGENT = 'a', TUNNEL_ERRORS = 'e', TUNNEL_TICKET = 256 };

struct tunnel {
    int fd; /* -1: none */
    struct halay_session session;
};

/* The two of an agent. */
struct tunnel_pair {
    struct tunnel frames, errors;
};

/* The other end. */
struct tunnel_end {
    const char *host;
    const char *network; /* it is opened from this host's address in that (base/net/socket.h), or NULL */
    int port;
    const unsigned char *secret; /* HALAY_SECRET_BYTES */
};

/* Retries until the host answers and both ends have proved the secret: names may resolve late, and hosts start at
 * different speeds. Gives up after three answers with another secret (HALAY_ERR_AUTH) or version. HALAY_OK: tunnel->fd
 * is the caller's. Otherwise it is not open by the deadline, which an attempt of 10 s and a name lookup may exceed; why
 * has the reason (reported). */
enum halay_status tunnel_open(const struct tunnel_end *end, uint32_t purpose, int64_t deadline_us,
                              struct tunnel *tunnel, char *why, size_t size);

/* Takes the place of ssh (ssh.h): carries the streams of the agent at the other end until it ends. Errors go to
 * standard error. Returns the agent's exit code, or 255. */
int tunnel_carry(const struct tunnel_pair *pair);

/* Ends both, for all processes that share them. */
void tunnel_shut(const struct tunnel_pair *pair);
void tunnel_close(struct tunnel_pair *pair); /* this process's descriptors, and the keys */

#endif
