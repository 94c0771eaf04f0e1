/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame: what halayrun and its agent on another host say to each other, through the standard streams of the ssh between
 * them.
 *
 * The agent begins with a line of text, AGENT_GREETING and the version behind it, so that whatever a login shell prints
 * before can be told from it. Then both send frames; numbers are little-endian:
 *
 *      0  kind    4   of enum frame_kind
 *      4  number  4   by kind
 *      8  length  4   of what follows, FRAME_MAX at most
 *     12  bytes
 *
 *   kind     from      number            bytes
 *   plan     halayrun  0                 host_plan.h
 *   signal   halayrun  of the signal     none: for all ranks there; or "RANK", text: for that one
 *   kill     halayrun  0                 none; SIGKILL to all that descends from the agent
 *   input    halayrun  0                 for rank 0's standard input; none: it has ended
 *   close    halayrun  rank              "0" or "1": nobody reads its standard output or error any more
 *   alive    both      0                 none; sent when nothing else is
 *   started  agent     rank              "PID PROCESSORS", text
 *   output   agent     rank              as the rank wrote them to standard output
 *   error    agent     rank              to standard error
 *   ended    agent     rank              "STATUS", of waitpid, text
 *   taken    agent     bytes of input    none; rank 0 has room for as many more
 *   note     agent     0                 text, for --verbose
 */
#ifndef HALAY_LAUNCHER_FRAME_H
#define HALAY_LAUNCHER_FRAME_H

#include "launcher/common/buffer.h"
#include <stdint.h>

#define AGENT_GREETING "halayrun-agent 1 "
#define FRAME_MAX ((size_t)16 << 20)
#define INPUT_MAX ((size_t)1 << 20) /* of rank 0's standard input, sent and not taken */

enum {
    ALIVE_MS = 1000,       /* after which one says that it is there */
    SILENCE_MS = 10000,    /* after which the other is given up */
    DOUBT_MS = 3000,       /* the same of one that others have lost, too */
    DOUBT_LEAST_MS = 1000, /* from the moment that they say so: it may be halayrun that has not listened */
};

enum frame_kind {
    FRAME_PLAN = 1,
    FRAME_SIGNAL,
    FRAME_KILL,
    FRAME_INPUT,
    FRAME_CLOSE,
    FRAME_ALIVE,
    FRAME_STARTED,
    FRAME_OUTPUT,
    FRAME_ERROR,
    FRAME_ENDED,
    FRAME_TAKEN,
    FRAME_NOTE,
    FRAME_KINDS
};

struct frame {
    enum frame_kind kind;
    uint32_t number;
    const char *bytes; /* borrowed: in the buffer that it was taken from */
    size_t count;
};

/* Append one; 0 if there is no memory or it is too long (nothing is appended then). */
int frame_put(struct buffer *to, enum frame_kind kind, uint32_t number, const void *bytes, size_t count);

/* The frame that begins at *used of from, and *used behind it: 1; 0: it has not come whole yet; -1: that is no
 * frame. */
int frame_take(const struct buffer *from, size_t *used, struct frame *frame);

/* Little-endian numbers, for host_plan.c too. */
void frame_store_number(unsigned char bytes[4], uint32_t number);
uint32_t frame_load_number(const unsigned char bytes[4]);

#endif
