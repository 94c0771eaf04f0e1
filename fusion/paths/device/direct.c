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
 * The first bucket opens the segments (segments.c). If one rank cannot access those of its host, all ranks copy this
 * and later buckets to the host (staging.h).
 */
#include "fusion/paths/device/direct.h"
#include "base/clock.h"
#include "collectives/group/channel.h"
#include "fusion/paths/device/direct_parts.h"
#include "fusion/paths/device/nccl.h"
#include "fusion/paths/device/segments.h"
#include "fusion/paths/device/staging.h"
#include "fusion/paths/device/turns.h"
#include "fusion/requests/entry.h"
#include "fusion/run/operations.h"

void halay_direct_init(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    halay_hosts_init(ctx);
    d->passed = 0;
    if (d->failed) /* of the ranks before a change */
        atomic_store_explicit(d->failed, 0, memory_order_relaxed);
    d->wants_segment = halay_segments_are_wanted(ctx);
    halay_direct_set_state(d,
                           halay_world_devices_can_take(ctx->world, 1) ? HALAY_DIRECT_UNKNOWN : HALAY_DIRECT_REFUSED);
    halay_nccl_init(ctx);
}

/* ---- through the host ---- */

static enum halay_status stage_all(struct halay_bucket *b)
{
    enum halay_status status = HALAY_OK;

    halay_direct_of(b)->step = HALAY_DIRECT_STAGE;
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

static enum halay_status run_on_host(struct halay_bucket *b)
{
    switch (halay_bucket_collective(b)) {
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
    halay_direct_of(b)->bucket = NULL;
    halay_bucket_number_next(b);
    status = run_on_host(b);
    return status == HALAY_OK && b->coll ? HALAY_IN_PROGRESS : status;
}

/* ---- a bucket ---- */

/* Waits until the last turn has ended on all ranks, without blocking. HALAY_OK: the next step may begin. */
static enum halay_status await_ranks(struct halay_bucket *b)
{
    struct halay_direct *d = halay_direct_of(b);
    struct halay_context *ctx = b->set->ctx;
    enum halay_status status = HALAY_OK;

    if (d->is_launched) {
        status = halay_devices_ops(ctx)->event_done(&halay_devices_of(ctx)->host, d->device->number, &d->done);
        if (status == HALAY_OK) {
            d->is_launched = 0;
            halay_segments_number_next(b);
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
        halay_direct_of(b)->step = HALAY_DIRECT_CREATE;
    return status;
}

/* Returns nonzero if ranks give different numbers of rows: an out may be too small for them, on some ranks. */
static int is_ragged(const struct halay_bucket *b)
{
    const struct halay_payload *answer = &b->requests[0]->entry->answer;

    for (size_t i = 1; halay_bucket_collective(b) == HALAY_ALLGATHER && i < answer->count; i++)
        if (answer->at[i] != answer->at[0])
            return 1;
    return 0;
}

/* Starts the bucket by the segments, or by the host. */
static enum halay_status choose_way(struct halay_bucket *b)
{
    struct halay_direct *d = halay_direct_of(b);

    d->step = HALAY_DIRECT_MAKE;
    if (b->has_parts || atomic_load_explicit(&d->state, memory_order_relaxed) == HALAY_DIRECT_REFUSED || is_ragged(b) ||
        !halay_direct_takes(b->set->ctx, &b->requests[0]->signature))
        return stage_all(b);
    return halay_direct_is_open(d) ? halay_turns_begin(b) : HALAY_OK;
}

static enum halay_status progress_nccl(struct halay_bucket *b)
{
    enum halay_status status = halay_nccl_progress(b);

    if (status != HALAY_OK)
        return status;
    if (!halay_nccl_takes(b)) /* refused */
        return choose_way(b);
    halay_direct_of(b)->step = HALAY_DIRECT_END;
    return HALAY_OK;
}

static enum halay_status start_nccl(struct halay_bucket *b)
{
    struct halay_direct *d = halay_direct_of(b);

    halay_nccl_start(b);
    d->is_launched = 0;
    d->step = HALAY_DIRECT_NCCL;
    return halay_segments_streams(b->set->ctx);
}

static enum halay_status start_step(struct halay_bucket *b)
{
    struct halay_direct *d = halay_direct_of(b);

    switch (d->step) {
    case HALAY_DIRECT_NCCL:
        return progress_nccl(b);
    case HALAY_DIRECT_MAKE:
        return make_groups(b);
    case HALAY_DIRECT_CREATE:
        halay_segments_create(b);
        return HALAY_OK;
    case HALAY_DIRECT_SHARE:
        return halay_segments_share(b);
    case HALAY_DIRECT_AGREE:
        return halay_segments_agree(b);
    case HALAY_DIRECT_AGREE_HOSTS:
        return halay_segments_agree_hosts(b);
    case HALAY_DIRECT_CONCLUDE:
        halay_segments_conclude(b->set->ctx);
        return halay_direct_is_open(d) ? halay_turns_begin(b) : stage_all(b);
    case HALAY_DIRECT_WIRE:
        return halay_turns_progress_wire(b);
    default:
        return halay_turns_launch(b);
    }
}

enum halay_status halay_direct_progress(struct halay_bucket *b)
{
    struct halay_direct *d = halay_direct_of(b);
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
    int is_gathered = halay_bucket_collective(b) == HALAY_ALLGATHER;

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
    struct halay_direct *d = halay_direct_of(b);
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
    struct halay_direct *d = halay_direct_of(b);

    if (d->bucket != b)
        return;
    halay_hosts_fail(b->set->ctx);
    if (d->coll)
        halay_coll_end(d->coll);
    d->coll = NULL;
    halay_hosts_drop(b->set->ctx);
    if (d->step == HALAY_DIRECT_WIRE)
        (void)halay_turns_close(b, HALAY_OK);
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

void halay_direct_close(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    int was_shared = d->is_shared,
        is_agreed = atomic_load_explicit(&d->state, memory_order_relaxed) != HALAY_DIRECT_UNKNOWN;

    d->is_shared = 0;
    halay_direct_set_state(d, HALAY_DIRECT_REFUSED);
    if (was_shared)
        halay_segments_close(ctx, is_agreed);
    halay_nccl_close(ctx);
    halay_hosts_close(ctx);
}

void halay_direct_free(struct halay_context *ctx)
{
    halay_segments_free(ctx);
    halay_hosts_free(ctx);
    halay_nccl_free(ctx);
    halay_direct_parts_free(ctx);
}
