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
 *
 * Where the launcher has described the ranks of each host (base/store/host_ranks.h), blocks are hosts, b and l are not
 * needed, and a rank asks the store only if its parent or a child is on another host, or in another network namespace.
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
 * The file is long because a failure at any place has to reach all sides of it.
 *
 * Cleanup: zero-initialised, fini accepts any state. References: unix(7).
 */
#include "collectives/transport/meet/boot_tree.h"
#include "base/clock.h"
#include "base/machine/descriptors.h"
#include "base/memory.h"
#include "base/number_text.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLICE_MS = 200, POLL_MS = 5, LEVEL_MS = 250, FAREWELL_MS = 1000 };
enum { FDS_BEFORE = 4 }; /* those of the children */
static const uint32_t magic = 0x34796168;

#define A_GUESS (UINT32_C(1) << 31) /* in the key of the block: it is no host's number of ranks */

struct halay_boot_child {
    int rank, span;
    struct halay_boot_connection connection; /* owned; none: not connected, or reached by the store */
    int by_store;                            /* its first message was there */
    int has_come;                            /* in this round */
    int waits_for;                           /* what it reported last */
};

/* The value of the key by which the first rank of a host is found: its addresses, or why it has none. */
struct place {
    struct halay_boot_head head;
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
};

/* One allgather, or one broadcast, whose records are empty. */
struct round {
    unsigned char *table; /* owned: room for a head, then table_bytes */
    size_t bytes;         /* of a record */
    size_t table_bytes;   /* what goes down: size records, or rank 0's data */
    int64_t deadline_us;
    int timeout_ms;
    int store_ms;    /* how long to wait for a key at a time */
    int wants_table; /* all children have come */
    int has_table;
};

static int self_of(const struct halay_boot_tree *tree)
{
    return tree->boot->rank;
}

static int parent_of(const struct halay_boot_tree *tree)
{
    return halay_tree_parent(&tree->shape, self_of(tree));
}

/* Levels of a subtree, or one more. */
static int levels_of(int span)
{
    int levels = 0;

    for (; span > 1; span = (span + HALAY_TREE_DEGREE - 1) / HALAY_TREE_DEGREE)
        levels++;
    return levels;
}

/* What the launcher's file of this host's ranks has about one; ABSENT and others: of this start. */
static enum halay_host_rank_state state_of(const struct halay_boot_tree *tree, int rank)
{
    uint32_t seen;

    return halay_host_ranks_look(&tree->host, rank, &seen);
}

/* Returns nonzero if this is a rank of another host, which is reached over TCP. */
static int is_far(const struct halay_boot_tree *tree, int rank)
{
    return tree->host.shared && rank >= 0 && !halay_host_ranks_has(&tree->host, rank);
}

/* Returns nonzero if this child that is not connected may come by the store. */
static int may_use_store(const struct halay_boot_tree *tree, int child)
{
    if (!tree->host.shared)
        return 1;
    return halay_host_ranks_has(&tree->host, child) && state_of(tree, child) >= HALAY_HOST_RANK_ELSEWHERE;
}

/* What a message says that it is about, so that ranks notice if they do different things. */
static size_t size_said(const struct round *x)
{
    return x->bytes ? x->bytes : x->table_bytes;
}

static unsigned char *records_of(const struct round *x, int rank)
{
    return x->table + sizeof(struct halay_boot_head) + (size_t)rank * x->bytes;
}

/* ---- failures ---- */

static enum halay_status fail_with(struct halay_boot_tree *tree, const struct halay_boot_head *head)
{
    if (tree->failure.status == HALAY_OK) {
        tree->failure = *head;
        tree->failure.reason[HALAY_BOOT_REASON_BYTES - 1] = 0;
        if (tree->failure.reason[0])
            halay_error(tree->boot->log, "%s", tree->failure.reason);
    }
    return (enum halay_status)tree->failure.status;
}

/* Logs the reason; without a format it has been logged. */
__attribute__((format(printf, 4, 5))) static enum halay_status
fail(struct halay_boot_tree *tree, enum halay_status status, int rank, const char *format, ...)
{
    struct halay_boot_head head = { .magic = magic, .status = (int32_t)status, .rank = rank };
    va_list args;

    va_start(args, format);
    halay_vsnprintf(head.reason, sizeof head.reason, format, args);
    va_end(args);
    return fail_with(tree, &head);
}

/* Another call has logged why. */
static enum halay_status fail_silently(struct halay_boot_tree *tree, enum halay_status status)
{
    struct halay_boot_head head = { .magic = magic, .status = (int32_t)status, .rank = self_of(tree) };

    if (tree->failure.status != HALAY_OK)
        return (enum halay_status)tree->failure.status;
    tree->failure = head;
    snprintf(tree->failure.reason, sizeof tree->failure.reason, "rank %d cannot go on with the start: %s",
             self_of(tree), halay_status_string(status));
    return status;
}

static enum halay_status fail_ended(struct halay_boot_tree *tree, int rank)
{
    return fail(tree, HALAY_ERR_PEER, rank, "rank %d has ended during the start", rank);
}

/* The ranks of a host exchange with those of others by its first rank: if that is missing, all of them are. */
static void describe_host(const struct halay_boot_tree *tree, int rank, char *text, size_t size)
{
    struct halay_store_host host = { .first = rank - rank % tree->shape.block, .count = tree->shape.block };
    int is_named = tree->keys.host && tree->keys.host(tree->keys.arg, rank, &host);
    int last = host.first + (host.count < tree->shape.size - host.first ? host.count : tree->shape.size - host.first);

    *text = 0;
    if (rank == host.first && last - 1 > rank && (is_named || tree->has_hosts))
        snprintf(text, size, "; nothing is known of %s%.60s, ranks %d-%d", is_named ? "host " : "its host", host.name,
                 rank, last - 1);
    else if (is_named)
        snprintf(text, size, "; its host is %.60s", host.name);
}

static enum halay_status fail_late(struct halay_boot_tree *tree, int rank, int timeout_ms)
{
    char host[128] = "";

    if (tree->failure.status == HALAY_OK && tree->shape.size > tree->shape.block)
        describe_host(tree, rank, host, sizeof host);
    return fail(tree, HALAY_ERR_TIMEOUT, rank, "rank %d has not come within %g s (HALAY_START_TIMEOUT)%s%s", rank,
                timeout_ms / 1000.0, tree->missing_text, host);
}

/* Now and then while something is waited for. */
static enum halay_status look(struct halay_boot_tree *tree)
{
    enum halay_status status = halay_boot_look(tree->boot->log, tree->boot->watch, tree->missing);

    if (status != HALAY_OK)
        return fail_silently(tree, status);
    if (!tree->keys.is_over || !tree->keys.is_over(tree->keys.arg))
        return HALAY_OK;
    halay_info(tree->boot->log, "a rank was lost before all had come");
    return fail_silently(tree, HALAY_ERR_PEER);
}

static enum halay_status tree_set(struct halay_boot_tree *tree, const char *key, const void *value, size_t bytes)
{
    enum halay_status status = tree->keys.set(tree->keys.arg, key, value, bytes);

    return status == HALAY_OK ? HALAY_OK : fail_silently(tree, status);
}

enum halay_status halay_boot_tree_get(struct halay_boot_tree *tree, int rank, const char *key, void *value,
                                      size_t bytes, int64_t deadline_us)
{
    tree->missing = rank;
    for (;;) {
        int left_ms = halay_deadline_left_ms(deadline_us);
        int is_last = left_ms >= 0 && left_ms <= SLICE_MS;
        enum halay_status status = tree->keys.get(tree->keys.arg, key, value, bytes, is_last ? left_ms : SLICE_MS);
        if (status == HALAY_OK || (status == HALAY_ERR_TIMEOUT && halay_deadline_passed(deadline_us)))
            return status;
        if (status != HALAY_ERR_TIMEOUT)
            return fail_silently(tree, status);
        if ((status = look(tree)) != HALAY_OK)
            return status;
    }
}

/* ---- messages ---- */

static void key_of(char key[HALAY_STORE_KEY_MAX], char direction, const struct halay_boot_tree *tree, int rank)
{
    snprintf(key, HALAY_STORE_KEY_MAX, "%c/%u/%d", direction, tree->round, rank);
}

static struct halay_boot_head head_of(const struct halay_boot_tree *tree, const struct round *x)
{
    struct halay_boot_head head = { .magic = magic, .rank = self_of(tree), .bytes = (uint32_t)size_said(x) };

    if (tree->failure.status != HALAY_OK) {
        head = tree->failure;
        head.bytes = (uint32_t)size_said(x);
    }
    return head;
}

/* A head, then bytes of the table from the record of first on: none if the head is about a failure. */
static enum halay_status send_to(const struct halay_boot_tree *tree, struct halay_boot_connection *to,
                                 const struct round *x, int first, size_t bytes)
{
    struct halay_boot_head head = head_of(tree, x);
    int64_t deadline_us = halay_deadline_us(FAREWELL_MS);

    if (head.status == HALAY_OK)
        deadline_us = x->deadline_us;
    enum halay_status status = halay_boot_connection_send(to, &head, sizeof head, deadline_us);
    if (status == HALAY_OK && head.status == HALAY_OK && bytes)
        status = halay_boot_connection_send(to, records_of(x, first), bytes, deadline_us);
    return status;
}

/* The same into the store, where a message about a failure has the room of records, too. */
static enum halay_status send_by_store(struct halay_boot_tree *tree, const char *key, const struct round *x, int first,
                                       size_t bytes)
{
    const struct halay_boot_head head = head_of(tree, x);
    unsigned char *message = malloc(sizeof head + bytes);

    if (!message)
        return HALAY_ERR_NO_MEMORY;
    memcpy(message, &head, sizeof head);
    memcpy(message + sizeof head, records_of(x, first), bytes);
    enum halay_status status = tree->keys.set(tree->keys.arg, key, message, sizeof head + bytes);
    free(message);
    return status;
}

/* HALAY_IN_PROGRESS: it only names the rank that is waited for. x NULL: it is of no round. */
static enum halay_status take_head(struct halay_boot_tree *tree, const struct halay_boot_head *head, int from,
                                   const struct round *x)
{
    if (head->magic != magic)
        return fail(tree, HALAY_ERR_VERSION, from,
                    "rank %d starts as another version of halay than rank %d does: all "
                    "must run the same",
                    from, self_of(tree));
    if (head->status == HALAY_IN_PROGRESS)
        return HALAY_IN_PROGRESS;
    if (head->status != HALAY_OK)
        return fail_with(tree, head);
    if (!x || head->bytes == size_said(x))
        return HALAY_OK;
    return fail(tree, HALAY_ERR_FORMAT, from,
                "rank %d exchanges %u bytes at the start where rank %d exchanges %zu; do "
                "all ranks run the same program?",
                from, head->bytes, self_of(tree), size_said(x));
}

/* The message of a key; what precedes the records in the table is overwritten for a moment. HALAY_ERR_TIMEOUT: not
 * there yet. */
static enum halay_status receive_by_store(struct halay_boot_tree *tree, const char *key, int from,
                                          const struct round *x, int first, size_t bytes)
{
    struct halay_boot_head head, kept;
    unsigned char *at = records_of(x, first) - sizeof head;

    memcpy(&kept, at, sizeof kept);
    enum halay_status status = tree->keys.get(tree->keys.arg, key, at, sizeof head + bytes, x->store_ms);
    memcpy(&head, at, sizeof head);
    memcpy(at, &kept, sizeof kept);
    if (status == HALAY_ERR_FORMAT)
        return fail(tree, status, from,
                    "rank %d exchanges another number of bytes at the start than rank %d, which exchanges %zu; do all "
                    "ranks run the same program?",
                    from, self_of(tree), size_said(x));
    if (status != HALAY_OK)
        return status == HALAY_ERR_TIMEOUT ? status : fail_silently(tree, status);
    return take_head(tree, &head, from, x);
}

/* Has the parent put a failure into the store? There is never a table as long as this rank's records are missing. */
static enum halay_status look_in_store(struct halay_boot_tree *tree, const struct round *x, int timeout_ms)
{
    struct round slow = *x;
    char key[HALAY_STORE_KEY_MAX];

    slow.store_ms = timeout_ms;
    key_of(key, 'd', tree, parent_of(tree));
    (void)receive_by_store(tree, key, parent_of(tree), &slow, 0, x->table_bytes);
    return (enum halay_status)tree->failure.status;
}

/* In place of the addresses of a first rank, for the hosts that look for it: the failure. */
static void withdraw_place(struct halay_boot_tree *tree, int rank)
{
    struct place place = { .head = tree->failure };
    char key[HALAY_STORE_KEY_MAX];

    if (!tree->host.shared || tree->shape.size <= tree->shape.block || rank % tree->shape.block)
        return;
    snprintf(key, sizeof key, "a/%d", rank);
    (void)tree->keys.set(tree->keys.arg, key, &place, sizeof place);
}

/* A parent is gone, and may have put into the store why; if it has not, this rank does so in its place, for those that
 * the store reaches. */
static enum halay_status fail_orphaned(struct halay_boot_tree *tree, const struct round *x)
{
    int parent = parent_of(tree);
    char key[HALAY_STORE_KEY_MAX];

    if (look_in_store(tree, x, SLICE_MS) != HALAY_OK)
        return (enum halay_status)tree->failure.status;
    enum halay_status status = fail_ended(tree, parent);
    key_of(key, 'u', tree, parent);
    if (parent > 0)
        (void)send_by_store(tree, key, x, parent, (size_t)halay_tree_span(&tree->shape, parent) * x->bytes);
    key_of(key, 'd', tree, parent);
    (void)send_by_store(tree, key, x, 0, x->table_bytes);
    withdraw_place(tree, parent);
    return status;
}

/* What a connection that is readable has; *waits_for with HALAY_IN_PROGRESS. */
static enum halay_status receive_from(struct halay_boot_tree *tree, struct halay_boot_connection *c, int from,
                                      const struct round *x, int first, size_t bytes, int *waits_for)
{
    struct halay_boot_head head;

    enum halay_status status = halay_boot_connection_receive(c, &head, sizeof head, x->deadline_us);
    if (status == HALAY_OK && (status = take_head(tree, &head, from, x)) != HALAY_OK) {
        *waits_for = head.rank;
        return status;
    }
    if (status == HALAY_OK && bytes)
        status = halay_boot_connection_receive(c, records_of(x, first), bytes, x->deadline_us);
    if (status == HALAY_OK)
        return HALAY_OK;
    if (status == HALAY_ERR_AUTH)
        return fail(tree, status, from, "what rank %d has sent rank %d for the start was changed on its way", from,
                    self_of(tree));
    if (status == HALAY_ERR_TIMEOUT)
        return fail_late(tree, from, x->timeout_ms);
    /* A parent that failed before it had accepted this connection has said so in the store only. */
    return from == parent_of(tree) ? fail_orphaned(tree, x) : fail_ended(tree, from);
}

/* ---- connections ---- */

/* What names the sockets of this parent. */
static void name_parent(const struct halay_boot_tree *tree, int parent, char *name, size_t size)
{
    snprintf(name, size, "%s %d", tree->name, parent);
}

static enum halay_status open_listener(struct halay_boot_tree *tree, const unsigned char *secret)
{
    char name[HALAY_STORE_KEY_MAX + 16];

    name_parent(tree, self_of(tree), name, sizeof name);
    if (halay_boot_socket_listen(&tree->listener, secret, name))
        return HALAY_OK;
    return fail(tree, HALAY_ERR_SYSTEM, self_of(tree), "rank %d cannot open a local socket for the start: %s",
                self_of(tree), strerror(errno));
}

static enum halay_status open_hosts(struct halay_boot_tree *tree, const unsigned char *secret)
{
    enum halay_status status =
        halay_boot_hosts_open(&tree->hosts, tree->boot, secret, tree->name, tree->network.interface);

    return status == HALAY_OK ? HALAY_OK : fail_silently(tree, status);
}

static struct halay_boot_child *child_of(const struct halay_boot_tree *tree, int rank)
{
    for (int i = 0; i < tree->children_count; i++)
        if (tree->children[i].rank == rank)
            return &tree->children[i];
    return NULL;
}

static int has_far_child(const struct halay_boot_tree *tree)
{
    return tree->children_count && is_far(tree, tree->children[tree->children_count - 1].rank);
}

static int expects(void *arg, int rank)
{
    const struct halay_boot_child *child = child_of(arg, rank);

    return child && child->connection.fd < 0 && !child->has_come;
}

static void take_connection(void *arg, int rank, const struct halay_boot_connection *connection)
{
    child_of(arg, rank)->connection = *connection;
}

/* At this host's port, for the first ranks of other hosts. */
static enum halay_status accept_hosts(struct halay_boot_tree *tree, const unsigned char *secret, int timeout_ms)
{
    struct halay_boot *boot = tree->boot;
    enum halay_status status = open_hosts(tree, secret);

    tree->hosts.expects = expects;
    tree->hosts.taken = take_connection;
    tree->hosts.arg = tree;
    if (status == HALAY_OK && !boot->port.is_open)
        status = halay_tcp_open_port(boot->log, &tree->network, &boot->port);
    if (status == HALAY_OK)
        status = halay_boot_hosts_accept(&tree->hosts, boot->port.fd, timeout_ms);
    return status == HALAY_OK ? HALAY_OK : fail_silently(tree, status);
}

static enum halay_status list_children(struct halay_boot_tree *tree)
{
    const struct halay_tree *shape = &tree->shape;
    int me = self_of(tree), count = 0;
    char what[64];

    for (int c = halay_tree_next_child(shape, me, me); c >= 0; c = halay_tree_next_child(shape, me, c))
        count++;
    tree->children = calloc((size_t)count + 1, sizeof *tree->children);
    tree->fds = calloc(FDS_BEFORE + (size_t)count, sizeof *tree->fds);
    if (!tree->children || !tree->fds)
        return fail(tree, HALAY_ERR_NO_MEMORY, me, "rank %d has no memory for the start", me);
    for (int c = halay_tree_next_child(shape, me, me); c >= 0; c = halay_tree_next_child(shape, me, c))
        tree->children[tree->children_count++] = (struct halay_boot_child){
            .rank = c, .span = halay_tree_span(shape, c), .connection.fd = -1, .waits_for = c
        };
    snprintf(what, sizeof what, "connections with %d ranks for the start", count);
    enum halay_status status = halay_descriptors_allow(tree->boot->log, (size_t)count + 8, what);
    return status == HALAY_OK ? HALAY_OK : fail_silently(tree, status);
}

/* Returns nonzero if connected; errno has the reason if not. */
static int try_parent(struct halay_boot_tree *tree, const unsigned char *secret)
{
    char name[HALAY_STORE_KEY_MAX + 16];

    name_parent(tree, parent_of(tree), name, sizeof name);
    tree->parent.fd = halay_boot_socket_connect(secret, name, self_of(tree));
    return tree->parent.fd >= 0;
}

/* A parent of this host: it accepts sooner or later, or is gone. */
static enum halay_status find_local_parent(struct halay_boot_tree *tree, const unsigned char *secret,
                                           const struct round *x)
{
    int parent = parent_of(tree);
    enum halay_status status = HALAY_OK;
    uint32_t seen;

    tree->missing = parent;
    while (status == HALAY_OK) {
        enum halay_host_rank_state state = halay_host_ranks_look(&tree->host, parent, &seen);
        if (state == HALAY_HOST_RANK_ELSEWHERE || (state == HALAY_HOST_RANK_ACCEPTS && try_parent(tree, secret)))
            return HALAY_OK;
        if (state == HALAY_HOST_RANK_GONE || (state == HALAY_HOST_RANK_ACCEPTS && errno != EAGAIN))
            return fail_orphaned(tree, x);
        if (halay_deadline_passed(x->deadline_us))
            return fail_late(tree, parent, x->timeout_ms);
        /* Nothing reports room in a listener's queue. */
        halay_host_ranks_wait(&tree->host, parent, seen, state == HALAY_HOST_RANK_ACCEPTS ? 1 : SLICE_MS);
        status = look(tree);
    }
    return status;
}

/* The parent of another host: by its addresses, unless it has put into the store why it has failed. */
static enum halay_status connect_far_parent(struct halay_boot_tree *tree, const struct round *x,
                                            const struct place *place)
{
    int parent = parent_of(tree);
    char why[HALAY_BOOT_REASON_BYTES] = "no memory";

    enum halay_status status = halay_boot_hosts_dial(&tree->hosts, place->addresses, parent, x->deadline_us);
    while (status == HALAY_OK && (status = halay_boot_hosts_look(&tree->hosts, SLICE_MS, &tree->parent, why,
                                                                 sizeof why)) == HALAY_IN_PROGRESS)
        if ((status = look(tree)) == HALAY_OK)
            status = look_in_store(tree, x, POLL_MS);
    if (status == HALAY_OK || tree->failure.status != HALAY_OK || look_in_store(tree, x, SLICE_MS) != HALAY_OK)
        return status == HALAY_OK ? HALAY_OK : (enum halay_status)tree->failure.status;
    return fail(tree, status, parent, "rank %d cannot reach rank %d, the first of its host, for the start: %s",
                self_of(tree), parent, why);
}

static enum halay_status find_far_parent(struct halay_boot_tree *tree, const unsigned char *secret,
                                         const struct round *x)
{
    int parent = parent_of(tree);
    struct place place;
    char key[HALAY_STORE_KEY_MAX];

    snprintf(key, sizeof key, "a/%d", parent);
    enum halay_status status = halay_boot_tree_get(tree, parent, key, &place, sizeof place, x->deadline_us);
    if (status == HALAY_ERR_TIMEOUT && tree->failure.status == HALAY_OK)
        return fail_late(tree, parent, x->timeout_ms);
    if (status == HALAY_OK)
        status = take_head(tree, &place.head, parent, NULL);
    if (status == HALAY_OK)
        status = open_hosts(tree, secret);
    return status == HALAY_OK ? connect_far_parent(tree, x, &place) : status;
}

static enum halay_status find_parent(struct halay_boot_tree *tree, const unsigned char *secret, const struct round *x)
{
    int parent = parent_of(tree);
    char key[HALAY_STORE_KEY_MAX], listens;
    enum halay_status status = HALAY_OK;

    if (is_far(tree, parent))
        return find_far_parent(tree, secret, x);
    if (halay_host_ranks_has(&tree->host, parent))
        return find_local_parent(tree, secret, x);
    if (parent < 0 || try_parent(tree, secret))
        return HALAY_OK;
    snprintf(key, sizeof key, "l/%d", parent);
    if (parent > 0)
        status = halay_boot_tree_get(tree, parent, key, &listens, 1, x->deadline_us);
    if (status == HALAY_ERR_TIMEOUT && tree->failure.status == HALAY_OK)
        return fail_late(tree, parent, x->timeout_ms);
    /* Nothing reports room in a listener's queue. */
    while (status == HALAY_OK && !try_parent(tree, secret) && errno == EAGAIN) {
        poll(NULL, 0, 1);
        status = halay_deadline_passed(x->deadline_us) ? fail_late(tree, parent, x->timeout_ms) : look(tree);
    }
    return status;
}

/* ---- meeting ---- */

/* The block's ranks, which rank 0 sets later unless the launcher has told all. */
static enum halay_status find_block(struct halay_boot_tree *tree, const struct round *x)
{
    uint32_t block = tree->block > 0 ? (uint32_t)tree->block : HALAY_TREE_DEGREE | A_GUESS;

    if (tree->host.shared) {
        block = (uint32_t)tree->host.block;
    } else if (self_of(tree) != 0) {
        enum halay_status status = halay_boot_tree_get(tree, 0, "b", &block, sizeof block, x->deadline_us);
        if (status != HALAY_OK)
            return tree->failure.status == HALAY_OK ? fail_late(tree, 0, x->timeout_ms) : status;
    }
    tree->has_hosts = !(block & A_GUESS);
    block &= ~A_GUESS;
    tree->shape =
        (struct halay_tree){ .size = tree->boot->size, .block = block > 0 && block < INT32_MAX ? (int)block : 1 };
    return HALAY_OK;
}

/* The addresses of this host's port, to the first ranks that are its children. */
static enum halay_status announce_place(struct halay_boot_tree *tree)
{
    struct place place = { .head = { .magic = magic, .rank = self_of(tree) } };
    char key[HALAY_STORE_KEY_MAX];

    memcpy(place.addresses, tree->boot->port.addresses, sizeof place.addresses);
    snprintf(key, sizeof key, "a/%d", self_of(tree));
    return tree_set(tree, key, &place, sizeof place);
}

/* That this parent listens, to the children that look there. Rank 0 says so with the block. */
static enum halay_status announce(struct halay_boot_tree *tree)
{
    uint32_t block = (uint32_t)tree->shape.block | (tree->has_hosts ? 0 : A_GUESS);
    char key[HALAY_STORE_KEY_MAX];

    if (tree->host.shared) {
        halay_host_ranks_accept(&tree->host);
        return tree->hosts.accepts ? announce_place(tree) : HALAY_OK;
    }
    if (self_of(tree) == 0)
        return tree_set(tree, "b", &block, sizeof block);
    snprintf(key, sizeof key, "l/%d", self_of(tree));
    return tree_set(tree, key, "", 1);
}

/* The first time: the shape, this rank's listener, its parent. */
static enum halay_status meet(struct halay_boot_tree *tree, const unsigned char *secret, const struct round *x)
{
    tree->has_met = 1;
    tree->listener.fd = tree->parent.fd = -1;
    enum halay_status status = find_block(tree, x);
    if (status != HALAY_OK)
        return status;
    tree->parent_waits_for = parent_of(tree);
    status = list_children(tree);
    if (status == HALAY_OK && tree->children_count)
        status = open_listener(tree, secret);
    if (status == HALAY_OK && has_far_child(tree))
        status = accept_hosts(tree, secret, x->timeout_ms);
    if (status == HALAY_OK && tree->children_count)
        status = announce(tree);
    return status == HALAY_OK ? find_parent(tree, secret, x) : status;
}

static void accept_children(struct halay_boot_tree *tree)
{
    int rank, fd;

    while ((fd = halay_boot_socket_accept(&tree->listener, tree->boot->log, &rank)) >= 0) {
        struct halay_boot_child *child = child_of(tree, rank);
        if (child && child->connection.fd < 0 && !child->by_store)
            child->connection.fd = fd;
        else
            close(fd);
    }
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

static int is_done(const struct halay_boot_tree *tree, const struct round *x)
{
    return x->wants_table ? x->has_table : !next_missing(tree);
}

/* Tells those next to this rank which one it waits for, once for each. That it does not reach them is no failure. */
static void tell_missing(struct halay_boot_tree *tree, int rank)
{
    const struct halay_boot_head head = { .magic = magic, .status = HALAY_IN_PROGRESS, .rank = rank };
    int64_t deadline_us = halay_deadline_us(SLICE_MS);

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
static enum halay_status take_from_store(struct halay_boot_tree *tree, struct round *x)
{
    struct halay_boot_child *child = x->wants_table ? NULL : next_by_store(tree);
    char key[HALAY_STORE_KEY_MAX];

    if (!child && (!x->wants_table || tree->parent.fd >= 0))
        return HALAY_OK;
    int from = child ? child->rank : parent_of(tree), first = child ? child->rank : 0;
    key_of(key, child ? 'u' : 'd', tree, from);
    x->store_ms = tree->children_count ? 0 : SLICE_MS;
    size_t bytes = child ? (size_t)child->span * x->bytes : x->table_bytes;
    enum halay_status status = receive_by_store(tree, key, from, x, first, bytes);
    if (status == HALAY_OK && child)
        child->by_store = child->has_come = 1;
    else if (status == HALAY_OK)
        x->has_table = 1;
    return status == HALAY_ERR_TIMEOUT && tree->failure.status == HALAY_OK ? HALAY_OK : status;
}

/* A connected child sends only a failure until it has the table. */
static enum halay_status take_from_child(struct halay_boot_tree *tree, const struct round *x,
                                         struct halay_boot_child *child)
{
    enum halay_status status = receive_from(tree, &child->connection, child->rank, x, child->rank,
                                            child->has_come ? 0 : (size_t)child->span * x->bytes, &child->waits_for);

    child->has_come |= status == HALAY_OK;
    return status == HALAY_IN_PROGRESS ? HALAY_OK : status;
}

/* Nor of the parent, before it has all that it needs from here. */
static enum halay_status take_from_parent(struct halay_boot_tree *tree, struct round *x)
{
    enum halay_status status = receive_from(tree, &tree->parent, parent_of(tree), x, 0,
                                            x->wants_table ? x->table_bytes : 0, &tree->parent_waits_for);

    x->has_table |= status == HALAY_OK;
    return status == HALAY_IN_PROGRESS ? HALAY_OK : status;
}

static int watch(struct pollfd *at, int fd)
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

/* What is waited for. */
static int watch_all(struct halay_boot_tree *tree, int needs_store)
{
    struct pollfd *fds = tree->fds;
    int n = 0;

    n += watch(&fds[n], tree->parent.fd);
    n += watch(&fds[n], has_unconnected(tree) ? tree->listener.fd : -1);
    n += watch(&fds[n], needs_store && tree->keys.fd ? tree->keys.fd(tree->keys.arg) : -1);
    n += watch(&fds[n], halay_boot_hosts_fd(&tree->hosts));
    for (int i = 0; i < tree->children_count; i++)
        n += watch(&fds[n], tree->children[i].connection.fd);
    return n;
}

/* One wait, and what there is then. */
static enum halay_status wait_once(struct halay_boot_tree *tree, struct round *x)
{
    int needs_store = x->wants_table ? tree->parent.fd < 0 : next_by_store(tree) != NULL;
    int n = watch_all(tree, needs_store), ms = needs_store && !tree->keys.fd ? POLL_MS : SLICE_MS;
    const struct pollfd *fds = tree->fds;
    enum halay_status status = HALAY_OK;

    if (poll(tree->fds, (nfds_t)n, ms) <= 0)
        return HALAY_OK;
    if (fds[0].revents)
        status = take_from_parent(tree, x);
    if (fds[1].revents)
        accept_children(tree);
    if (fds[3].revents)
        halay_boot_hosts_turn(&tree->hosts);
    for (int i = 0; i < tree->children_count && status == HALAY_OK; i++)
        if (fds[FDS_BEFORE + i].revents)
            status = take_from_child(tree, x, &tree->children[i]);
    return status;
}

/* A child that has ended before it came has put into the store why, or nothing; one of another host may have. */
static enum halay_status look_for_gone(struct halay_boot_tree *tree, struct round *x)
{
    enum halay_status status = HALAY_OK;
    char key[HALAY_STORE_KEY_MAX];

    for (int i = 0; i < tree->children_count && status == HALAY_OK; i++) {
        struct halay_boot_child *child = &tree->children[i];
        int far = is_far(tree, child->rank);
        if (child->has_come || child->connection.fd >= 0 || !tree->host.shared ||
            (!far && state_of(tree, child->rank) != HALAY_HOST_RANK_GONE))
            continue;
        key_of(key, 'u', tree, child->rank);
        x->store_ms = far ? POLL_MS : SLICE_MS;
        status = receive_by_store(tree, key, child->rank, x, child->rank, (size_t)child->span * x->bytes);
        child->by_store |= child->has_come |= status == HALAY_OK;
        if (status == HALAY_ERR_TIMEOUT && tree->failure.status == HALAY_OK) {
            if (!far)
                return fail_ended(tree, child->rank);
            status = HALAY_OK;
        }
    }
    return status;
}

/* Every slice. */
static enum halay_status look_around(struct halay_boot_tree *tree, struct round *x, int64_t deadline_us)
{
    const struct halay_boot_child *child = x->wants_table ? NULL : next_missing(tree);
    int missing = child ? child->waits_for : tree->parent_waits_for;

    if (is_done(tree, x))
        return HALAY_OK;
    if (halay_deadline_passed(deadline_us))
        return fail_late(tree, missing, x->timeout_ms);
    tell_missing(tree, missing);
    enum halay_status status = look(tree);
    if (status == HALAY_OK && !x->wants_table)
        status = look_for_gone(tree, x);
    /* A parent that the store reaches may have failed. */
    if (status == HALAY_OK && !x->wants_table && parent_of(tree) >= 0 && tree->parent.fd < 0)
        status = look_in_store(tree, x, POLL_MS);
    return status;
}

/* levels: how much longer than the time-out. */
static enum halay_status wait_all(struct halay_boot_tree *tree, struct round *x, int levels)
{
    int64_t deadline_us =
        x->deadline_us == HALAY_NEVER ? HALAY_NEVER : x->deadline_us + (int64_t)levels * LEVEL_MS * 1000;
    int64_t look_us = halay_deadline_us(SLICE_MS);
    enum halay_status status = HALAY_OK;

    while (status == HALAY_OK && !is_done(tree, x)) {
        status = take_from_store(tree, x);
        if (status == HALAY_OK && !is_done(tree, x))
            status = wait_once(tree, x);
        if (status != HALAY_OK || !halay_deadline_passed(look_us))
            continue;
        look_us = halay_deadline_us(SLICE_MS);
        status = look_around(tree, x, deadline_us);
    }
    return status;
}

static enum halay_status gather(struct halay_boot_tree *tree, struct round *x)
{
    for (int i = 0; i < tree->children_count; i++)
        tree->children[i].has_come = 0;
    return wait_all(tree, x, levels_of(halay_tree_span(&tree->shape, self_of(tree))));
}

static enum halay_status take_table(struct halay_boot_tree *tree, struct round *x)
{
    x->wants_table = 1;
    x->has_table = parent_of(tree) < 0;
    return wait_all(tree, x, 2 * levels_of(tree->boot->size) + 2);
}

/* ---- up, and down ---- */

/* Into a connection whose other end may be gone: what it has sent before, or its end, is seen when it is read. */
static enum halay_status send_up(struct halay_boot_tree *tree, const struct round *x)
{
    int me = self_of(tree);
    size_t bytes = (size_t)halay_tree_span(&tree->shape, me) * x->bytes;
    char key[HALAY_STORE_KEY_MAX];

    if (parent_of(tree) < 0)
        return HALAY_OK;
    if (tree->parent.fd >= 0) {
        (void)send_to(tree, &tree->parent, x, me, bytes);
        return HALAY_OK;
    }
    key_of(key, 'u', tree, me);
    enum halay_status status = send_by_store(tree, key, x, me, bytes);
    return status == HALAY_OK ? HALAY_OK : fail_silently(tree, status);
}

/* The table, or what went wrong. */
static enum halay_status send_down(struct halay_boot_tree *tree, const struct round *x)
{
    char key[HALAY_STORE_KEY_MAX];
    int by_store = 0;

    for (int i = 0; i < tree->children_count; i++) {
        struct halay_boot_connection *c = &tree->children[i].connection;
        by_store |= c->fd < 0;
        if (c->fd >= 0)
            (void)send_to(tree, c, x, 0, x->table_bytes);
    }
    if (!by_store)
        return HALAY_OK;
    key_of(key, 'd', tree, self_of(tree));
    enum halay_status status = send_by_store(tree, key, x, 0, x->table_bytes);
    return status == HALAY_OK ? HALAY_OK : fail_silently(tree, status);
}

/* So that no rank waits for this one. What does not reach them is no new failure. */
static void spread_failure(struct halay_boot_tree *tree, const struct round *x)
{
    if (tree->shape.size) {
        if (tree->listener.fd >= 0)
            accept_children(tree);
        (void)send_up(tree, x);
        (void)send_down(tree, x);
        withdraw_place(tree, self_of(tree));
    }
    halay_host_ranks_leave(&tree->host);
}

static enum halay_status exchange(struct halay_boot_tree *tree, const unsigned char *secret, struct round *x)
{
    enum halay_status status = tree->has_met ? HALAY_OK : meet(tree, secret, x);

    if (status == HALAY_OK)
        status = gather(tree, x);
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
static enum halay_status run_round(struct halay_boot_tree *tree, const unsigned char *secret, struct round *x,
                                   const void *mine, void *out)
{
    if (tree->failure.status != HALAY_OK)
        return (enum halay_status)tree->failure.status;
    if (x->table_bytes > SIZE_MAX / 2 || !(x->table = malloc(sizeof(struct halay_boot_head) + x->table_bytes))) {
        halay_error(tree->boot->log, "no memory for what %d ranks exchange at the start", tree->boot->size);
        return fail_silently(tree, HALAY_ERR_NO_MEMORY);
    }
    if (mine)
        memcpy(records_of(x, self_of(tree)), mine, size_said(x));
    tree->missing = -1;
    enum halay_status status = exchange(tree, secret, x);
    if (status == HALAY_OK && out)
        memcpy(out, records_of(x, 0), x->table_bytes);
    free(x->table);
    tree->round++;
    return status;
}

enum halay_status halay_boot_tree_allgather(struct halay_boot_tree *tree, const unsigned char *secret, const void *mine,
                                            size_t bytes, void *all, int timeout_ms)
{
    struct round x = { .bytes = bytes, .deadline_us = halay_deadline_us(timeout_ms), .timeout_ms = timeout_ms };

    if (halay_mul_overflows((size_t)tree->boot->size, bytes, &x.table_bytes))
        x.table_bytes = SIZE_MAX;
    return run_round(tree, secret, &x, mine, all);
}

enum halay_status halay_boot_tree_broadcast(struct halay_boot_tree *tree, const unsigned char *secret, void *data,
                                            size_t bytes, int timeout_ms)
{
    struct round x = { .table_bytes = bytes, .deadline_us = halay_deadline_us(timeout_ms), .timeout_ms = timeout_ms };

    return run_round(tree, secret, &x, self_of(tree) ? NULL : data, data);
}

void halay_boot_tree_fini(struct halay_boot_tree *tree)
{
    for (int i = 0; i < tree->children_count; i++)
        halay_boot_connection_close(&tree->children[i].connection);
    if (tree->has_met) {
        halay_boot_socket_close(&tree->listener);
        halay_boot_connection_close(&tree->parent);
    }
    halay_boot_hosts_fini(&tree->hosts);
    free(tree->children);
    free(tree->fds);
    tree->children = NULL;
    tree->fds = NULL;
    tree->children_count = tree->has_met = 0;
    halay_host_ranks_close(&tree->host);
}
