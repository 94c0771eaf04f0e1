/* SPDX-License-Identifier: Apache-2.0
 *
 * Call: connections between halayruns that run on several hosts already, where there is no ssh: each host but the first listens
 * (listen.h), the first one's halayrun calls. Both ends hold a secret (base/handshake.h); what follows is not encrypted.
 *
 *   purpose  what is said then
 *   'a'      what an ssh carries between halayrun and its agent, standard input and output of that (frame.h)
 *   'e'      the agent's standard error; at its end a zero and its exit code
 *   'r'      the job's result: exit code (1 byte), length (2, little-endian), the first cause's host, a newline, and its lines. It
 *            is called first and stays: as long as it does the first host is there
 */
#ifndef HALAY_LAUNCHER_CALL_H
#define HALAY_LAUNCHER_CALL_H

#include "base/store.h"

enum { CALL_AGENT = 'a', CALL_ERRORS = 'e', CALL_RESULT = 'r', CALL_TEXT_MAX = 2048 };

/* Connect to host's port, and both know each other: *fd is the caller's. Otherwise -1, and why says why not: HALAY_ERR_SYSTEM if there is
 * no connection, else as halay_handshake_call. Blocks for twice timeout_ms at most, and for the look-up of the name. */
enum halay_status call_open(const char *host, int port, const unsigned char secret[HALAY_SECRET_BYTES],
                            unsigned char purpose, int timeout_ms, int *fd, char *why, size_t size);

/* In ssh's place (ssh.h): be the connection to host's agent until it ends. Complaints go to standard error. An exit code: the
 * agent's, or 255. */
int call_run(const char *host, int port, const unsigned char secret[HALAY_SECRET_BYTES]);

/* The job's result, on a connection for it; a host that has ended by itself does not mind. */
void call_tell_result(int fd, int code, const char *text);

#endif
