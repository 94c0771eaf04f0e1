/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap over a tree, inside view.
 *
 *     boot_tree.c           rounds: wait, up and down
 *     boot_tree_connect.c   the first time: the shape, who connects with whom
 *     boot_tree_message.c   messages, by a connection or by the store
 *     boot_tree_fail.c      failures, and what is looked at while a rank is missing
 */
#ifndef HALAY_BOOT_TREE_IMPL_H
#define HALAY_BOOT_TREE_IMPL_H

#include "collectives/transport/bootstrap/boot_tree.h"

enum {
    HALAY_BOOT_SLICE_MS = 200,
    HALAY_BOOT_POLL_MS = 5,
    HALAY_BOOT_FDS = 4 /* watched before those of the children */
};
#define HALAY_BOOT_MAGIC UINT32_C(0x35796168)

struct halay_boot_child {
    int rank, span;
    struct halay_boot_connection connection; /* owned; none: not connected, or reached by the store */
    int by_store;                            /* its first message was there */
    int has_come;                            /* in this round */
    int waits_for;                           /* what it reported last */
};

/* The value of the key by which the first rank of a host is found: its addresses, or why it has none. */
struct halay_boot_endpoint {
    struct halay_boot_head head;
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
};

/* One allgather, or one broadcast, whose records are empty. */
struct halay_boot_round {
    unsigned char *table; /* owned: room for a head, then table_bytes */
    size_t bytes;         /* of a record */
    size_t table_bytes;   /* what goes down: size records, or rank 0's data */
    unsigned char *code;  /* owned: the last message, sent or received, as table_code.h has it */
    size_t code_bytes;
    int has_table_code; /* it is that of the table */
    int64_t deadline_us;
    int timeout_ms;
    int store_ms;    /* how long to wait for a key at a time */
    int wants_table; /* all children have come */
    int has_table;
};

static inline int halay_boot_self(const struct halay_boot_tree *tree)
{
    return tree->boot->rank;
}

static inline int halay_boot_parent(const struct halay_boot_tree *tree)
{
    return halay_tree_parent(&tree->shape, halay_boot_self(tree));
}

/* The state of a rank in the launcher's file of this host; ABSENT and others: of this start. */
static inline enum halay_host_rank_state halay_boot_state(const struct halay_boot_tree *tree, int rank)
{
    uint32_t seen;

    return halay_host_ranks_look(&tree->host, rank, &seen);
}

/* Returns nonzero if this is a rank of another host, which is reached over TCP. */
static inline int halay_boot_is_remote(const struct halay_boot_tree *tree, int rank)
{
    return tree->host.shared && rank >= 0 && !halay_host_ranks_has(&tree->host, rank);
}

/* The size that a message announces, so that ranks notice if they do different things. */
static inline size_t halay_boot_announced_bytes(const struct halay_boot_round *x)
{
    return x->bytes ? x->bytes : x->table_bytes;
}

static inline unsigned char *halay_boot_records(const struct halay_boot_round *x, int rank)
{
    return x->table + sizeof(struct halay_boot_head) + (size_t)rank * x->bytes;
}

/* ---- boot_tree_fail.c: the first failure counts, and all return its status ---- */

/* As a message says. */
enum halay_status halay_boot_fail_with(struct halay_boot_tree *tree, const struct halay_boot_head *head);
/* Logs the reason. */
__attribute__((format(printf, 4, 5))) enum halay_status
halay_boot_fail(struct halay_boot_tree *tree, enum halay_status status, int rank, const char *format, ...);
/* Another call has logged why. */
enum halay_status halay_boot_fail_silently(struct halay_boot_tree *tree, enum halay_status status);
enum halay_status halay_boot_fail_ended(struct halay_boot_tree *tree, int rank);
enum halay_status halay_boot_fail_late(struct halay_boot_tree *tree, int rank, int timeout_ms);
/* Now and then while something is waited for. */
enum halay_status halay_boot_tree_look(struct halay_boot_tree *tree);
enum halay_status halay_boot_tree_set(struct halay_boot_tree *tree, const char *key, const void *value, size_t bytes);

/* ---- boot_tree_message.c ---- */

void halay_boot_key(char key[HALAY_STORE_KEY_MAX], char direction, const struct halay_boot_tree *tree, int rank);
/* Encodes bytes of the table from the record of first on, for send; nothing if there is a failure to be sent. */
void halay_boot_encode(const struct halay_boot_tree *tree, struct halay_boot_round *x, int first, size_t bytes);
/* Sends a head, then the code: none if the head is about a failure. */
enum halay_status halay_boot_send(const struct halay_boot_tree *tree, struct halay_boot_connection *to,
                                  const struct halay_boot_round *x);
enum halay_status halay_boot_send_by_store(struct halay_boot_tree *tree, const char *key,
                                           const struct halay_boot_round *x, int first, size_t bytes);
/* HALAY_IN_PROGRESS: it only names the rank that is waited for. x NULL: it is of no round. */
enum halay_status halay_boot_take_head(struct halay_boot_tree *tree, const struct halay_boot_head *head, int from,
                                       const struct halay_boot_round *x);
/* What a connection that is readable has; *waits_for with HALAY_IN_PROGRESS. */
enum halay_status halay_boot_receive(struct halay_boot_tree *tree, struct halay_boot_connection *c, int from,
                                     struct halay_boot_round *x, int first, size_t bytes, int *waits_for);
/* The message of a key. HALAY_ERR_TIMEOUT: not there yet. */
enum halay_status halay_boot_receive_by_store(struct halay_boot_tree *tree, const char *key, int from,
                                              const struct halay_boot_round *x, int first, size_t bytes);
/* Has the parent put a failure into the store? There is never a table as long as this rank's records are missing. */
enum halay_status halay_boot_look_in_store(struct halay_boot_tree *tree, const struct halay_boot_round *x,
                                           int timeout_ms);
/* Puts the failure into the store in place of the addresses of a first rank, for the hosts that look for it. */
void halay_boot_withdraw(struct halay_boot_tree *tree, int rank);
/* The parent is gone. */
enum halay_status halay_boot_fail_orphaned(struct halay_boot_tree *tree, const struct halay_boot_round *x);

/* ---- boot_tree_connect.c ---- */

/* The first time: the shape, this rank's listener, its parent. */
enum halay_status halay_boot_tree_connect(struct halay_boot_tree *tree, const unsigned char *secret,
                                          const struct halay_boot_round *x);
void halay_boot_accept_children(struct halay_boot_tree *tree);

#endif
