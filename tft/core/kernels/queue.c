/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/kernels/queue.h"

enum halay_status tft_queue_open(struct halay_log *log, const struct kernels *kernels, const struct queue_needs *needs,
                                 struct queue **queue)
{
    struct queue *opened;
    enum halay_status status = kernels->open(needs, &opened);

    if (status) {
        halay_error(log, "no memory for a queue of device '%s' and its rounded parameters", kernels->name);
        return status;
    }
    status = tft_queue_check(log, opened);
    if (status)
        kernels->close(opened);
    else
        *queue = opened;
    return status;
}

enum halay_status tft_queue_check(struct halay_log *log, struct queue *queue)
{
    struct queue_head *head = (struct queue_head *)(void *)queue;
    const char *failure = head->kernels->failure(queue);
    size_t room, all;

    if (head->warning[0])
        halay_warning(log, "device '%s': %s", head->kernels->name, head->warning);
    head->warning[0] = 0;
    if (!failure)
        return HALAY_OK;
    head->kernels->room(&room, &all);
    if (all)
        halay_error(log, "device '%s' has failed: %s (%zu of %zu MB are free)", head->kernels->name, failure,
                    room >> 20, all >> 20);
    else /* it does not even say that any more */
        halay_error(log, "device '%s' has failed: %s", head->kernels->name, failure);
    return HALAY_ERR_SYSTEM;
}

enum halay_status tft_queue_no_memory(struct halay_log *log, const struct kernels *kernels, const char *what,
                                      size_t bytes)
{
    size_t room, all;

    kernels->room(&room, &all);
    halay_error(log, "no memory on device '%s' for %s: %zu MB, and %zu of %zu MB are free", kernels->name, what,
                bytes >> 20, room >> 20, all >> 20);
    return HALAY_ERR_NO_MEMORY;
}
