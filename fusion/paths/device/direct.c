/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct: all-reduce through segments on devices. Each rank has a segment in its device's memory that the other ranks'
 * devices can access (CUDA IPC; in one process, peer access). A bucket passes through the halves of the segments in
 * windows:
 *
 *     pack      the inputs to the own segment
 *     reduce    one-shot: each rank sums all segments to its outputs
 *               two-shot: each rank sums its share of all segments, and stores the sums into all segments
 *     unpack    two-shot: the own segment to the outputs
 *
 *     turn    sums         copies beside them                all ranks wait after each turn but the last
 *     0                    pack 0
 *     1       reduce 0     pack 1
 *     2       reduce 1     unpack 0, pack 2
 *     3       reduce 2     unpack 1
 *     4                    unpack 2
 *
 * Turn w + 2 packs into the half in which turn w packed. By then all ranks have ended turn w + 1, and with it all that
 * they read from and store into this rank's half; what this rank unpacks from it is in the same stream. The next bucket
 * begins in the other half, without waiting for the last turn of this one.
 *
 * With several hosts the ranks of each reduce among themselves, always two-shot. The sums of a share stay in its rank's
 * segment, are summed over the hosts (hosts.c), and then stored into the segments of the host: all in the turn of the
 * sums.
 *
 * Ranks wait for each other on the host: for the event after a turn, then for a barrier of the group. So no kernel
 * waits for another rank: two ranks may have one device, a rank that dies leaves no kernel that waits for it, and
 * the barrier's error names it.
 *
 * A small bucket is one launch where each rank has a device of its own: its blocks pack, wait for the other ranks' by
 * flags at the ends of the segments, and sum. They do end: all ranks have agreed on the bucket, so all launch it, and
 * none of their streams waits for a program's; a while after the job has failed a word ends the wait. A flag is the
 * number of such launches, so it is never reset. It takes the place of a window: a rank whose exchange has ended knows
 * that all others have begun theirs, and so ended what was before it.
 *
 * While a bucket is under way no other one of the set starts, unless a plan is in force: the barriers have numbers
 * among the group's collectives, which must be the same on all ranks. In a plan (fusion/protocol/replay.h) they all
 * have the number of the bucket and of its vote.
 *
 * The first bucket opens the segments: an all-gather of their handles, then one of which ranks can access all segments.
 * If one rank cannot, all ranks copy this and later buckets to the host (staging.h).
 */
#include "fusion/paths/device/direct.h"
#include "base/clock.h"
#include "base/memory.h"
#include "collectives/choose/select.h"
#include "collectives/group/channel.h"
#include "fusion/paths/device/device_state.h"
#include "fusion/paths/device/staging.h"
#include "fusion/run/operations.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN_BYTES = 16, CLOSE_MS = 2000, FLAGS_BYTES = (HALAY_DEVICE_FLAGS + 255) / 256 * 256 };

static struct halay_direct *direct_of(const struct halay_bucket *b)
{
    return &halay_device_carrier_of(b->set->ctx)->direct;
}

static void set_state(struct halay_direct *d, enum halay_direct_state state)
{
    atomic_store_explicit(&d->state, state, memory_order_relaxed);
}

static int is_open(const struct halay_direct *d)
{
    return atomic_load_explicit(&d->state, memory_order_relaxed) == HALAY_DIRECT_OPEN;
}

void halay_direct_init(struct halay_context *ctx)
{
    const struct halay_world *world = ctx->world;
    int may_be = world->config.device_segment >= 2 * ALIGN_BYTES &&
                 world->config.deterministic == HALAY_DETERMINISTIC_OFF && world->local_size <= HALAY_DEVICE_RANKS &&
                 halay_hosts_init(ctx);

    halay_device_carrier_of(ctx)->direct.passed = 0;
    set_state(&halay_device_carrier_of(ctx)->direct, may_be ? HALAY_DIRECT_UNKNOWN : HALAY_DIRECT_REFUSED);
}

/* ---- opening ---- */

/* Clears the flags of the own segment, before any rank has its handle. */
static enum halay_status clear_flags(struct halay_context *ctx)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    char *flags = (char *)d->segment + d->bytes - FLAGS_BYTES;
    enum halay_status status = HALAY_OK;

    if (!d->failed)
        status = ops->word_get(host, d->device->number, (void **)&d->failed);
    if (status != HALAY_OK)
        return status;
    atomic_store_explicit(d->failed, 0, memory_order_relaxed);
    d->exchanges = 0;
    status = ops->zero(host, d->device->number, flags, FLAGS_BYTES, d->stream);
    if (status == HALAY_OK && d->hosts.count > 1) /* what is between tensors travels between hosts, too */
        status = ops->zero(host, d->device->number, d->segment, d->bytes - FLAGS_BYTES, d->stream);
    if (status == HALAY_OK)
        status = ops->event_record(host, d->device->number, d->stream, &d->done);
    if (status == HALAY_OK)
        status = halay_devices_await(halay_devices_of(ctx), d->device->number, &d->done, halay_deadline_us(CLOSE_MS));
    return status == HALAY_IN_PROGRESS ? HALAY_ERR_TIMEOUT : status;
}

static enum halay_status segment_create(struct halay_context *ctx)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    int number = d->device->number;
    size_t bytes = ctx->world->config.device_segment / (2 * ALIGN_BYTES) * (2 * ALIGN_BYTES) + FLAGS_BYTES;
    enum halay_status status = HALAY_OK;

    if (!d->stream)
        status = ops->stream_create(host, number, &d->stream);
    if (status == HALAY_OK && !d->copies)
        status = ops->stream_create(host, number, &d->copies);
    if (status == HALAY_OK && !d->done.event)
        status = ops->event_create(host, number, 1, &d->done.event);
    if (status == HALAY_OK && !d->copied.event)
        status = ops->event_create(host, number, 1, &d->copied.event);
    if (status == HALAY_OK && !d->segment)
        status = ops->alloc(host, number, d->bytes = bytes, &d->segment);
    if (status == HALAY_OK)
        status = halay_hosts_reserve(ctx, (d->bytes - FLAGS_BYTES) / 2);
    if (status == HALAY_OK)
        status = clear_flags(ctx);
    if (status == HALAY_OK)
        status = ops->share(host, number, d->segment, d->bytes, &d->mine);
    d->mine.exchange_max = ctx->world->config.device_exchange;
    return status;
}

/* Makes the next collective of the ranks of this host one of the bucket's. */
static void number_next(const struct halay_bucket *b)
{
    if (direct_of(b)->hosts.count == 1)
        halay_bucket_number_next(b);
}

/* Sends the handle of this rank's segment. A rank without a segment takes part, too, so that no rank waits for it. */
static enum halay_status start_sharing(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);

    memset(&d->mine, 0, sizeof d->mine);
    if (segment_create(b->set->ctx) != HALAY_OK)
        d->mine.is_there = 0;
    d->is_shared = 1;
    d->step = HALAY_DIRECT_AGREE;
    number_next(b);
    return halay_group_allgather_start(halay_hosts_near(b->set->ctx), &d->mine, d->shares, sizeof d->mine, HALAY_U8,
                                       &d->coll);
}

static void unreach_all(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    for (int r = 0; r < HALAY_DEVICE_RANKS; r++) {
        if (d->segments[r] && r != d->hosts.local)
            halay_devices_ops(ctx)->unreach(&halay_devices_of(ctx)->host, d->device->number, &d->shares[r],
                                            d->segments[r]);
        d->segments[r] = NULL;
    }
}

static enum halay_status start_agreeing(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    d->reaches_all = 1;
    d->room = d->exchange_max = SIZE_MAX;
    for (int r = 0; r < d->hosts.locals && d->reaches_all; r++) {
        const struct halay_device_share *share = &d->shares[r];
        d->reaches_all = share->is_there != 0;
        if (d->reaches_all && (share->bytes - FLAGS_BYTES) / 2 < d->room)
            d->room = (size_t)(share->bytes - FLAGS_BYTES) / 2;
        if (share->exchange_max < d->exchange_max)
            d->exchange_max = (size_t)share->exchange_max;
        if (d->reaches_all && r == d->hosts.local)
            d->segments[r] = d->segment;
        else if (d->reaches_all)
            d->reaches_all = halay_devices_ops(ctx)->reach(&halay_devices_of(ctx)->host, d->device->number, share,
                                                           &d->segments[r]) == HALAY_OK;
    }
    d->step = HALAY_DIRECT_AGREE_HOSTS;
    number_next(b);
    return halay_group_allgather_start(halay_hosts_near(ctx), &d->reaches_all, d->all_reach, 1, HALAY_U8, &d->coll);
}

/* Finds the lowest rank of all hosts that refuses, and the room of all of them. */
static enum halay_status start_agreeing_hosts(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    d->agreed[0] = INT64_MAX;
    d->agreed[1] = (int64_t)d->room;
    for (int r = d->hosts.locals - 1; r >= 0; r--)
        if (!d->all_reach[r])
            d->agreed[0] = 2 * (int64_t)halay_group_world_rank(halay_hosts_near(ctx), r) + !d->shares[r].is_there;
    d->step = HALAY_DIRECT_CONCLUDE;
    if (d->hosts.count == 1)
        return HALAY_OK;
    halay_bucket_number_next(b);
    return halay_group_allreduce_start(b->set->group, d->agreed, d->agreed, 2, HALAY_I64, HALAY_MIN, &d->coll);
}

/* Returns nonzero if each rank has a device of its own; the same on all ranks. */
static int has_own_devices(const struct halay_direct *d, int ranks)
{
    static const unsigned char none[sizeof d->shares->uuid];

    for (int r = 0; r < ranks; r++) {
        if (!memcmp(d->shares[r].uuid, none, sizeof none))
            return 0;
        for (int other = 0; other < r; other++)
            if (!memcmp(d->shares[r].uuid, d->shares[other].uuid, sizeof none))
                return 0;
    }
    return ranks > 1;
}

/* Opens the direct way if all ranks can access all segments; otherwise refuses it. */
static void conclude_agreement(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    int is_refused = d->agreed[0] != INT64_MAX;

    d->room = (size_t)d->agreed[1];
    if (d->hosts.count > 1 || !has_own_devices(d, ctx->size))
        d->exchange_max = 0;
    set_state(d, is_refused ? HALAY_DIRECT_REFUSED : HALAY_DIRECT_OPEN);
    if (!is_refused) {
        halay_debug(ctx->log, "all-reduces of device data use segments of %zu bytes in device memory", 2 * d->room);
        return;
    }
    unreach_all(ctx);
    if (ctx->rank == 0)
        halay_info(ctx->log, "all-reduces of device data use host memory: rank %d %s", (int)(d->agreed[0] / 2),
                   d->agreed[0] % 2 ? "has no segment" : "cannot access the segments of all ranks of its host");
}

/* ---- through the host ---- */

static enum halay_status stage_all(struct halay_bucket *b)
{
    enum halay_status status = HALAY_OK;

    direct_of(b)->step = HALAY_DIRECT_STAGE;
    halay_device_carrier_of(b->set->ctx)->copied_us = b->set->ctx->now_us;
    for (size_t i = 0; i < b->count && status == HALAY_OK; i++)
        if (halay_staging_of(b->requests[i]))
            status = halay_staging_fall_back(b->set->ctx, b->requests[i]);
    return status;
}

static enum halay_status look_at_all(struct halay_bucket *b)
{
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < b->count && status == HALAY_OK; i++)
        if (halay_staging_of(b->requests[i]))
            status = halay_staging_look(halay_staging_of(b->requests[i]));
    return status;
}

/* Starts the bucket as an ordinary all-reduce, once all its data are in host memory. */
static enum halay_status run_staged(struct halay_bucket *b)
{
    enum halay_status status = look_at_all(b);

    if (status != HALAY_OK)
        return status;
    direct_of(b)->bucket = NULL;
    halay_bucket_number_next(b);
    status = halay_allreduce_run(b);
    return status == HALAY_OK && b->coll ? HALAY_IN_PROGRESS : status;
}

/* ---- through the segments ---- */

/* Returns the multiple of elements at which each tensor begins, so that it is aligned to ALIGN_BYTES. */
static size_t align_of(const struct halay_bucket *b)
{
    return ALIGN_BYTES / halay_dtype_size(b->dtype);
}

static size_t window_of(const struct halay_bucket *b)
{
    return direct_of(b)->room / halay_dtype_size(b->dtype);
}

static int takes_one_shot(const struct halay_context *ctx, size_t bytes)
{
    struct halay_select_query query = halay_select_on_devices(ctx->world->tuning, ctx->size, bytes);

    return !strcmp(halay_select(&query, NULL, 0)->name, "one-shot");
}

static enum halay_status begin_bucket(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    d->total = d->turn = 0;
    for (size_t i = 0; i < b->tensor_count; i++)
        d->total += halay_round_up(b->tensors[i].buffers.count, align_of(b));
    d->windows = (d->total + window_of(b) - 1) / window_of(b);
    if (halay_list_reserve(&d->pieces, b->tensor_count, &d->piece_capacity, sizeof *d->pieces) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    d->is_one_shot = d->hosts.count == 1 && takes_one_shot(ctx, d->total * halay_dtype_size(b->dtype));
    d->is_exchange = d->exchange_max && d->windows == 1 && b->tensor_count <= HALAY_DEVICE_PIECES &&
                     d->total * halay_dtype_size(b->dtype) <= d->exchange_max;
    for (size_t i = 0; i < b->count; i++)
        halay_staging_set_end(halay_staging_of(b->requests[i]), &d->done);
    d->is_launched = 0; /* no rank waits for the bucket before */
    d->step = HALAY_DIRECT_TURN;
    return HALAY_OK;
}

/* Lists the parts of tensors that are in the elements first to last of the bucket; they are in the segments from
 * base on. */
static void cut_pieces(const struct halay_bucket *b, size_t base, size_t first, size_t last)
{
    struct halay_direct *d = direct_of(b);
    size_t at = 0, element = halay_dtype_size(b->dtype);
    double divisor = b->requests[0]->signature.reduction == HALAY_AVERAGE ? b->set->size : 1;

    d->piece_count = 0;
    for (size_t i = 0; i < b->tensor_count && at < last; i++) {
        const struct halay_bucket_tensor *t = &b->tensors[i];
        size_t from = at > first ? at : first, to = at + t->buffers.count < last ? at + t->buffers.count : last;
        if (from < to)
            d->pieces[d->piece_count++] =
                (struct halay_device_piece){ .in = (const char *)t->buffers.in + (from - at) * element,
                                             .out = (char *)t->buffers.out + (from - at) * element,
                                             .at = from - base,
                                             .count = to - from,
                                             .prescale = (float)t->prescale,
                                             .postscale = (float)(t->postscale / divisor) };
        at += halay_round_up(t->buffers.count, align_of(b));
    }
}

enum work { PACK, REDUCE, UNPACK, EXCHANGE };

/* A part of a bucket: elements. */
struct part {
    size_t base, first, last; /* where its window begins; the part, counted from the bucket's beginning */
};

/* Returns a window of the bucket, or this rank's share of it. */
static struct part part_of(const struct halay_bucket *b, size_t window, int is_share)
{
    const struct halay_direct *d = direct_of(b);
    size_t base = window * window_of(b), last = base + window_of(b);

    last = last < d->total ? last : d->total;
    if (!is_share)
        return (struct part){ base, base, last };
    size_t ranks = (size_t)d->hosts.locals, share = halay_round_up((last - base + ranks - 1) / ranks, align_of(b));
    size_t first = base + (size_t)d->hosts.local * share;
    first = first < last ? first : last;
    return (struct part){ base, first, first + share < last ? first + share : last };
}

/* Returns the half of a rank's segment through which a window passes. */
static char *half_of(const struct halay_direct *d, size_t window, int rank)
{
    return (char *)d->segments[rank] + (d->passed + window) % 2 * d->room;
}

/* Returns where an element of a part is in this rank's segment. */
static char *own_place(const struct halay_bucket *b, size_t window, size_t at)
{
    const struct halay_direct *d = direct_of(b);

    return half_of(d, window, d->hosts.local) + at * halay_dtype_size(b->dtype);
}

/* Gives the device a window's work. */
static enum halay_status launch_work(struct halay_bucket *b, enum work kind, size_t window, void *stream)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    int is_share = kind == REDUCE && !d->is_one_shot, is_of_hosts = is_share && d->hosts.count > 1;
    struct part part = part_of(b, window, is_share);
    void *halves[HALAY_DEVICE_RANKS], *flags[HALAY_DEVICE_RANKS];
    enum halay_status (*const calls[])(const struct halay_device_host *, int, const struct halay_device_work *,
                                       void *) = { ops->pack, ops->reduce, ops->unpack, ops->exchange };

    for (int r = 0; r < d->hosts.locals; r++) {
        halves[r] = half_of(d, window, r);
        flags[r] = (char *)d->segments[r] + d->shares[r].bytes - FLAGS_BYTES;
    }
    cut_pieces(b, part.base, part.first, part.last);
    for (size_t i = 0; i < d->piece_count && is_of_hosts; i++) /* the hosts' sums are still to come */
        d->pieces[i].out = own_place(b, window, d->pieces[i].at);
    struct halay_device_work work = { .dtype = b->dtype,
                                      .pieces = d->pieces,
                                      .piece_count = d->piece_count,
                                      .segments = halves,
                                      .ranks = d->hosts.locals,
                                      .rank = d->hosts.local,
                                      .flags = flags,
                                      .turn = d->exchanges,
                                      .failed = (const uint32_t *)d->failed,
                                      .is_shared = !d->is_one_shot && kind != EXCHANGE && !is_of_hosts };
    return calls[kind](host, d->device->number, &work, stream);
}

/* Starts to sum this rank's share of a window over the hosts. */
static enum halay_status start_hosts(struct halay_bucket *b, size_t window)
{
    struct part part = part_of(b, window, 1);

    return halay_hosts_start(b->set->ctx, own_place(b, window, part.first - part.base), part.last - part.first,
                             b->dtype);
}

/* Stores this rank's share of a window, which is in its segment, into those of the host's other ranks. */
static enum halay_status push_share(struct halay_bucket *b, size_t window)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    struct part part = part_of(b, window, 1);
    struct halay_device_piece piece = { .in = own_place(b, window, part.first - part.base),
                                        .at = part.first - part.base,
                                        .count = part.last - part.first };
    void *halves[HALAY_DEVICE_RANKS];
    enum halay_status status = HALAY_OK;

    for (int r = 0; r < d->hosts.locals; r++)
        halves[r] = half_of(d, window, r);
    for (int k = 1; k < d->hosts.locals && piece.count && status == HALAY_OK; k++) {
        struct halay_device_work work = { .dtype = b->dtype,
                                          .pieces = &piece,
                                          .piece_count = 1,
                                          .segments = halves,
                                          .ranks = d->hosts.locals,
                                          .rank = (d->hosts.local + k) % d->hosts.locals };
        status = halay_devices_ops(ctx)->pack(&halay_devices_of(ctx)->host, d->device->number, &work, d->stream);
    }
    return status;
}

/* Lets the sums' stream, and so its event, follow the copies that were launched beside them. */
static enum halay_status join_copies(struct halay_context *ctx)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    enum halay_status status = ops->event_record(host, d->device->number, d->copies, &d->copied);
    return status == HALAY_OK ? ops->event_wait(host, d->device->number, d->stream, d->copied.event) : status;
}

/* Notes the end of what was launched, also if a later launch of the turn failed; is_last: of the bucket. */
static enum halay_status end_turn(struct halay_context *ctx, int is_last, enum halay_status status)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    enum halay_status recorded =
        halay_devices_ops(ctx)->event_record(&halay_devices_of(ctx)->host, d->device->number, d->stream, &d->done);

    d->is_lost |= recorded != HALAY_OK;
    status = status == HALAY_OK ? recorded : status;
    d->is_launched = status == HALAY_OK;
    halay_device_carrier_of(ctx)->copied_us = ctx->now_us;
    if (is_last) {
        d->passed += d->windows;
        d->step = HALAY_DIRECT_END;
    }
    return status;
}

static enum halay_status launch_exchange(struct halay_bucket *b)
{
    direct_of(b)->exchanges++;
    return end_turn(b->set->ctx, 1, launch_work(b, EXCHANGE, 0, direct_of(b)->stream));
}

/* Returns nonzero if a turn has copies beside its sums. */
static int has_copies_beside(const struct halay_direct *d, size_t turn)
{
    return turn && turn <= d->windows && (turn < d->windows || (!d->is_one_shot && turn > 1));
}

/* Ends what was launched in the present turn. */
static enum halay_status close_turn(struct halay_bucket *b, enum halay_status status)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    size_t turn = d->turn++, last = d->windows + (d->is_one_shot ? 0 : 1);

    d->step = HALAY_DIRECT_TURN;
    if (has_copies_beside(d, turn)) {
        enum halay_status joined = join_copies(ctx);
        d->is_lost |= joined != HALAY_OK;
        status = status == HALAY_OK ? joined : status;
    }
    return end_turn(ctx, turn == last, status);
}

static enum halay_status launch_turn(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);
    size_t turn = d->turn;
    int packs = turn < d->windows, sums = turn && turn <= d->windows, unpacks = !d->is_one_shot && turn > 1;
    void *copies = has_copies_beside(d, turn) ? d->copies : d->stream;
    enum halay_status status = HALAY_OK;

    if (d->is_exchange)
        return launch_exchange(b);
    if (sums)
        status = launch_work(b, REDUCE, turn - 1, d->stream);
    if (sums && d->hosts.count > 1 && status == HALAY_OK)
        status = start_hosts(b, turn - 1);
    if (unpacks && status == HALAY_OK)
        status = launch_work(b, UNPACK, turn - 2, copies);
    if (packs && status == HALAY_OK)
        status = launch_work(b, PACK, turn, copies);
    if (sums && d->hosts.count > 1 && status == HALAY_OK) {
        d->step = HALAY_DIRECT_WIRE;
        return HALAY_OK;
    }
    return close_turn(b, status);
}

/* Continues a turn once its share has been summed over the hosts. */
static enum halay_status progress_wire(struct halay_bucket *b)
{
    enum halay_status status = halay_hosts_progress(b->set->ctx);

    if (status == HALAY_IN_PROGRESS)
        return status;
    if (status == HALAY_OK)
        status = push_share(b, direct_of(b)->turn - 1);
    return close_turn(b, status);
}

/* ---- a bucket ---- */

/* Waits until the last turn has ended on all ranks, without blocking. HALAY_OK: the next step may begin. */
static enum halay_status await_ranks(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);
    struct halay_context *ctx = b->set->ctx;
    enum halay_status status = HALAY_OK;

    if (d->is_launched) {
        status = halay_devices_ops(ctx)->event_done(&halay_devices_of(ctx)->host, d->device->number, &d->done);
        if (status == HALAY_OK) {
            d->is_launched = 0;
            number_next(b);
            status = halay_hosts_report(ctx, halay_hosts_near(ctx),
                                        halay_group_barrier_start(halay_hosts_near(ctx), &d->coll));
        }
    }
    if (status == HALAY_OK && d->coll) {
        status = halay_hosts_report(ctx, halay_hosts_near(ctx), halay_coll_progress(d->coll));
        if (status == HALAY_OK) {
            halay_coll_end(d->coll);
            d->coll = NULL;
        }
    }
    return status;
}

/* Makes the groups of several hosts. */
static enum halay_status make_groups(struct halay_bucket *b)
{
    enum halay_status status = halay_hosts_make(b->set->ctx);

    if (status == HALAY_OK)
        direct_of(b)->step = HALAY_DIRECT_SHARE;
    return status;
}

static enum halay_status start_step(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);

    switch (d->step) {
    case HALAY_DIRECT_MAKE:
        return make_groups(b);
    case HALAY_DIRECT_SHARE:
        return start_sharing(b);
    case HALAY_DIRECT_AGREE:
        return start_agreeing(b);
    case HALAY_DIRECT_AGREE_HOSTS:
        return start_agreeing_hosts(b);
    case HALAY_DIRECT_CONCLUDE:
        conclude_agreement(b->set->ctx);
        return is_open(d) ? begin_bucket(b) : stage_all(b);
    case HALAY_DIRECT_WIRE:
        return progress_wire(b);
    default:
        return launch_turn(b);
    }
}

enum halay_status halay_direct_progress(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);
    enum halay_status status = HALAY_OK;

    while (status == HALAY_OK && d->step != HALAY_DIRECT_END) {
        if (d->step == HALAY_DIRECT_STAGE)
            return run_staged(b);
        status = await_ranks(b);
        if (status == HALAY_OK)
            status = start_step(b);
    }
    if (status == HALAY_OK)
        d->bucket = NULL;
    return status;
}

enum halay_status halay_direct_start(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);
    enum halay_direct_state state = (enum halay_direct_state)atomic_load_explicit(&d->state, memory_order_relaxed);

    if (b->set != &b->set->ctx->all) /* its data have been copied to the host */
        return halay_allreduce_run(b);
    enum halay_status status = halay_allreduce_collect(b);
    if (status != HALAY_OK || !b->tensor_count)
        return status;
    d->bucket = b;
    d->step = HALAY_DIRECT_MAKE;
    if (b->has_parts || state == HALAY_DIRECT_REFUSED) {
        status = stage_all(b);
    } else if (state == HALAY_DIRECT_OPEN) {
        status = begin_bucket(b);
    }
    if (status != HALAY_OK)
        d->bucket = NULL;
    return status == HALAY_OK ? HALAY_IN_PROGRESS : status;
}

int halay_direct_is_busy(const struct halay_process_set *set)
{
    return set == &set->ctx->all && halay_device_carrier_of(set->ctx)->direct.bucket;
}

void halay_direct_drop(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);

    if (d->bucket != b)
        return;
    if (d->coll)
        halay_coll_end(d->coll);
    d->coll = NULL;
    halay_hosts_drop(b->set->ctx);
    if (d->step == HALAY_DIRECT_WIRE)
        (void)close_turn(b, HALAY_OK);
    d->bucket = NULL;
}

/* ---- the end ---- */

void halay_direct_fail(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    if (d->failed)
        atomic_store_explicit(d->failed, 1, memory_order_relaxed);
}

int halay_direct_has_failed(const struct halay_context *ctx)
{
    const struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    return d->failed && atomic_load_explicit(d->failed, memory_order_relaxed);
}

/* Waits until all ranks have closed the others' segments. */
static enum halay_status await_closing(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    enum halay_status status = ctx->status;

    if (status == HALAY_OK)
        status = halay_group_barrier_start(ctx->all.group, &d->coll);
    if (status == HALAY_OK)
        status = d->coll ? halay_coll_wait(d->coll, CLOSE_MS) : HALAY_OK;
    if (d->coll)
        halay_coll_end(d->coll);
    d->coll = NULL;
    return status;
}

/* Waits until the device has done all that this rank has launched. Returns nonzero if it has. */
static int await_launched(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    d->is_launched = 0;
    return !d->mine.is_there || (!d->is_lost && halay_devices_await(halay_devices_of(ctx), d->device->number, &d->done,
                                                                    halay_deadline_us(CLOSE_MS)) != HALAY_IN_PROGRESS);
}

/* Closes the others' segments, and has them close this rank's. */
static void unshare_all(struct halay_context *ctx, int is_agreed)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    if (!await_launched(ctx)) { /* it may still access all segments: they stay mapped, and no rank frees one */
        memset(d->segments, 0, sizeof d->segments);
        d->is_lent = 1;
        return;
    }
    unreach_all(ctx);
    d->is_lent |= !is_agreed || await_closing(ctx) != HALAY_OK; /* without agreement some ranks may have no barrier */
}

void halay_direct_close(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    int was_shared = d->is_shared,
        is_agreed = atomic_load_explicit(&d->state, memory_order_relaxed) != HALAY_DIRECT_UNKNOWN;

    d->is_shared = 0;
    set_state(d, HALAY_DIRECT_REFUSED);
    if (was_shared)
        unshare_all(ctx, is_agreed);
    halay_hosts_close(ctx);
}

void halay_direct_free(struct halay_context *ctx)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    if (d->stream)
        ops->stream_destroy(host, d->device->number, d->stream);
    if (d->copies)
        ops->stream_destroy(host, d->device->number, d->copies);
    if (d->done.event)
        ops->event_destroy(host, d->device->number, d->done.event);
    if (d->copied.event)
        ops->event_destroy(host, d->device->number, d->copied.event);
    if (d->segment && !d->is_lent)
        ops->free(host, d->device->number, d->segment);
    halay_hosts_free(ctx);
    free(d->pieces);
    d->stream = d->copies = d->done.event = d->copied.event = d->segment = NULL;
    d->pieces = NULL;
}
