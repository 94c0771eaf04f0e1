/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame: what halayrun and its agent on another host send each other, through the standard streams of the ssh between
 * them.
 *
 * The agent begins with a line of text, AGENT_GREETING followed by the version, which distinguishes it from what a
 * login shell prints before. Then both send frames; numbers are little-endian:
 *
 *      0  kind    4   of enum frame_kind
 *      4  number  4   by kind
 *      8  length  4   of what follows, FRAME_MAX at most
 *     12  bytes
 *
 *   kind     from      number            bytes
 *   plan     halayrun  0                 host_plan.h
 *   signal   halayrun  of the signal     none: for all ranks there; or "RANK", text: for that one
 *   kill     halayrun  0                 none; SIGKILL to all descendants of the agent
 *   input    halayrun  0                 for rank 0's standard input; none: its end
 *   close    halayrun  rank              "0" or "1": its standard output or error has no reader any more
 *   alive    both      0                 none; sent when nothing else is
 *   started  agent     rank              "PID PROCESSORS", text
 *   output   agent     rank              as the rank wrote them to standard output
 *   error    agent     rank              as it wrote them to standard error
 *   ended    agent     rank              "STATUS", from waitpid, text
 *   taken    agent     bytes of input    none; rank 0 has room for as many more
 *   note     agent     0                 text, for --verbose
 *   master   agent     port              address, text: what rank 0's host has found (master.h); before its ranks start
 *   sample   agent     rank              struct rank_sample (watch/sample.h), once a second where that is wanted
 *   host     agent     0                 struct host_sample, as above
 *   keep     halayrun  0                 none; the job has failed: the ranks' records stay
 *   fetch    halayrun  rank              none; asks for its record
 *   record   agent     rank              the file of its record, up to FRAME_MAX; none: it has no such record
 */
#ifndef HALAY_LAUNCHER_FRAME_H
#define HALAY_LAUNCHER_FRAME_H

#include "launcher/common/buffer.h"
#include <stdint.h>

#define AGENT_GREETING "halayrun-agent 1 "
#define FRAME_MAX ((size_t)16 << 20)
#define INPUT_MAX ((size_t)1 << 20) /* bytes of rank 0's standard input that are sent and not yet taken */

enum {
    ALIVE_MS = 1000,               /* after this time without a frame, send a sign of life */
    SILENCE_MIN_MS = 3 * ALIVE_MS, /* the least time without a frame after which the other side is given up */
    DEFAULT_SILENCE_MS = 10000,    /* that time for a process that has no plan, and until an agent's first frame */
    DOUBT_MS = SILENCE_MIN_MS,     /* that time if others have lost it, too */
    DOUBT_MIN_MS = 1000,           /* and for this time after they reported it: perhaps halayrun itself was slow */
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
    FRAME_MASTER,
    FRAME_SAMPLE,
    FRAME_HOST,
    FRAME_KEEP,
    FRAME_FETCH,
    FRAME_RECORD,
    FRAME_KINDS
};

struct frame {
    enum frame_kind kind;
    uint32_t number;
    const char *bytes; /* borrowed: in the buffer it was taken from */
    size_t count;
};

/* Appends one. Returns 0 without memory, or if it is too long (then nothing is appended). */
int frame_put(struct buffer *to, enum frame_kind kind, uint32_t number, const void *bytes, size_t count);

enum frame_found {
    FRAME_FOUND,   /* *used is moved past it */
    FRAME_PARTIAL, /* the rest has not arrived yet */
    FRAME_INVALID,
};
/* The frame that begins at *used of from. */
enum frame_found frame_take(const struct buffer *from, size_t *used, struct frame *frame);

/* Little-endian numbers, for host_plan.c too. */
void frame_store_number(unsigned char bytes[4], uint32_t number);
uint32_t frame_load_number(const unsigned char bytes[4]);

#endif
