/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap over a tree: the first time, when ranks connect.
 */
#include "base/clock.h"
#include "base/machine/descriptors.h"
#include "collectives/transport/bootstrap/boot_tree_impl.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define A_GUESS (UINT32_C(1) << 31) /* in the key of the block: it is no host's number of ranks */

/* ---- connections ---- */

/* Writes the name from which those of this parent's sockets are derived. */
static void name_parent(const struct halay_boot_tree *tree, int parent, char *name, size_t size)
{
    snprintf(name, size, "%s %d", tree->name, parent);
}

static enum halay_status open_listener(struct halay_boot_tree *tree, const unsigned char *secret)
{
    char name[HALAY_STORE_KEY_MAX + 16];

    name_parent(tree, halay_boot_self(tree), name, sizeof name);
    if (halay_boot_socket_listen(&tree->listener, secret, name))
        return HALAY_OK;
    return halay_boot_fail(tree, HALAY_ERR_SYSTEM, halay_boot_self(tree),
                           "rank %d cannot open a local socket for the start: %s", halay_boot_self(tree),
                           strerror(errno));
}

static enum halay_status open_hosts(struct halay_boot_tree *tree, const unsigned char *secret)
{
    enum halay_status status =
        halay_boot_hosts_open(&tree->hosts, tree->boot, secret, tree->name, tree->network.interface);

    return status == HALAY_OK ? HALAY_OK : halay_boot_fail_silently(tree, status);
}

static struct halay_boot_child *child_of(const struct halay_boot_tree *tree, int rank)
{
    for (int i = 0; i < tree->children_count; i++)
        if (tree->children[i].rank == rank)
            return &tree->children[i];
    return NULL;
}

static int has_remote_child(const struct halay_boot_tree *tree)
{
    return tree->children_count && halay_boot_is_remote(tree, tree->children[tree->children_count - 1].rank);
}

static int expects_rank(void *arg, int rank)
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

    tree->hosts.expects = expects_rank;
    tree->hosts.taken = take_connection;
    tree->hosts.arg = tree;
    if (status == HALAY_OK && !boot->port.is_open)
        status = halay_tcp_open_port(boot->log, &tree->network, &boot->port);
    if (status == HALAY_OK)
        status = halay_boot_hosts_accept(&tree->hosts, boot->port.fd, timeout_ms);
    return status == HALAY_OK ? HALAY_OK : halay_boot_fail_silently(tree, status);
}

static enum halay_status list_children(struct halay_boot_tree *tree)
{
    const struct halay_tree *shape = &tree->shape;
    int me = halay_boot_self(tree), count = 0;
    char what[64];

    for (int c = halay_tree_next_child(shape, me, me); c >= 0; c = halay_tree_next_child(shape, me, c))
        count++;
    tree->children = calloc((size_t)count + 1, sizeof *tree->children);
    tree->fds = calloc(HALAY_BOOT_FDS + (size_t)count, sizeof *tree->fds);
    if (!tree->children || !tree->fds)
        return halay_boot_fail(tree, HALAY_ERR_NO_MEMORY, me, "rank %d has no memory for the start", me);
    for (int c = halay_tree_next_child(shape, me, me); c >= 0; c = halay_tree_next_child(shape, me, c))
        tree->children[tree->children_count++] = (struct halay_boot_child){
            .rank = c, .span = halay_tree_span(shape, c), .connection.fd = -1, .waits_for = c
        };
    snprintf(what, sizeof what, "connections with %d ranks for the start", count);
    enum halay_status status = halay_descriptors_allow(tree->boot->log, (size_t)count + 8, what);
    return status == HALAY_OK ? HALAY_OK : halay_boot_fail_silently(tree, status);
}

/* Returns nonzero if connected; errno has the reason if not. */
static int try_parent(struct halay_boot_tree *tree, const unsigned char *secret)
{
    char name[HALAY_STORE_KEY_MAX + 16];

    name_parent(tree, halay_boot_parent(tree), name, sizeof name);
    tree->parent.fd = halay_boot_socket_connect(secret, name, halay_boot_self(tree));
    return tree->parent.fd >= 0;
}

/* A parent of this host: it accepts sooner or later, or is gone. */
static enum halay_status find_local_parent(struct halay_boot_tree *tree, const unsigned char *secret,
                                           const struct halay_boot_round *x)
{
    int parent = halay_boot_parent(tree);
    enum halay_status status = HALAY_OK;
    uint32_t seen;

    tree->missing = parent;
    while (status == HALAY_OK) {
        enum halay_host_rank_state state = halay_host_ranks_look(&tree->host, parent, &seen);
        if (state == HALAY_HOST_RANK_ELSEWHERE || (state == HALAY_HOST_RANK_ACCEPTS && try_parent(tree, secret)))
            return HALAY_OK;
        if (state == HALAY_HOST_RANK_GONE || (state == HALAY_HOST_RANK_ACCEPTS && errno != EAGAIN))
            return halay_boot_fail_orphaned(tree, x);
        if (halay_deadline_passed(x->deadline_us))
            return halay_boot_fail_late(tree, parent, x->timeout_ms);
        /* Nothing reports room in a listener's queue. */
        halay_host_ranks_wait(&tree->host, parent, seen, state == HALAY_HOST_RANK_ACCEPTS ? 1 : HALAY_BOOT_SLICE_MS);
        status = halay_boot_tree_look(tree);
    }
    return status;
}

/* The parent of another host: by its addresses, unless it has put into the store why it has failed. */
static enum halay_status connect_remote_parent(struct halay_boot_tree *tree, const struct halay_boot_round *x,
                                               const struct halay_boot_endpoint *endpoint)
{
    int parent = halay_boot_parent(tree);
    char why[HALAY_BOOT_REASON_BYTES] = "no memory";

    enum halay_status status = halay_boot_hosts_dial(&tree->hosts, endpoint->addresses, parent, x->deadline_us);
    while (status == HALAY_OK && (status = halay_boot_hosts_look(&tree->hosts, HALAY_BOOT_SLICE_MS, &tree->parent, why,
                                                                 sizeof why)) == HALAY_IN_PROGRESS)
        if ((status = halay_boot_tree_look(tree)) == HALAY_OK)
            status = halay_boot_look_in_store(tree, x, HALAY_BOOT_POLL_MS);
    if (status == HALAY_OK || tree->failure.status != HALAY_OK ||
        halay_boot_look_in_store(tree, x, HALAY_BOOT_SLICE_MS) != HALAY_OK)
        return status == HALAY_OK ? HALAY_OK : (enum halay_status)tree->failure.status;
    return halay_boot_fail(tree, status, parent,
                           "rank %d cannot reach rank %d, the first of its host, for the start: %s",
                           halay_boot_self(tree), parent, why);
}

static enum halay_status find_remote_parent(struct halay_boot_tree *tree, const unsigned char *secret,
                                            const struct halay_boot_round *x)
{
    int parent = halay_boot_parent(tree);
    struct halay_boot_endpoint endpoint;
    char key[HALAY_STORE_KEY_MAX];

    snprintf(key, sizeof key, "a/%d", parent);
    enum halay_status status = halay_boot_tree_get(tree, parent, key, &endpoint, sizeof endpoint, x->deadline_us);
    if (status == HALAY_ERR_TIMEOUT && tree->failure.status == HALAY_OK)
        return halay_boot_fail_late(tree, parent, x->timeout_ms);
    if (status == HALAY_OK)
        status = halay_boot_take_head(tree, &endpoint.head, parent, NULL);
    if (status == HALAY_OK)
        status = open_hosts(tree, secret);
    return status == HALAY_OK ? connect_remote_parent(tree, x, &endpoint) : status;
}

static enum halay_status find_parent(struct halay_boot_tree *tree, const unsigned char *secret,
                                     const struct halay_boot_round *x)
{
    int parent = halay_boot_parent(tree);
    char key[HALAY_STORE_KEY_MAX], listens;
    enum halay_status status = HALAY_OK;

    if (halay_boot_is_remote(tree, parent))
        return find_remote_parent(tree, secret, x);
    if (halay_host_ranks_has(&tree->host, parent))
        return find_local_parent(tree, secret, x);
    if (parent < 0 || try_parent(tree, secret))
        return HALAY_OK;
    snprintf(key, sizeof key, "l/%d", parent);
    if (parent > 0)
        status = halay_boot_tree_get(tree, parent, key, &listens, 1, x->deadline_us);
    if (status == HALAY_ERR_TIMEOUT && tree->failure.status == HALAY_OK)
        return halay_boot_fail_late(tree, parent, x->timeout_ms);
    /* Nothing reports room in a listener's queue. */
    while (status == HALAY_OK && !try_parent(tree, secret) && errno == EAGAIN) {
        poll(NULL, 0, 1);
        status = halay_deadline_passed(x->deadline_us) ? halay_boot_fail_late(tree, parent, x->timeout_ms)
                                                       : halay_boot_tree_look(tree);
    }
    return status;
}

/* ---- the first round ---- */

/* The block's ranks, which rank 0 sets later unless the launcher has told all. */
static enum halay_status find_block(struct halay_boot_tree *tree, const struct halay_boot_round *x)
{
    uint32_t block = tree->block > 0 ? (uint32_t)tree->block : HALAY_TREE_DEGREE | A_GUESS;

    if (tree->host.shared) {
        block = (uint32_t)tree->host.block;
    } else if (halay_boot_self(tree) != 0) {
        enum halay_status status = halay_boot_tree_get(tree, 0, "b", &block, sizeof block, x->deadline_us);
        if (status != HALAY_OK)
            return tree->failure.status == HALAY_OK ? halay_boot_fail_late(tree, 0, x->timeout_ms) : status;
    }
    tree->has_hosts = !(block & A_GUESS);
    block &= ~A_GUESS;
    tree->shape = (struct halay_tree){ .degree = HALAY_TREE_DEGREE,
                                       .size = tree->boot->size,
                                       .block = block > 0 && block < INT32_MAX ? (int)block : 1 };
    return HALAY_OK;
}

/* The addresses of this host's port, to the first ranks that are its children. */
static enum halay_status announce_endpoint(struct halay_boot_tree *tree)
{
    struct halay_boot_endpoint endpoint = { .head = { .magic = HALAY_BOOT_MAGIC, .rank = halay_boot_self(tree) } };
    char key[HALAY_STORE_KEY_MAX];

    memcpy(endpoint.addresses, tree->boot->port.addresses, sizeof endpoint.addresses);
    snprintf(key, sizeof key, "a/%d", halay_boot_self(tree));
    return halay_boot_tree_set(tree, key, &endpoint, sizeof endpoint);
}

/* That this parent listens, to the children that look there. Rank 0 says so with the block. */
static enum halay_status announce_listener(struct halay_boot_tree *tree)
{
    uint32_t block = (uint32_t)tree->shape.block | (tree->has_hosts ? 0 : A_GUESS);
    char key[HALAY_STORE_KEY_MAX];

    if (tree->host.shared) {
        halay_host_ranks_accept(&tree->host);
        return tree->hosts.accepts ? announce_endpoint(tree) : HALAY_OK;
    }
    if (halay_boot_self(tree) == 0)
        return halay_boot_tree_set(tree, "b", &block, sizeof block);
    snprintf(key, sizeof key, "l/%d", halay_boot_self(tree));
    return halay_boot_tree_set(tree, key, "", 1);
}

enum halay_status halay_boot_tree_connect(struct halay_boot_tree *tree, const unsigned char *secret,
                                          const struct halay_boot_round *x)
{
    tree->is_connected = 1;
    tree->listener.fd = tree->parent.fd = -1;
    enum halay_status status = find_block(tree, x);
    if (status != HALAY_OK)
        return status;
    tree->parent_waits_for = halay_boot_parent(tree);
    status = list_children(tree);
    if (status == HALAY_OK && tree->children_count)
        status = open_listener(tree, secret);
    if (status == HALAY_OK && has_remote_child(tree))
        status = accept_hosts(tree, secret, x->timeout_ms);
    if (status == HALAY_OK && tree->children_count)
        status = announce_listener(tree);
    return status == HALAY_OK ? find_parent(tree, secret, x) : status;
}

void halay_boot_accept_children(struct halay_boot_tree *tree)
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
