/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap over a tree: failures, and what is looked at while a rank is missing.
 */
#include "base/clock.h"
#include "base/number_text.h"
#include "collectives/transport/bootstrap/boot_tree_impl.h"
#include <stdarg.h>
#include <stdio.h>

enum halay_status halay_boot_fail_with(struct halay_boot_tree *tree, const struct halay_boot_head *head)
{
    if (tree->failure.status == HALAY_OK) {
        tree->failure = *head;
        tree->failure.reason[HALAY_BOOT_REASON_BYTES - 1] = 0;
        if (tree->failure.reason[0])
            halay_error(tree->boot->log, "%s", tree->failure.reason);
    }
    return (enum halay_status)tree->failure.status;
}

__attribute__((format(printf, 4, 5))) enum halay_status
halay_boot_fail(struct halay_boot_tree *tree, enum halay_status status, int rank, const char *format, ...)
{
    struct halay_boot_head head = { .magic = HALAY_BOOT_MAGIC, .status = (int32_t)status, .rank = rank };
    va_list args;

    va_start(args, format);
    halay_vsnprintf(head.reason, sizeof head.reason, format, args);
    va_end(args);
    return halay_boot_fail_with(tree, &head);
}

enum halay_status halay_boot_fail_silently(struct halay_boot_tree *tree, enum halay_status status)
{
    struct halay_boot_head head = { .magic = HALAY_BOOT_MAGIC,
                                    .status = (int32_t)status,
                                    .rank = halay_boot_self(tree) };

    if (tree->failure.status != HALAY_OK)
        return (enum halay_status)tree->failure.status;
    tree->failure = head;
    snprintf(tree->failure.reason, sizeof tree->failure.reason, "rank %d cannot go on with the start: %s",
             halay_boot_self(tree), halay_status_string(status));
    return status;
}

enum halay_status halay_boot_fail_ended(struct halay_boot_tree *tree, int rank)
{
    return halay_boot_fail(tree, HALAY_ERR_PEER, rank, "rank %d has ended during the start", rank);
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

enum halay_status halay_boot_fail_late(struct halay_boot_tree *tree, int rank, int timeout_ms)
{
    char host[128] = "";

    if (tree->failure.status == HALAY_OK && tree->shape.size > tree->shape.block)
        describe_host(tree, rank, host, sizeof host);
    return halay_boot_fail(tree, HALAY_ERR_TIMEOUT, rank, "rank %d has not come within %g s (HALAY_START_TIMEOUT)%s%s",
                           rank, timeout_ms / 1000.0, tree->missing_text, host);
}

enum halay_status halay_boot_tree_look(struct halay_boot_tree *tree)
{
    enum halay_status status = halay_boot_look(tree->boot->log, tree->boot->watch, tree->missing);

    if (status != HALAY_OK)
        return halay_boot_fail_silently(tree, status);
    if (!tree->keys.is_over || !tree->keys.is_over(tree->keys.arg))
        return HALAY_OK;
    halay_info(tree->boot->log, "a rank was lost before all had come");
    return halay_boot_fail_silently(tree, HALAY_ERR_PEER);
}

enum halay_status halay_boot_tree_set(struct halay_boot_tree *tree, const char *key, const void *value, size_t bytes)
{
    enum halay_status status = tree->keys.set(tree->keys.arg, key, value, bytes);

    return status == HALAY_OK ? HALAY_OK : halay_boot_fail_silently(tree, status);
}

enum halay_status halay_boot_tree_get(struct halay_boot_tree *tree, int rank, const char *key, void *value,
                                      size_t bytes, int64_t deadline_us)
{
    tree->missing = rank;
    for (;;) {
        int left_ms = halay_deadline_left_ms(deadline_us);
        int is_last = left_ms >= 0 && left_ms <= HALAY_BOOT_SLICE_MS;
        enum halay_status status =
            tree->keys.get(tree->keys.arg, key, value, bytes, is_last ? left_ms : HALAY_BOOT_SLICE_MS);
        if (status == HALAY_OK || (status == HALAY_ERR_TIMEOUT && halay_deadline_passed(deadline_us)))
            return status;
        if (status != HALAY_ERR_TIMEOUT)
            return halay_boot_fail_silently(tree, status);
        if ((status = halay_boot_tree_look(tree)) != HALAY_OK)
            return status;
    }
}
