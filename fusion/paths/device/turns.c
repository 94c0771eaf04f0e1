/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns: windows of a bucket, packed, reduced and unpacked; turns.h. The scheme is at the top of direct.c.
 */
#include "fusion/paths/device/turns.h"
#include "base/memory.h"
#include "collectives/choose/select.h"
#include "fusion/paths/device/direct_parts.h"
#include "fusion/paths/device/hosts.h"
#include "fusion/paths/device/segments.h"
#include "fusion/paths/device/staging.h"
#include <string.h>

/* Returns the multiple of elements at which each part begins, so that it is aligned to HALAY_SEGMENT_ALIGN. */
static size_t align_of(const struct halay_bucket *b)
{
    return HALAY_SEGMENT_ALIGN / halay_dtype_size(b->dtype);
}

static size_t window_of(const struct halay_bucket *b)
{
    return halay_direct_of(b)->room / halay_dtype_size(b->dtype);
}

static int takes_one_shot(const struct halay_context *ctx, size_t bytes)
{
    struct halay_select_query query = halay_select_on_devices(ctx->world->tuning, ctx->size, bytes);

    return !strcmp(halay_select(&query, NULL, 0)->name, "one-shot");
}

/* Divides the parts into windows. */
static void make_windows(struct halay_bucket *b)
{
    struct halay_direct *d = halay_direct_of(b);
    size_t room = window_of(b), length = 0;
    int collective = halay_bucket_collective(b);

    d->slice = collective == HALAY_ALLGATHER        ? room
               : collective == HALAY_REDUCE_SCATTER ? room / (size_t)b->set->size / align_of(b) * align_of(b)
                                                    : 0;
    for (size_t i = 0; i < d->part_count; i++)
        if (!d->slice)
            length += halay_round_up(d->parts[i].count, align_of(b));
        else if (d->parts[i].count > length)
            length = d->parts[i].count;
    d->windows = halay_span_cuts(length, d->slice ? d->slice : room);
    d->total = length;
}

/* Has the bucket's requests end with this point; NULL: with the bucket. */
static void set_ends(struct halay_bucket *b, const struct halay_device_point *end)
{
    for (size_t i = 0; i < b->count; i++)
        if (halay_staging_of(b->requests[i])) /* not of an empty tensor */
            halay_staging_set_end(halay_staging_of(b->requests[i]), end);
}

enum halay_status halay_turns_begin(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    enum halay_status status = halay_direct_parts_list(b);
    if (status != HALAY_OK)
        return status;
    make_windows(b);
    d->turn = 0;
    size_t bytes = d->total * halay_dtype_size(b->dtype);
    const struct halay_signature *s = &b->requests[0]->signature;
    int is_allreduce = s->collective == HALAY_ALLREDUCE;
    d->is_one_shot = !is_allreduce || (d->hosts.count == 1 && takes_one_shot(ctx, bytes));
    d->is_exchange = is_allreduce && halay_sums_floats(s->reduction, b->dtype) && d->exchange_max && d->windows == 1 &&
                     d->part_count <= HALAY_DEVICE_PIECES && bytes <= d->exchange_max;
    set_ends(b, &d->done);
    d->is_launched = 0; /* no rank waits for the bucket before */
    d->step = d->windows ? HALAY_DIRECT_TURN : HALAY_DIRECT_END;
    return HALAY_OK;
}

/* Adds elements of a part that are `at` in the segments. */
static void add_piece(struct halay_direct *d, const struct halay_direct_part *part, size_t from, size_t to, size_t at,
                      size_t element)
{
    d->pieces[d->piece_count++] = (struct halay_device_piece){ .in = part->in ? part->in + from * element : NULL,
                                                               .out = part->out ? part->out + from * element : NULL,
                                                               .at = at,
                                                               .count = to - from,
                                                               .rank = part->rank,
                                                               .prescale = part->prescale,
                                                               .postscale = part->postscale };
}

/* Lists what this rank packs, or takes, of the elements first to last of the bucket, of a window that begins at base.
 */
static void cut_pieces(const struct halay_bucket *b, int packs, size_t base, size_t first, size_t last)
{
    struct halay_direct *d = halay_direct_of(b);
    size_t at = 0, element = halay_dtype_size(b->dtype);

    d->piece_count = 0;
    for (size_t i = 0; i < d->part_count; i++) {
        const struct halay_direct_part *part = &d->parts[i];
        size_t from = at > first ? at : first, to = at + part->count < last ? at + part->count : last;
        size_t place = d->slice && halay_bucket_collective(b) == HALAY_REDUCE_SCATTER ? i * d->slice : 0;
        if (from < to && (packs ? part->in != NULL : part->out != NULL))
            add_piece(d, part, from - at, to - at, from - base + place, element);
        if (!d->slice)
            at += halay_round_up(part->count, align_of(b));
    }
}

enum work { PACK, REDUCE, UNPACK, EXCHANGE };

/* Elements of a bucket, or of a slice. */
struct stretch {
    size_t base, first, last; /* where its window begins; the stretch, counted from the bucket's beginning */
};

/* Returns a window of the bucket, or this rank's share of it. */
static struct stretch stretch_of(const struct halay_bucket *b, size_t window, int is_share)
{
    const struct halay_direct *d = halay_direct_of(b);
    size_t length = d->slice ? d->slice : window_of(b), base = window * length, last = base + length;

    last = last < d->total ? last : d->total;
    if (!is_share)
        return (struct stretch){ base, base, last };
    size_t ranks = (size_t)d->hosts.locals, share = halay_round_up((last - base + ranks - 1) / ranks, align_of(b));
    size_t first = base + (size_t)d->hosts.local * share;
    first = first < last ? first : last;
    return (struct stretch){ base, first, first + share < last ? first + share : last };
}

/* Returns the half of a rank's segment through which a window passes. */
static char *half_of(const struct halay_direct *d, size_t window, int rank)
{
    return (char *)d->segments[rank] + (d->passed + window) % 2 * d->room;
}

/* Returns where an element of a part is in this rank's segment. */
static char *own_place(const struct halay_bucket *b, size_t window, size_t at)
{
    const struct halay_direct *d = halay_direct_of(b);

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
    struct stretch part = stretch_of(b, window, is_share);
    void *halves[HALAY_DEVICE_RANKS], *flags[HALAY_DEVICE_RANKS];
    enum halay_status (*const calls[])(const struct halay_device_host *, int, const struct halay_device_work *,
                                       void *) = { ops->pack, ops->reduce, ops->unpack, ops->exchange };

    for (int r = 0; r < d->hosts.locals; r++) {
        halves[r] = half_of(d, window, r);
        flags[r] = (char *)d->segments[r] + d->shares[r].bytes - HALAY_SEGMENT_FLAGS;
    }
    cut_pieces(b, kind == PACK, part.base, part.first, part.last);
    for (size_t i = 0; i < d->piece_count && is_of_hosts; i++) /* the hosts' sums are still to come */
        d->pieces[i].out = own_place(b, window, d->pieces[i].at);
    enum halay_reduction reduction = (enum halay_reduction)b->requests[0]->signature.reduction;
    struct halay_device_work work = { .dtype = b->dtype,
                                      .element = halay_dtype_size(b->dtype),
                                      .reduction = reduction,
                                      .divisor = reduction == HALAY_AVERAGE ? b->set->size : 1,
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
    struct stretch part = stretch_of(b, window, 1);

    return halay_hosts_start(b->set->ctx, own_place(b, window, part.first - part.base), part.last - part.first,
                             b->dtype);
}

/* Stores this rank's share of a window, which is in its segment, into those of the host's other ranks. */
static enum halay_status push_share(struct halay_bucket *b, size_t window)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    struct stretch part = stretch_of(b, window, 1);
    struct halay_device_piece piece = { .in = own_place(b, window, part.first - part.base),
                                        .at = part.first - part.base,
                                        .count = part.last - part.first };
    void *halves[HALAY_DEVICE_RANKS];
    enum halay_status status = HALAY_OK;

    for (int r = 0; r < d->hosts.locals; r++)
        halves[r] = half_of(d, window, r);
    for (int k = 1; k < d->hosts.locals && piece.count && status == HALAY_OK; k++) {
        struct halay_device_work work = { .dtype = b->dtype,
                                          .element = halay_dtype_size(b->dtype),
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
static enum halay_status end_turn(struct halay_bucket *b, int is_last, enum halay_status status)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    enum halay_status recorded =
        halay_devices_ops(ctx)->event_record(&halay_devices_of(ctx)->host, d->device->number, d->stream, &d->done);

    if (recorded != HALAY_OK) {
        d->is_lost = 1;
        set_ends(b, NULL); /* nothing marks it */
    }
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
    halay_direct_of(b)->exchanges++;
    return end_turn(b, 1, launch_work(b, EXCHANGE, 0, halay_direct_of(b)->stream));
}

/* Returns nonzero if a turn has copies beside its sums. */
static int has_copies_beside(const struct halay_direct *d, size_t turn)
{
    return turn && turn <= d->windows && (turn < d->windows || (!d->is_one_shot && turn > 1));
}

enum halay_status halay_turns_close(struct halay_bucket *b, enum halay_status status)
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
    return end_turn(b, turn == last, status);
}

enum halay_status halay_turns_launch(struct halay_bucket *b)
{
    struct halay_direct *d = halay_direct_of(b);
    size_t turn = d->turn;
    int packs = turn < d->windows, sums = turn && turn <= d->windows, unpacks = !d->is_one_shot && turn > 1;
    void *copies = has_copies_beside(d, turn) ? d->copies : d->stream;
    int reduces = halay_collective_reduces(halay_bucket_collective(b));
    enum halay_status status = HALAY_OK;

    if (d->is_exchange)
        return launch_exchange(b);
    if (sums)
        status = launch_work(b, reduces ? REDUCE : UNPACK, turn - 1, d->stream);
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
    return halay_turns_close(b, status);
}

enum halay_status halay_turns_progress_wire(struct halay_bucket *b)
{
    enum halay_status status = halay_hosts_progress(b->set->ctx);

    if (status == HALAY_IN_PROGRESS)
        return status;
    if (status == HALAY_OK)
        status = push_share(b, halay_direct_of(b)->turn - 1);
    return halay_turns_close(b, status);
}
