/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap of a rank that is alone: every rank is here already. And what all bootstraps share.
 */
#include "base/memory.h"
#include "collectives/transport/bootstrap/boot.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum halay_status halay_boot_look(struct halay_log *log, struct halay_boot_watch *watch, int missing)
{
    if (!watch)
        return HALAY_OK;
    atomic_store_explicit(&watch->missing, missing, memory_order_relaxed);
    if (!atomic_load_explicit(&watch->is_canceled, memory_order_relaxed))
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_CANCELED, "the program has canceled this rank's start");
}

enum halay_status halay_boot_broadcast(struct halay_boot *boot, void *data, size_t bytes, int timeout_ms)
{
    size_t total;

    if (boot->ops->broadcast) {
        boot->rounds++;
        return boot->ops->broadcast(boot, data, bytes, timeout_ms);
    }
    unsigned char *all = halay_mul_overflows(bytes, (size_t)boot->size, &total) ? NULL : malloc(total);
    if (!all)
        return halay_fail(boot->log, HALAY_ERR_NO_MEMORY, "no memory for what rank 0 sends %d ranks", boot->size);
    enum halay_status status = halay_boot_allgather(boot, data, bytes, all, timeout_ms);
    if (status == HALAY_OK)
        memcpy(data, all, bytes);
    free(all);
    return status;
}

static enum halay_status self_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                        int timeout_ms)
{
    (void)boot, (void)timeout_ms;
    if (all)
        memmove(all, mine, bytes);
    return HALAY_OK;
}

static void self_destroy(struct halay_boot *boot)
{
    free(boot);
}

static const struct halay_boot_ops self_ops = {
    .name = "self",
    .allgather = self_allgather,
    .destroy = self_destroy,
};

enum halay_status halay_boot_self_create(struct halay_log *log, struct halay_boot **out)
{
    struct halay_boot *boot = malloc(sizeof *boot);

    if (!boot)
        return HALAY_ERR_NO_MEMORY;
    *boot = (struct halay_boot){ .ops = &self_ops, .rank = 0, .size = 1, .log = log };
    *out = boot;
    return HALAY_OK;
}
