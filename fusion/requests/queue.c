/* SPDX-License-Identifier: Apache-2.0
 *
 * Queue: events grow at the end; the driver takes them all at once.
 */
#include "fusion/requests/queue.h"
#include <stdint.h>
#include <stdlib.h>

enum halay_status halay_queue_reserve_locked(struct halay_queue *queue, size_t count)
{
    struct halay_events *q = &queue->submitted;
    size_t capacity = q->capacity ? q->capacity : 256;

    if (q->capacity - q->count >= count)
        return HALAY_OK;
    while (capacity - q->count < count) {
        if (capacity > SIZE_MAX / 2 / sizeof *q->events)
            return HALAY_ERR_NO_MEMORY;
        capacity *= 2;
    }
    struct halay_event *grown = realloc(q->events, capacity * sizeof *grown);
    if (!grown)
        return HALAY_ERR_NO_MEMORY;
    q->events = grown;
    q->capacity = capacity;
    return HALAY_OK;
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
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct halay_event *grown = realloc(list->events, capacity * sizeof *grown);
        if (!grown)
            return HALAY_ERR_NO_MEMORY;
        list->events = grown;
        list->capacity = capacity;
    }
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
