/* SPDX-License-Identifier: Apache-2.0
 *
 * Withdrawal, a rank's side.
 *
 *     canceled, or its time limit       WITHDRAW is sent, and again each RETRY_US until the request ends: the
 *     has expired                       coordinator may have agreed on it at the same moment
 *     it is running                     it ends as if nothing had been sent
 *     its time limit has expired, and   the engine fails after the same time again, at least GRACE_US: a peer is alive
 *     it does not end                   but does not do its part, or the coordinator does not answer
 *
 * A path that has the request withdraws it without the coordinator (requests/path.h).
 *
 * Requests with a time limit are on a list; the earliest moment at which one is to be checked is kept.
 */
#include "fusion/engine/withdraw.h"
#include "fusion/engine/engine.h"
#include "fusion/engine/fail.h"
#include "fusion/replay/replay.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/path.h"
#include "fusion/requests/requests.h"
#include <stdio.h>

#define RETRY_US 100000
#define GRACE_US 5000000

static void link_watched(struct halay_request **list, struct halay_request *r)
{
    r->watched_at = list;
    r->watched_next = *list;
    if (*list)
        (*list)->watched_at = &r->watched_next;
    *list = r;
}

/* Checks the request at that time, at the latest. */
static void look_at(struct halay_engine *n, struct halay_request *r, int64_t when_us)
{
    if (!r->watched_at)
        link_watched(&n->watched, r);
    if (!n->look_us || when_us < n->look_us)
        n->look_us = when_us;
}

static void request_withdraw(struct halay_context *ctx, struct halay_request *r)
{
    const struct halay_entry *e = r->entry;
    struct halay_path *path = halay_request_path(r);

    if (path) {
        halay_engine_expect_ok(ctx, path->ops->withdraw(path, r), path->ops->failed);
        return;
    }
    r->retry_us = ctx->now_us + RETRY_US;
    look_at(ctx->engine, r, r->retry_us);
    if (r->life == HALAY_LIFE_RUNNING)
        return;
    if (!halay_replay_is_off(r->set)) { /* WITHDRAW follows once the set negotiates */
        halay_replay_break(r->set, HALAY_BREAK_TAKEN);
        return;
    }
    halay_send_item(r->set, &(struct halay_item){ .kind = HALAY_ITEM_WITHDRAW,
                                                  .set = r->set->number,
                                                  .name = e->node.name,
                                                  .name_length = e->node.length,
                                                  .status = r->withdrawn,
                                                  .after_ms = r->withdrawn == HALAY_ERR_TIMEOUT ? r->timeout_ms : 0 });
}

void halay_withdraw_watch(struct halay_context *ctx, struct halay_request *r)
{
    if (r->expires_us && r->life != HALAY_LIFE_ENDED) /* rank 0's coordinator may have answered already */
        look_at(ctx->engine, r, r->expires_us);
}

void halay_withdraw_cancel(struct halay_context *ctx, struct halay_request *r)
{
    if (r->life >= HALAY_LIFE_RUNNING || r->withdrawn)
        return;
    r->withdrawn = HALAY_ERR_CANCELED;
    request_withdraw(ctx, r);
}

static void fail_overdue(struct halay_context *ctx, const struct halay_request *r)
{
    int asked = halay_request_path(r) ? r->other_rank : 0;
    char why[64] = "it has begun, and does not end";

    if (r->life != HALAY_LIFE_RUNNING)
        snprintf(why, sizeof why, "rank %d does not answer", asked);
    halay_engine_fail(ctx, HALAY_ERR_TIMEOUT, ctx->rank, "tensor '%.*s': timed out after %g s on rank %d; %s",
                      (int)r->entry->node.length, r->entry->node.name, r->timeout_ms / 1e3, ctx->rank, why);
}

/* Returns when the request is to be checked; INT64_MAX: never. */
static int64_t due_us(const struct halay_request *r)
{
    const int64_t times[] = { r->expires_us, r->overdue_us, r->retry_us };
    int64_t first = INT64_MAX;

    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (times[i] && times[i] < first)
            first = times[i];
    return first;
}

/* Checks a request that is due, and on no list. */
static void check_watched(struct halay_context *ctx, struct halay_request *r)
{
    int64_t now_us = ctx->now_us, grace_us = (int64_t)r->timeout_ms * 1000;

    if (r->overdue_us && now_us >= r->overdue_us) {
        fail_overdue(ctx, r);
        return;
    }
    if (r->expires_us && now_us >= r->expires_us) {
        r->overdue_us = now_us + (grace_us > GRACE_US ? grace_us : GRACE_US);
        r->expires_us = 0;
        r->withdrawn = r->withdrawn ? r->withdrawn : HALAY_ERR_TIMEOUT;
    }
    r->retry_us = 0;
    look_at(ctx->engine, r, due_us(r)); /* before the withdrawal, which may end it */
    request_withdraw(ctx, r);
}

/* Goes through all watched requests. A check may end that request and others, so those that are due are moved to a list
 * of their own first. */
size_t halay_withdraw_overdue(struct halay_context *ctx)
{
    struct halay_engine *n = ctx->engine;
    struct halay_request *due = NULL, *r, *next;

    if (!n->look_us || ctx->now_us < n->look_us)
        return 0;
    n->look_us = 0;
    for (r = n->watched; r; r = next) {
        next = r->watched_next;
        if (due_us(r) > ctx->now_us) {
            look_at(n, r, due_us(r));
        } else {
            halay_request_unwatch(r);
            link_watched(&due, r);
        }
    }
    while ((r = due)) {
        halay_request_unwatch(r);
        if (ctx->status == HALAY_OK)
            check_watched(ctx, r);
    }
    return 1;
}
