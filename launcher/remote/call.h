/* SPDX-License-Identifier: Apache-2.0
 *
 * Call: connections between halayruns that run on several hosts already, where there is no ssh: each host but the first
 * listens (listen.h), the first one's halayrun calls. Both ends hold a secret and prove it (base/secure/handshake.h);
 * all that follows is encrypted and authenticated (base/secure/cipher.h).
 *
 *   purpose  what is said then
 *   'a'      what an ssh carries between halayrun and its agent, standard input and output of that (frame.h)
 *   'e'      the agent's standard error; at its end a zero and its exit code
 *   'r'      the job's result, one record: exit code (1 byte), the first cause's host, a newline, and its lines. It is
 *            called first and stays: as long as it does the first host is there
 */
#ifndef HALAY_LAUNCHER_CALL_H
#define HALAY_LAUNCHER_CALL_H

#include "base/secure/handshake.h"

enum { CALL_AGENT = 'a', CALL_ERRORS = 'e', CALL_RESULT = 'r', CALL_TEXT_MAX = 2048 };

struct call {
    int fd; /* -1: none */
    struct halay_session session;
};

/* Until host is connected and both know each other: names may be known late, and hosts start at different speeds. What
 * listens there and has another secret, or is of another version, is asked three times. 0: call->fd is the caller's. 1
 * (said): not before the deadline, which one try of 10 s and a look-up of the name may exceed. */
int call_await(const char *host, int port, const unsigned char secret[HALAY_SECRET_BYTES], unsigned char purpose,
               int64_t deadline_us, struct call *call);

/* In ssh's place (ssh.h): be the connection to host's agent until it ends. Complaints go to standard error. An exit
 * code: the agent's, or 255. */
int call_run(const char *host, int port, const unsigned char secret[HALAY_SECRET_BYTES]);

/* The job's result, on a connection for it, which ends then; a host that has ended by itself does not mind. */
void call_tell_result(struct call *call, int code, const char *text);

#endif
