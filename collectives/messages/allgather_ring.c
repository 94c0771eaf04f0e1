/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring all-gather, even and ragged: every part is passed once around the ring.
 *
 *     three ranks, parts A B C
 *          step 0         step 1
 *     A    A ----> B      C ----> B        in step s rank r sends part r - s and receives part r - s - 1 (modulo N);
 *     B    B ----> C      A ----> C        in the pictures: what each sends and to whom
 *     C    C ----> A      B ----> A
 *
 * Each part goes in fragments, and the fragments of all parts form one stream: those of part r, then of part r - 1, and
 * so on. What a rank sends in its stream is what it received one part before, so that a fragment may go on as soon as
 * it is here. WINDOW fragments are under way in each direction, with tags of their own: when some are taken back, what
 * was sent behind them does not meet the wrong receive.
 *
 * Cost: N - 1 steps, S (N - 1) / N bytes sent and received by each rank; no memory but the output. Any number of ranks,
 * any counts, zero included; in and out of place.
 */
#include "collectives/group/channel.h"
#include <string.h>

enum { WINDOW = 4 };

/* A position in the stream of fragments. */
struct position {
    int step;        /* N - 1: the end */
    size_t fragment; /* of the part of that step */
    size_t number;   /* fragments before this one */
};

struct state {
    size_t fragment_length;             /* elements */
    struct position sending, receiving; /* next to be posted */
    size_t sent, received;              /* fragments that are complete */
    size_t ahead; /* fragments of this rank's own part: so many may be sent before any is received */
    struct halay_transfer send[WINDOW], recv[WINDOW]; /* by number modulo WINDOW */
};

static size_t state_bytes(int size)
{
    (void)size;
    return sizeof(struct state);
}

static size_t part_length(const struct halay_coll *c, int part)
{
    return c->starts[part + 1] - c->starts[part];
}

static size_t part_fragments(const struct halay_coll *c, int part)
{
    const struct state *s = c->state;

    return halay_span_cuts(part_length(c, part), s->fragment_length);
}

/* back: 0 for the stream this rank sends, 1 for the one it receives. */
static int part_at(const struct halay_coll *c, const struct position *p, int back)
{
    int n = c->t->size;

    return ((c->t->rank - p->step - back) % n + n) % n;
}

/* Skip parts without fragments. */
static void settle(const struct halay_coll *c, struct position *p, int back)
{
    while (p->step < c->t->size - 1 && p->fragment == part_fragments(c, part_at(c, p, back))) {
        p->step++;
        p->fragment = 0;
    }
}

static void start(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t most = c->group->world->config.fragment_bytes / c->element;
    unsigned char *mine = coll_out(c) + c->starts[c->t->rank] * c->element;

    s->fragment_length = most ? most : 1;
    if (c->in.count && coll_in(c) != mine)
        memcpy(mine, coll_in(c), c->in.count * c->element);
    s->ahead = part_fragments(c, c->t->rank);
    settle(c, &s->sending, 0);
    settle(c, &s->receiving, 1);
}

static struct halay_span span_of(const struct halay_coll *c, const struct position *p, int back)
{
    const struct state *s = c->state;
    int part = part_at(c, p, back);
    struct halay_span whole = { .start = c->starts[part], .length = part_length(c, part) };

    return halay_span_cut(whole, s->fragment_length, p->fragment);
}

static void advance(const struct halay_coll *c, struct position *p, int back)
{
    p->fragment++;
    p->number++;
    settle(c, p, back);
}

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;
    int n = c->t->size;

    for (; s->received < s->receiving.number && coll_is_settled(&s->recv[s->received % WINDOW]); s->received++)
        coll_advanced(c);
    for (; s->sent < s->sending.number && coll_is_settled(&s->send[s->sent % WINDOW]); s->sent++)
        coll_advanced(c);
    while (s->receiving.step < n - 1 && s->receiving.number < s->received + WINDOW) {
        struct halay_span span = span_of(c, &s->receiving, 1);
        coll_recv(c, (c->t->rank + n - 1) % n, (uint32_t)(s->receiving.number % WINDOW),
                  coll_out(c) + span.start * c->element, span.length * c->element,
                  &s->recv[s->receiving.number % WINDOW]);
        advance(c, &s->receiving, 1);
    }
    while (s->sending.step < n - 1 && s->sending.number < s->sent + WINDOW &&
           s->sending.number < s->ahead + s->received) {
        struct halay_span span = span_of(c, &s->sending, 0);
        coll_send(c, (c->t->rank + 1) % n, (uint32_t)(s->sending.number % WINDOW),
                  coll_out(c) + span.start * c->element, span.length * c->element,
                  &s->send[s->sending.number % WINDOW]);
        advance(c, &s->sending, 0);
        coll_advanced(c);
    }
    int busy = s->receiving.step < n - 1 || s->sending.step < n - 1 || s->received < s->receiving.number ||
               s->sent < s->sending.number;
    return busy ? HALAY_IN_PROGRESS : HALAY_OK;
}

static void cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int k = 0; k < WINDOW; k++) {
        coll_take_back(c, &s->send[k]);
        coll_take_back(c, &s->recv[k]);
    }
}

const struct halay_algorithm_ops halay_allgather_ring = {
    .tags = WINDOW,
    .state_bytes = state_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
