/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairwise all-to-all, even and with splits: in each step every rank exchanges parts with one other.
 *
 *     five ranks; step s: rank r with rank s - r (modulo N), who thinks the same of r; "." keeps its own part
 *
 *     step    0     1     2     3     4
 *     A       .     B     C     D     E
 *     B       E     A     .     C     D
 *     C       D     E     A     B     .
 *     D       C     .     E     A     B
 *     E       B     C     D     .     A
 *
 * A part goes in fragments. The exchanges of a rank form one stream of items: the fragments of step 0, then of step 1,
 * and so on; an item sends a fragment and receives one. WINDOW items are under way. Both partners count the same items
 * for their step (as many as the longer of the two parts has fragments), in the same order. Those under way have tags
 * of their own: when some are taken back, what was sent behind them does not meet the wrong receive.
 *
 * In place what comes is kept in scratch memory until what was sent from the same place is gone.
 *
 * Cost: N - 1 steps, S (N - 1) / N bytes sent and received by each rank; in place WINDOW fragments of memory and one
 * more copy. Any number of ranks, any counts, zero included.
 */
#include "base/memory.h"
#include "collectives/group/channel.h"
#include <string.h>

enum { WINDOW = 4 };

struct item {
    struct halay_transfer send, recv;
    struct halay_span in, out; /* elements */
    int is_own;                /* keeps its own part: nothing is sent */
};

struct state {
    size_t fragment_length; /* elements */
    int step;               /* of the next item; N: no more */
    size_t fragment;
    size_t posted, done;       /* items */
    struct item items[WINDOW]; /* by number modulo WINDOW */
};

static size_t state_bytes(int size)
{
    (void)size;
    return sizeof(struct state);
}

static size_t fragment_length(const struct halay_coll *c)
{
    size_t most = c->group->world->config.fragment_bytes / c->element;

    return most ? most : 1;
}

static int is_in_place(const struct halay_coll *c)
{
    return coll_in(c) == coll_out(c);
}

static size_t landing_bytes(const struct halay_coll *c)
{
    size_t most = fragment_length(c), length = c->out.count < most ? c->out.count : most;

    return halay_round_up(length * c->element, HALAY_CACHE_LINE);
}

static size_t scratch_bytes(const struct halay_coll *c)
{
    return is_in_place(c) ? WINDOW * landing_bytes(c) : 0;
}

static int partner(const struct halay_coll *c, int step)
{
    return (step + c->t->size - c->t->rank) % c->t->size;
}

static struct halay_span part_of(const size_t *starts, int rank)
{
    return (struct halay_span){ .start = starts[rank], .length = starts[rank + 1] - starts[rank] };
}

/* Skip steps without a fragment left. */
static void settle(struct halay_coll *c)
{
    struct state *s = c->state;

    for (; s->step < c->t->size; s->step++, s->fragment = 0) {
        int peer = partner(c, s->step);
        size_t in = part_of(c->in_starts, peer).length, out = part_of(c->starts, peer).length;
        if (s->fragment < halay_span_cuts(in > out ? in : out, s->fragment_length))
            return;
    }
}

static void start(struct halay_coll *c)
{
    struct state *s = c->state;

    s->fragment_length = fragment_length(c);
    settle(c);
}

static unsigned char *landing(const struct halay_coll *c, const struct item *item)
{
    const struct state *s = c->state;

    if (is_in_place(c))
        return c->scratch + (size_t)(item - s->items) * landing_bytes(c);
    return coll_out(c) + item->out.start * c->element;
}

static void post(struct halay_coll *c)
{
    struct state *s = c->state;
    struct item *item = &s->items[s->posted % WINDOW];
    int peer = partner(c, s->step);
    uint32_t tag = (uint32_t)(s->fragment % WINDOW);
    const unsigned char *from;

    item->in = halay_span_cut(part_of(c->in_starts, peer), s->fragment_length, s->fragment);
    item->out = halay_span_cut(part_of(c->starts, peer), s->fragment_length, s->fragment);
    item->is_own = peer == c->t->rank;
    from = coll_in(c) + item->in.start * c->element;
    if (!item->is_own) {
        coll_recv(c, peer, tag, landing(c, item), item->out.length * c->element, &item->recv);
        coll_send(c, peer, tag, from, item->in.length * c->element, &item->send);
    } else if (!is_in_place(c) && item->in.length && item->out.length) {
        memcpy(landing(c, item), from, item->in.length * c->element);
    }
    s->posted++;
    s->fragment++;
    settle(c);
    coll_advanced(c);
}

static void finish(struct halay_coll *c, struct item *item)
{
    struct state *s = c->state;

    if (is_in_place(c) && !item->is_own && item->out.length)
        memcpy(coll_out(c) + item->out.start * c->element, landing(c, item), item->out.length * c->element);
    s->done++;
    coll_advanced(c);
}

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;

    for (struct item *oldest; s->done < s->posted; finish(c, oldest)) {
        oldest = &s->items[s->done % WINDOW];
        if (!coll_is_settled(&oldest->send) || !coll_is_settled(&oldest->recv))
            break;
    }
    while (s->step < c->t->size && s->posted < s->done + WINDOW) {
        int copies = partner(c, s->step) == c->t->rank;
        post(c);
        if (copies) /* one piece of work at a time */
            break;
    }
    return s->done == s->posted && s->step == c->t->size ? HALAY_OK : HALAY_IN_PROGRESS;
}

static void cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (struct item *item = s->items; item < s->items + WINDOW; item++) {
        coll_take_back(c, &item->send);
        coll_take_back(c, &item->recv);
    }
}

const struct halay_algorithm_ops halay_alltoall_pairwise = {
    .tags = WINDOW,
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
