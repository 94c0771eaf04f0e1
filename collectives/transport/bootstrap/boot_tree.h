/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap over a tree: what the bootstraps share that have a store in which ranks find each other. An allgather is
 * one message up the tree (tree.h) and the table down it; a broadcast the same with an empty message up.
 */
#ifndef HALAY_BOOT_TREE_H
#define HALAY_BOOT_TREE_H

#include "base/store/host_ranks.h"
#include "base/store/store.h"
#include "collectives/transport/bootstrap/boot.h"
#include "collectives/transport/bootstrap/boot_connection.h"
#include "collectives/transport/bootstrap/boot_hosts.h"
#include "collectives/transport/bootstrap/boot_socket.h"
#include "collectives/transport/bootstrap/tree.h"
#include <stdint.h>

/* The store. Keys begin with a letter and are the start's own; none is set twice. */
struct halay_boot_keys {
    void *arg;
    enum halay_status (*set)(void *arg, const char *key, const void *value, size_t bytes);
    /* HALAY_ERR_TIMEOUT, without a line: the key is not there yet. */
    enum halay_status (*get)(void *arg, const char *key, void *value, size_t bytes, int timeout_ms);
    int (*fd)(void *arg);      /* readable once the key that get has asked for last may be there; NULL: none */
    int (*is_over)(void *arg); /* nonzero: some rank won't come, which is HALAY_ERR_PEER; NULL: unknown */
    int (*host)(void *arg, int rank, struct halay_store_host *host); /* nonzero: it is known; NULL: it never is */
};

enum { HALAY_BOOT_REASON_BYTES = 176 };

/* The head of a message: its records follow; one about a failure has only the head. */
struct halay_boot_head {
    uint32_t magic;
    int32_t status; /* HALAY_IN_PROGRESS: only that rank is waited for */
    int32_t rank;
    uint32_t bytes;      /* of a record */
    uint32_t code_bytes; /* that follow: the records by table_code.h. 0 in the store, where they follow themselves */
    char reason[HALAY_BOOT_REASON_BYTES];
};

struct halay_boot_child;
struct pollfd;

/* Zero-initialised but for the first three; fini accepts any state. */
struct halay_boot_tree {
    struct halay_boot *boot;        /* borrowed: its rank, size, log and watch */
    struct halay_boot_keys keys;    /* what arg points to is borrowed */
    char name[HALAY_STORE_KEY_MAX]; /* of this start, different from that of any other with the same secret */
    struct halay_tree shape;
    int block;                           /* rank 0's is what counts; 0: unknown */
    struct halay_host_ranks host;        /* owned: closed by fini; not open: the launcher gave no file */
    int has_hosts;                       /* a block is a host, on all ranks alike */
    int is_connected;                    /* connected with the parent, and ready for children */
    struct halay_boot_socket listener;   /* owned if is_connected; not open: no children */
    struct halay_network network;        /* of the ports of hosts; its strings are borrowed */
    struct halay_boot_hosts hosts;       /* owned */
    struct halay_boot_connection parent; /* owned if is_connected; none: there is no parent, or the store reaches it */
    int children_count;
    struct halay_boot_child *children; /* owned: [children_count] */
    struct pollfd *fds;                /* owned: what a wait looks at */
    int parent_waits_for;              /* the rank that it reported last, or it itself */
    unsigned round;
    size_t received;                /* bytes of tables that have come over the connection with the parent */
    int missing;                    /* the rank that is waited for */
    struct halay_boot_head failure; /* the first; status HALAY_OK: none */
    char missing_text[96];          /* for the line about a rank that has not come: where it should have */
};

/* As allgather of struct halay_boot_ops. secret: of all ranks of this start. */
enum halay_status halay_boot_tree_allgather(struct halay_boot_tree *tree, const unsigned char *secret, const void *mine,
                                            size_t bytes, void *all, int timeout_ms);
/* As broadcast there. */
enum halay_status halay_boot_tree_broadcast(struct halay_boot_tree *tree, const unsigned char *secret, void *data,
                                            size_t bytes, int timeout_ms);
/* Waits for a key in slices: looks whether the start is canceled or over. rank: the one that is to set it. */
enum halay_status halay_boot_tree_get(struct halay_boot_tree *tree, int rank, const char *key, void *value,
                                      size_t bytes, int64_t deadline_us);
/* Before fini, if this rank ends the start between two exchanges: the others get HALAY_ERR_PEER and the log's last
 * error. */
void halay_boot_tree_give_up(struct halay_boot_tree *tree);
void halay_boot_tree_fini(struct halay_boot_tree *tree);

#endif
