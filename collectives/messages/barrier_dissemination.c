/* SPDX-License-Identifier: Apache-2.0
 *
 * Dissemination barrier: in round k each rank tells the one 2^k further on, after the one 2^k before has told it.
 *
 *     five ranks          round 0        round 1        round 2
 *     A tells             B              C              E
 *     B tells             C              D              A
 *     C tells             D              E              B
 *     D tells             E              A              C
 *     E tells             A              B              D
 *     A has heard of      E              E D C          all
 *
 * Cost: ceil(log2 N) messages of one byte one after another. Any number of ranks.
 * Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", IJPP 17 (1988).
 */
#include "collectives/schedule/coll.h"

enum { ROUNDS_MAX = 31 };

struct state {
    int round;
    int rounds;
    unsigned char told[ROUNDS_MAX], heard[ROUNDS_MAX];
    struct halay_transfer send[ROUNDS_MAX], recv[ROUNDS_MAX];
};

static size_t state_bytes(int size)
{
    (void)size;
    return sizeof(struct state);
}

static void tell(struct halay_coll *c, int round)
{
    struct state *s = c->state;
    int n = c->t->size, distance = 1 << round;

    coll_send(c, (c->t->rank + distance) % n, (uint32_t)round, &s->told[round], 1, &s->send[round]);
}

/* All receives are posted at once: no rank is held up by a round that this one has not reached. */
static void start(struct halay_coll *c)
{
    struct state *s = c->state;
    int n = c->t->size;

    while (s->rounds < ROUNDS_MAX && 1 << s->rounds < n)
        s->rounds++;
    for (int k = 0; k < s->rounds; k++)
        coll_recv(c, (c->t->rank - (1 << k) + n) % n, (uint32_t)k, &s->heard[k], 1, &s->recv[k]);
    tell(c, 0);
}

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;

    for (; s->round < s->rounds; s->round++) {
        if (!halay_transfer_is_done(&s->recv[s->round]))
            return HALAY_IN_PROGRESS;
        if (s->round + 1 < s->rounds)
            tell(c, s->round + 1);
        coll_advanced(c);
    }
    for (int k = 0; k < s->rounds; k++)
        if (!coll_is_settled(&s->send[k]))
            return HALAY_IN_PROGRESS;
    return HALAY_OK;
}

static void cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int k = 0; k < s->rounds; k++) {
        coll_take_back(c, &s->send[k]);
        coll_take_back(c, &s->recv[k]);
    }
}

const struct halay_algorithm_ops halay_barrier_dissemination = {
    .tags = ROUNDS_MAX,
    .state_bytes = state_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
