/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatch: sends the chosen tensors as BUCKETs, the higher priority first.
 */
#include "base/memory.h"
#include "fusion/coordinator/coordinator_state.h"
#include <stdlib.h>

enum halay_status halay_coordinator_choose(struct halay_coordinator *c, struct halay_tensor_entry *entry)
{
    halay_coordinator_note(c);
    entry->bucket_number = ++c->buckets_chosen;
    return halay_tensor_entry_push(&c->chosen, entry);
}

size_t halay_coordinator_add_range(struct halay_coordinator *c, size_t ranges, uint32_t id)
{
    struct halay_id_range *last = ranges ? &c->ranges[ranges - 1] : NULL;

    if (last && id == last->first + last->count)
        last->count++;
    else
        c->ranges[ranges++] = (struct halay_id_range){ id, 1 };
    return ranges;
}

static void capture_bucket(struct halay_coordinator *c, struct halay_tensor_entry *const *entries, size_t count)
{
    int can_replay = !entries[0]->absent && !entries[0]->has_parts && halay_signature_can_replay(&entries[0]->agreed);

    halay_capture_add(&c->replay.capture, entries, count, can_replay);
}

static enum halay_status emit_bucket(struct halay_coordinator *c, struct halay_tensor_entry **entries, size_t count)
{
    int absent = entries[0]->absent, has_parts = entries[0]->has_parts;
    size_t ranges = 0;

    while (c->range_capacity < count)
        if (halay_list_grow(&c->ranges, c->range_capacity, &c->range_capacity, sizeof *c->ranges) != HALAY_OK)
            return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        ranges = halay_coordinator_add_range(c, ranges, entries[i]->id);
    capture_bucket(c, entries, count);
    for (size_t i = 0; i < count; i++)
        halay_coordinator_reset_entry(c, entries[i]);
    return halay_coordinator_emit(c, -1,
                                  &(struct halay_item){ .kind = HALAY_ITEM_BUCKET,
                                                        .absent = absent,
                                                        .has_parts = has_parts,
                                                        .ranges = c->ranges,
                                                        .range_count = ranges });
}

static int compare_chosen(const void *a, const void *b)
{
    const struct halay_tensor_entry *x = *(struct halay_tensor_entry *const *)a,
                                    *y = *(struct halay_tensor_entry *const *)b;

    if (x->agreed.priority != y->agreed.priority)
        return x->agreed.priority > y->agreed.priority ? -1 : 1;
    if (x->bucket_number != y->bucket_number)
        return x->bucket_number < y->bucket_number ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

/* Sorts by bucket: the higher priority first, otherwise as chosen. A bucket has one priority, a part of its kind. */
static void sort_chosen(struct halay_tensor_entry_vector *v)
{
    int is_sorted = 1;

    for (size_t i = 0; i < v->count; i++) {
        v->entries[i]->position = i;
        is_sorted &= i == 0 || compare_chosen(&v->entries[i - 1], &v->entries[i]) < 0;
    }
    if (!is_sorted)
        qsort(v->entries, v->count, sizeof *v->entries, compare_chosen);
}

enum halay_status halay_coordinator_dispatch(struct halay_coordinator *c)
{
    enum halay_status status = HALAY_OK;

    sort_chosen(&c->chosen);
    for (size_t i = 0, end; i < c->chosen.count && status == HALAY_OK; i = end) {
        const struct halay_tensor_entry *first = c->chosen.entries[i];
        for (end = i; end < c->chosen.count && c->chosen.entries[end]->bucket_number == first->bucket_number &&
                      c->chosen.entries[end]->absent == first->absent &&
                      c->chosen.entries[end]->has_parts == first->has_parts;)
            end++;
        status = emit_bucket(c, c->chosen.entries + i, end - i);
    }
    c->chosen.count = 0;
    return status;
}
