/* SPDX-License-Identifier: Apache-2.0
 *
 * Call: connections between halayruns that run on several hosts already, where there is no ssh: each host but the first listens
 * (listen.h), the first one's halayrun calls. Both ends hold a secret (base/handshake.h); what follows is not encrypted.
 *
 *   purpose  what is said then
 *   'a'      what an ssh carries between halayrun and its agent, standard input and output of that (frame.h)
 *   'e'      the agent's standard error; at its end a zero and its exit code
 *   'r'      the job's result: exit code (1 byte), length (2, little-endian), the first cause's host, a newline, and its lines
 */
#ifndef HALAY_LAUNCHER_CALL_H
#define HALAY_LAUNCHER_CALL_H

#include "base/store.h"

enum { CALL_AGENT = 'a', CALL_ERRORS = 'e', CALL_RESULT = 'r', CALL_TEXT_MAX = 2048 };

/* A socket, connected to host's port, or -1: why says why not. Blocks for timeout_ms at most, and for the look-up of the name. */
int call_connect(const char *host, int port, int timeout_ms, char *why, size_t size);

/* In ssh's place (ssh.h): be the connection to host's agent until it ends. Complaints go to standard error. An exit code: the
 * agent's, or 255. */
int call_run(const char *host, int port, const unsigned char secret[HALAY_SECRET_BYTES]);

/* The job's result to a host that listens, or has ended by itself: then nothing happens. */
void call_tell_result(const char *host, int port, const unsigned char secret[HALAY_SECRET_BYTES], int code,
                      const char *text);

#endif
