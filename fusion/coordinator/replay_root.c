/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay, the coordinator's side: one state, and the answers of the ranks in it.
 *
 *     negotiates --PLAN--> planned --BREAK--> broken --all have answered PLAN: FREEZE--> freezing
 *         ^                                                                                 | all ENTERED: COMPLETE
 *         '------------------------------- all SETTLED: RESUME ------------------------- settling
 *
 * ENTERED and SETTLED of several ranks may come as one (fusion/replay/branch.h).
 */
#include "fusion/coordinator/coordinator_state.h"
#include "fusion/protocol/replay.h"
#include "fusion/protocol/signature.h"

/* ---- the start ---- */

/* Returns nonzero if all that ranks have sent in this set concerns tensors of the plan, as agreed. */
static int has_only_planned(const struct halay_coordinator *c)
{
    for (const struct halay_tensor_entry *entry = c->waiting.first; entry; entry = entry->next)
        if (!halay_capture_has(&c->replay.capture, entry) || entry->different || entry->is_change || entry->is_join)
            return 0;
    return 1;
}

/* Returns nonzero if a rank of the set has joined, or has left. */
static int lacks_ranks(const struct halay_coordinator *c)
{
    for (int r = 0; r < c->options.size; r++)
        if (halay_coordinator_has_joined(c, r) || halay_coordinator_has_left(c, r))
            return 1;
    return 0;
}

static int may_start(const struct halay_coordinator *c)
{
    return c->replay.state == HALAY_ROOT_NEGOTIATES && halay_capture_is_due(&c->replay.capture) &&
           c->options.size > 1 && !lacks_ranks(c) && !c->withdrawals && !c->ids_forgetting && !c->fresh.count &&
           !c->runnable.count && !c->chosen.count && !c->join && has_only_planned(c);
}

/* Returns nonzero if no tensor of the bucket makes all ranks wait for each other. */
static int has_vote(const struct halay_coordinator *c, const uint32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct halay_tensor_entry *entry = c->by_id[ids[i]];
        if (halay_signature_needs_all(&entry->agreed, entry->payload.at, c->options.size))
            return 0;
    }
    return 1;
}

/* Emits a bucket of the plan in the order of dispatch: the bits of a sum may depend on it. */
static enum halay_status emit_planned(struct halay_coordinator *c, const uint32_t *ids, size_t count)
{
    size_t ranges = 0;

    for (size_t i = 0; i < count; i++) /* there is room: it was dispatched like this */
        ranges = halay_coordinator_add_range(c, ranges, ids[i]);
    return halay_coordinator_emit(c, -1,
                                  &(struct halay_item){ .kind = HALAY_ITEM_PLANNED,
                                                        .has_vote = has_vote(c, ids, count),
                                                        .ranges = c->ranges,
                                                        .range_count = ranges });
}

/* Forgets the arrivals: from now on each rank counts its own submissions. */
static void forget_arrivals(struct halay_coordinator *c)
{
    for (struct halay_tensor_entry *entry = c->waiting.first, *next; entry; entry = next) {
        next = entry->next;
        halay_coordinator_reset_entry(c, entry);
    }
}

enum halay_status halay_replay_root_start(struct halay_coordinator *c, int *emitted)
{
    struct halay_replay_root *r = &c->replay;
    enum halay_status status = HALAY_OK;

    if (!c->options.replay || !may_start(c))
        return HALAY_OK;
    *emitted = 1;
    r->state = HALAY_ROOT_PLANNED;
    r->epoch++;
    r->planned = 0;
    for (size_t b = 0, from = 0; b < r->capture.buckets && status == HALAY_OK; from = r->capture.ends[b++])
        status = emit_planned(c, r->capture.ids + from, r->capture.ends[b] - from);
    if (status == HALAY_OK)
        status = halay_coordinator_emit(c, -1, &(struct halay_item){ .kind = HALAY_ITEM_PLAN, .epoch = r->epoch });
    forget_arrivals(c);
    return status;
}

/* ---- the end ---- */

int halay_replay_root_ignores(const struct halay_coordinator *c, enum halay_item_kind kind)
{
    if (c->replay.state == HALAY_ROOT_NEGOTIATES)
        return 0;
    return kind == HALAY_ITEM_READY || kind == HALAY_ITEM_ANNOUNCE || kind == HALAY_ITEM_WITHDRAW ||
           kind == HALAY_ITEM_FLUSH;
}

static enum halay_status emit_numbers(struct halay_coordinator *c, enum halay_item_kind kind, size_t count)
{
    const struct halay_replay_root *r = &c->replay;

    return halay_coordinator_emit(
        c, -1,
        &(struct halay_item){ .kind = kind, .epoch = r->epoch, .payload = r->answers.numbers, .payload_count = count });
}

/* Freezes the plan once a rank has to leave it, and nothing that was sent before PLAN is in flight. */
static enum halay_status freeze_plan(struct halay_coordinator *c)
{
    if (c->replay.state != HALAY_ROOT_BROKEN || c->replay.planned < c->options.size)
        return HALAY_OK;
    c->replay.state = HALAY_ROOT_FREEZING;
    c->replay.answers.ranks = 0;
    return halay_coordinator_emit(c, -1, &(struct halay_item){ .kind = HALAY_ITEM_FREEZE, .epoch = c->replay.epoch });
}

/* Returns the number of turns of the plan, by the numbers of ENTERED. */
static uint64_t count_turns(const struct halay_replay_root *r)
{
    const uint64_t *numbers = r->answers.numbers;
    uint64_t first = numbers[0];

    for (size_t i = 1; i < HALAY_CHANNELS; i++)
        first = numbers[i] < first ? numbers[i] : first;
    return (first - numbers[HALAY_ENTERED_BASE]) / r->capture.buckets;
}

/* Raises the number, so that two groups that share a rank never have the same one. */
static void raise_number(struct halay_coordinator *c)
{
    uint64_t *last = &halay_coordinator_parent(c)->last_number,
             *number = &c->replay.answers.numbers[HALAY_EPOCH_NUMBER];

    if (*number <= *last)
        *number = *last + 1;
    *last = *number;
}

/* Takes ENTERED or SETTLED. */
static enum halay_status take_answer(struct halay_coordinator *c, const struct halay_item *item)
{
    struct halay_replay_root *r = &c->replay;
    int is_entered = item->kind == HALAY_ITEM_ENTERED;

    if (r->state != (is_entered ? HALAY_ROOT_FREEZING : HALAY_ROOT_SETTLING))
        return HALAY_ERR_FORMAT;
    enum halay_status status = halay_answers_add(&r->answers, item, c->options.size);
    if (status != HALAY_OK || r->answers.ranks < c->options.size)
        return status;
    r->answers.ranks = 0;
    if (is_entered) {
        r->state = HALAY_ROOT_SETTLING;
        halay_capture_left(&r->capture, count_turns(r));
        return emit_numbers(c, HALAY_ITEM_COMPLETE, HALAY_ENTERED_NUMBERS);
    }
    r->state = HALAY_ROOT_NEGOTIATES;
    raise_number(c);
    return emit_numbers(c, HALAY_ITEM_RESUME, HALAY_EPOCH_VALUES);
}

static enum halay_status take_break(struct halay_coordinator *c, const struct halay_item *item)
{
    static const char *const reasons[HALAY_BREAK_REASONS] = {
        [HALAY_BREAK_OTHER] = "its program submits another tensor",
        [HALAY_BREAK_CHANGE] = "it joins, changes process sets or leaves",
        [HALAY_BREAK_TAKEN] = "a submission is canceled, or has timed out",
        [HALAY_BREAK_WAITS] = "its program waits, and has not submitted all of a bucket",
        [HALAY_BREAK_SLOW] = "a bucket takes long",
    };

    if (item->reason >= HALAY_BREAK_REASONS)
        return HALAY_ERR_FORMAT;
    if (c->replay.state != HALAY_ROOT_PLANNED)
        return HALAY_OK;
    halay_debug(c->options.log, "process set %d: plan %u ends because of rank %d: %s", c->options.number, item->epoch,
                item->rank, reasons[item->reason]);
    c->replay.state = HALAY_ROOT_BROKEN;
    return freeze_plan(c);
}

/* Takes an answer to PLAN. */
static enum halay_status take_planned(struct halay_coordinator *c)
{
    if (c->replay.state > HALAY_ROOT_BROKEN || c->replay.planned == c->options.size)
        return HALAY_ERR_FORMAT;
    c->replay.planned++;
    return freeze_plan(c);
}

enum halay_status halay_replay_root_receive(struct halay_coordinator *c, const struct halay_item *item)
{
    if (item->epoch != c->replay.epoch || c->replay.state == HALAY_ROOT_NEGOTIATES)
        return HALAY_ERR_FORMAT;
    switch (item->kind) {
    case HALAY_ITEM_PLAN:
        return take_planned(c);
    case HALAY_ITEM_BREAK:
        return take_break(c, item);
    default:
        return take_answer(c, item);
    }
}

void halay_replay_root_fini(struct halay_coordinator *c)
{
    halay_capture_fini(&c->replay.capture);
    c->replay = (struct halay_replay_root){ 0 };
}
