/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct: collectives through segments on devices. Each rank has a segment in its device's memory that the other ranks'
 * devices can access (CUDA IPC; in one process, peer access). A bucket passes through the halves of the segments in
 * windows:
 *
 *     pack      the inputs to the own segment
 *     reduce    one-shot: each rank sums all segments to its outputs
 *               two-shot: each rank sums its share of all segments, and stores the sums into all segments
 *     unpack    two-shot: the own segment to the outputs
 *
 *                       packed by          in a half of a segment          taken
 *     all-reduce        all ranks          the tensors                     as above
 *     broadcast         the root           the tensors                     unpacked from the root's by the others
 *     reduce-scatter    all ranks          a slice of each rank's block    one-shot: each rank sums its own block
 *     all-gather        all ranks          a slice of the own rows         unpacked from all by all
 *
 * Only a two-shot unpacks; all others take their results in the turns of `reduce`.
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
#include "fusion/paths/device/nccl.h"
#include "fusion/paths/device/staging.h"
#include "fusion/requests/entry.h"
#include "fusion/run/operations.h"
#include "fusion/run/result.h"
#include <stdlib.h>
#include <string.h>

/* SEGMENT_MIN: a half has room for a slice of each rank's block. */
enum {
    ALIGN_BYTES = 16,
    SEGMENT_MIN = 2 * HALAY_DEVICE_RANKS * ALIGN_BYTES,
    CLOSE_MS = 2000,
    FLAGS_BYTES = (HALAY_DEVICE_FLAGS + 255) / 256 * 256
};

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

static size_t segment_bytes(const struct halay_context *ctx)
{
    return ctx->world->config.device_segment / (2 * ALIGN_BYTES) * (2 * ALIGN_BYTES);
}

void halay_direct_init(struct halay_context *ctx)
{
    const struct halay_world *world = ctx->world;
    int may_be = halay_hosts_init(ctx) && world->local_size <= HALAY_DEVICE_RANKS; /* the same on all ranks */

    halay_device_carrier_of(ctx)->direct.passed = 0;
    halay_device_carrier_of(ctx)->direct.wants_segment =
        world->config.deterministic == HALAY_DETERMINISTIC_OFF && segment_bytes(ctx) >= SEGMENT_MIN;
    set_state(&halay_device_carrier_of(ctx)->direct, may_be ? HALAY_DIRECT_UNKNOWN : HALAY_DIRECT_REFUSED);
    halay_nccl_init(ctx);
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
    d->is_lost = 0; /* of the ranks before a change */
    status = ops->zero(host, d->device->number, flags, FLAGS_BYTES, d->stream);
    if (status == HALAY_OK && d->hosts.count > 1) /* gaps between tensors are sent to other hosts, too */
        status = ops->zero(host, d->device->number, d->segment, d->bytes - FLAGS_BYTES, d->stream);
    if (status == HALAY_OK)
        status = ops->event_record(host, d->device->number, d->stream, &d->done);
    if (status == HALAY_OK)
        status = halay_devices_await(halay_devices_of(ctx), d->device->number, &d->done, halay_deadline_us(CLOSE_MS));
    return status == HALAY_IN_PROGRESS ? HALAY_ERR_TIMEOUT : status;
}

static enum halay_status streams_create(struct halay_context *ctx)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    int number = d->device->number;
    enum halay_status status = HALAY_OK;

    if (!d->stream)
        status = ops->stream_create(host, number, &d->stream);
    if (status == HALAY_OK && !d->copies)
        status = ops->stream_create(host, number, &d->copies);
    if (status == HALAY_OK && !d->done.event)
        status = ops->event_create(host, number, 1, &d->done.event);
    if (status == HALAY_OK && !d->copied.event)
        status = ops->event_create(host, number, 1, &d->copied.event);
    return status;
}

static enum halay_status segment_create(struct halay_context *ctx)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    size_t bytes = segment_bytes(ctx) + FLAGS_BYTES;

    if (!d->wants_segment) /* and data may be on several devices */
        return HALAY_ERR_UNSUPPORTED;
    int number = d->device->number;
    enum halay_status status = streams_create(ctx);
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

    d->reaches_all = d->mine.is_there != 0;
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

/* Finds the room of all hosts, and the rank that refuses: the lowest without a segment, or else the lowest, plus the
 * number of ranks. */
static enum halay_status start_agreeing_hosts(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    d->agreed[0] = INT64_MAX;
    d->agreed[1] = (int64_t)d->room;
    for (int r = 0; r < d->hosts.locals; r++) {
        int64_t rank = halay_group_world_rank(halay_hosts_near(ctx), r) + (d->shares[r].is_there ? ctx->size : 0);
        if (!d->all_reach[r] && rank < d->agreed[0])
            d->agreed[0] = rank;
    }
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
        halay_debug(ctx->log, "collectives on device data use segments of %zu bytes in device memory", 2 * d->room);
        return;
    }
    unreach_all(ctx);
    halay_hosts_unreserve(ctx);
    if (ctx->rank == 0)
        halay_info(ctx->log, "collectives on device data use host memory: rank %d %s", (int)(d->agreed[0] % ctx->size),
                   d->agreed[0] < ctx->size ? "has no segment" : "cannot access the segments of all ranks of its host");
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

static int collective_of(const struct halay_bucket *b)
{
    return b->requests[0]->signature.collective;
}

static enum halay_status run_on_host(struct halay_bucket *b)
{
    switch (collective_of(b)) {
    case HALAY_BROADCAST:
        return halay_broadcast_run(b);
    case HALAY_ALLGATHER:
        return halay_allgather_run(b->set->ctx, b);
    case HALAY_REDUCE_SCATTER:
        return halay_reduce_scatter_run(b->set->ctx, b);
    default:
        return halay_allreduce_run(b);
    }
}

/* Starts the bucket as an ordinary one, once all its data are in host memory. */
static enum halay_status run_staged(struct halay_bucket *b)
{
    enum halay_status status = look_at_all(b);

    if (status != HALAY_OK)
        return status;
    direct_of(b)->bucket = NULL;
    halay_bucket_number_next(b);
    status = run_on_host(b);
    return status == HALAY_OK && b->coll ? HALAY_IN_PROGRESS : status;
}

/* ---- parts ---- */

/* Returns the multiple of elements at which each part begins, so that it is aligned to ALIGN_BYTES. */
static size_t align_of(const struct halay_bucket *b)
{
    return ALIGN_BYTES / halay_dtype_size(b->dtype);
}

static void add_part(struct halay_direct *d, const struct halay_direct_part *part)
{
    d->parts[d->part_count++] = *part;
}

static void list_tensors(struct halay_bucket *b)
{
    for (size_t i = 0; i < b->tensor_count; i++) {
        const struct halay_bucket_tensor *t = &b->tensors[i];
        add_part(direct_of(b), &(struct halay_direct_part){ .in = t->buffers.in,
                                                            .out = t->buffers.out,
                                                            .count = t->buffers.count,
                                                            .rank = direct_of(b)->hosts.local,
                                                            .prescale = (float)t->prescale,
                                                            .postscale = (float)t->postscale });
    }
}

static void list_broadcast(struct halay_bucket *b)
{
    int root = halay_process_set_rank_of(b->set, b->requests[0]->signature.root), is_root = root == b->set->rank;

    for (size_t i = 0; i < b->count; i++)
        add_part(direct_of(b), &(struct halay_direct_part){ .in = is_root ? b->requests[i]->out : NULL,
                                                            .out = is_root ? NULL : b->requests[i]->out,
                                                            .count = b->requests[i]->count,
                                                            .rank = root });
}

static enum halay_status list_scattered(struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    const struct halay_signature *s = &r->signature;
    size_t row = halay_signature_row(s), at = 0;
    void *out;

    enum halay_status status = halay_result_place(r, halay_scattered_rows(b, b->set->rank), &out);
    for (int i = 0; i < b->set->size && status == HALAY_OK; i++) {
        struct halay_direct_part part = { .in = (const char *)r->in + at * halay_dtype_size(b->dtype),
                                          .out = i == b->set->rank ? out : NULL,
                                          .count = halay_scattered_rows(b, i) * row,
                                          .rank = i,
                                          .prescale = (float)s->prescale,
                                          .postscale = (float)s->postscale };
        add_part(direct_of(b), &part);
        at += part.count;
    }
    return status;
}

/* Enlarges the memory for rows. The old memory is kept until the end: freeing it could wait for the program's
 * streams, which may wait for other ranks. */
static enum halay_status copy_grow(struct halay_context *ctx, size_t bytes)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    void *copy;

    bytes = bytes > 2 * d->copy_bytes ? bytes : 2 * d->copy_bytes;
    enum halay_status status =
        halay_devices_ops(ctx)->alloc(&halay_devices_of(ctx)->host, d->device->number, bytes, &copy);
    if (status != HALAY_OK)
        return status;
    if (d->copy)
        d->outgrown[d->outgrown_count++] = d->copy;
    d->copy = copy;
    d->copy_bytes = bytes;
    return HALAY_OK;
}

/* Copies this rank's rows if they lie in out, and not in their place there: other ranks' would overwrite them. */
static enum halay_status copy_rows(struct halay_context *ctx, const struct halay_request *r, const char *out,
                                   const char **in)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    enum halay_status status = HALAY_OK;

    if (!r->bytes || *in >= out + r->result_bytes || *in + r->bytes <= out)
        return HALAY_OK;
    if (d->copy_bytes < r->bytes)
        status = copy_grow(ctx, r->bytes);
    if (status == HALAY_OK)
        status = ops->copy_start(host, d->device->number, d->copy, *in, r->bytes, d->stream);
    if (status == HALAY_OK) { /* the request waits for this copy: the job may fail before turn 0 */
        status = ops->event_record(host, d->device->number, d->stream, &d->done);
        d->is_lost |= status != HALAY_OK;
    }
    *in = d->copy;
    return status;
}

/* Begins with the next rank, so that not all ranks read the same segment first. */
static enum halay_status list_gathered(struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    size_t row = halay_signature_row(&r->signature), element = halay_dtype_size(b->dtype);
    const char *in = r->in;
    void *out;

    enum halay_status status = halay_result_place_answered(b->set->ctx, r, &out);
    size_t count = status == HALAY_OK ? r->rows[0] * row : 0; /* of each rank: is_ragged */
    for (int k = 1; k <= b->set->size && status == HALAY_OK; k++) {
        int i = (b->set->rank + k) % b->set->size, is_own = i == b->set->rank;
        char *place = out ? (char *)out + (size_t)i * count * element : NULL;
        if (is_own && place && in != place)
            status = copy_rows(b->set->ctx, r, out, &in);
        struct halay_direct_part part = {
            .in = is_own ? in : NULL, .out = is_own && in == place ? NULL : place, .count = count, .rank = i
        };
        add_part(direct_of(b), &part);
    }
    return status;
}

/* Lists what passes through the segments. */
static enum halay_status list_parts(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);
    size_t most = b->count > (size_t)b->set->size ? b->count : (size_t)b->set->size;
    int is_allreduce = collective_of(b) == HALAY_ALLREDUCE;
    enum halay_status status = is_allreduce ? halay_allreduce_collect(b) : HALAY_OK;

    most = is_allreduce && b->tensor_count > most ? b->tensor_count : most; /* of a group */
    d->part_count = 0;
    if (status == HALAY_OK && (halay_list_reserve(&d->parts, most, &d->part_capacity, sizeof *d->parts) != HALAY_OK ||
                               halay_list_reserve(&d->pieces, most, &d->piece_capacity, sizeof *d->pieces) != HALAY_OK))
        return HALAY_ERR_NO_MEMORY;
    if (status != HALAY_OK)
        return status;
    switch (collective_of(b)) {
    case HALAY_BROADCAST:
        list_broadcast(b);
        return HALAY_OK;
    case HALAY_REDUCE_SCATTER:
        return list_scattered(b);
    case HALAY_ALLGATHER:
        return list_gathered(b);
    default:
        list_tensors(b);
        return HALAY_OK;
    }
}

/* ---- through the segments ---- */

static size_t window_of(const struct halay_bucket *b)
{
    return direct_of(b)->room / halay_dtype_size(b->dtype);
}

static int takes_one_shot(const struct halay_context *ctx, size_t bytes)
{
    struct halay_select_query query = halay_select_on_devices(ctx->world->tuning, ctx->size, bytes);

    return !strcmp(halay_select(&query, NULL, 0)->name, "one-shot");
}

/* Divides the parts into windows. */
static void make_windows(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);
    size_t room = window_of(b), length = 0;
    int collective = collective_of(b);

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

static enum halay_status begin_bucket(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    enum halay_status status = list_parts(b);
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
    for (size_t i = 0; i < b->count; i++)
        if (halay_staging_of(b->requests[i])) /* not of an empty tensor */
            halay_staging_set_end(halay_staging_of(b->requests[i]), &d->done);
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
    struct halay_direct *d = direct_of(b);
    size_t at = 0, element = halay_dtype_size(b->dtype);

    d->piece_count = 0;
    for (size_t i = 0; i < d->part_count; i++) {
        const struct halay_direct_part *part = &d->parts[i];
        size_t from = at > first ? at : first, to = at + part->count < last ? at + part->count : last;
        size_t place = d->slice && collective_of(b) == HALAY_REDUCE_SCATTER ? i * d->slice : 0;
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
    const struct halay_direct *d = direct_of(b);
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
    struct stretch part = stretch_of(b, window, is_share);
    void *halves[HALAY_DEVICE_RANKS], *flags[HALAY_DEVICE_RANKS];
    enum halay_status (*const calls[])(const struct halay_device_host *, int, const struct halay_device_work *,
                                       void *) = { ops->pack, ops->reduce, ops->unpack, ops->exchange };

    for (int r = 0; r < d->hosts.locals; r++) {
        halves[r] = half_of(d, window, r);
        flags[r] = (char *)d->segments[r] + d->shares[r].bytes - FLAGS_BYTES;
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
    int reduces = halay_collective_reduces(collective_of(b));
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

/* Returns nonzero if ranks give different numbers of rows: an out may be too small for them, on some ranks. */
static int is_ragged(const struct halay_bucket *b)
{
    const struct halay_payload *answer = &b->requests[0]->entry->answer;

    for (size_t i = 1; collective_of(b) == HALAY_ALLGATHER && i < answer->count; i++)
        if (answer->at[i] != answer->at[0])
            return 1;
    return 0;
}

/* Starts the bucket by the segments, or by the host. */
static enum halay_status choose_way(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);

    d->step = HALAY_DIRECT_MAKE;
    if (b->has_parts || atomic_load_explicit(&d->state, memory_order_relaxed) == HALAY_DIRECT_REFUSED || is_ragged(b) ||
        !halay_direct_takes(b->set->ctx, &b->requests[0]->signature))
        return stage_all(b);
    return is_open(d) ? begin_bucket(b) : HALAY_OK;
}

static enum halay_status progress_nccl(struct halay_bucket *b)
{
    enum halay_status status = halay_nccl_progress(b);

    if (status != HALAY_OK)
        return status;
    if (!halay_nccl_takes(b)) /* refused */
        return choose_way(b);
    direct_of(b)->step = HALAY_DIRECT_END;
    return HALAY_OK;
}

static enum halay_status start_nccl(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);

    halay_nccl_start(b);
    d->is_launched = 0;
    d->step = HALAY_DIRECT_NCCL;
    return streams_create(b->set->ctx);
}

static enum halay_status start_step(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);

    switch (d->step) {
    case HALAY_DIRECT_NCCL:
        return progress_nccl(b);
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
    enum halay_status status = halay_group_failure(b->set->group, NULL); /* it may wait in another group */

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

/* Returns nonzero if the bucket has elements, by what all ranks have agreed on: they must go the same way. */
static int has_elements(const struct halay_bucket *b)
{
    int is_gathered = collective_of(b) == HALAY_ALLGATHER;

    for (size_t i = 0; i < b->count; i++) {
        const struct halay_request *r = b->requests[i];
        for (size_t k = 0; k < r->signature.members; k++)
            if (r->buffers[k].count && r->buffers[k].dtype == b->dtype)
                return 1;
        for (size_t k = 0; is_gathered && k < r->entry->answer.count; k++)
            if (r->entry->answer.at[k] && halay_signature_row(&r->signature))
                return 1;
        if (!r->signature.members && !is_gathered && halay_signature_bytes(&r->signature))
            return 1;
    }
    return 0;
}

enum halay_status halay_direct_start(struct halay_bucket *b)
{
    struct halay_direct *d = direct_of(b);
    enum halay_status status = HALAY_OK;

    if (!halay_direct_may_take(b->set, &b->requests[0]->signature) || !has_elements(b)) /* its data are on the host */
        return run_on_host(b);
    d->bucket = b;
    if (halay_nccl_takes(b))
        status = halay_allreduce_collect(b);
    if (status == HALAY_OK)
        status = halay_nccl_takes(b) ? start_nccl(b) : choose_way(b);
    if (status != HALAY_OK)
        d->bucket = NULL;
    return status == HALAY_OK ? HALAY_IN_PROGRESS : status;
}

int halay_direct_may_take(const struct halay_process_set *set, const struct halay_signature *s)
{
    return set == &set->ctx->all && halay_direct_can_take(set->ctx, s);
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
    halay_hosts_fail(b->set->ctx);
    if (d->coll)
        halay_coll_end(d->coll);
    d->coll = NULL;
    halay_hosts_drop(b->set->ctx);
    if (d->step == HALAY_DIRECT_WIRE)
        (void)close_turn(b, HALAY_OK);
    if (d->step == HALAY_DIRECT_NCCL)
        halay_nccl_drop(b->set->ctx);
    d->bucket = NULL;
}

/* ---- the end ---- */

void halay_direct_fail(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    if (d->failed)
        atomic_store_explicit(d->failed, 1, memory_order_relaxed);
    if (ctx->status != HALAY_OK)
        halay_nccl_abort(ctx);
}

int halay_direct_has_failed(const struct halay_context *ctx)
{
    const struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    return d->nccl.is_aborted || (d->failed && atomic_load_explicit(d->failed, memory_order_relaxed));
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

/* Ends NCCL once no rank has work of it left. */
static void close_nccl(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    if (d->nccl.comm && ctx->status == HALAY_OK) {
        halay_devices_await(halay_devices_of(ctx), d->device->number, &d->done, halay_deadline_us(CLOSE_MS));
        (void)await_closing(ctx);
    }
    halay_nccl_abort(ctx);
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
    close_nccl(ctx);
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
    halay_nccl_free(ctx);
    if (d->copy)
        ops->free(host, d->device->number, d->copy);
    while (d->outgrown_count)
        ops->free(host, d->device->number, d->outgrown[--d->outgrown_count]);
    free(d->parts);
    free(d->pieces);
    d->stream = d->copies = d->done.event = d->copied.event = d->segment = d->copy = NULL;
    d->copy_bytes = d->part_capacity = d->piece_capacity = 0;
    d->parts = NULL;
    d->pieces = NULL;
}
