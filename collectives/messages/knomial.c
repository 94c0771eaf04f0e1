/* SPDX-License-Identifier: Apache-2.0
 *
 * A reduce and a broadcast along a tree of radix 2^bits.
 *
 * Reduce: ranks are blocks of one. On each level up to 2^bits neighbouring blocks become one, held by the root if it
 * is among them, else by their lowest rank; the others give their sums to it. Blocks are added in pairs, as the binary
 * tree over ranks has them, for any root; rank 0 of radix 4:
 *
 *     0 + 1           ADD_RIGHT from 1
 *     2 + 3           PLACE from 2, ADD_RIGHT from 3
 *     (0+1) + (2+3)   ADD of both, without a message
 *
 * Broadcast: ranks count from the root. The parent of a number has its lowest digit that is not 0 cleared; children
 * with the largest trees come first.
 */
#include "collectives/messages/knomial.h"

enum { BUFFERS = 8 }; /* more than one level's, so that the next one can arrive */

/* One level, as the holder of the joined block sees it. */
struct level {
    int first, length; /* of the joined block; and of each of those that become it */
    int own;           /* which of them is this rank's */
};

static struct level level_of(const struct halay_place *at, int bits, int level)
{
    int shift = bits * (level + 1), first = at->rank >> shift << shift;

    return (struct level){ .first = first, .length = 1 << (bits * level), .own = (at->rank - first) >> (bits * level) };
}

static int holder(const struct halay_place *at, int first, int length)
{
    return at->root >= first && at->root < first + length ? at->root : first;
}

static int block_first(const struct level *l, int block)
{
    return l->first + block * l->length;
}

static int is_there(const struct halay_place *at, const struct level *l, int block)
{
    return block_first(l, block) < at->ranks;
}

static int take(const struct halay_place *at, const struct level *l, int block, enum halay_step_what what, int into,
                struct halay_step *out)
{
    int first = block_first(l, block);

    halay_step_take(out, what, holder(at, first, l->length), 0, into % BUFFERS, 0, 1);
    out->is_raw = l->length == 1 || first == at->ranks - 1;
    return 1;
}

/* The steps of one level of radix 2^bits; *taken: receives so far; *sum: where the sum is. Returns 1 if *index was
 * among them, else it is what remains of it. */
static int join(const struct halay_place *at, int bits, const struct level *l, int *index, int *taken, int *sum,
                struct halay_step *out)
{
    int sibling = l->own ^ 1, other = (l->own & ~1) ^ 2;
    enum halay_step_what side = other < l->own ? HALAY_ADD_LEFT : HALAY_ADD_RIGHT;

    if (is_there(at, l, sibling)) {
        take(at, l, sibling, sibling < l->own ? HALAY_ADD_LEFT : HALAY_ADD_RIGHT, *taken, out);
        out->own = (signed char)*sum;
        *sum = (*taken)++ % BUFFERS;
        if (!(*index)--)
            return 1;
    }
    if (bits == 1 || !is_there(at, l, other))
        return 0;
    if (!is_there(at, l, other + 1)) {
        take(at, l, other, side, *taken, out);
        out->own = (signed char)*sum;
        *sum = (*taken)++ % BUFFERS;
        return !(*index)--;
    }
    if (!(*index)--)
        return take(at, l, other, HALAY_PLACE, *taken, out);
    int left = (*taken)++ % BUFFERS, both = (*taken)++ % BUFFERS;
    if (!(*index)--) {
        take(at, l, other + 1, HALAY_ADD_RIGHT, both, out);
        out->own = (signed char)left;
        return 1;
    }
    halay_step_take(out, side, at->rank, 0, both, 0, 1);
    out->own = (signed char)*sum;
    *sum = both;
    return !(*index)--;
}

int halay_knomial_reduce(const struct halay_place *at, int index, struct halay_step *out)
{
    int bits = at->bits;
    int taken = 0, sum = HALAY_STEP_IN;

    for (int k = 0; 1L << (bits * k) < at->ranks; k++) {
        struct level l = level_of(at, bits, k);
        int length = l.length << bits, to = holder(at, l.first, length);
        if (to != at->rank)
            return !index && halay_step_give(out, to, 0, sum, 0, 1);
        int before = index;
        if (join(at, bits, &l, &index, &taken, &sum, out)) {
            int rest = -1, end_taken = 0, end_sum = HALAY_STEP_IN;
            struct halay_step unused;
            if (!l.first && length >= at->ranks) { /* the last step of the last level is the total */
                rest = before + 1;
                out->is_last = !join(at, bits, &l, &rest, &end_taken, &end_sum, &unused);
            }
            return 1;
        }
    }
    return 0;
}

int halay_knomial_reduce_buffer(const struct halay_place *at, int index)
{
    struct level l = level_of(at, at->bits, 0);

    return index < BUFFERS && holder(at, l.first, 1 << at->bits) == at->rank;
}

int halay_knomial_broadcast(const struct halay_place *at, int index, struct halay_step *out)
{
    int bits = at->bits, n = at->ranks, me = (at->rank - at->root + n) % n, level = 0;

    while (me ? !(me >> (bits * level) & ((1 << bits) - 1)) : 1L << (bits * level) < n)
        level++;
    if (me && !index--) {
        int parent = me >> (bits * (level + 1)) << (bits * (level + 1));
        return halay_step_take(out, HALAY_PLACE, (parent + at->root) % n, 0, HALAY_STEP_OUT, 0, 1);
    }
    while (level-- > 0)
        for (int digit = 1; digit < 1 << bits; digit++) {
            int child = me + (digit << (bits * level));
            if (child < n && !index--)
                return halay_step_give(out, (child + at->root) % n, 0, HALAY_STEP_OUT, 0, 1);
        }
    return 0;
}
