/* SPDX-License-Identifier: Apache-2.0
 *
 * P2p, points that have met no offer: withdrawn, stalled, or their peer has left.
 *
 *     rank 0: a receive, its time is over       rank 1
 *       | WITHDRAW  -------------------------->   |       has nothing that meets it: strikes the offer
 *       |   <---------------------------- GONE    |       and what it submits from now on meets a later offer
 *       | ends
 *       |   <--------------- offer: a send        |       had something: it is on its way here, and they meet
 *
 * A withdrawn point is as if it had never been submitted: the peer gets no error, and waits for the next one. A peer
 * that has submitted nothing does not listen, so rank 0 passes on to it that it must (LISTEN).
 */
#include "base/log.h"
#include "base/number_text.h"
#include "fusion/paths/p2p/p2p_impl.h"
#include "fusion/protocol/messenger.h"
#include "fusion/requests/requests.h"
#include <stdio.h>
#include <stdlib.h>

#define LEFT_US 1000000 /* after a BYE, an offer may arrive that was made before it */
enum { REPORTED_MAX = 6 };

/* ---- texts ---- */

/* "the send of rank 1", for which it waits. */
static void print_missing(const struct point *point, char *text, size_t size)
{
    const char *what = point->own.offer.collective == HALAY_SEND ? "receive" : "send";

    if (point->pending)
        snprintf(text, size, "a %s of any rank", what);
    else
        snprintf(text, size, "the %s of rank %d", what, point->request->other_rank);
}

static void print_withdrawn(const struct p2p *p2p, const struct point *point, char *text, size_t size)
{
    const struct halay_request *r = point->request;
    char key[HALAY_POINT_NAME_MAX + 32], missing[64];

    halay_offer_print_key(&point->own.offer, key, sizeof key);
    print_missing(point, missing, sizeof missing);
    if (r->withdrawn == HALAY_ERR_TIMEOUT)
        halay_snprintf(text, size, "%s: timed out after %g s on rank %d; %s was not submitted", key,
                       r->timeout_ms / 1e3, p2p->path.ctx->rank, missing);
    else
        snprintf(text, size, "%s: canceled by rank %d; %s was not submitted", key, p2p->path.ctx->rank, missing);
}

static void print_stalled(const struct p2p *p2p, const struct point *point, char *text, size_t size)
{
    char key[HALAY_POINT_NAME_MAX + 32], missing[64];

    halay_offer_print_key(&point->own.offer, key, sizeof key);
    print_missing(point, missing, sizeof missing);
    halay_snprintf(text, size, "stalled for %.3g s: %s: %s by rank %d, missing: %s",
                   (double)(p2p->path.ctx->now_us - point->since_us) / 1e6, key,
                   point->own.offer.collective == HALAY_SEND ? "sent" : "to be received", p2p->path.ctx->rank, missing);
}

/* ---- withdrawal ---- */

static struct halay_offered **find_request(struct halay_offered **list, const struct halay_request *request)
{
    while (*list && ((struct point *)*list)->request != request)
        list = &(*list)->next;
    return list;
}

static void end_withdrawn(struct p2p *p2p, struct point *point)
{
    struct halay_request *r = point->request;
    char text[HALAY_TEXT_MAX];

    print_withdrawn(p2p, point, text, sizeof text);
    if (r->withdrawn == HALAY_ERR_TIMEOUT)
        halay_log_write(p2p->path.ctx->log, halay_log_reported_level(p2p->path.ctx->log), "%s", text);
    else
        halay_info(p2p->path.ctx->log, "%s", text);
    halay_p2p_end(p2p, point, r->withdrawn, text);
}

static enum halay_status send_about(struct p2p *p2p, struct peer *p, enum halay_offer_kind kind, uint64_t number)
{
    struct halay_offered *message = calloc(1, sizeof *message);

    if (!message)
        return HALAY_ERR_NO_MEMORY;
    message->offer = (struct halay_offer){ .kind = (uint16_t)kind, .about = number };
    halay_p2p_send(p2p, p, message);
    return HALAY_OK;
}

/* The peer listens only if it is asked to: by this rank if it is rank 0, else by rank 0. */
static enum halay_status ask_to_listen(struct p2p *p2p, const struct peer *p)
{
    struct halay_context *ctx = p2p->path.ctx;
    int is_first = ctx->all.coordinator != NULL;
    struct halay_item item = { .kind = HALAY_ITEM_LISTEN, .rank = is_first ? 0 : p->rank, .number = p->made };

    return halay_messenger_append(ctx->messenger, is_first ? p->rank : 0, &item);
}

enum halay_status halay_p2p_withdraw(struct halay_path *path, struct halay_request *r)
{
    struct p2p *p2p = p2p_of(path);
    struct halay_offered **at = find_request(&p2p->any, r);

    if (*at) { /* no rank knows of it */
        end_withdrawn(p2p, (struct point *)halay_offers_take(at));
        return HALAY_OK;
    }
    struct peer *p = halay_p2p_peer(p2p, r->other_rank);
    struct point *point = p ? (struct point *)*find_request(&p->waiting, r) : NULL;
    if (!point || point->is_withdrawn)
        return p ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    point->is_withdrawn = 1;
    enum halay_status status = send_about(p2p, p, HALAY_OFFER_WITHDRAW, point->own.offer.number);
    return status == HALAY_OK ? ask_to_listen(p2p, p) : status;
}

enum halay_status halay_p2p_take(struct p2p *p2p, struct peer *p, const struct halay_offer *message)
{
    int ends_mine = message->kind == HALAY_OFFER_GONE;
    struct halay_offered **at = halay_offers_find_number(ends_mine ? &p->waiting : &p->received, message->about);

    if (!*at) /* WITHDRAW: it has met something, which is on its way. GONE: that the peer has left was seen first */
        return ends_mine && !p->left_us ? HALAY_ERR_FORMAT : HALAY_OK;
    struct halay_offered *offered = halay_offers_take(at);
    if (ends_mine) {
        end_withdrawn(p2p, (struct point *)offered);
        return HALAY_OK;
    }
    free(offered);
    return send_about(p2p, p, HALAY_OFFER_GONE, message->about);
}

/* ---- peers that have left ---- */

/* Returns nonzero if what the peer has sent is here by now. */
static int is_gone(const struct p2p *p2p, const struct peer *p)
{
    return p->left_us && p2p->path.ctx->now_us - p->left_us >= LEFT_US;
}

static int have_all_gone(struct p2p *p2p, const struct halay_process_set *set)
{
    for (const struct peer *p = p2p->peers; p; p = p->next)
        if (halay_process_set_rank_of(set, p->rank) >= 0 && !is_gone(p2p, p))
            return 0;
    return 1; /* it listens to all */
}

size_t halay_p2p_end_left(struct p2p *p2p)
{
    const struct halay_context *ctx = p2p->path.ctx;
    size_t did = 0;
    int has_any_gone = 0;
    char text[48];

    for (struct peer *p = p2p->peers; p; p = p->next) {
        if (ctx->left[p->rank] && !p->left_us)
            p->left_us = ctx->now_us;
        has_any_gone |= is_gone(p2p, p);
        for (; p->waiting && is_gone(p2p, p); did++) {
            snprintf(text, sizeof text, "rank %d has left", p->rank);
            halay_p2p_end(p2p, (struct point *)halay_offers_take(&p->waiting), HALAY_ERR_PEER, text);
        }
    }
    for (struct halay_offered **at = &p2p->any; has_any_gone && *at;)
        if (have_all_gone(p2p, ((struct point *)*at)->request->set)) {
            halay_p2p_end(p2p, (struct point *)halay_offers_take(at), HALAY_ERR_PEER, "all other ranks have left");
            did++;
        } else {
            at = &(*at)->next;
        }
    return did;
}

/* ---- stalls ---- */

struct survey {
    struct p2p *p2p;
    int64_t report_us; /* 0: no report now */
    const struct point *oldest;
    size_t reported;
};

static void survey_list(struct survey *s, const struct halay_offered *list)
{
    int64_t now_us = s->p2p->path.ctx->now_us;
    char text[HALAY_TEXT_MAX];

    for (; list; list = list->next) {
        const struct point *point = (const struct point *)list;
        if (!s->oldest || point->since_us < s->oldest->since_us)
            s->oldest = point;
        if (!s->report_us || now_us - point->since_us < s->report_us)
            continue;
        print_stalled(s->p2p, point, text, sizeof text);
        if (s->reported++ < REPORTED_MAX)
            halay_warning(s->p2p->path.ctx->log, "%s", text);
    }
}

enum halay_status halay_p2p_look(struct halay_path *path, struct halay_path_look *look)
{
    struct p2p *p2p = p2p_of(path);
    int64_t now_us = path->ctx->now_us;
    struct survey s = { .p2p = p2p };

    if (!p2p->busy)
        return HALAY_OK;
    if (!p2p->reported_us || now_us - p2p->reported_us >= look->report_us)
        s.report_us = look->report_us;
    survey_list(&s, p2p->any);
    for (const struct peer *p = p2p->peers; p; p = p->next)
        survey_list(&s, p->waiting);
    if (s.reported)
        p2p->reported_us = now_us;
    if (s.reported > REPORTED_MAX)
        halay_warning(path->ctx->log, "stalled: %zu more sends and receives", s.reported - REPORTED_MAX);
    if (look->limit_us <= 0 || !s.oldest || now_us - s.oldest->since_us < look->limit_us)
        return HALAY_OK;
    print_stalled(p2p, s.oldest, look->text, sizeof look->text);
    look->rank = s.oldest->pending ? -1 : s.oldest->request->other_rank;
    return HALAY_ERR_PEER;
}
