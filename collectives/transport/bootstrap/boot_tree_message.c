/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap over a tree: messages, by a connection or by the store.
 */
#include "base/clock.h"
#include "collectives/transport/bootstrap/boot_tree_impl.h"
#include "collectives/transport/bootstrap/table_code.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILURE_SEND_MS = 1000 };

void halay_boot_key(char key[HALAY_STORE_KEY_MAX], char direction, const struct halay_boot_tree *tree, int rank)
{
    snprintf(key, HALAY_STORE_KEY_MAX, "%c/%u/%d", direction, tree->round, rank);
}

static struct halay_boot_head head_of(const struct halay_boot_tree *tree, const struct halay_boot_round *x)
{
    struct halay_boot_head head = { .magic = HALAY_BOOT_MAGIC,
                                    .rank = halay_boot_self(tree),
                                    .bytes = (uint32_t)halay_boot_announced_bytes(x) };

    if (tree->failure.status != HALAY_OK) {
        head = tree->failure;
        head.bytes = (uint32_t)halay_boot_announced_bytes(x);
    }
    return head;
}

void halay_boot_encode(const struct halay_boot_tree *tree, struct halay_boot_round *x, int first, size_t bytes)
{
    if (tree->failure.status == HALAY_OK)
        x->code_bytes = halay_table_encode(halay_boot_records(x, first), bytes, halay_boot_announced_bytes(x), x->code);
}

enum halay_status halay_boot_send(const struct halay_boot_tree *tree, struct halay_boot_connection *to,
                                  const struct halay_boot_round *x)
{
    struct halay_boot_head head = head_of(tree, x);
    int64_t deadline_us = halay_deadline_us(FAILURE_SEND_MS);

    if (head.status == HALAY_OK) {
        deadline_us = x->deadline_us;
        head.code_bytes = (uint32_t)x->code_bytes;
    }
    enum halay_status status = halay_boot_connection_send(to, &head, sizeof head, deadline_us);
    if (status == HALAY_OK && head.code_bytes)
        status = halay_boot_connection_send(to, x->code, x->code_bytes, deadline_us);
    return status;
}

/* The same into the store, where a message about a failure has the room of records, too. */
enum halay_status halay_boot_send_by_store(struct halay_boot_tree *tree, const char *key,
                                           const struct halay_boot_round *x, int first, size_t bytes)
{
    const struct halay_boot_head head = head_of(tree, x);
    unsigned char *message = malloc(sizeof head + bytes);

    if (!message)
        return HALAY_ERR_NO_MEMORY;
    memcpy(message, &head, sizeof head);
    memcpy(message + sizeof head, halay_boot_records(x, first), bytes);
    enum halay_status status = tree->keys.set(tree->keys.arg, key, message, sizeof head + bytes);
    free(message);
    return status;
}

enum halay_status halay_boot_take_head(struct halay_boot_tree *tree, const struct halay_boot_head *head, int from,
                                       const struct halay_boot_round *x)
{
    if (head->magic != HALAY_BOOT_MAGIC)
        return halay_boot_fail(tree, HALAY_ERR_VERSION, from,
                               "rank %d starts as another version of halay than rank %d does: all "
                               "must run the same",
                               from, halay_boot_self(tree));
    if (head->status == HALAY_IN_PROGRESS)
        return HALAY_IN_PROGRESS;
    if (head->status != HALAY_OK)
        return halay_boot_fail_with(tree, head);
    if (!x || head->bytes == halay_boot_announced_bytes(x))
        return HALAY_OK;
    return halay_boot_fail(tree, HALAY_ERR_FORMAT, from,
                           "rank %d exchanges %u bytes at the start where rank %d exchanges %zu; do "
                           "all ranks run the same program?",
                           from, head->bytes, halay_boot_self(tree), halay_boot_announced_bytes(x));
}

/* The message of a key; what precedes the records in the table is overwritten for a moment. HALAY_ERR_TIMEOUT: not
 * there yet. */
enum halay_status halay_boot_receive_by_store(struct halay_boot_tree *tree, const char *key, int from,
                                              const struct halay_boot_round *x, int first, size_t bytes)
{
    struct halay_boot_head head, kept;
    unsigned char *at = halay_boot_records(x, first) - sizeof head;

    memcpy(&kept, at, sizeof kept);
    enum halay_status status = tree->keys.get(tree->keys.arg, key, at, sizeof head + bytes, x->store_ms);
    memcpy(&head, at, sizeof head);
    memcpy(at, &kept, sizeof kept);
    if (status == HALAY_ERR_FORMAT)
        return halay_boot_fail(
            tree, status, from,
            "rank %d exchanges another number of bytes at the start than rank %d, which exchanges %zu; do all "
            "ranks run the same program?",
            from, halay_boot_self(tree), halay_boot_announced_bytes(x));
    if (status != HALAY_OK)
        return status == HALAY_ERR_TIMEOUT ? status : halay_boot_fail_silently(tree, status);
    return halay_boot_take_head(tree, &head, from, x);
}

enum halay_status halay_boot_look_in_store(struct halay_boot_tree *tree, const struct halay_boot_round *x,
                                           int timeout_ms)
{
    struct halay_boot_round slow = *x;
    char key[HALAY_STORE_KEY_MAX];

    slow.store_ms = timeout_ms;
    halay_boot_key(key, 'd', tree, halay_boot_parent(tree));
    (void)halay_boot_receive_by_store(tree, key, halay_boot_parent(tree), &slow, 0, x->table_bytes);
    return (enum halay_status)tree->failure.status;
}

void halay_boot_withdraw(struct halay_boot_tree *tree, int rank)
{
    struct halay_boot_endpoint endpoint = { .head = tree->failure };
    char key[HALAY_STORE_KEY_MAX];

    if (!tree->host.shared || tree->shape.size <= tree->shape.block || rank % tree->shape.block)
        return;
    snprintf(key, sizeof key, "a/%d", rank);
    (void)tree->keys.set(tree->keys.arg, key, &endpoint, sizeof endpoint);
}

/* A parent is gone, and may have put into the store why; if it has not, this rank does so in its place, for those that
 * the store reaches. */
enum halay_status halay_boot_fail_orphaned(struct halay_boot_tree *tree, const struct halay_boot_round *x)
{
    int parent = halay_boot_parent(tree);
    char key[HALAY_STORE_KEY_MAX];

    if (halay_boot_look_in_store(tree, x, HALAY_BOOT_SLICE_MS) != HALAY_OK)
        return (enum halay_status)tree->failure.status;
    enum halay_status status = halay_boot_fail_ended(tree, parent);
    halay_boot_key(key, 'u', tree, parent);
    if (parent > 0)
        (void)halay_boot_send_by_store(tree, key, x, parent, (size_t)halay_tree_span(&tree->shape, parent) * x->bytes);
    halay_boot_key(key, 'd', tree, parent);
    (void)halay_boot_send_by_store(tree, key, x, 0, x->table_bytes);
    halay_boot_withdraw(tree, parent);
    return status;
}

enum halay_status halay_boot_receive(struct halay_boot_tree *tree, struct halay_boot_connection *c, int from,
                                     struct halay_boot_round *x, int first, size_t bytes, int *waits_for)
{
    struct halay_boot_head head;

    enum halay_status status = halay_boot_connection_receive(c, &head, sizeof head, x->deadline_us);
    if (status == HALAY_OK && (status = halay_boot_take_head(tree, &head, from, x)) != HALAY_OK) {
        *waits_for = head.rank;
        return status;
    }
    if (status == HALAY_OK && head.code_bytes <= halay_table_most(bytes)) {
        x->code_bytes = head.code_bytes;
        if (x->code_bytes)
            status = halay_boot_connection_receive(c, x->code, x->code_bytes, x->deadline_us);
    }
    if (status == HALAY_OK && (head.code_bytes > halay_table_most(bytes) ||
                               !halay_table_decode(x->code, x->code_bytes, halay_boot_records(x, first), bytes,
                                                   halay_boot_announced_bytes(x))))
        return halay_boot_fail(tree, HALAY_ERR_FORMAT, from,
                               "what rank %d has sent rank %d for the start is no table of records", from,
                               halay_boot_self(tree));
    if (status == HALAY_OK)
        return HALAY_OK;
    if (status == HALAY_ERR_AUTH)
        return halay_boot_fail(tree, status, from, "what rank %d has sent rank %d for the start was changed on its way",
                               from, halay_boot_self(tree));
    if (status == HALAY_ERR_TIMEOUT)
        return halay_boot_fail_late(tree, from, x->timeout_ms);
    /* A parent that failed before it had accepted this connection has said so in the store only. */
    return from == halay_boot_parent(tree) ? halay_boot_fail_orphaned(tree, x) : halay_boot_fail_ended(tree, from);
}
