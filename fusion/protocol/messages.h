/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between the ranks' engines, as bytes.
 *
 * A message is a header and items; it travels as one frame of HALAY_FRAME_BYTES (padded), and, if it is longer, a
 * second transfer with the rest. Numbers are in the byte order of the host (the magic number refuses another).
 *
 *     header (16)   0 magic u32 | 4 bytes u32, all of it | 8 number u32, of this sender's messages: 1, 2, ... |
 *                   12 0 u32
 *
 *     items: 0 kind | 1 length of the name | 2 u16: length of the text, number of ranges, or of words | 4 the numbers
 *            listed here, u32 or i32 unless it is noted | what follows them, padded to 4
 *     Items about tensors begin with the number of their process set; 0 is that of all ranks. Ids are the set's.
 *
 *       READY     set, first, count         these ids have been submitted
 *       ANNOUNCE  set, 0, signature (32): shape (u64 each), words (signature_payload.c), name
 *                                           a name without id, another signature or payload
 *       FLUSH     set                       a thread waits: don't accumulate
 *       AGREE     set, id, as ANNOUNCE      all ranks have announced it; its id from now on
 *       BUCKET    set, absent: ranges       run these together, after all earlier ones; byte 1: has parts
 *       ERROR     set, status: name, text   the tensor is refused
 *       FORGET    set, id                   forget the id; and the answer: forgotten
 *       FAIL      status, rank: text        the job has failed; HALAY_ERR_CLOSED: that rank has not done its part of
 *                                           what is in flight, though it may have sent BYE
 *       BYE                                 the sender submits no more
 *       LEFT      rank                      that rank sent BYE
 *       DONE                                all ranks sent BYE and nothing is left to do
 *       PING, PONG                          checks that the rank is alive; and the answer
 *       ASK       shows stacks              asks what the rank's program is doing; nonzero: it shows its stacks
 *       WITHDRAW  set, status, after (ms): name   the sender withdraws its submission
 *       LISTEN    rank, number (u64)        that number of messages was sent to that rank; rank 0 forwards this
 *                                           (paths/p2p/p2p.c)
 *       DOING     set, doing: name          answers ASK; the tensor it waits for
 *
 *     Replay (fusion/replay/replay.h), of one plan of a set:
 *       PLANNED   set, has vote: ranges     one bucket of the next plan
 *       PLAN      set, epoch                the plan of these buckets is in force; the answer: received
 *       BREAK     set, epoch, reason, rank  this rank has to leave the plan
 *       FREEZE    set, epoch                enter no bucket any more
 *       ENTERED   set, epoch, ranks: words  minimum over these ranks of the first collective of each channel that they
 *                                           have not entered
 *       COMPLETE  as ENTERED, ranks: 0      the minimum over all ranks
 *       SETTLED   as ENTERED                on these ranks nothing is in flight; the maximum of their proposals for the
 *                                           next epoch
 *       RESUME    as COMPLETE               the maximum over all ranks; negotiate again
 *     BREAK and what follows it travel along a tree of the set's ranks (fusion/replay/branch.h), all others from or to
 *     rank 0.
 */
#ifndef HALAY_MESSAGES_H
#define HALAY_MESSAGES_H

#include "fusion/protocol/fuse.h"
#include "fusion/protocol/signature.h"

enum {
    HALAY_FRAME_BYTES = 256,
    HALAY_MESSAGE_HEADER = 16,
    HALAY_MESSAGE_MAX = 65536,
    HALAY_TEXT_MAX = 1024,
    HALAY_NO_ID = -1, /* as u32 */
};

enum halay_item_kind {
    HALAY_ITEM_READY = 1,
    HALAY_ITEM_ANNOUNCE,
    HALAY_ITEM_FLUSH,
    HALAY_ITEM_AGREE,
    HALAY_ITEM_BUCKET,
    HALAY_ITEM_ERROR,
    HALAY_ITEM_FORGET,
    HALAY_ITEM_FAIL,
    HALAY_ITEM_BYE,
    HALAY_ITEM_LEFT,
    HALAY_ITEM_DONE,
    HALAY_ITEM_PING,
    HALAY_ITEM_PONG,
    HALAY_ITEM_ASK,
    HALAY_ITEM_DOING,
    HALAY_ITEM_WITHDRAW,
    HALAY_ITEM_LISTEN,
    HALAY_ITEM_PLANNED,
    HALAY_ITEM_PLAN,
    HALAY_ITEM_BREAK,
    HALAY_ITEM_FREEZE,
    HALAY_ITEM_ENTERED,
    HALAY_ITEM_COMPLETE,
    HALAY_ITEM_SETTLED,
    HALAY_ITEM_RESUME,
    HALAY_ITEM_KINDS
};

/* The state of a rank's program, as far as its engine knows. */
enum halay_doing {
    HALAY_DOING_ELSE,   /* it is in no call that waits */
    HALAY_DOING_WAITS,  /* it waits for a tensor, or for one of several */
    HALAY_DOING_LEAVES, /* it is in halay_fini */
    HALAY_DOING_COUNT
};

struct halay_id_range {
    uint32_t first, count;
};

/* One parsed item. Only the members of its kind are set; pointers are borrowed from the bytes it was read from. */
struct halay_item {
    enum halay_item_kind kind;
    int set;          /* number of the process set */
    const char *name; /* not terminated */
    size_t name_length;
    const char *text;
    size_t text_length;
    struct halay_signature signature;
    const void *payload; /* ANNOUNCE, AGREE, and items of replay with numbers: u64 each, not aligned */
    size_t payload_count;
    uint32_t id;
    enum halay_status status;
    int rank;
    enum halay_doing doing;              /* DOING */
    struct halay_id_range range;         /* READY */
    uint64_t number;                     /* LISTEN */
    int after_ms;                        /* WITHDRAW: the time limit; 0: it was canceled */
    uint64_t order;                      /* ANNOUNCE, not sent: rank 0's order of registration + 1, 0: by name */
    const struct halay_id_range *ranges; /* BUCKET, PLANNED */
    size_t range_count;
    int absent;             /* BUCKET: ranks that its averages are not divided by; fewer than the set has */
    int has_parts;          /* BUCKET: ranks that have joined, or have no data for it, take part too */
    int has_vote;           /* PLANNED: replay.h */
    uint32_t epoch, reason; /* replay's: the plan's number; BREAK: enum halay_break_reason */
    int ranks;              /* ENTERED, SETTLED: of this number of ranks */
    int shows_stacks;       /* ASK */
};

struct halay_message_header {
    uint32_t magic, bytes, number, zero;
};

void halay_message_put_header(unsigned char *at, uint32_t bytes, uint32_t number);
/* Reads a header. HALAY_ERR_FORMAT: another magic number (HALAY_ERR_VERSION if only the version differs) or an
 * impossible length. */
enum halay_status halay_message_get_header(const unsigned char *at, struct halay_message_header *header);

/* Parses the item at *at and advances *at to its end. Reads only within [*at, *at + left); HALAY_ERR_FORMAT if the
 * item is invalid or exceeds that. size: number of ranks, for signatures and ranks. *at is a multiple of 4 from the
 * start. */
enum halay_status halay_item_read(const unsigned char *bytes, size_t size_bytes, size_t *at, int size,
                                  struct halay_item *item);

/* Items to be sent, consecutive; grows. Zero-initialised. */
struct halay_items {
    unsigned char *data; /* owned */
    size_t used, capacity;
    size_t last_ready; /* 1 + the offset of the last item if it is a READY; 0 otherwise */
};

/* Appends an item; HALAY_ERR_NO_MEMORY. READY is merged with the item before where possible. */
enum halay_status halay_items_append(struct halay_items *items, const struct halay_item *item);

/* Returns the bytes of the whole items from the start on that fit in `room`. */
size_t halay_items_fitting(const struct halay_items *items, size_t room);
/* Drops the first bytes. */
void halay_items_drop(struct halay_items *items, size_t bytes);
void halay_items_fini(struct halay_items *items);

#endif
