/* SPDX-License-Identifier: Apache-2.0
 *
 * Stalls: tensors that some ranks have submitted and others have not for a long time. The engine cannot know whether
 * that is an error; usually it is one of the program, and finding it requires knowing what the missing ranks do
 * instead.
 *
 *     quiet --- the oldest tensor has waited for report_us, and the last report is as old ---> asking
 *     asking    ASK to the missing ranks; their engines answer DOING, even while their programs compute, and the first
 *               RANKS_MAX of them show their stacks
 *     asking -- all have answered, or ANSWER_US have passed ---> one report ---> quiet
 *
 * The coordinator itself knows the last submission of each rank and its time. The waiting entries are in the order of
 * their first arrivals, so the oldest is the first one of its set, and the check is free while none is old. One report
 * covers all process sets.
 */
#include "base/number_text.h"
#include "fusion/coordinator/coordinator.h"
#include "fusion/coordinator/coordinator_state.h"
#include <stdio.h>
#include <string.h>

#define ANSWER_US 2000000 /* longer than a rank's engine may be away while nothing is in flight there */
enum { TENSORS_MAX = 6, RANKS_MAX = 8 };

/* ---- texts ---- */

static void describe_tensor(const struct halay_coordinator *c, const struct halay_tensor_entry *entry, int64_t now_us,
                            char *text, size_t size)
{
    struct halay_rank_text here = { .count = 0 }, missing = { .count = 0 };
    char subject[HALAY_SUBJECT_MAX];

    halay_coordinator_subject(c, entry, subject, sizeof subject);
    for (int r = 0; r < c->options.size; r++)
        if (entry->state[r])
            halay_rank_text_add(&here, halay_coordinator_rank(c, r));
        else if (halay_coordinator_awaits(c, entry, r))
            halay_rank_text_add(&missing, halay_coordinator_rank(c, r));
    halay_snprintf(text, size, "stalled for %.3g s: %s: submitted by %s, missing: %s",
                   (double)(now_us - entry->since_us) / 1e6, subject, here.text, missing.text);
}

static void print_doing(const struct halay_arrivals *a, char *text, size_t size)
{
    if (!a->has_answered)
        snprintf(text, size, "does not answer");
    else if (a->doing == HALAY_DOING_WAITS && *a->waited && a->waited_set)
        snprintf(text, size, "its program waits for '%s' of process set %d", a->waited, a->waited_set);
    else if (a->doing == HALAY_DOING_WAITS && *a->waited)
        snprintf(text, size, "its program waits for '%s'", a->waited);
    else if (a->doing == HALAY_DOING_WAITS)
        snprintf(text, size, "its program waits");
    else if (a->doing == HALAY_DOING_LEAVES)
        snprintf(text, size, "its program is leaving");
    else
        snprintf(text, size, "its program waits for nothing");
}

static void report_rank(const struct halay_coordinator *c, int rank, int64_t now_us)
{
    const struct halay_arrivals *a = &c->arrivals[rank];
    char doing[HALAY_NAME_MAX + 64], last[HALAY_NAME_MAX + 64];

    print_doing(a, doing, sizeof doing);
    if (!a->last_us)
        snprintf(last, sizeof last, "has submitted nothing");
    else if (!a->last)
        halay_snprintf(last, sizeof last, "submitted something last, %.3g s ago", (double)(now_us - a->last_us) / 1e6);
    else
        halay_snprintf(last, sizeof last, "submitted '%.*s' last, %.3g s ago", (int)a->last->node.length,
                       a->last->node.name, (double)(now_us - a->last_us) / 1e6);
    halay_warning(c->options.log, "stalled: rank %d %s; %s", rank, last, doing);
}

/* ---- reporting ---- */

static int is_old(const struct halay_tensor_entry *entry, int64_t now_us, int64_t age_us)
{
    return entry && now_us - entry->since_us >= age_us;
}

static void report_stall(struct halay_coordinator *c, int64_t now_us, int64_t report_us)
{
    char text[HALAY_TEXT_MAX];
    size_t tensors = 0;
    int ranks = 0;

    for (struct halay_coordinator *set = c; set; set = set->next)
        for (const struct halay_tensor_entry *entry = set->waiting.first; is_old(entry, now_us, report_us);
             entry = entry->next)
            if (tensors++ < TENSORS_MAX) {
                describe_tensor(set, entry, now_us, text, sizeof text);
                halay_warning(c->options.log, "%s", text);
            }
    if (tensors > TENSORS_MAX)
        halay_warning(c->options.log, "stalled: %zu more tensors", tensors - TENSORS_MAX);
    for (int r = 0; r < c->options.size; r++)
        if (c->arrivals[r].is_asked && ranks++ < RANKS_MAX)
            report_rank(c, r, now_us);
    if (ranks > RANKS_MAX)
        halay_warning(c->options.log, "stalled: %d more ranks", ranks - RANKS_MAX);
}

/* Asks the ranks that the tensor of this set lacks. */
static enum halay_status ask_missing(struct halay_coordinator *set, const struct halay_tensor_entry *entry,
                                     const struct halay_item *own)
{
    struct halay_coordinator *parent = halay_coordinator_parent(set);
    enum halay_status status = HALAY_OK;

    for (int r = 0; r < set->options.size && status == HALAY_OK; r++) {
        struct halay_arrivals *a = halay_arrivals_of(set, r);
        int rank = halay_coordinator_rank(set, r);
        if (!halay_coordinator_awaits(set, entry, r) || a->is_asked)
            continue;
        a->is_asked = 1;
        int shows_stacks = parent->asked++ < RANKS_MAX;
        if (rank == 0) {
            halay_stalls_answer(parent, 0, own);
            parent->is_rank0_asked = shows_stacks;
        } else {
            struct halay_item ask = { .kind = HALAY_ITEM_ASK, .shows_stacks = shows_stacks };
            status = halay_coordinator_emit(parent, rank, &ask);
        }
    }
    return status;
}

/* Asks the ranks that the tensors to be reported lack. */
static enum halay_status ask_ranks(struct halay_coordinator *c, int64_t now_us, int64_t report_us,
                                   const struct halay_item *own)
{
    enum halay_status status = HALAY_OK;
    size_t tensors = 0;

    for (int r = 0; r < c->options.size; r++)
        c->arrivals[r].is_asked = c->arrivals[r].has_answered = 0;
    c->asked = 0;
    for (struct halay_coordinator *set = c; set; set = set->next)
        for (const struct halay_tensor_entry *entry = set->waiting.first;
             is_old(entry, now_us, report_us) && tensors < TENSORS_MAX; entry = entry->next, tensors++)
            if (status == HALAY_OK)
                status = ask_missing(set, entry, own);
    c->asked_us = now_us;
    return status;
}

void halay_stalls_answer(struct halay_coordinator *c, int rank, const struct halay_item *item)
{
    struct halay_arrivals *a = &c->arrivals[rank];

    a->has_answered = 1;
    a->doing = item->doing;
    a->waited_set = item->set;
    memcpy(a->waited, item->name, item->name_length);
    a->waited[item->name_length] = 0;
}

int halay_coordinator_asks_rank0(struct halay_coordinator *c)
{
    int is_asked = c->is_rank0_asked;

    c->is_rank0_asked = 0;
    return is_asked;
}

static int all_have_answered(const struct halay_coordinator *c)
{
    for (int r = 0; r < c->options.size; r++)
        if (c->arrivals[r].is_asked && !c->arrivals[r].has_answered)
            return 0;
    return 1;
}

/* Ends the engine on every rank, because a stall has lasted too long. set: the entry's coordinator. */
static enum halay_status end_stalled(struct halay_coordinator *c, const struct halay_coordinator *set,
                                     const struct halay_tensor_entry *entry, int64_t now_us)
{
    char text[HALAY_TEXT_MAX];
    int rank = 0;

    while (rank < set->options.size && !halay_coordinator_awaits(set, entry, rank))
        rank++;
    describe_tensor(set, entry, now_us, text, sizeof text);
    return halay_coordinator_fail(c, rank < set->options.size ? halay_coordinator_rank(set, rank) : -1, text);
}

/* Returns the coordinator whose first entry has waited longest. */
static struct halay_coordinator *find_slowest(struct halay_coordinator *c)
{
    struct halay_coordinator *slowest = c;

    for (struct halay_coordinator *set = c->next; set; set = set->next)
        if (set->waiting.first &&
            (!slowest->waiting.first || set->waiting.first->since_us < slowest->waiting.first->since_us))
            slowest = set;
    return slowest;
}

enum halay_status halay_coordinator_look_for_stalls(struct halay_coordinator *c, int64_t now_us, int64_t report_us,
                                                    int64_t limit_us, const struct halay_item *own)
{
    struct halay_coordinator *slowest = find_slowest(c);
    const struct halay_tensor_entry *oldest = slowest->waiting.first;

    if (limit_us > 0 && is_old(oldest, now_us, limit_us) && !c->has_failed)
        return end_stalled(c, slowest, oldest, now_us);
    if (report_us <= 0 || !is_old(oldest, now_us, report_us)) {
        c->asked_us = 0;
        return HALAY_OK;
    }
    if (!c->asked_us) {
        if (c->reported_us && now_us - c->reported_us < report_us)
            return HALAY_OK;
        enum halay_status status = ask_ranks(c, now_us, report_us, own);
        if (status != HALAY_OK)
            return status;
    }
    if (all_have_answered(c) || now_us - c->asked_us >= ANSWER_US) {
        report_stall(c, now_us, report_us);
        c->asked_us = 0;
        c->reported_us = now_us;
    }
    return HALAY_OK;
}
