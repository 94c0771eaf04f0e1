/* SPDX-License-Identifier: Apache-2.0
 *
 * All-gather in log2(N) steps, even and ragged: every rank sends all that it has to the rank at distance 1, 2, 4, ...
 *
 *     five ranks: whose parts a rank has, and what it gets from the rank 1, 2, 4 places further on
 *
 *          start   step 0 (+1)    step 1 (+2)    step 2 (+4, only what is missing)
 *     A    A       A B            A B C D        A B C D E
 *     B    B         B C            B C D E      A B C D E
 *     C    C           C D        A   C D E      A B C D E
 *     D    D             D E      A B   D E      A B C D E
 *     E    E       A       E      A B C   E      A B C D E
 *
 * After step k a rank has the parts of itself and the 2^(k+1) - 1 ranks behind it. They lie side by side in the output,
 * but for where the ranks begin again: there a message is cut in two, so that everything is sent from and lands in its
 * place. All receives are posted at the start.
 *
 * Cost: ceil(log2 N) steps, S (N - 1) / N bytes sent and received by each rank; no memory but the output. Nothing is
 * cut in fragments: for small data. Any number of ranks, any counts, zero included; in and out of place.
 *
 * Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport
 * message-passing systems", IEEE TPDS 8 (1997), without its rotation.
 */
#include "collectives/group/channel.h"
#include <string.h>

enum { ROUNDS_MAX = 31, HALVES = 2 }; /* of a message: up to the last rank's part, and from the first one's on */

struct step {
    struct halay_transfer send[HALVES], recv[HALVES];
};

struct state {
    int step, steps;
    int is_sent; /* this step's messages */
    struct step each[];
};

static int step_count(int size)
{
    int steps = 0;

    while (1 << steps < size)
        steps++;
    return steps;
}

static size_t state_bytes(int size)
{
    return sizeof(struct state) + (size_t)step_count(size) * sizeof(struct step);
}

/* Bytes and position of one half of the message that moves `parts` parts, from part `first` on. */
static unsigned char *half_of(const struct halay_coll *c, int first, int parts, int half, size_t *bytes)
{
    int n = c->t->size, end = first + parts;
    int wrapped = end > n ? end - n : 0; /* parts from 0 on */
    int from = half ? 0 : first, to = half ? wrapped : end - wrapped;

    *bytes = (c->starts[to] - c->starts[from]) * c->element;
    return coll_out(c) + c->starts[from] * c->element;
}

static int parts_of(const struct halay_coll *c, int step)
{
    int left = c->t->size - (1 << step);

    return left < 1 << step ? left : 1 << step;
}

static void start(struct halay_coll *c)
{
    struct state *s = c->state;
    unsigned char *mine = coll_out(c) + c->starts[c->t->rank] * c->element;
    int n = c->t->size;

    s->steps = step_count(n);
    if (c->in.count && coll_in(c) != mine)
        memcpy(mine, coll_in(c), c->in.count * c->element);
    for (int k = 0; k < s->steps; k++)
        for (int half = 0; half < HALVES; half++) {
            int peer = (c->t->rank + (1 << k)) % n;
            size_t bytes;
            unsigned char *into = half_of(c, peer, parts_of(c, k), half, &bytes);
            coll_recv(c, peer, (uint32_t)(HALVES * k + half), into, bytes, &s->each[k].recv[half]);
        }
}

static void send_step(struct halay_coll *c)
{
    struct state *s = c->state;
    int n = c->t->size, peer = (c->t->rank + n - (1 << s->step)) % n;

    for (int half = 0; half < HALVES; half++) {
        size_t bytes;
        const unsigned char *from = half_of(c, c->t->rank, parts_of(c, s->step), half, &bytes);
        coll_send(c, peer, (uint32_t)(HALVES * s->step + half), from, bytes, &s->each[s->step].send[half]);
    }
    s->is_sent = 1;
    coll_advanced(c);
}

static int are_settled(struct halay_transfer *x)
{
    return coll_is_settled(&x[0]) && coll_is_settled(&x[1]);
}

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;

    while (s->step < s->steps) {
        if (!s->is_sent)
            send_step(c);
        if (!are_settled(s->each[s->step].recv))
            return HALAY_IN_PROGRESS;
        s->step++;
        s->is_sent = 0;
        coll_advanced(c);
    }
    for (int k = 0; k < s->steps; k++)
        if (!are_settled(s->each[k].send))
            return HALAY_IN_PROGRESS;
    return HALAY_OK;
}

static void cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int k = 0; k < s->steps; k++)
        for (int half = 0; half < HALVES; half++) {
            coll_take_back(c, &s->each[k].send[half]);
            coll_take_back(c, &s->each[k].recv[half]);
        }
}

const struct halay_algorithm_ops halay_allgather_bruck = {
    .tags = HALVES * ROUNDS_MAX,
    .state_bytes = state_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
