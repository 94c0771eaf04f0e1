/* SPDX-License-Identifier: Apache-2.0
 *
 * Points that have met nobody: withdrawn, stalled, or their peer has left.
 *
 *     rank 0: a receive, its time is over       rank 1
 *       | WITHDRAW  -------------------------->   |       has nothing that meets it: strikes the offer
 *       |   <---------------------------- GONE    |       and what it submits from now on meets a later offer
 *       | ends
 *       |   <--------------- offer: a send        |       had something: it is on its way here, and they meet
 *
 * What was withdrawn is as if it had never been submitted: the peer is not told, and waits on for the next one. A peer
 * that has submitted nothing does not listen, so rank 0 passes on to it that it must (LISTEN).
 */
#include "base/log.h"
#include "base/number_text.h"
#include "fusion/paths/p2p/points_impl.h"
#include "fusion/protocol/messages.h"
#include "fusion/requests/requests.h"
#include <stdio.h>
#include <stdlib.h>

#define LEFT_US 1000000 /* how long after a farewell an offer may still arrive that was made before it */
enum { REPORTED_MAX = 6 };

/* ---- words ---- */

/* "the send of rank 1", for which it waits. */
static void print_missing(const struct point *point, char *text, size_t size)
{
    const char *what = point->own.offer.collective == HALAY_SEND ? "receive" : "send";

    if (point->unsaid)
        snprintf(text, size, "a %s of any rank", what);
    else
        snprintf(text, size, "the %s of rank %d", what, point->request->meeting.peer);
}

static void print_withdrawn(const struct halay_context *ctx, const struct point *point, char *text, size_t size)
{
    const struct halay_request *r = point->request;
    char key[HALAY_POINT_NAME_MAX + 32], missing[64];

    halay_offer_print_key(&point->own.offer, key, sizeof key);
    print_missing(point, missing, sizeof missing);
    if (r->withdrawn == HALAY_ERR_TIMEOUT)
        halay_snprintf(text, size, "%s: rank %d gave it %g s; %s has not come", key, ctx->rank, r->timeout_ms / 1e3,
                       missing);
    else
        snprintf(text, size, "%s: canceled by rank %d; %s had not come", key, ctx->rank, missing);
}

static void print_stalled(const struct halay_context *ctx, const struct point *point, char *text, size_t size)
{
    char key[HALAY_POINT_NAME_MAX + 32], missing[64];

    halay_offer_print_key(&point->own.offer, key, sizeof key);
    print_missing(point, missing, sizeof missing);
    halay_snprintf(text, size, "stalled for %.3g s: %s: %s by rank %d, missing: %s",
                   (double)(ctx->driven.now_us - point->since_us) / 1e6, key,
                   point->own.offer.collective == HALAY_SEND ? "sent" : "to be received", ctx->rank, missing);
}

/* ---- withdrawal ---- */

static struct halay_offered **find_request(struct halay_offered **list, const struct halay_request *request)
{
    while (*list && ((struct point *)*list)->request != request)
        list = &(*list)->next;
    return list;
}

static void end_withdrawn(struct halay_context *ctx, struct point *point)
{
    struct halay_request *r = point->request;
    char text[HALAY_TEXT_MAX];

    print_withdrawn(ctx, point, text, sizeof text);
    if (r->withdrawn == HALAY_ERR_TIMEOUT)
        halay_log_write(ctx->log, halay_log_reported_level(ctx->log), "%s", text);
    else
        halay_info(ctx->log, "%s", text);
    halay_points_end(ctx, point, r->withdrawn, text);
}

static enum halay_status say_about(struct halay_context *ctx, struct peer *p, enum halay_offer_kind kind,
                                   uint64_t number)
{
    struct halay_offered *word = calloc(1, sizeof *word);

    if (!word)
        return HALAY_ERR_NO_MEMORY;
    word->offer = (struct halay_offer){ .kind = (uint16_t)kind, .about = number };
    halay_points_say(ctx, p, word);
    return HALAY_OK;
}

enum halay_status halay_points_withdraw(struct halay_context *ctx, struct halay_request *r, uint64_t *due)
{
    struct halay_offered **at = find_request(&ctx->driven.points->any, r);

    *due = 0;
    if (*at) { /* nobody knows of it */
        end_withdrawn(ctx, (struct point *)halay_offers_take(at));
        return HALAY_OK;
    }
    struct peer *p = halay_points_peer(ctx, r->meeting.peer);
    struct point *point = p ? (struct point *)*find_request(&p->waiting, r) : NULL;
    if (!point || point->is_withdrawn)
        return p ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    point->is_withdrawn = 1;
    enum halay_status status = say_about(ctx, p, HALAY_OFFER_WITHDRAW, point->own.offer.number);
    *due = p->made;
    return status;
}

enum halay_status halay_points_take_word(struct halay_context *ctx, struct peer *p, const struct halay_offer *word)
{
    int ends_mine = word->kind == HALAY_OFFER_GONE;
    struct halay_offered **at = halay_offers_find_number(ends_mine ? &p->waiting : &p->heard, word->about);

    if (!*at) /* WITHDRAW: it has met something, which is on its way. GONE: that the peer has left was seen first */
        return ends_mine && !p->left_us ? HALAY_ERR_FORMAT : HALAY_OK;
    struct halay_offered *offered = halay_offers_take(at);
    if (ends_mine) {
        end_withdrawn(ctx, (struct point *)offered);
        return HALAY_OK;
    }
    free(offered);
    return say_about(ctx, p, HALAY_OFFER_GONE, word->about);
}

/* ---- peers that have left ---- */

/* What it had to say has come by now. */
static int is_gone(const struct halay_context *ctx, const struct peer *p)
{
    return p->left_us && ctx->driven.now_us - p->left_us >= LEFT_US;
}

static int have_all_gone(struct halay_context *ctx, const struct halay_process_set *set)
{
    for (const struct peer *p = ctx->driven.points->first; p; p = p->next)
        if (halay_process_set_rank_of(set, p->rank) >= 0 && !is_gone(ctx, p))
            return 0;
    return 1; /* it listens to all */
}

size_t halay_points_end_left(struct halay_context *ctx)
{
    struct halay_points *points = ctx->driven.points;
    size_t did = 0;
    int has_any_gone = 0;
    char text[48];

    for (struct peer *p = points->first; p; p = p->next) {
        if (ctx->driven.negotiation.left[p->rank] && !p->left_us)
            p->left_us = ctx->driven.now_us;
        has_any_gone |= is_gone(ctx, p);
        for (; p->waiting && is_gone(ctx, p); did++) {
            snprintf(text, sizeof text, "rank %d has left", p->rank);
            halay_points_end(ctx, (struct point *)halay_offers_take(&p->waiting), HALAY_ERR_PEER, text);
        }
    }
    for (struct halay_offered **at = &points->any; has_any_gone && *at;)
        if (have_all_gone(ctx, ((struct point *)*at)->request->meeting.set)) {
            halay_points_end(ctx, (struct point *)halay_offers_take(at), HALAY_ERR_PEER, "all other ranks have left");
            did++;
        } else {
            at = &(*at)->next;
        }
    return did;
}

/* ---- stalls ---- */

struct look {
    struct halay_context *ctx;
    int64_t report_us; /* 0: no report now */
    const struct point *oldest;
    size_t reported;
};

static void look_at(struct look *l, const struct halay_offered *list)
{
    char text[HALAY_TEXT_MAX];

    for (; list; list = list->next) {
        const struct point *point = (const struct point *)list;
        if (!l->oldest || point->since_us < l->oldest->since_us)
            l->oldest = point;
        if (!l->report_us || l->ctx->driven.now_us - point->since_us < l->report_us)
            continue;
        print_stalled(l->ctx, point, text, sizeof text);
        if (l->reported++ < REPORTED_MAX)
            halay_warning(l->ctx->log, "%s", text);
    }
}

enum halay_status halay_points_look_for_stalls(struct halay_context *ctx, int64_t report_us, int64_t limit_us,
                                               char *text, size_t size, int *rank)
{
    struct halay_points *points = ctx->driven.points;
    struct look l = { .ctx = ctx };

    if (!points || !points->busy)
        return HALAY_OK;
    if (!points->reported_us || ctx->driven.now_us - points->reported_us >= report_us)
        l.report_us = report_us;
    look_at(&l, points->any);
    for (const struct peer *p = points->first; p; p = p->next)
        look_at(&l, p->waiting);
    if (l.reported)
        points->reported_us = ctx->driven.now_us;
    if (l.reported > REPORTED_MAX)
        halay_warning(ctx->log, "stalled: %zu more sends and receives", l.reported - REPORTED_MAX);
    if (limit_us <= 0 || !l.oldest || ctx->driven.now_us - l.oldest->since_us < limit_us)
        return HALAY_OK;
    print_stalled(ctx, l.oldest, text, size);
    *rank = l.oldest->unsaid ? -1 : l.oldest->request->meeting.peer;
    return HALAY_ERR_PEER;
}
