/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic: a context whose ranks change, and the program's state (halay_elastic.h).
 *
 *     restore, or a commit after which halayrun re-forms the job
 *       close the engine: all requests end, the thread too      halay_context_close
 *       leave the world: nothing of the peers' is mapped any more, nor do they write here
 *       report that this process is ready, wait for a place     halay_world_open (bootstrap/elastic_client.h)
 *       open the engine over the new world, with the same names and memory
 *       agree on the newest commit; ranks without it get it     sync
 *     ... and again, if a rank is lost meanwhile
 *
 * The state is the same on all ranks that have made the same commit, so any rank with the newest commit can send it to
 * all: the lowest such rank does. Two ranks may differ by one commit, if a rank was lost while they made it. Received
 * data are written to the program's memory, and become the copy when complete: if the sender is lost meanwhile, this
 * rank still has its previous commit.
 *
 * The world that was left stays until there is a new one: queries of ranks are answered from it. If this process gets
 * no place any more, the context is good for queries and for halay_fini.
 */
#include "fusion/api/elastic.h"
#include "base/error_text.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "collectives/transport/bootstrap/elastic_client.h"
#include "collectives/transport/shm/shm_memory.h"
#include "fusion/api/open.h"
#include "fusion/api/wait.h"
#include "fusion/requests/context.h"
#include "halay_elastic.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYNC_NAME "halay elastic sync"
#define STATE_NAME "halay elastic state"
#define CHANGE_NAME "halay elastic change"

struct piece {
    void *data; /* borrowed */
    size_t bytes;
};

struct halay_elastic {
    int is_on; /* of an elastic job; otherwise this struct only holds the state */
    struct halay_carried carried;
    char *bootstrap, *transport, *join_average; /* owned: as given by the program, or NULL */
    char **settings;                            /* owned */
    struct piece *pieces;                       /* owned */
    size_t piece_count, bytes;                  /* of all pieces */
    unsigned char *copy;                        /* owned: of the commit; NULL before begin */
    uint64_t commit;                            /* its number; 0: no commit */
    uint64_t reforms;
    int rank_was, size_was;
    int has_begun, has_joined; /* has_joined: it received its first state from others */
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

int halay_elastic_may_retry(enum halay_status status)
{
    return status == HALAY_ERR_PEER || status == HALAY_ERR_TIMEOUT;
}

static struct halay_elastic *elastic_create(void)
{
    struct halay_elastic *e = calloc(1, sizeof *e);

    if (e)
        e->rank_was = -1;
    return e;
}

static int copy_text(const char *text, char **copy)
{
    *copy = text ? strdup(text) : NULL;
    return !text || *copy;
}

static int copy_texts(const char *const *texts, char ***copy)
{
    size_t count = 0;

    if (!texts)
        return 1;
    while (texts[count])
        count++;
    if (!(*copy = calloc(count + 1, sizeof **copy)))
        return 0;
    for (size_t i = 0; i < count; i++)
        if (!copy_text(texts[i], &(*copy)[i]))
            return 0;
    return 1;
}

enum halay_status halay_elastic_init(struct halay_context *ctx, const struct halay_options *how,
                                     const struct halay_carried *carried)
{
    struct halay_elastic *e = elastic_create();

    if (!e) {
        struct halay_carried rest = *carried;
        halay_fini(ctx);
        halay_carried_fini(&rest);
        return HALAY_ERR_NO_MEMORY;
    }
    ctx->elastic = e;
    e->is_on = 1;
    e->carried = *carried;
    ctx->world->carried = &e->carried;
    if (copy_text(how->bootstrap, &e->bootstrap) && copy_text(how->transport, &e->transport) &&
        copy_text(how->join_average, &e->join_average) && copy_texts(how->settings, &e->settings))
        return HALAY_OK;
    halay_fini(ctx);
    return HALAY_ERR_NO_MEMORY;
}

void halay_elastic_fini(struct halay_context *ctx)
{
    struct halay_elastic *e = ctx->elastic;

    if (!e)
        return;
    halay_carried_fini(&e->carried);
    free(e->bootstrap);
    free(e->transport);
    free(e->join_average);
    for (char **setting = e->settings; setting && *setting; setting++)
        free(*setting);
    free(e->settings);
    free(e->pieces);
    free(e->copy);
    free(e);
    ctx->elastic = NULL;
}

struct halay_shm_memory *halay_elastic_memory(const struct halay_context *ctx)
{
    return halay_is_elastic(ctx) ? ctx->elastic->carried.memory : NULL;
}

int halay_is_elastic(const struct halay_context *ctx)
{
    return ctx && ctx->elastic && ctx->elastic->is_on;
}

/* ---- the state --------------------------------------------------------------------------------------------------- */

enum halay_status halay_elastic_add(struct halay_context *ctx, void *data, size_t bytes)
{
    size_t all;

    if (!ctx || (!data && bytes))
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_elastic_add: no %s", ctx ? "data" : "context");
    if (halay_is_child(ctx))
        return halay_refuse_child();
    if (ctx->elastic && ctx->elastic->has_begun)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_elastic_add: must be called before halay_elastic_begin");
    if (!ctx->elastic && !(ctx->elastic = elastic_create()))
        return halay_returns(HALAY_ERR_NO_MEMORY);
    struct halay_elastic *e = ctx->elastic;
    if (halay_add_overflows(e->bytes, bytes, &all))
        return halay_returns(HALAY_ERR_NO_MEMORY);
    struct piece *grown = realloc(e->pieces, (e->piece_count + 1) * sizeof *grown);
    if (!grown)
        return halay_returns(HALAY_ERR_NO_MEMORY);
    e->pieces = grown;
    e->pieces[e->piece_count++] = (struct piece){ data, bytes };
    e->bytes = all;
    return HALAY_OK;
}

static void copy_state(struct halay_elastic *e, int back)
{
    unsigned char *at = e->copy;

    for (size_t i = 0; i < e->piece_count; at += e->pieces[i++].bytes) {
        if (!e->pieces[i].bytes)
            continue;
        if (back)
            memcpy(e->pieces[i].data, at, e->pieces[i].bytes);
        else
            memcpy(at, e->pieces[i].data, e->pieces[i].bytes);
    }
}

/* The ranks exchange their progress. The maximum of the first two finds the newest commit and, in the low bits, the
 * lowest rank that has it; the others find the oldest commit and sizes that differ. */
enum { RANK_BITS = 24, SAID = 4 };

static enum halay_status compare_commits(struct halay_context *ctx, int64_t said[SAID])
{
    const struct halay_elastic *e = ctx->elastic;
    int64_t rank = ((int64_t)1 << RANK_BITS) - 1 - ctx->rank, commit = (int64_t)e->commit;

    said[0] = commit << RANK_BITS | rank;
    said[1] = -commit;
    said[2] = (int64_t)e->bytes;
    said[3] = -(int64_t)e->bytes;
    return halay_allreduce(ctx, SYNC_NAME, said, said, SAID, HALAY_I64, HALAY_MAX);
}

/* Makes the root's copy every rank's state and copy. */
static enum halay_status give_state(struct halay_context *ctx, int root)
{
    struct halay_elastic *e = ctx->elastic;
    enum halay_status status = HALAY_OK;
    char name[64];

    if (ctx->rank == root)
        copy_state(e, 1);
    for (size_t i = 0; i < e->piece_count && status == HALAY_OK; i++) {
        snprintf(name, sizeof name, STATE_NAME " %zu", i);
        if (e->pieces[i].bytes)
            status = halay_broadcast(ctx, name, e->pieces[i].data, e->pieces[i].bytes, HALAY_U8, root);
    }
    if (status == HALAY_OK && ctx->rank != root)
        copy_state(e, 0);
    return status;
}

/* Gives every rank the newest commit as its state. The first commit ever is rank 0's state. */
static enum halay_status state_sync(struct halay_context *ctx)
{
    struct halay_elastic *e = ctx->elastic;
    int64_t said[SAID];

    enum halay_status status = compare_commits(ctx, said);
    if (status != HALAY_OK)
        return status;
    int root = (int)(((int64_t)1 << RANK_BITS) - 1 - (said[0] & (((int64_t)1 << RANK_BITS) - 1)));
    int64_t newest = said[0] >> RANK_BITS, oldest = -said[1];
    if (said[2] != -said[3]) {
        halay_error(ctx->log, "the ranks' states differ: this one has %zu bytes, there are some of %lld and of %lld",
                    e->bytes, (long long)-said[3], (long long)said[2]);
        return HALAY_ERR_MISMATCH;
    }
    if (newest != oldest || !newest)
        status = give_state(ctx, root);
    else
        copy_state(e, 1);
    if (status != HALAY_OK)
        return status;
    e->has_joined |= newest && !e->commit;
    e->commit = newest ? (uint64_t)newest : 1;
    return HALAY_OK;
}

/* ---- other ranks ------------------------------------------------------------------------------------------------- */

/* Resets the members of the engine that was closed; names, requests and counters stay. */
static void engine_renew(struct halay_context *ctx)
{
    ctx->status = HALAY_OK;
    ctx->lost = -1;
    ctx->has_lost_sums = 0;
    ctx->text[0] = '\0';
    ctx->queue.is_aborted = 0;
    ctx->unnamed_first = 0;
    memset(ctx->all.unnamed, 0, sizeof ctx->all.unnamed);
    ctx->queue.is_joined = 0;
    ctx->listens = 0;
    ctx->queue.followed = NULL;
    atomic_store_explicit(&ctx->is_closing, 0, memory_order_relaxed); /* no other thread runs, here and below */
    atomic_store_explicit(&ctx->queue.has_events, 0, memory_order_relaxed);
    atomic_store_explicit(&ctx->waiting.waited, NULL, memory_order_relaxed);
    atomic_store_explicit(&ctx->waiting.flush_wanted, 0, memory_order_relaxed);
    atomic_store_explicit(&ctx->has_left, 0, memory_order_relaxed);
}

/* Tries once to get a place among the ranks, and to open the engine there. */
static enum halay_status try_place(struct halay_context *ctx, int lost)
{
    struct halay_elastic *e = ctx->elastic;
    struct halay_world *world, *left = ctx->world;
    int none = 0;

    enum halay_status status =
        halay_world_open(&(struct halay_world_options){ .bootstrap = e->bootstrap,
                                                        .transport = e->transport,
                                                        .join_average = e->join_average,
                                                        .settings = (const char *const *)e->settings,
                                                        .carried = &e->carried,
                                                        .lost = lost,
                                                        .has_state = e->commit > 0 },
                         &world);
    if (status != HALAY_OK)
        return status;
    engine_renew(ctx);
    ctx->world = world;
    ctx->rank = world->rank;
    ctx->size = world->size;
    status = halay_registry_renew(ctx);
    if (status == HALAY_OK)
        status = halay_context_open(ctx, world);
    if (!halay_elastic_may_retry(status)) /* as processes do that join by halay_init */
        status = halay_world_agree(world, status, &none);
    if (status == HALAY_OK) {
        halay_world_close(left);
        return HALAY_OK;
    }
    if (ctx->messenger)
        halay_context_close(ctx);
    ctx->world = left;
    halay_world_close(world);
    return status;
}

/* Ends a context that has no engine and will get none. */
static enum halay_status lose_place(struct halay_context *ctx, enum halay_status status)
{
    ctx->status = status;
    snprintf(ctx->text, sizeof ctx->text, "this process has no place in the job any more");
    copy_state(ctx->elastic, 1); /* half of another commit may have been received */
    return status;
}

static enum halay_status engine_reform(struct halay_context *ctx)
{
    struct halay_elastic *e = ctx->elastic;
    int lost = ctx->status == HALAY_ERR_PEER ? ctx->lost : -1;
    enum halay_status status;

    e->rank_was = ctx->rank;
    e->size_was = ctx->size;
    do {
        if (ctx->messenger)
            halay_context_close(ctx);
        halay_world_leave(ctx->world);
        status = try_place(ctx, lost);
        if (status == HALAY_OK)
            status = state_sync(ctx);
        lost = ctx->status == HALAY_ERR_PEER ? ctx->lost : -1;
    } while (halay_elastic_may_retry(status));
    if (status != HALAY_OK && !ctx->messenger)
        return lose_place(ctx, status);
    if (status == HALAY_OK) {
        e->reforms++;
        halay_info(ctx->log, "re-formed: rank %d of %d was %d of %d; commit %llu", ctx->rank, ctx->size, e->rank_was,
                   e->size_was, (unsigned long long)e->commit);
    }
    return status;
}

/* ---- public ------------------------------------------------------------------------------------------------------ */

static void describe_change(const struct halay_context *ctx, int has_reformed, struct halay_elastic_change *change)
{
    const struct halay_elastic *e = ctx->elastic;
    struct halay_elastic_change all = { .has_reformed = has_reformed,
                                        .rank_was = has_reformed ? e->rank_was : ctx->rank,
                                        .size_was = has_reformed ? e->size_was : ctx->size,
                                        .commit = e && e->is_on ? e->commit : 0,
                                        .reforms = e ? e->reforms : 0 };

    if (change)
        halay_struct_write(&all, sizeof all, change);
}

static enum halay_status check_elastic_call(struct halay_context *ctx, const struct halay_elastic_change *change)
{
    if (!ctx || (change && !halay_struct_has_size(change)))
        return halay_refuses(HALAY_ERR_ARGUMENT, "a call of an elastic job: no %s",
                             ctx ? "struct_size of the change" : "context");
    return halay_is_child(ctx) ? halay_refuse_child() : halay_may_block(ctx, "a call of an elastic job");
}

static enum halay_status failure_of(struct halay_context *ctx)
{
    return halay_context_status(ctx, NULL, 0);
}

enum halay_status halay_elastic_begin(struct halay_context *ctx, struct halay_elastic_change *change)
{
    enum halay_status status = check_elastic_call(ctx, change);
    if (status != HALAY_OK)
        return status;
    if (!ctx->elastic && !(ctx->elastic = elastic_create()))
        return halay_returns(HALAY_ERR_NO_MEMORY);
    struct halay_elastic *e = ctx->elastic;
    if (e->has_begun)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_elastic_begin was called before");
    if (!e->copy && !(e->copy = malloc(e->bytes ? e->bytes : 1))) {
        halay_error(ctx->log, "no memory for a copy of the state, %zu bytes", e->bytes);
        return halay_returns(HALAY_ERR_NO_MEMORY);
    }
    copy_state(e, 0); /* the rank that becomes rank 0 sends its present state */
    status = state_sync(ctx);
    /* A rank was lost before this one had a commit: it receives the others'. */
    int has_reformed = e->is_on && status != HALAY_OK && failure_of(ctx) == HALAY_ERR_PEER;
    if (has_reformed)
        status = engine_reform(ctx);
    if (status != HALAY_OK)
        return halay_returns(status);
    e->has_begun = 1;
    if (e->has_joined) {
        e->rank_was = -1;
        e->size_was = 0;
    }
    if (!e->is_on) {
        free(e->copy); /* it was needed for the broadcast only */
        e->copy = NULL;
    }
    describe_change(ctx, e->has_joined || has_reformed, change);
    return HALAY_OK;
}

/* Asks for a change of ranks: rank 0 asks halayrun, the others receive rank 0's answer. */
static enum halay_status ask_for_change(struct halay_context *ctx, int32_t *wanted)
{
    *wanted = ctx->rank == 0 && halay_elastic_client_listen(ctx->elastic->carried.elastic_client);
    if (ctx->size == 1)
        return HALAY_OK;
    return halay_allreduce(ctx, CHANGE_NAME, wanted, wanted, 1, HALAY_I32, HALAY_MAX);
}

enum halay_status halay_elastic_commit(struct halay_context *ctx, struct halay_elastic_change *change)
{
    int32_t wanted = 0;

    enum halay_status status = check_elastic_call(ctx, change);
    if (status == HALAY_OK && (!ctx->elastic || !ctx->elastic->has_begun))
        status = halay_refuses(HALAY_ERR_ARGUMENT, "halay_elastic_commit: must be called after halay_elastic_begin");
    if (status == HALAY_OK)
        status = failure_of(ctx);
    if (status != HALAY_OK)
        return status;
    struct halay_elastic *e = ctx->elastic;
    if (e->is_on) {
        copy_state(e, 0);
        e->commit++;
        status = ask_for_change(ctx, &wanted);
        if (status == HALAY_OK && wanted)
            status = engine_reform(ctx);
    }
    if (status == HALAY_OK)
        describe_change(ctx, wanted, change);
    return halay_returns(status);
}

enum halay_status halay_elastic_restore(struct halay_context *ctx, struct halay_elastic_change *change)
{
    enum halay_status status = check_elastic_call(ctx, change);
    if (status != HALAY_OK)
        return status;
    if (!halay_is_elastic(ctx) || !ctx->elastic->has_begun)
        return halay_refuses(
            HALAY_ERR_UNSUPPORTED,
            "halay_elastic_restore: the job is not elastic, or halay_elastic_begin has not been called");
    if (failure_of(ctx) == HALAY_OK)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_elastic_restore: nothing has failed");
    if (!ctx->messenger)
        return ctx->status; /* the process got no place before */
    status = engine_reform(ctx);
    if (status == HALAY_OK)
        describe_change(ctx, 1, change);
    return halay_returns(status);
}
