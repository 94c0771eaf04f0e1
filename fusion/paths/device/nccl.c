/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL in place of direct.c, where HALAY_DEVICE_ALGORITHM names it: the module for CUDA loads it (device_ops.h). The
 * engine negotiates and orders as ever, and a bucket is one group of NCCL's calls in the direct stream.
 *
 *     offer     each rank sends its version of NCCL and its device's UUID
 *     identify  all have one version and devices of their own: rank 0 has NCCL make an id, which starts a thread of it
 *               that waits for all ranks; otherwise rank 0 logs why not, and all ranks use direct.c
 *     join      the communicator is made, which is polled
 *     reduce    a bucket; polled until NCCL has given it to the stream
 *
 * No kernel of NCCL's ends by itself while a rank is missing. So when the engine has failed the communicator is
 * aborted, which ends them; what they have summed is worth nothing. An aborted kernel may also hand garbage to those
 * of other ranks, which end as if nothing had happened. So an abort follows the message of the failure by
 * HALAY_DEVICE_GRACE_US, and no rank takes a result once it has that message. An abort may wait for other ranks, so
 * it has a thread. Requests whose kernels run end once it has ended these. While NCCL may still give the stream a
 * bucket that was dropped, all direct results wait for the abort.
 */
#include "fusion/paths/device/nccl.h"
#include "base/clock.h"
#include "base/memory.h"
#include "collectives/group/group.h"
#include "fusion/paths/device/segments.h"
#include "fusion/paths/device/staging.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_US = 1000, LOST_US = 5000000, SLOW_US = 10000000 };

struct halay_nccl_offer {
    int32_t is_there;
    int32_t version;
    unsigned char uuid[16];
    char text[256]; /* it is not there: why */
};

static struct halay_nccl *nccl_of(const struct halay_context *ctx)
{
    return &halay_device_carrier_of(ctx)->direct.nccl;
}

static const struct halay_device_nccl *calls_of(const struct halay_context *ctx)
{
    return halay_devices_ops(ctx)->nccl;
}

static const struct halay_device_host *host_of(const struct halay_context *ctx)
{
    return &halay_devices_of(ctx)->host;
}

static int device_of(const struct halay_context *ctx)
{
    return halay_device_carrier_of(ctx)->direct.device->number;
}

static void set_state(struct halay_nccl *n, enum halay_direct_state state)
{
    atomic_store_explicit(&n->state, state, memory_order_relaxed);
}

static int is_in(const struct halay_nccl *n, enum halay_direct_state state)
{
    return atomic_load_explicit(&n->state, memory_order_relaxed) == (int)state;
}

void halay_nccl_init(struct halay_context *ctx)
{
    const struct halay_config *config = &ctx->world->config;
    struct halay_nccl *n = nccl_of(ctx);
    int is_wanted = config->device_algorithm == HALAY_DEVICE_ALGORITHM_NCCL && ctx->size > 1;

    n->is_aborted = n->has_dropped = 0;
    n->lost_us = 0;
    set_state(n, is_wanted ? HALAY_DIRECT_UNKNOWN : HALAY_DIRECT_REFUSED);
}

int halay_nccl_takes(const struct halay_bucket *b)
{
    return halay_nccl_may_take(b->set->ctx, &b->requests[0]->signature) && b->is_plain && !b->has_parts;
}

/* ---- the communicator ---- */

static enum halay_status start_offering(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_nccl *n = nccl_of(ctx);
    struct halay_nccl_offer mine = { .is_there = 0 };
    int version = 0;

    if (!n->offers && !(n->offers = calloc((size_t)ctx->size, sizeof *n->offers)))
        return HALAY_ERR_NO_MEMORY;
    if (ctx->world->config.deterministic != HALAY_DETERMINISTIC_OFF)
        snprintf(mine.text, sizeof mine.text, "HALAY_DETERMINISTIC is set there");
    else if (ctx->world->config.encrypt && ctx->world->cross_size > 1)
        snprintf(mine.text, sizeof mine.text, "HALAY_ENCRYPT=1, and NCCL does not encrypt");
    else
        mine.is_there =
            calls_of(ctx)->load(host_of(ctx), device_of(ctx), &version, mine.uuid, mine.text, sizeof mine.text);
    mine.version = version;
    n->offers[ctx->rank] = mine;
    n->step = HALAY_NCCL_IDENTIFY;
    halay_bucket_number_next(b);
    return halay_group_allgather_start(ctx->all.group, &n->offers[ctx->rank], n->offers, sizeof mine, HALAY_U8,
                                       &n->coll);
}

/* Returns the rank before this one that has the same device, or -1. */
static int find_same_device(const struct halay_nccl_offer *offers, int rank)
{
    static const unsigned char none[sizeof offers->uuid];

    for (int r = 0; r < rank; r++)
        if (memcmp(offers[rank].uuid, none, sizeof none) && !memcmp(offers[r].uuid, offers[rank].uuid, sizeof none))
            return r;
    return -1;
}

/* Returns nonzero if the ranks can use NCCL together; otherwise why not, in text. */
static int can_join(const struct halay_nccl_offer *offers, int size, char *text, size_t room)
{
    for (int r = 0; r < size; r++) {
        int other = find_same_device(offers, r);
        if (!offers[r].is_there)
            snprintf(text, room, "rank %d: %s", r, offers[r].text);
        else if (offers[r].version != offers->version)
            snprintf(text, room, "rank %d has NCCL %d, rank 0 %d", r, offers[r].version, offers->version);
        else if (other >= 0)
            snprintf(text, room, "ranks %d and %d share a GPU; NCCL takes one rank a GPU ('halayrun --gpus auto')",
                     other, r);
        else
            continue;
        return 0;
    }
    return 1;
}

/* All ranks refuse it alike. */
static enum halay_status refuse_nccl(struct halay_context *ctx, const char *text)
{
    if (ctx->rank == 0)
        halay_warning(ctx->log, "NCCL is not used (HALAY_DEVICE_ALGORITHM): %s", text);
    set_state(nccl_of(ctx), HALAY_DIRECT_REFUSED);
    return HALAY_OK;
}

static enum halay_status await_coll(struct halay_nccl *n)
{
    enum halay_status status = halay_coll_progress(n->coll);

    if (status != HALAY_OK)
        return status;
    halay_coll_end(n->coll);
    n->coll = NULL;
    return HALAY_OK;
}

/* Sends rank 0's id once all offers have arrived. */
static enum halay_status start_identifying(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_nccl *n = nccl_of(ctx);
    char text[400];

    enum halay_status status = await_coll(n);
    if (status != HALAY_OK)
        return status;
    int can = can_join(n->offers, ctx->size, text, sizeof text);
    halay_nccl_free(ctx);
    if (!can)
        return refuse_nccl(ctx, text);
    if (!ctx->rank)
        n->id.is_there = calls_of(ctx)->identify(host_of(ctx), n->id.bytes) == HALAY_OK;
    n->step = HALAY_NCCL_JOIN;
    halay_bucket_number_next(b);
    return halay_group_broadcast_start(ctx->all.group, &n->id, sizeof n->id, HALAY_U8, 0, &n->coll);
}

static enum halay_status join_ranks(struct halay_context *ctx)
{
    struct halay_nccl *n = nccl_of(ctx);

    enum halay_status status = await_coll(n);
    if (status != HALAY_OK)
        return status;
    if (!n->id.is_there)
        return refuse_nccl(ctx, "rank 0: ncclGetUniqueId failed");
    n->joined_us = ctx->now_us;
    n->step = HALAY_NCCL_WAIT;
    status = calls_of(ctx)->join(host_of(ctx), device_of(ctx), n->id.bytes, ctx->size, ctx->rank, &n->comm);
    return status == HALAY_IN_PROGRESS ? HALAY_OK : status;
}

/* ---- a bucket ---- */

/* Another rank's error: the engine finds which rank it is, unless that takes too long. */
static enum halay_status wait_for_cause(struct halay_context *ctx, enum halay_status status)
{
    struct halay_nccl *n = nccl_of(ctx);

    if (status != HALAY_ERR_PEER)
        return status;
    n->lost_us = n->lost_us ? n->lost_us : ctx->now_us;
    if (ctx->now_us - n->lost_us <= LOST_US)
        return HALAY_IN_PROGRESS;
    halay_error(ctx->log, "NCCL reports an error of another rank, and no rank has failed: %s",
                calls_of(ctx)->last_error(host_of(ctx), n->comm));
    return HALAY_ERR_SYSTEM;
}

static enum halay_status comm_look(struct halay_context *ctx)
{
    return wait_for_cause(ctx, calls_of(ctx)->look(host_of(ctx), nccl_of(ctx)->comm));
}

enum halay_status halay_nccl_check(struct halay_context *ctx)
{
    struct halay_nccl *n = nccl_of(ctx);

    if (!n->comm || ctx->status != HALAY_OK || ctx->now_us - n->looked_us < LOOK_US)
        return HALAY_OK;
    n->looked_us = ctx->now_us;
    enum halay_status status = comm_look(ctx);
    return status == HALAY_IN_PROGRESS ? HALAY_OK : status;
}

/* Returns nonzero if the job has failed because a rank has left, which has done its part of all that is in flight. */
static int has_left(const struct halay_context *ctx)
{
    return ctx->lost >= 0 && ctx->left[ctx->lost] && !ctx->has_lost_sums;
}

enum halay_status halay_nccl_verdict(struct halay_context *ctx)
{
    const struct halay_nccl *n = nccl_of(ctx);

    if (n->is_aborted || (n->comm && ctx->status != HALAY_OK && !has_left(ctx)))
        return ctx->status != HALAY_OK ? ctx->status : HALAY_ERR_CLOSED;
    if (n->comm && halay_now_us() - ctx->now_us > HALAY_DEVICE_GRACE_US / 2)
        return HALAY_IN_PROGRESS; /* the messages that have arrived meanwhile come first */
    return n->comm && is_in(n, HALAY_DIRECT_OPEN) ? comm_look(ctx) : HALAY_OK;
}

/* Gives NCCL the bucket's tensors. */
static enum halay_status reduce_bucket(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    struct halay_device_work work = { .dtype = b->dtype, .piece_count = b->tensor_count };
    int is_average = b->requests[0]->signature.reduction == HALAY_AVERAGE;

    if (halay_list_reserve(&d->pieces, b->tensor_count, &d->piece_capacity, sizeof *d->pieces) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < b->tensor_count; i++)
        d->pieces[i] = (struct halay_device_piece){ .in = b->tensors[i].buffers.in,
                                                    .out = b->tensors[i].buffers.out,
                                                    .count = b->tensors[i].buffers.count };
    work.pieces = d->pieces;
    for (size_t i = 0; i < b->count; i++)
        if (halay_staging_of(b->requests[i])) /* not of an empty tensor */
            halay_staging_set_end(halay_staging_of(b->requests[i]), &d->done);
    d->nccl.step = HALAY_NCCL_END;
    halay_device_carrier_of(ctx)->copied_us = ctx->now_us;
    enum halay_status status =
        calls_of(ctx)->reduce(host_of(ctx), device_of(ctx), d->nccl.comm, &work, is_average, d->stream);
    return status == HALAY_IN_PROGRESS ? HALAY_OK : wait_for_cause(ctx, status);
}

static enum halay_status record_end(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    enum halay_status status = halay_devices_ops(ctx)->event_record(host_of(ctx), device_of(ctx), d->stream, &d->done);
    d->is_lost |= status != HALAY_OK;
    halay_device_carrier_of(ctx)->copied_us = ctx->now_us;
    return status;
}

void halay_nccl_start(struct halay_bucket *b)
{
    struct halay_nccl *n = nccl_of(b->set->ctx);

    n->step = is_in(n, HALAY_DIRECT_OPEN) ? HALAY_NCCL_REDUCE : HALAY_NCCL_OFFER;
}

static enum halay_status wait_for_comm(struct halay_context *ctx)
{
    struct halay_nccl *n = nccl_of(ctx);

    enum halay_status status = comm_look(ctx);
    if (status == HALAY_OK) {
        set_state(n, HALAY_DIRECT_OPEN);
        n->step = HALAY_NCCL_REDUCE;
    } else if (status == HALAY_IN_PROGRESS && n->joined_us && ctx->now_us - n->joined_us > SLOW_US) {
        n->joined_us = 0; /* once */
        if (ctx->rank == 0)
            halay_warning(ctx->log,
                          "NCCL has not connected the ranks in %d s: see NCCL_SOCKET_IFNAME; NCCL_DEBUG=INFO "
                          "shows what it does",
                          SLOW_US / 1000000);
    }
    return status;
}

static enum halay_status progress_step(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_nccl *n = nccl_of(ctx);

    switch (n->step) {
    case HALAY_NCCL_OFFER:
        return start_offering(b);
    case HALAY_NCCL_IDENTIFY:
        return start_identifying(b);
    case HALAY_NCCL_JOIN:
        return join_ranks(ctx);
    case HALAY_NCCL_WAIT:
        return wait_for_comm(ctx);
    default:
        return reduce_bucket(b);
    }
}

enum halay_status halay_nccl_progress(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_nccl *n = nccl_of(ctx);
    enum halay_status status = HALAY_OK;

    while (status == HALAY_OK && n->step != HALAY_NCCL_END && !is_in(n, HALAY_DIRECT_REFUSED))
        status = progress_step(b);
    if (status != HALAY_OK || is_in(n, HALAY_DIRECT_REFUSED))
        return status;
    status = comm_look(ctx);
    return status == HALAY_OK ? record_end(ctx) : status;
}

void halay_nccl_drop(struct halay_context *ctx)
{
    struct halay_nccl *n = nccl_of(ctx);

    if (n->coll)
        halay_coll_end(n->coll);
    n->coll = NULL;
    halay_nccl_free(ctx); /* the ranks may be more when it is started again */
    n->has_dropped = n->comm && n->step == HALAY_NCCL_END;
    set_state(n, HALAY_DIRECT_REFUSED);
}

int halay_nccl_has_dropped(const struct halay_context *ctx)
{
    return nccl_of(ctx)->has_dropped;
}

int halay_nccl_let_go(struct halay_context *ctx)
{
    struct halay_nccl *n = nccl_of(ctx);

    if (n->leaving && calls_of(ctx)->has_left(host_of(ctx), n->leaving))
        n->leaving = NULL;
    if (n->comm || n->leaving || !n->has_dropped)
        return 0;
    n->has_dropped = 0;
    (void)record_end(ctx);
    return 1;
}

/* ---- the end ---- */

/* Returns the time until an abort spoils no result that another rank would take for a good one. */
static int64_t grace_left_us(const struct halay_context *ctx)
{
    int64_t failed_us = halay_device_carrier_of(ctx)->failed_us;

    return failed_us ? failed_us + HALAY_DEVICE_GRACE_US - halay_now_us() : 0;
}

void halay_nccl_abort(struct halay_context *ctx)
{
    struct halay_nccl *n = nccl_of(ctx);

    set_state(n, HALAY_DIRECT_REFUSED);
    if (grace_left_us(ctx) > 0)
        return;
    if (n->comm)
        n->leaving = calls_of(ctx)->leave(host_of(ctx), device_of(ctx), n->comm);
    n->is_aborted |= n->comm != NULL;
    n->comm = NULL;
}

int halay_nccl_end(struct halay_context *ctx)
{
    const struct halay_nccl *n = nccl_of(ctx);
    int has_let_go = 0;

    for (int64_t left_us; n->comm && (left_us = grace_left_us(ctx)) > 0;)
        usleep((useconds_t)left_us);
    halay_nccl_abort(ctx);
    int64_t deadline_us = halay_deadline_us(HALAY_SEGMENT_CLOSE_MS);
    while (!(has_let_go |= halay_nccl_let_go(ctx)) && n->leaving && !halay_deadline_passed(deadline_us))
        usleep(HALAY_UNRUNG_MIN_US);
    return has_let_go;
}

/* Leaves the direct stream, with what belongs to it, to an abort that has not ended: NCCL may still give it work. */
static void abandon_stream(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    d->nccl.leaving = NULL;
    d->nccl.has_dropped = 0;
    d->stream = d->done.event = d->hosts.summed.event = NULL;
    if (d->is_lent) /* what the stream has may still write to it */
        d->segment = NULL;
    d->is_lent = 0;
}

void halay_nccl_close(struct halay_context *ctx)
{
    struct halay_nccl *n = nccl_of(ctx);
    const struct halay_device_point *done = &halay_device_carrier_of(ctx)->direct.done;

    if (n->comm && ctx->status == HALAY_OK) {
        halay_devices_await(halay_devices_of(ctx), device_of(ctx), done, halay_deadline_us(HALAY_SEGMENT_CLOSE_MS));
        (void)halay_segments_barrier(ctx);
    }
    if (!n->leaving) /* else it has been waited for */
        (void)halay_nccl_end(ctx);
    if (n->leaving)
        abandon_stream(ctx);
}

void halay_nccl_free(struct halay_context *ctx)
{
    struct halay_nccl *n = nccl_of(ctx);

    free(n->offers);
    n->offers = NULL;
}
