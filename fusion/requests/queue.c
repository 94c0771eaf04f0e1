/* SPDX-License-Identifier: Apache-2.0
 *
 * Queue: events grow at the end; the driver takes them all at once.
 */
#include "fusion/requests/queue.h"
#include "base/memory.h"
#include <stdlib.h>

enum halay_status halay_queue_reserve_locked(struct halay_queue *queue, size_t count)
{
    struct halay_events *q = &queue->submitted;
    size_t wanted;

    if (halay_add_overflows(q->count, count, &wanted))
        return HALAY_ERR_NO_MEMORY;
    if (wanted > q->capacity && wanted < 2 * q->capacity)
        wanted = 2 * q->capacity;
    return halay_list_reserve(&q->events, wanted, &q->capacity, sizeof *q->events);
}

enum halay_status halay_queue_push_locked(struct halay_queue *queue, const struct halay_event *event)
{
    struct halay_events *q = &queue->submitted;

    if (halay_queue_reserve_locked(queue, 1) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    q->events[q->count++] = *event;
    /* Relaxed: the driver takes the lock to read the events; this flag only wakes it. */
    atomic_store_explicit(&queue->has_events, 1, memory_order_relaxed);
    return HALAY_OK;
}

enum halay_status halay_events_append(struct halay_events *list, const struct halay_event *e)
{
    if (halay_list_grow(&list->events, list->count, &list->capacity, sizeof *list->events) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    list->events[list->count++] = *e;
    return HALAY_OK;
}

void halay_queue_clear(struct halay_queue *queue)
{
    struct halay_events *lists[] = { &queue->submitted, &queue->batch, &queue->changes, &queue->resubmitted };

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        free(lists[i]->events);
        *lists[i] = (struct halay_events){ 0 };
    }
    queue->failed = HALAY_OK;
}
