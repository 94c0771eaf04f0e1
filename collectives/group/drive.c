/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives under way: start, progress, wait, end; and how a group ends.
 *
 * An algorithm is a resumable schedule with a table of operations (coll.h). This file gives it a channel with
 * storage, drives it, and decides what a waiter does meanwhile:
 *
 *     progress everything under way -> got further? again
 *                                   -> nothing: pause; without a processor for every local rank, yield
 *                                   -> for spin_us: arm, progress once more, sleep on the world's bell
 *     every CHECK_EVERY polls in vain: is a peer dead, has it given up, is it stopped or missing (stalled.c)?
 *
 * A wait drives all collectives of all groups of its world, not only its own: a peer may be waiting for another one
 * first (three ranks that each wait for another one of the groups {0,1}, {1,2}, {2,0}).
 *
 * The end of a group. The first cause closes it: the cause is stored where peers look (a flag in shared memory; a close
 * notice by message to those that share none, in a group of some ranks: in that of all ranks the transport's own "has
 * left", when the world is closed), everything under way is taken back, and then we wait for peers that are writing
 * into our memory at this moment: they finish one bounded piece and see the flag before the next (shared.h). A peer
 * that only reads there is not waited for: it looks at the flag after its copy, and drops what may have changed
 * meanwhile (shared_copy.c). So a buffer is its owner's again when end returns. The cause is stored with the number of
 * collectives this rank has done its part of: peers that are still in one of those complete it.
 */
#include "base/clock.h"
#include "base/error_text.h"
#include "base/memory.h"
#include "base/sync.h"
#include "collectives/choose/algorithms.h"
#include "collectives/group/area.h"
#include "collectives/group/check.h"
#include "collectives/group/choice.h"
#include "collectives/group/detour.h"
#include "collectives/group/group.h"
#include "collectives/group/p2p.h"
#include "collectives/group/packed.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_CHANNELS = (1 << HALAY_CHANNELS) - 1 };
enum { CHECK_EVERY = 128, CLOCK_EVERY = 32, SLEEP_US = 200000, QUIET_US = 1000000, RESTLESS_US = 10000 };
/* A blocking call of at most that many bytes polls this often before it waits, the first times without a pause. */
enum { LOOKS = 256, LOOKS_AT_ONCE = 16, LOOKED_BYTES = 1 << 16 };

static void take_back(struct halay_coll *c, struct halay_transfer *x)
{
    if (c->group->posted)
        halay_posted_add(c->group, x);
    else
        halay_route_cancel(x);
}

unsigned long halay_group_work(const struct halay_group *group)
{
    return group->work;
}

/* ---- start ---- */

uint64_t halay_group_next(const struct halay_group *group)
{
    return group->next_number;
}

int halay_group_can_start_at(const struct halay_group *group, uint64_t number)
{
    const struct halay_channel *channel = &group->channels[number % HALAY_CHANNELS];

    return !channel->is_taken && channel->next == number;
}

int halay_group_can_start(const struct halay_group *group)
{
    return halay_group_can_start_at(group, group->next_number);
}

void halay_group_start_at(struct halay_group *group, uint64_t number)
{
    group->next_number = number;
}

/* Field by field: a call of a few bytes over shared memory takes as long as some hundred instructions, and a structure
 * that is assigned as a whole is cleared by a string instruction that takes dozens of cycles to begin. in_piece and
 * out_piece are what in and out may point to. */
static void coll_reset(struct halay_coll *c, struct halay_group *group, struct halay_channel *channel,
                       enum halay_coll_kind operation)
{
    c->group = group;
    c->channel = channel;
    c->route = &group->world->route;
    c->members = group->members;
    c->rank = group->rank;
    c->size = group->size;
    c->reducer = group->reducer;
    c->algorithm = NULL;
    c->ops = NULL;
    c->status = HALAY_IN_PROGRESS;
    c->operation = operation;
    c->number = group->next_number;
    c->work = &group->work;
    c->take_back = take_back;
    c->dtype = (enum halay_dtype)0;
    c->op = (enum halay_reduction)0;
    c->divisor = 1;
    c->chunk_shift = group->chunk_shift;
    c->root = 0;
    c->element = 0;
    c->in = c->out = (struct halay_vector){ .pieces = NULL };
    c->starts = c->in_starts = c->rooted = c->counts = NULL;
    c->form = HALAY_FORM_PLAIN;
    c->tensors = 0;
    c->has_counts = c->is_list = 0;
    c->slot = c->chunk = c->bytes = 0;
    c->tag = halay_tag(group->number, channel->index, 0);
    c->state = NULL;
    c->scratch = NULL;
    c->detour = NULL;
}

void halay_coll_init(struct halay_coll *c, struct halay_group *group)
{
    c->group = group;
    c->channel = NULL;
    c->status = HALAY_IN_PROGRESS;
    c->work = &group->work;
    c->take_back = take_back;
}

/* The status of a group, or of its collective, for the program: an error has the text that the log has. */
static enum halay_status report_status(const struct halay_group *group, enum halay_status status)
{
    if (status == HALAY_OK || status == HALAY_IN_PROGRESS)
        return status;
    return halay_log_returns(group->world->log, status);
}

enum halay_status halay_group_check_call(const struct halay_group *group, const char *operation)
{
    if (!group)
        return halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT, "%s: no group", operation);
    enum halay_status status = halay_group_check_process(group);

    return status == HALAY_OK ? report_status(group, group->status) : status;
}

enum halay_status halay_coll_take(struct halay_group *group, enum halay_coll_kind operation, struct halay_coll **out)
{
    enum halay_status status = halay_group_check_call(group, halay_coll_kind_name(operation));
    if (status != HALAY_OK)
        return status;
    struct halay_channel *channel = &group->channels[group->next_number % HALAY_CHANNELS];
    if (channel->is_taken) {
        halay_error(group->world->log, "too many collectives under way: %d of this group have not been ended",
                    HALAY_CHANNELS);
        return halay_returns(HALAY_ERR_UNSUPPORTED);
    }
    if (channel->next != group->next_number) { /* it continues the one that was the last here */
        assert(channel->next == group->next_number + HALAY_CHANNELS);
        channel->next = group->next_number;
    }
    coll_reset(&channel->coll, group, channel, operation);
    *out = &channel->coll;
    return HALAY_OK;
}

/* One rank, or nothing to move. */
static void complete_alone(struct halay_coll *c)
{
    _Alignas(HALAY_CACHE_LINE) unsigned char bounce[HALAY_BOUNCE_BYTES];
    struct halay_cursor in = { 0 }, out = { 0 };
    size_t most = sizeof bounce / (c->element ? c->element : 1), count = c->size == 1 ? c->in.count : 0;

    if (count && (coll_is_in_place(c) || !c->out.count)) /* an all-to-all may keep what it has where it is */
        count = 0;
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < most ? count - at : most;
        halay_vector_pack(&c->in, &in, at, n, bounce);
        halay_vector_unpack(&c->out, &out, at, n, bounce);
    }
    c->status = HALAY_OK;
}

/* Memory for incoming messages: the link's own if it prefers that. */
static enum halay_status scratch_get(struct halay_channel *channel, struct halay_link *link, size_t bytes)
{
    void *memory = NULL;
    enum halay_status status = HALAY_OK;

    halay_channel_scratch_put(channel, link);
    if (link->ops->alloc)
        status = link->ops->alloc(link, bytes, 1, &memory);
    else if (!(memory = halay_aligned_alloc(HALAY_PAGE, bytes)))
        status = HALAY_ERR_NO_MEMORY;
    if (status != HALAY_OK)
        return status;
    channel->scratch = memory;
    channel->scratch_bytes = bytes;
    return HALAY_OK;
}

void halay_channel_scratch_put(struct halay_channel *channel, struct halay_link *link)
{
    link->ops->alloc ? link->ops->free(link, channel->scratch) : free(channel->scratch);
    channel->scratch = NULL;
    channel->scratch_bytes = 0;
}

/* Returns the largest state of any algorithm and of the check. */
static size_t max_state(int size, enum halay_sharing sharing)
{
    size_t packed = halay_packed_state(size, sharing), check = halay_check.ops->state_bytes(size);

    return packed > check ? packed : check;
}

static enum halay_status grow_storage(struct halay_coll *c)
{
    struct halay_channel *channel = c->channel;
    size_t bytes = c->ops->scratch_bytes ? c->ops->scratch_bytes(c) : 0;

    if (!channel->state) {
        channel->state = halay_aligned_alloc(HALAY_CACHE_LINE, max_state(c->size, c->group->sharing));
        if (!channel->state)
            return HALAY_ERR_NO_MEMORY;
    }
    if (bytes > channel->scratch_bytes &&
        scratch_get(channel, c->route->data, halay_round_up(bytes, HALAY_PAGE)) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    return HALAY_OK;
}

/* The channel's storage: grows to the largest size needed so far, and is kept. */
static enum halay_status get_storage(struct halay_coll *c)
{
    if ((!c->channel->state || c->ops->scratch_bytes) && grow_storage(c) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    c->state = c->channel->state;
    c->scratch = c->channel->scratch;
    coll_clear_state(c);
    return HALAY_OK;
}

const struct halay_choice *halay_coll_choose(const struct halay_coll *c)
{
    if (c->size == 1 || (!c->bytes && c->operation != HALAY_COLL_BARRIER))
        return NULL;
    return halay_choice_make(c->group, c->operation, c->bytes, c->dtype);
}

static enum halay_status set_going(struct halay_coll *c, const struct halay_algorithm *algorithm,
                                   const struct halay_algorithm_ops *ops)
{
    c->algorithm = algorithm;
    c->ops = ops;
    if (get_storage(c) != HALAY_OK)
        return halay_fail(c->group->world->log, HALAY_ERR_NO_MEMORY, "no memory for a collective of %zu bytes",
                          c->bytes);
    c->ops->start(c);
    return HALAY_IN_PROGRESS;
}

static size_t bytes_shifted(size_t bytes, int shift)
{
    bytes = shift < 0 ? bytes >> -shift : bytes << shift;
    return bytes < HALAY_PAGE ? HALAY_PAGE : bytes;
}

enum halay_status halay_coll_begin(struct halay_coll *c)
{
    const struct halay_choice *choice = halay_coll_choose(c);

    if (!choice) {
        complete_alone(c);
        return HALAY_OK;
    }
    const struct halay_algorithm *algorithm = choice->algorithm;
    c->slot = bytes_shifted(choice->slot, c->chunk_shift);
    c->chunk = bytes_shifted(HALAY_PACKED_BYTES, c->chunk_shift);
    int is_packed = !(algorithm->flags & HALAY_ALGORITHM_PIECES) && c->is_list;
    return set_going(c, algorithm, is_packed ? &halay_packed : algorithm->ops);
}

enum halay_status halay_coll_go(struct halay_coll *c)
{
    return c->group->is_checked ? set_going(c, &halay_check, halay_check.ops) : halay_coll_begin(c);
}

/* For peers that report a stall: a line of memory that only this rank writes and that is seldom read. */
static void publish_next(const struct halay_group *group, const struct halay_channel *channel)
{
    if (group->memory)
        atomic_store_explicit(&channel->areas[group->rank]->next, channel->next, memory_order_relaxed);
}

static enum halay_status coll_launch(struct halay_coll *c)
{
    struct halay_group *group = c->group;
    unsigned bit = 1u << c->channel->index;

    c->channel->is_taken = 1;
    c->channel->next += HALAY_CHANNELS;
    group->next_number++;
    publish_next(group, c->channel);
    group->under_way |= bit;
    enum halay_status status = HALAY_IN_PROGRESS;
    if (c->detour)
        halay_detour_enter(c);
    else
        status = halay_coll_go(c);
    if (status == HALAY_IN_PROGRESS)
        return HALAY_OK;
    group->under_way &= ~bit;
    if (status != HALAY_OK) {
        c->channel->is_taken = 0;
        c->channel->next = c->number;        /* without us */
        halay_group_fail(group, status, -1); /* the others have started it and would wait for us */
    }
    return status;
}

enum halay_status halay_coll_launch(struct halay_coll *c)
{
    halay_call_enter(c->group->world);
    enum halay_status status = report_status(c->group, c->group->status); /* it may have been aborted since take */

    if (status == HALAY_OK && c->group->world->devices)
        status = halay_group_take_error(c->group, halay_detour_prepare(c));
    if (status == HALAY_OK)
        status = coll_launch(c);
    halay_call_leave(c->group->world);
    return status;
}

/* ---- the end of a group ---- */

static int is_under_way(const struct halay_group *group, int channel)
{
    return (int)(group->under_way >> channel & 1u);
}

/* Returns nonzero if the channel has a collective that other ranks have a part in. */
static int has_part_of_others(const struct halay_group *group, int channel)
{
    return is_under_way(group, channel) && !halay_detour_is_back(&group->channels[channel].coll);
}

static struct halay_area *flags_area(const struct halay_group *group, int rank)
{
    return group->channels[0].areas[rank];
}

static int is_dead(const struct halay_group *group, int rank)
{
    return halay_world_is_dead(group->world, halay_group_world_rank(group, rank));
}

/* A rank that was waited for in vain gets only RESTLESS_US in other groups: they are given up for the same reason. */
static void wait_for_writer(struct halay_group *group, int rank, unsigned channels, int64_t deadline_us)
{
    unsigned char *restless = &group->world->restless[halay_group_world_rank(group, rank)];
    int64_t until_us = *restless ? halay_now_us() + RESTLESS_US : deadline_us;
    int first; /* of the dead */

    for (unsigned left = channels; left; left &= left - 1) {
        const struct halay_area *area = group->channels[__builtin_ctz(left)].areas[rank];
        while (area && atomic_load_explicit(&area->busy, memory_order_seq_cst)) {
            if (halay_world_check_peers(group->world, &first) == HALAY_ERR_PEER && is_dead(group, rank))
                return;
            if (halay_deadline_passed(until_us)) {
                if (!*restless)
                    halay_warning(group->world->log,
                                  "rank %d may still write into buffers of a collective that was given up",
                                  halay_group_world_rank(group, rank));
                *restless = 1;
                return;
            }
            sched_yield();
        }
    }
}

/* Peers that are writing into our memory finish a bounded piece, then see our flag. One that is stopped in the middle
 * may still write once it continues: this rank does not wait forever, but logs that. */
static void wait_until_quiet(struct halay_group *group, unsigned channels)
{
    int64_t deadline_us = halay_now_us() + QUIET_US;

    for (int r = 0; r < group->size; r++)
        if (r != group->rank)
            wait_for_writer(group, r, channels, deadline_us);
}

static void publish_flag(struct halay_group *group, const struct halay_close_notice *notice)
{
    struct halay_area *area = flags_area(group, group->rank);

    area->failed_rank = notice->failed_rank;
    area->is_dead = notice->is_dead;
    for (int k = 0; k < HALAY_CHANNELS; k++)
        group->channels[k].areas[group->rank]->finished = notice->finished[k];
    atomic_store_explicit(&area->closed, notice->status, memory_order_seq_cst);
    halay_full_fence(); /* before the owner writes into its buffers again: shared_copy.c looks at closed after a copy */
    for (int r = 0; r < group->size; r++)
        if (r != group->rank && group->closed[r])
            halay_group_notify(group, r);
}

/* The first collective of a channel of which this rank has not done its part. */
static uint64_t first_unfinished(const struct halay_group *group, int channel)
{
    const struct halay_channel *c = &group->channels[channel];

    return has_part_of_others(group, channel) ? c->coll.number : c->next;
}

/* Sends the peers a close notice: by a flag in shared memory, or by a message to those that share none. */
static void publish_end(struct halay_group *group, enum halay_status status, int failed_rank)
{
    struct halay_close_notice notice = { .status = (uint32_t)status,
                                         .failed_rank = failed_rank,
                                         .is_dead = failed_rank >= 0 && is_dead(group, failed_rank) };

    for (int k = 0; k < HALAY_CHANNELS; k++)
        notice.finished[k] = first_unfinished(group, k);
    if (group->memory)
        publish_flag(group, &notice);
    if (group->end)
        halay_group_end_send(group->end, group->world->data, &notice);
}

void halay_group_fail(struct halay_group *group, enum halay_status status, int failed_rank)
{
    int was_shared = 0;

    if (group->status != HALAY_OK)
        return;
    group->failed_rank = failed_rank;
    group->status = status;
    publish_end(group, status, failed_rank >= 0 ? failed_rank : group->rank);
    for (int k = 0; k < HALAY_CHANNELS; k++) {
        struct halay_coll *c = &group->channels[k].coll;
        if (!is_under_way(group, k))
            continue;
        was_shared |= c->algorithm->flags & HALAY_ALGORITHM_SHARED;
        if (c->ops->cancel)
            c->ops->cancel(c);
        c->status = status;
        group->work++;
    }
    group->under_way = 0;
    halay_p2p_cancel(group);
    halay_p2p_fail(group, status);
    if (was_shared)
        wait_until_quiet(group, ALL_CHANNELS);
}

enum halay_status halay_group_take_error(struct halay_group *group, enum halay_status status)
{
    if (status != HALAY_OK && status != HALAY_ERR_ARGUMENT && status != HALAY_ERR_UNSUPPORTED &&
        status != HALAY_ERR_MISMATCH)
        halay_group_fail(group, status, -1);
    return status;
}

/* Its scratch may be written to later, where the link receives into that in transit: it gets another one. */
void halay_coll_withdraw(struct halay_coll *c)
{
    struct halay_group *group = c->group;
    struct halay_channel *channel = c->channel;
    unsigned bit = 1u << channel->index;

    if (c->status != HALAY_IN_PROGRESS) { /* the group has failed meanwhile */
        halay_coll_end(c);
        return;
    }
    if (c->ops->cancel)
        c->ops->cancel(c);
    c->status = HALAY_ERR_CANCELED;
    group->under_way &= ~bit;
    group->work++;
    channel->next = c->number;
    publish_next(group, channel);
    if (c->algorithm->flags & HALAY_ALGORITHM_SHARED)
        wait_until_quiet(group, bit);
    if (c->route->data->ops->alloc)
        halay_channel_scratch_put(channel, c->route->data);
}

void halay_group_leave(struct halay_group *group)
{
    if (halay_group_is_active(group))
        halay_group_fail(group, HALAY_ERR_CANCELED, -1);
    if (group->status == HALAY_OK)
        publish_end(group, HALAY_ERR_CLOSED, -1);
}

/* ---- peers ---- */

/* Returns nonzero if a collective under way still needs the rank that sent this notice. */
static int is_missed(const struct halay_group *group, const struct halay_close_notice *notice)
{
    for (int k = 0; k < HALAY_CHANNELS; k++)
        if (has_part_of_others(group, k) && group->channels[k].coll.number >= notice->finished[k])
            return 1;
    return 0;
}

/* Returns nonzero if that member has closed the group, with its notice. */
static int has_ended(const struct halay_group *group, int rank, struct halay_close_notice *notice)
{
    if (!group->memory || !group->closed[rank])
        return group->end && halay_group_end_received(group->end, rank, notice);
    uint32_t closed = atomic_load_explicit(group->closed[rank], memory_order_acquire);
    if (!closed)
        return 0;
    const struct halay_area *area = flags_area(group, rank);
    *notice =
        (struct halay_close_notice){ .status = closed, .failed_rank = area->failed_rank, .is_dead = area->is_dead };
    for (int k = 0; k < HALAY_CHANNELS; k++)
        notice->finished[k] = group->channels[k].areas[rank]->finished;
    return 1;
}

/* The number of collectives of which a rank had done its part, where they are numbered in the order of their start. */
static uint64_t count_finished(const struct halay_close_notice *notice)
{
    uint64_t least = notice->finished[0];

    for (int k = 1; k < HALAY_CHANNELS; k++)
        least = notice->finished[k] < least ? notice->finished[k] : least;
    return least;
}

/* Logs the end of a rank that is still needed. */
static void report_end(const struct halay_group *group, int rank, const struct halay_close_notice *notice)
{
    struct halay_log *log = group->world->log;
    int who = halay_group_world_rank(group, rank), failed_rank = halay_group_world_rank(group, notice->failed_rank);

    if (notice->status == HALAY_ERR_CLOSED)
        halay_error_at(log, &HALAY_ERROR_OF_RANK(who), "rank %d has left after %llu collectives", who,
                       (unsigned long long)count_finished(notice));
    else if (notice->failed_rank == rank)
        halay_error_at(log, &HALAY_ERROR_OF_RANK(who), "rank %d has given up: %s", who,
                       halay_status_string((enum halay_status)notice->status));
    else if (!notice->is_dead || !halay_world_learn_death(group->world, failed_rank, who))
        halay_error_at(log, &HALAY_ERROR_OF_RANK(failed_rank), "rank %d is lost, according to rank %d", failed_rank,
                       who);
}

/* Closes the group if a rank has ended its own while something under way here needs it: all but what it has done its
 * part of, which completes.
 * given_up_counts: a rank that has given up counts in any case. */
static void check_ends(struct halay_group *group, int given_up_counts)
{
    struct halay_close_notice notice;

    if (group->end)
        halay_group_end_receive(group->end, group->world->data);
    for (int r = 0; r < group->size && group->status == HALAY_OK; r++) {
        if (r == group->rank || !has_ended(group, r, &notice) ||
            !(is_missed(group, &notice) || halay_p2p_misses(group, r, &notice) ||
              (given_up_counts && notice.status != HALAY_ERR_CLOSED)))
            continue;
        report_end(group, r, &notice);
        halay_group_fail(group, HALAY_ERR_PEER, notice.status == HALAY_ERR_CLOSED ? r : notice.failed_rank);
    }
}

void halay_group_lost(struct halay_group *group, int rank)
{
    if (group->status == HALAY_OK)
        check_ends(group, 1);
    halay_group_fail(group, HALAY_ERR_PEER, rank); /* unless it is closed now */
}

/* Progresses the links. The peer that an error names may have left because of another one: its flag names that. */
static enum halay_status progress_links(struct halay_group *group)
{
    int failed;

    enum halay_status status = halay_route_progress(&group->world->route, group->members, group->size, &failed);
    if (status == HALAY_ERR_PEER)
        check_ends(group, 1);
    if (status != HALAY_OK)
        halay_group_fail(group, status, failed); /* unless it is closed now */
    return status;
}

static int has_done_its_part(const struct halay_group *group, int rank)
{
    struct halay_close_notice notice;

    return has_ended(group, rank, &notice) && !is_missed(group, &notice);
}

/* A dead member that something under way still needs, -1: none. Of several the one that died first, if it is among
 * them. */
static int find_dead_member(struct halay_group *group)
{
    int first = -1;

    if (halay_world_check_peers(group->world, &first) == HALAY_OK)
        return -1;
    first = halay_group_rank_of(group, first);
    if (first >= 0 && !has_done_its_part(group, first))
        return first;
    for (int r = 0; r < group->size; r++)
        if (is_dead(group, r) && !has_done_its_part(group, r))
            return r;
    return -1;
}

static void look_at_peers(struct halay_group *group, int given_up_counts)
{
    int rank;

    if (group->status != HALAY_OK)
        return;
    check_ends(group, given_up_counts);
    if (group->status != HALAY_OK)
        return;
    if (progress_links(group) != HALAY_OK)
        return;
    rank = find_dead_member(group);
    if (rank >= 0 || halay_group_has_stalled(group, &rank))
        halay_group_fail(group, HALAY_ERR_PEER, rank);
}

void halay_group_check(struct halay_group *group)
{
    look_at_peers(group, 0);
}

void halay_group_check_all(struct halay_group *group)
{
    look_at_peers(group, 1);
}

/* ---- progress ---- */

/* The transport has been driven already. */
static void coll_step(struct halay_group *group, struct halay_coll *c)
{
    enum halay_status status = c->ops->progress(c);

    if (status == HALAY_OK && c->detour)
        status = halay_detour_leave(c);
    if (status == HALAY_IN_PROGRESS)
        return;
    group->work++;
    if (status != HALAY_OK && status != HALAY_ERR_MISMATCH) {
        halay_group_fail(group, status, -1);
        return;
    }
    c->status = status;
    group->under_way &= ~(1u << c->channel->index);
}

static void drive_group(struct halay_group *group, unsigned channels)
{
    unsigned long before = group->work;
    unsigned messages = group->p2p_first != NULL;

    if (atomic_load_explicit(&group->world->visits.wanted, memory_order_relaxed) & HALAY_VISIT_ABORTS)
        halay_visits_look(group->world);
    for (unsigned left = channels & group->under_way; left; left &= left - 1)
        messages |= !(group->channels[__builtin_ctz(left)].coll.algorithm->flags & HALAY_ALGORITHM_SHARED);
    if (messages)
        (void)progress_links(group);
    for (unsigned left = channels & group->under_way; left && group->under_way; left &= left - 1)
        coll_step(group, &group->channels[__builtin_ctz(left)].coll);
    if (group->p2p_first)
        halay_p2p_progress(group);
    if (group->work != before)
        group->idle_polls = 0;
    else if (++group->idle_polls % CHECK_EVERY == 0)
        halay_group_check(group);
}

void halay_world_drive(struct halay_world *world)
{
    for (struct halay_group *group = world->groups; group; group = group->next)
        if (halay_group_is_active(group))
            drive_group(group, ~0u);
}

unsigned long halay_world_work(const struct halay_world *world)
{
    unsigned long work = 0;

    for (const struct halay_group *g = world->groups; g; g = g->next)
        work += g->work;
    return work;
}

/* A waiter drives its own group, including the checks of its peers, and whatever is under way in the others. */
static void drive_all(struct halay_group *group)
{
    drive_group(group, ~0u);
    for (struct halay_group *other = group->world->groups; other; other = other->next)
        if (other != group && halay_group_is_active(other))
            drive_group(other, ~0u);
}

static enum halay_status refuse_nothing(void)
{
    return halay_returns(halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT, "no collective"));
}

enum halay_status halay_coll_progress(struct halay_coll *c)
{
    if (!c)
        return refuse_nothing();
    enum halay_status status = halay_group_check_process(c->group);
    if (status != HALAY_OK)
        return status;
    halay_call_enter(c->group->world);
    if (c->status == HALAY_IN_PROGRESS)
        drive_group(c->group, c->channel ? 1u << c->channel->index : 0);
    status = report_status(c->group, c->status);
    halay_call_leave(c->group->world);
    return status;
}

/* ---- visits ---- */

static void groups_abort(struct halay_world *world)
{
    for (struct halay_group *group = world->groups; group; group = group->next) {
        if (!atomic_exchange_explicit(&group->is_aborted, 0, memory_order_relaxed) || group->status != HALAY_OK)
            continue;
        halay_error(world->log, "this rank has aborted its group of %d ranks", group->size);
        halay_group_fail(group, HALAY_ERR_CANCELED, -1);
    }
}

void halay_visits_look(struct halay_world *world)
{
    while (atomic_fetch_and_explicit(&world->visits.wanted, ~HALAY_VISIT_ABORTS, memory_order_acq_rel) &
           HALAY_VISIT_ABORTS)
        groups_abort(world); /* whose log function may abort another one */
}

/* Returns nonzero in a log function that a visit has called. */
static int is_visitor(const struct halay_visits *v)
{
    return atomic_load_explicit(&v->visitor, memory_order_relaxed) == pthread_self();
}

void halay_visits_give_way(struct halay_world *world)
{
    struct halay_visits *v = &world->visits;

    if (!is_visitor(v)) {
        atomic_store_explicit(&v->inside, 0, memory_order_release);
        pthread_mutex_lock(&v->lock);
        atomic_store_explicit(&v->inside, 1, memory_order_relaxed);
        pthread_mutex_unlock(&v->lock);
    }
    halay_visits_look(world);
}

/* Returns nonzero if the visitor, which has the lock, has the groups to itself. LOOKS is wanted until the end of every
 * visit: halay_visits_look clears ABORTS before it carries the abort out, and a call that begins then must give way. */
static int visit_begin(struct halay_visits *v, int wanted)
{
    pthread_mutex_lock(&v->lock);
    atomic_store_explicit(&v->visitor, pthread_self(), memory_order_relaxed);
    atomic_fetch_or_explicit(&v->wanted, HALAY_VISIT_LOOKS | wanted, memory_order_seq_cst);
    return halay_bell_heavy_barrier(v->has_barrier) && !atomic_load_explicit(&v->inside, memory_order_acquire);
}

static void visit_end(struct halay_visits *v)
{
    atomic_fetch_and_explicit(&v->wanted, ~HALAY_VISIT_LOOKS, memory_order_release);
    atomic_store_explicit(&v->visitor, 0, memory_order_relaxed);
    pthread_mutex_unlock(&v->lock);
}

enum halay_status halay_group_abort(struct halay_group *group)
{
    if (!group)
        return halay_returns(halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT, "halay_group_abort: no group"));
    enum halay_status status = halay_group_check_process(group);
    if (status != HALAY_OK)
        return status;
    struct halay_world *world = group->world;
    atomic_store_explicit(&group->is_aborted, 1, memory_order_relaxed);
    if (is_visitor(&world->visits)) { /* the visit carries it out */
        atomic_fetch_or_explicit(&world->visits.wanted, HALAY_VISIT_ABORTS, memory_order_relaxed);
        return HALAY_OK;
    }
    if (visit_begin(&world->visits, HALAY_VISIT_ABORTS))
        halay_visits_look(world);
    else
        halay_bell_wake(&world->bell);
    visit_end(&world->visits);
    return HALAY_OK;
}

enum halay_status halay_group_status(struct halay_group *group, int *rank)
{
    if (!group)
        return halay_returns(halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT, "halay_group_status: no group"));
    enum halay_status status = halay_group_check_process(group);
    if (status != HALAY_OK)
        return status;
    struct halay_visits *v = &group->world->visits;
    if (group->status == HALAY_OK && !is_visitor(v)) {
        if (visit_begin(v, 0)) {
            halay_group_check_all(group);
            halay_visits_look(group->world);
        }
        visit_end(v);
    }
    status = halay_group_failure(group, rank);
    return status == HALAY_OK ? status : report_status(group, status);
}

/* ---- wait ---- */

/* Yields the processor until something does, at most for `left_us`. */
static void wait_rest(struct halay_group *group, const struct halay_coll *c, int64_t left_us)
{
    struct halay_bell *bell = &group->world->bell;
    int64_t stall_us = halay_stall_limit_us(&group->world->config) / 2; /* those that take part are counted in time */
    long most = (long)(left_us < stall_us ? left_us : stall_us);
    unsigned long before = halay_world_work(group->world);

    most = most < SLEEP_US ? most : SLEEP_US;
    uint32_t token = halay_bell_arm(bell);
    halay_group_check(group); /* a rank that ends the group rings once, and may have done so before */
    drive_all(group);
    if (halay_world_work(group->world) == before && c->status == HALAY_IN_PROGRESS) {
        long armed_us = halay_world_arm(group->world);
        if (armed_us)
            halay_bell_sleep(bell, token, armed_us < most ? armed_us : most);
    }
    halay_bell_disarm(bell);
}

static enum halay_status coll_wait(struct halay_coll *c, int timeout_ms)
{
    struct halay_group *group = c->group;
    int64_t deadline = timeout_ms < 0 ? HALAY_NEVER : halay_deadline_us(timeout_ms), since = 0;
    unsigned long seen = halay_world_work(group->world), now_at;

    for (unsigned polls = 1; c->status == HALAY_IN_PROGRESS; polls++) {
        drive_all(group);
        if ((now_at = halay_world_work(group->world)) != seen) {
            seen = now_at;
            since = 0;
            polls = 0;
            continue;
        }
        if (group->may_hog)
            halay_relax();
        else
            sched_yield();
        if (polls % CLOCK_EVERY)
            continue;
        int64_t now = halay_now_us();
        if (now >= deadline)
            return halay_refuses(HALAY_ERR_TIMEOUT, "the collective has not ended after %d ms", timeout_ms);
        if (!since)
            since = now;
        else if (now - since >= group->spin_us)
            wait_rest(group, c, deadline == HALAY_NEVER ? SLEEP_US : deadline - now);
    }
    return report_status(group, c->status);
}

enum halay_status halay_coll_wait(struct halay_coll *c, int timeout_ms)
{
    if (!c)
        return refuse_nothing();
    if (halay_group_check_process(c->group) != HALAY_OK)
        return HALAY_ERR_UNSUPPORTED;
    halay_call_enter(c->group->world);
    enum halay_status status = coll_wait(c, timeout_ms);
    halay_call_leave(c->group->world);
    return status;
}

/* Within a call. */
static void coll_end(struct halay_coll *c)
{
    if (c->channel && !c->channel->is_taken) {
        halay_error(c->group->world->log, "a collective was ended twice");
        return;
    }
    if (c->status == HALAY_IN_PROGRESS)
        halay_group_fail(c->group, HALAY_ERR_CANCELED, -1);
    halay_detour_put(c->detour);
    c->detour = NULL;
    if (c->channel)
        c->channel->is_taken = 0;
    else if (halay_p2p_release(c) != HALAY_OK)
        halay_error(c->group->world->log, "a send or receive was ended twice");
}

void halay_coll_end(struct halay_coll *c)
{
    if (!c || halay_is_forked(c->group->is_parent))
        return;
    struct halay_world *world = c->group->world;
    halay_call_enter(world);
    coll_end(c);
    halay_call_leave(world);
}

/* Small collectives in shared memory are over before anything else is worth checking, if every rank has a processor. */
static void look_first(struct halay_coll *c)
{
    struct halay_group *group = c->group;

    if (!c->algorithm || !(c->algorithm->flags & HALAY_ALGORITHM_SHARED) || c->bytes > LOOKED_BYTES || !group->may_hog)
        return;
    for (int looks = 0; looks < LOOKS && c->status == HALAY_IN_PROGRESS; looks++) {
        coll_step(group, c);
        if (looks >= LOOKS_AT_ONCE)
            halay_relax();
    }
}

enum halay_status halay_coll_finish(struct halay_coll *c)
{
    if (!c)
        return refuse_nothing();
    if (halay_group_check_process(c->group) != HALAY_OK)
        return HALAY_ERR_UNSUPPORTED;
    struct halay_world *world = c->group->world;
    halay_call_enter(world);
    look_first(c);
    enum halay_status status = c->status == HALAY_IN_PROGRESS ? coll_wait(c, -1) : report_status(c->group, c->status);
    coll_end(c);
    halay_call_leave(world);
    return status;
}
