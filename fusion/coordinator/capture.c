/* SPDX-License-Identifier: Apache-2.0
 *
 * Capture: a turn ends when one of its tensors is dispatched again. Three equal turns in succession make a plan, which
 * repeats the buckets of the last one. Each tensor has the number of its last turn, so a bucket takes a few operations
 * for each of its tensors. A tensor that was agreed on anew, perhaps with other rows, makes its turn unequal.
 *
 * A program whose turns differ after all leaves the plan. If it leaves within PLAN_TURNS turns, the next plan waits for
 * PAUSE_TURNS more turns, twice as many each time.
 */
#include "fusion/coordinator/capture.h"
#include "base/memory.h"
#include "fusion/coordinator/tensor_entry.h"
#include <stdlib.h>

enum { EQUAL_TURNS = 3, PLAN_TURNS = 20, PAUSE_TURNS = 4, PAUSE_MAX = 4096 };

static void turn_begin(struct halay_capture *c)
{
    c->equal = c->is_whole ? c->equal + 1 : 0;
    c->rest -= c->rest > 0;
    c->before = c->count;
    c->count = c->buckets = c->matched = 0;
    c->is_whole = 0;
    c->turn++;
}

void halay_capture_reset(struct halay_capture *c)
{
    c->count = c->buckets = c->matched = c->before = 0;
    c->equal = c->is_whole = 0;
    c->turn += 2; /* no tensor is in this turn, or in the one before */
}

static int capture_reserve(struct halay_capture *c, size_t count)
{
    while (c->id_capacity < c->count + count)
        if (halay_list_grow(&c->ids, c->id_capacity, &c->id_capacity, sizeof *c->ids) != HALAY_OK)
            return 0;
    return c->buckets < c->bucket_capacity ||
           halay_list_grow(&c->ends, c->bucket_capacity, &c->bucket_capacity, sizeof *c->ends) == HALAY_OK;
}

void halay_capture_add(struct halay_capture *c, struct halay_tensor_entry *const *entries, size_t count, int can_replay)
{
    for (size_t i = 0; i < count; i++)
        if (entries[i]->turn == c->turn) {
            turn_begin(c);
            break;
        }
    if (!can_replay || !capture_reserve(c, count)) {
        halay_capture_reset(c);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        c->matched += !entries[i]->is_new && entries[i]->turn + 1 == c->turn;
        entries[i]->is_new = 0;
        entries[i]->turn = c->turn;
        c->ids[c->count++] = entries[i]->id;
    }
    c->ends[c->buckets++] = c->count;
    c->is_whole = c->count == c->before && c->matched == c->count;
}

int halay_capture_is_due(const struct halay_capture *c)
{
    return c->is_whole && c->equal + 2 >= EQUAL_TURNS && !c->rest;
}

int halay_capture_has(const struct halay_capture *c, const struct halay_tensor_entry *entry)
{
    return entry->turn == c->turn;
}

void halay_capture_left(struct halay_capture *c, uint64_t turns)
{
    if (turns >= PLAN_TURNS)
        c->pause = 0;
    else if (c->pause < PAUSE_MAX)
        c->pause = c->pause ? 2 * c->pause : PAUSE_TURNS;
    c->rest = c->pause;
    halay_capture_reset(c);
}

void halay_capture_fini(struct halay_capture *c)
{
    free(c->ids);
    free(c->ends);
    *c = (struct halay_capture){ 0 };
}
