/* SPDX-License-Identifier: Apache-2.0
 *
 * Join's talk: the messages of node 0 and another node about the job itself, through a tunnel of its own that
 * the other node opens first and that is open as long as both live. A record each: a byte, its kind, then
 *
 *   kind     from      bytes
 *   hello    follower  struct talk_hello, as lines of text
 *   note     node 0    text, for the user
 *            follower  its last: why it leaves
 *   begin    node 0    "TICKET NODE NODES": open the tunnels of the agent with this ticket (tunnel.h); again, if the
 *                      job is restarted
 *   end      node 0    the last: exit code (1 byte); host of the first cause, newline, the lines about it. It may also
 *                      precede begin: the job could not start, or this node cannot take part
 */
#ifndef HALAY_LAUNCHER_JOIN_TALK_H
#define HALAY_LAUNCHER_JOIN_TALK_H

#include "launcher/remote/tunnel.h"
#include <stddef.h>
#include <stdint.h>

enum talk_kind { TALK_HELLO = 'h', TALK_NOTE = 'n', TALK_BEGIN = 'b', TALK_END = 'e' };
enum { TALK_TEXT_MAX = 4096, TALK_NAME_MAX = 256, TALK_HELLO_MS = 2000 };

struct halay_cipher;

struct talk {
    int fd;                      /* -1: closed */
    struct halay_cipher *cipher; /* owned */
};

struct talk_hello {
    char version[64]; /* of halay */
    char name[TALK_NAME_MAX];
    int nodes, node, ranks, is_chosen; /* as in struct join */
    char command[TALK_TEXT_MAX / 2];   /* the program's; cut if it is longer */
};

/* Takes the tunnel's descriptor in any case. 0: no memory. */
int talk_open(struct talk *talk, const struct tunnel *tunnel);
void talk_close(struct talk *talk); /* also if it is closed */

/* Waits a few seconds at most for a peer that does not read. 0 if it is gone. */
int talk_send(struct talk *talk, enum talk_kind kind, const void *bytes, size_t count);
int talk_send_hello(struct talk *talk, const struct talk_hello *hello);
int talk_send_end(struct talk *talk, int code, const char *text);

/* Waits for a record and returns its kind, and its bytes with a zero after them; TALK_TEXT_MAX is room enough. 0: the
 * other end is lost, has sent its last record, or sends nothing by then. */
int talk_receive(struct talk *talk, int64_t deadline_us, enum talk_kind *kind, char bytes[TALK_TEXT_MAX]);
int talk_receive_hello(struct talk *talk, struct talk_hello *hello);
/* Something has come, or the other end is lost. */
int talk_is_readable(const struct talk *talk);

#endif
