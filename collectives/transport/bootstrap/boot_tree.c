/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap over a tree: see boot_tree.h.
 *
 *     gather   from each child the records of its subtree
 *     up       this rank's and theirs to the parent
 *     down     the whole table from the parent, and to each child
 *
 * A child reaches its parent by an abstract Unix socket if it can, otherwise by the store:
 *
 *     b                 the block's ranks, by rank 0, which listens then
 *     l/RANK            this parent, another one, listens. Until then a child cannot know whether the socket is going
 *                       to be there
 *     u/ROUND/RANK      a message up, of that rank
 *     d/ROUND/RANK      the message down to all children of that rank that the store reaches
 *     a/RANK            by which addresses this first rank of a host is reached, or why it has failed
 *     g/RANK            why this rank has given up between two exchanges
 *
 * Where the launcher has described the ranks of each host (base/store/host_ranks.h), blocks are hosts, b and l are not
 * needed, the first ranks of hosts connect over TCP (boot_hosts.h), and a rank asks the store only for the addresses of
 * its parent on another host, or if its parent or a child is in another network namespace of its host.
 *
 * The socket's name follows from the secret. A child binds its end to a name that follows from the secret too and ends
 * with its rank, so that accept identifies it: a parent never waits for a first message. Both ends belong to one user
 * (the kernel attaches that). Any other connection is closed at once.
 *
 * Failures: the first is sent up and down at once in place of records, with its text, and ends the bootstrap of each
 * rank that it reaches. A rank that ends closes its connections, which its parent and its children see. A parent waits
 * for its children HALAY_START_TIMEOUT and a little more for each level under it, so that the rank next to a missing
 * one is the first to give up, and all report that one.
 *
 * Cleanup: zero-initialised, fini accepts any state. References: unix(7).
 */
#include "base/clock.h"
#include "base/memory.h"
#include "collectives/transport/bootstrap/boot_tree_impl.h"
#include "collectives/transport/bootstrap/table_code.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVEL_MS = 250 };

/* Levels of a subtree, or one more. */
static int levels_of(int span)
{
    int levels = 0;

    for (; span > 1; span = (span + HALAY_TREE_DEGREE - 1) / HALAY_TREE_DEGREE)
        levels++;
    return levels;
}

/* Returns nonzero if this child that is not connected may come by the store. */
static int may_use_store(const struct halay_boot_tree *tree, int child)
{
    if (!tree->host.shared)
        return 1;
    return halay_host_ranks_has(&tree->host, child) && halay_boot_state(tree, child) >= HALAY_HOST_RANK_ELSEWHERE;
}

/* ---- wait ---- */

/* The first child that is to come by the store, or may. */
static struct halay_boot_child *next_by_store(struct halay_boot_tree *tree)
{
    for (int i = 0; i < tree->children_count; i++)
        if (!tree->children[i].has_come && tree->children[i].connection.fd < 0 &&
            may_use_store(tree, tree->children[i].rank))
            return &tree->children[i];
    return NULL;
}

static const struct halay_boot_child *next_missing(const struct halay_boot_tree *tree)
{
    for (int i = 0; i < tree->children_count; i++)
        if (!tree->children[i].has_come)
            return &tree->children[i];
    return NULL;
}

static int is_done(const struct halay_boot_tree *tree, const struct halay_boot_round *x)
{
    return x->wants_table ? x->has_table : !next_missing(tree);
}

/* Announces to the ranks next to this one which it waits for, once for each. A notice that gets lost is no failure. */
static void announce_missing(struct halay_boot_tree *tree, int rank)
{
    const struct halay_boot_head head = { .magic = HALAY_BOOT_MAGIC, .status = HALAY_IN_PROGRESS, .rank = rank };
    int64_t deadline_us = halay_deadline_us(HALAY_BOOT_SLICE_MS);

    if (rank == tree->missing)
        return;
    tree->missing = rank;
    if (tree->parent.fd >= 0 && next_missing(tree))
        (void)halay_boot_connection_send(&tree->parent, &head, sizeof head, deadline_us);
    for (int i = 0; i < tree->children_count; i++)
        if (tree->children[i].connection.fd >= 0)
            (void)halay_boot_connection_send(&tree->children[i].connection, &head, sizeof head, deadline_us);
}

/* The next key that is waited for, if it is there: of a child, or the parent's. */
static enum halay_status take_from_store(struct halay_boot_tree *tree, struct halay_boot_round *x)
{
    struct halay_boot_child *child = x->wants_table ? NULL : next_by_store(tree);
    char key[HALAY_STORE_KEY_MAX];

    if (!child && (!x->wants_table || tree->parent.fd >= 0))
        return HALAY_OK;
    int from = child ? child->rank : halay_boot_parent(tree), first = child ? child->rank : 0;
    halay_boot_key(key, child ? 'u' : 'd', tree, from);
    x->store_ms = tree->children_count ? 0 : HALAY_BOOT_SLICE_MS;
    size_t bytes = child ? (size_t)child->span * x->bytes : x->table_bytes;
    enum halay_status status = halay_boot_receive_by_store(tree, key, from, x, first, bytes);
    if (status == HALAY_OK && child)
        child->by_store = child->has_come = 1;
    else if (status == HALAY_OK)
        x->has_table = 1;
    return status == HALAY_ERR_TIMEOUT && tree->failure.status == HALAY_OK ? HALAY_OK : status;
}

/* A connected child sends only a failure until it has the table. */
static enum halay_status take_from_child(struct halay_boot_tree *tree, struct halay_boot_round *x,
                                         struct halay_boot_child *child)
{
    enum halay_status status =
        halay_boot_receive(tree, &child->connection, child->rank, x, child->rank,
                           child->has_come ? 0 : (size_t)child->span * x->bytes, &child->waits_for);

    child->has_come |= status == HALAY_OK;
    return status == HALAY_IN_PROGRESS ? HALAY_OK : status;
}

/* Nor of the parent, before it has all that it needs from here. */
static enum halay_status take_from_parent(struct halay_boot_tree *tree, struct halay_boot_round *x)
{
    enum halay_status status = halay_boot_receive(tree, &tree->parent, halay_boot_parent(tree), x, 0,
                                                  x->wants_table ? x->table_bytes : 0, &tree->parent_waits_for);

    x->has_table |= status == HALAY_OK;
    x->has_table_code = x->has_table;
    tree->received += status == HALAY_OK ? x->code_bytes : 0;
    return status == HALAY_IN_PROGRESS ? HALAY_OK : status;
}

static int watch_descriptor(struct pollfd *at, int fd)
{
    *at = (struct pollfd){ .fd = fd, .events = POLLIN };
    return 1;
}

static int has_unconnected(const struct halay_boot_tree *tree)
{
    for (int i = 0; i < tree->children_count; i++)
        if (tree->children[i].connection.fd < 0 && !tree->children[i].has_come)
            return 1;
    return 0;
}

/* Lists the descriptors that this rank waits for. Returns their number. */
static int watch_all(struct halay_boot_tree *tree, int needs_store)
{
    struct pollfd *fds = tree->fds;
    int n = 0;

    n += watch_descriptor(&fds[n], tree->parent.fd);
    n += watch_descriptor(&fds[n], has_unconnected(tree) ? tree->listener.fd : -1);
    n += watch_descriptor(&fds[n], needs_store && tree->keys.fd ? tree->keys.fd(tree->keys.arg) : -1);
    n += watch_descriptor(&fds[n], halay_boot_hosts_fd(&tree->hosts));
    for (int i = 0; i < tree->children_count; i++)
        n += watch_descriptor(&fds[n], tree->children[i].connection.fd);
    return n;
}

/* One wait, and what there is then. */
static enum halay_status wait_once(struct halay_boot_tree *tree, struct halay_boot_round *x)
{
    int needs_store = x->wants_table ? tree->parent.fd < 0 : next_by_store(tree) != NULL;
    int n = watch_all(tree, needs_store), ms = needs_store && !tree->keys.fd ? HALAY_BOOT_POLL_MS : HALAY_BOOT_SLICE_MS;
    const struct pollfd *fds = tree->fds;
    enum halay_status status = HALAY_OK;

    if (poll(tree->fds, (nfds_t)n, ms) <= 0)
        return HALAY_OK;
    if (fds[0].revents)
        status = take_from_parent(tree, x);
    if (fds[1].revents)
        halay_boot_accept_children(tree);
    if (fds[3].revents)
        halay_boot_hosts_turn(&tree->hosts);
    for (int i = 0; i < tree->children_count && status == HALAY_OK; i++)
        if (fds[HALAY_BOOT_FDS + i].revents)
            status = take_from_child(tree, x, &tree->children[i]);
    return status;
}

/* A child that has ended before it came has put into the store why, or nothing; one of another host may have. */
static enum halay_status look_for_gone(struct halay_boot_tree *tree, struct halay_boot_round *x)
{
    enum halay_status status = HALAY_OK;
    char key[HALAY_STORE_KEY_MAX];

    for (int i = 0; i < tree->children_count && status == HALAY_OK; i++) {
        struct halay_boot_child *child = &tree->children[i];
        int is_remote = halay_boot_is_remote(tree, child->rank);
        if (child->has_come || child->connection.fd >= 0 || !tree->host.shared ||
            (!is_remote && halay_boot_state(tree, child->rank) != HALAY_HOST_RANK_GONE))
            continue;
        halay_boot_key(key, 'u', tree, child->rank);
        x->store_ms = is_remote ? HALAY_BOOT_POLL_MS : HALAY_BOOT_SLICE_MS;
        status = halay_boot_receive_by_store(tree, key, child->rank, x, child->rank, (size_t)child->span * x->bytes);
        child->by_store |= child->has_come |= status == HALAY_OK;
        if (status == HALAY_ERR_TIMEOUT && tree->failure.status == HALAY_OK) {
            if (!is_remote)
                return halay_boot_fail_ended(tree, child->rank);
            status = HALAY_OK;
        }
    }
    return status;
}

/* A key of its own: those of an exchange have a length that a rank that gave up before it does not know. */
static void given_up_key(char key[HALAY_STORE_KEY_MAX], int rank)
{
    snprintf(key, HALAY_STORE_KEY_MAX, "g/%d", rank);
}

/* Returns the failure of this rank if it has given up (halay_boot_tree_give_up). */
static enum halay_status look_for_given_up(struct halay_boot_tree *tree, int rank)
{
    struct halay_boot_head head;
    char key[HALAY_STORE_KEY_MAX];

    given_up_key(key, rank);
    if (tree->keys.get(tree->keys.arg, key, &head, sizeof head, HALAY_BOOT_POLL_MS) != HALAY_OK)
        return HALAY_OK;
    return halay_boot_take_head(tree, &head, rank, NULL);
}

/* Looks at the ranks that this one waits for and that only the store connects with it. */
static enum halay_status look_in_store(struct halay_boot_tree *tree, const struct halay_boot_round *x)
{
    const struct halay_boot_child *child = x->wants_table ? NULL : next_by_store(tree);
    enum halay_status status = child ? look_for_given_up(tree, child->rank) : HALAY_OK;

    if (status != HALAY_OK || halay_boot_parent(tree) < 0 || tree->parent.fd >= 0)
        return status;
    if (!x->wants_table) /* or else its key is read anyway */
        status = halay_boot_look_in_store(tree, x, HALAY_BOOT_POLL_MS);
    return status == HALAY_OK ? look_for_given_up(tree, halay_boot_parent(tree)) : status;
}

/* Every slice. */
static enum halay_status look_around(struct halay_boot_tree *tree, struct halay_boot_round *x, int64_t deadline_us)
{
    const struct halay_boot_child *child = x->wants_table ? NULL : next_missing(tree);
    int missing = child ? child->waits_for : tree->parent_waits_for;

    if (is_done(tree, x))
        return HALAY_OK;
    if (halay_deadline_passed(deadline_us))
        return halay_boot_fail_late(tree, missing, x->timeout_ms);
    announce_missing(tree, missing);
    enum halay_status status = halay_boot_tree_look(tree);
    if (status == HALAY_OK && !x->wants_table)
        status = look_for_gone(tree, x);
    return status == HALAY_OK ? look_in_store(tree, x) : status;
}

/* levels: how much longer than the time-out. */
static enum halay_status wait_all(struct halay_boot_tree *tree, struct halay_boot_round *x, int levels)
{
    int64_t deadline_us =
        x->deadline_us == HALAY_NEVER ? HALAY_NEVER : x->deadline_us + (int64_t)levels * LEVEL_MS * 1000;
    int64_t look_us = halay_deadline_us(HALAY_BOOT_SLICE_MS);
    enum halay_status status = HALAY_OK;

    while (status == HALAY_OK && !is_done(tree, x)) {
        status = take_from_store(tree, x);
        if (status == HALAY_OK && !is_done(tree, x))
            status = wait_once(tree, x);
        if (status != HALAY_OK || !halay_deadline_passed(look_us))
            continue;
        look_us = halay_deadline_us(HALAY_BOOT_SLICE_MS);
        status = look_around(tree, x, deadline_us);
    }
    return status;
}

static enum halay_status gather_records(struct halay_boot_tree *tree, struct halay_boot_round *x)
{
    for (int i = 0; i < tree->children_count; i++)
        tree->children[i].has_come = 0;
    return wait_all(tree, x, levels_of(halay_tree_span(&tree->shape, halay_boot_self(tree))));
}

static enum halay_status take_table(struct halay_boot_tree *tree, struct halay_boot_round *x)
{
    x->wants_table = 1;
    x->has_table = halay_boot_parent(tree) < 0;
    return wait_all(tree, x, 2 * levels_of(tree->boot->size) + 2);
}

/* ---- up, and down ---- */

/* Into a connection whose other end may be gone: what it has sent before, or its end, is seen when it is read. */
static enum halay_status send_up(struct halay_boot_tree *tree, struct halay_boot_round *x)
{
    int me = halay_boot_self(tree);
    size_t bytes = (size_t)halay_tree_span(&tree->shape, me) * x->bytes;
    char key[HALAY_STORE_KEY_MAX];

    if (halay_boot_parent(tree) < 0)
        return HALAY_OK;
    if (tree->parent.fd >= 0) {
        halay_boot_encode(tree, x, me, bytes);
        (void)halay_boot_send(tree, &tree->parent, x);
        return HALAY_OK;
    }
    halay_boot_key(key, 'u', tree, me);
    enum halay_status status = halay_boot_send_by_store(tree, key, x, me, bytes);
    return status == HALAY_OK ? HALAY_OK : halay_boot_fail_silently(tree, status);
}

/* The table, or what went wrong. */
static enum halay_status send_down(struct halay_boot_tree *tree, struct halay_boot_round *x)
{
    char key[HALAY_STORE_KEY_MAX];
    int by_store = 0;

    if (tree->children_count && !x->has_table_code)
        halay_boot_encode(tree, x, 0, x->table_bytes);

    for (int i = 0; i < tree->children_count; i++) {
        struct halay_boot_connection *c = &tree->children[i].connection;
        by_store |= c->fd < 0;
        if (c->fd >= 0)
            (void)halay_boot_send(tree, c, x);
    }
    if (!by_store)
        return HALAY_OK;
    halay_boot_key(key, 'd', tree, halay_boot_self(tree));
    enum halay_status status = halay_boot_send_by_store(tree, key, x, 0, x->table_bytes);
    return status == HALAY_OK ? HALAY_OK : halay_boot_fail_silently(tree, status);
}

/* So that no rank waits for this one. A notice that does not arrive is not a new failure. */
static void spread_failure(struct halay_boot_tree *tree, struct halay_boot_round *x)
{
    if (tree->shape.size) {
        if (tree->listener.fd >= 0)
            halay_boot_accept_children(tree);
        (void)send_up(tree, x);
        (void)send_down(tree, x);
        halay_boot_withdraw(tree, halay_boot_self(tree));
    }
    halay_host_ranks_leave(&tree->host);
}

static enum halay_status exchange_round(struct halay_boot_tree *tree, const unsigned char *secret,
                                        struct halay_boot_round *x)
{
    enum halay_status status = tree->is_connected ? HALAY_OK : halay_boot_tree_connect(tree, secret, x);

    if (status == HALAY_OK)
        status = gather_records(tree, x);
    halay_boot_hosts_shut(&tree->hosts); /* from here on the transport accepts at the port */
    if (status == HALAY_OK)
        status = send_up(tree, x);
    if (status == HALAY_OK)
        status = take_table(tree, x);
    if (status == HALAY_OK)
        status = send_down(tree, x);
    if (status != HALAY_OK)
        spread_failure(tree, x);
    return status;
}

/* mine: into this rank's place in the table. out: the whole table, NULL: not wanted. */
static enum halay_status run_round(struct halay_boot_tree *tree, const unsigned char *secret,
                                   struct halay_boot_round *x, const void *mine, void *out)
{
    if (tree->failure.status != HALAY_OK)
        return (enum halay_status)tree->failure.status;
    if (x->table_bytes < SIZE_MAX / 2) {
        x->table = malloc(sizeof(struct halay_boot_head) + x->table_bytes);
        x->code = malloc(halay_table_most(x->table_bytes));
    }
    if (!x->table || !x->code) {
        free(x->table);
        free(x->code);
        halay_error(tree->boot->log, "no memory for what %d ranks exchange at the start", tree->boot->size);
        return halay_boot_fail_silently(tree, HALAY_ERR_NO_MEMORY);
    }
    if (mine)
        memcpy(halay_boot_records(x, halay_boot_self(tree)), mine, halay_boot_announced_bytes(x));
    tree->missing = -1;
    enum halay_status status = exchange_round(tree, secret, x);
    if (status == HALAY_OK && out)
        memcpy(out, halay_boot_records(x, 0), x->table_bytes);
    free(x->table);
    free(x->code);
    tree->round++;
    return status;
}

enum halay_status halay_boot_tree_allgather(struct halay_boot_tree *tree, const unsigned char *secret, const void *mine,
                                            size_t bytes, void *all, int timeout_ms)
{
    struct halay_boot_round x = { .bytes = bytes,
                                  .deadline_us = halay_deadline_us(timeout_ms),
                                  .timeout_ms = timeout_ms };

    if (halay_mul_overflows((size_t)tree->boot->size, bytes, &x.table_bytes))
        x.table_bytes = SIZE_MAX;
    return run_round(tree, secret, &x, mine, all);
}

enum halay_status halay_boot_tree_broadcast(struct halay_boot_tree *tree, const unsigned char *secret, void *data,
                                            size_t bytes, int timeout_ms)
{
    struct halay_boot_round x = { .table_bytes = bytes,
                                  .deadline_us = halay_deadline_us(timeout_ms),
                                  .timeout_ms = timeout_ms };

    return run_round(tree, secret, &x, halay_boot_self(tree) ? NULL : data, data);
}

void halay_boot_tree_give_up(struct halay_boot_tree *tree)
{
    const struct halay_boot_round none = { 0 }; /* a failure has no records */
    char key[HALAY_STORE_KEY_MAX], why[HALAY_BOOT_REASON_BYTES];

    if (!tree->is_connected || tree->failure.status != HALAY_OK)
        return;
    halay_log_last_error(tree->boot->log, why, sizeof why);
    halay_boot_fail_silently(tree, HALAY_ERR_PEER);
    snprintf(tree->failure.reason, sizeof tree->failure.reason, "rank %d has given up the start: %.120s",
             halay_boot_self(tree), why);
    if (tree->parent.fd >= 0)
        (void)halay_boot_send(tree, &tree->parent, &none);
    for (int i = 0; i < tree->children_count; i++)
        if (tree->children[i].connection.fd >= 0)
            (void)halay_boot_send(tree, &tree->children[i].connection, &none);
    given_up_key(key, halay_boot_self(tree));
    (void)tree->keys.set(tree->keys.arg, key, &tree->failure, sizeof tree->failure);
}

void halay_boot_tree_fini(struct halay_boot_tree *tree)
{
    if (tree->is_connected)
        halay_debug(tree->boot->log, "the start took %u exchanges, and %zu bytes of all ranks' records", tree->round,
                    tree->received);
    for (int i = 0; i < tree->children_count; i++)
        halay_boot_connection_close(&tree->children[i].connection);
    if (tree->is_connected) {
        halay_boot_socket_close(&tree->listener);
        halay_boot_connection_close(&tree->parent);
    }
    halay_boot_hosts_fini(&tree->hosts);
    free(tree->children);
    free(tree->fds);
    tree->children = NULL;
    tree->fds = NULL;
    tree->children_count = tree->is_connected = 0;
    halay_host_ranks_close(&tree->host);
}
