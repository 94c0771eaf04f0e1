/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the programs of all ranks of a schedule: proof.h. A rank is looked at again when a message for it was given or
 * one of its own was taken. Which earlier steps a step waits for is found once, when it enters the window.
 */
#include "tests/coll/proof.h"
#include "collectives/schedule/tree.h"
#include "tests/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = HALAY_STEP_WINDOW };

/* What each block of a span is. Of a reduction: the sum of its ranks' random numbers and how they were added, or by
 * symmetry the ranks that follow each other in it; of other operations the rank that the first block came from. */
struct value {
    uint64_t sum, shape;
    int first, ranks;
};

enum entry_state { WAITING, POSTED, DONE };

struct entry {
    struct halay_step step, merged;
    uint64_t places; /* bits of the buffers, and of the output, that it concerns */
    enum entry_state state;
    int is_matched; /* a message's other side is posted */
    int depth;      /* messages that follow each other up to this one: of a GIVE it is not counted */
    int retired;    /* the most of this step and all before it, once they are done */
    struct value sent;
};

struct buffer {
    int block, blocks;
    struct value value;
};

struct rank {
    struct halay_place place;
    int head, ahead, is_ended, is_queued, tokens, depth, token_depth, retired;
    long received, partial, added; /* blocks; partial: of those received the sums of some ranks */
    uint64_t *filled;              /* bit of a block: the output has what is due there */
    struct buffer buffers[HALAY_STEP_BUFFERS];
    struct entry entries[WINDOW];
    /* Of each entry, bits of the window: earlier steps that must be done before the message, posted before it, done
     * before the result. */
    unsigned short before[WINDOW], order[WINDOW], result[WINDOW];
    unsigned unmatched[WINDOW]; /* key_of a posted message whose other side is not; else 0 */
};

struct world {
    const struct halay_algorithm *algorithm;
    const struct halay_schedule *by;
    int size, blocks;
    int ranks;         /* that are run: all or one */
    struct rank *rank; /* owned */
    uint64_t *bits;    /* owned: of all ranks */
    int *queue;        /* owned: ranks that are to be looked at, around */
    int queued, at;
    struct value total; /* of a reduction */
    const char *wrong;
};

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static void complain(struct world *w, const char *what)
{
    if (!w->wrong)
        w->wrong = what;
}

static int is_symmetric(const struct world *w)
{
    return w->ranks == 1;
}

static int is_reduction(const struct world *w)
{
    enum halay_coll_kind operation = w->algorithm->operation;

    return operation == HALAY_COLL_ALLREDUCE || operation == HALAY_COLL_REDUCE ||
           operation == HALAY_COLL_REDUCE_SCATTER;
}

static struct rank *rank_at(struct world *w, int rank)
{
    return &w->rank[is_symmetric(w) ? 0 : rank];
}

/* ---- values ---- */

static struct value leaf(int rank)
{
    return (struct value){ .sum = mix((uint64_t)rank), .shape = mix((uint64_t)rank + 1000000), .first = rank, 1 };
}

static struct value add(struct world *w, struct value left, struct value right)
{
    int n = w->size, first = left.first;

    if (left.ranks + right.ranks > n)
        complain(w, "a sum with a rank twice");
    if (is_symmetric(w)) {
        if ((right.first + right.ranks) % n == left.first)
            first = right.first;
        else if ((left.first + left.ranks) % n != right.first)
            complain(w, "a sum of ranks that do not follow each other");
    }
    return (struct value){ .sum = left.sum + right.sum,
                           .shape = mix(left.shape * 3 + right.shape),
                           .first = first,
                           .ranks = left.ranks + right.ranks };
}

/* The tree over ranks [first, first + count): cut at the largest power of two below. */
static struct value tree(struct world *w, int first, int count)
{
    if (count == 1)
        return leaf(first);
    int left = halay_largest_power(count - 1);

    return add(w, tree(w, first, left), tree(w, first + left, count - left));
}

/* Returns nonzero if it has every rank once. */
static int is_total(const struct world *w, const struct value *v)
{
    if (v->ranks != w->size || (!is_symmetric(w) && v->sum != w->total.sum))
        return 0;
    return !(w->algorithm->flags & HALAY_ALGORITHM_TREE) || v->shape == w->total.shape;
}

/* ---- the output ---- */

static int is_filled(const struct rank *r, int block)
{
    return r->filled[block / 64] >> block % 64 & 1;
}

static void fill(struct rank *r, int block)
{
    r->filled[block / 64] |= (uint64_t)1 << block % 64;
}

/* Returns how many blocks of a span are filled. */
static int filled_in(const struct rank *r, int block, int blocks)
{
    int filled = 0;

    for (int b = block; b < block + blocks; b++)
        if (b % 64 == 0 && b + 64 <= block + blocks) {
            filled += __builtin_popcountll(r->filled[b / 64]);
            b += 63;
        } else {
            filled += is_filled(r, b);
        }
    return filled;
}

static void write_out(struct world *w, struct rank *r, const struct halay_step *step, const struct value *v)
{
    if (filled_in(r, step->block, step->blocks))
        complain(w, "a block of the output is written twice");
    if (is_reduction(w) && !is_total(w, v))
        complain(w, v->ranks < w->size ? "a partial sum goes to the output"
                                       : "a total without a rank, or that was not added along the tree");
    if (!is_reduction(w) && v->first != step->block)
        complain(w, "a block of another rank");
    for (int b = step->block; b < step->block + step->blocks; b++)
        fill(r, b);
}

/* What a step reads. */
static struct value value_at(struct world *w, struct rank *r, int buffer, const struct halay_step *step)
{
    struct value v = { .first = step->block };

    if (buffer == HALAY_STEP_IN) {
        if (r->place.is_in_place && filled_in(r, step->block, step->blocks))
            complain(w, "the input is read after the output was written");
        if (w->algorithm->operation == HALAY_COLL_ALLTOALL && (step->blocks != 1 || step->block != step->peer))
            complain(w, "a part that goes to another rank");
        return leaf(r->place.rank);
    }
    if (buffer == HALAY_STEP_OUT) {
        if (filled_in(r, step->block, step->blocks) != step->blocks)
            complain(w, "the output is read before it was written");
        return is_reduction(w) ? w->total : v;
    }
    const struct buffer *b = &r->buffers[buffer];
    if (step->block < b->block || step->block + step->blocks > b->block + b->blocks)
        complain(w, "a span that its buffer does not hold");
    v = b->value;
    v.first += is_reduction(w) ? 0 : step->block - b->block;
    return v;
}

/* ---- steps ---- */

static void follow(struct entry *e, int depth)
{
    e->depth = depth > e->depth ? depth : e->depth;
}

static uint64_t places_of(const struct halay_step *s)
{
    enum { OUT = 62, TOKEN = 63 };
    uint64_t places = s->block == HALAY_STEP_TOKEN ? (uint64_t)1 << TOKEN : 0;

    if (s->buffer >= 0)
        places |= (uint64_t)1 << s->buffer;
    if (halay_step_adds(s) && s->own >= 0)
        places |= (uint64_t)1 << s->own;
    if (halay_step_reads(s, HALAY_STEP_OUT) || halay_step_writes(s, HALAY_STEP_OUT))
        places |= (uint64_t)1 << OUT;
    return places;
}

/* Set the bits of an earlier entry, what this one has to wait for. */
static void wait_for(struct rank *r, int earlier_index, int index)
{
    struct entry *earlier = &r->entries[earlier_index % WINDOW], *e = &r->entries[index % WINDOW];
    unsigned bit = 1u << earlier_index % WINDOW, k = (unsigned)index % WINDOW;

    if (!(earlier->places & e->places) && (earlier->step.peer != e->step.peer || earlier->step.tag != e->step.tag))
        return;
    int is_before = halay_step_holds_post(&earlier->merged, 1, &e->merged);
    int is_result = halay_step_holds_result(&earlier->merged, &e->merged);
    if (earlier->state == DONE) {
        if (is_before || is_result)
            follow(e, earlier->depth);
        return;
    }
    if (is_before)
        r->before[k] |= (unsigned short)bit;
    else if (earlier->state == WAITING && halay_step_holds_post(&earlier->merged, 0, &e->merged))
        r->order[k] |= (unsigned short)bit;
    if (is_result)
        r->result[k] |= (unsigned short)bit;
}

static void check_step(struct world *w, const struct rank *r, const struct halay_step *step)
{
    if (step->tag >= HALAY_STEP_TAGS || step->peer < 0 || step->peer >= w->size)
        complain(w, "a step's peer or tag");
    else if (step->block != HALAY_STEP_TOKEN &&
             (step->block < 0 || step->blocks < 0 || step->block + step->blocks > w->blocks))
        complain(w, "a step's blocks");
    else if (step->what != HALAY_GIVE && step->buffer >= 0 && halay_step_has_message(step, r->place.rank) &&
             (step->buffer >= HALAY_STEP_BUFFERS || !w->by->buffer ||
              w->by->buffer(&r->place, step->buffer) < step->blocks))
        complain(w, "a buffer is too small");
}

static void look_ahead(struct world *w, struct rank *r)
{
    while (!r->is_ended && r->ahead < r->head + WINDOW && !w->wrong) {
        struct entry *e = &r->entries[r->ahead % WINDOW];
        int k = r->ahead % WINDOW;
        e->step = (struct halay_step){ .own = HALAY_STEP_IN };
        r->is_ended = !w->by->steps(&r->place, r->ahead, &e->step);
        if (r->is_ended)
            break;
        check_step(w, r, &e->step);
        e->merged = e->step;
        if (r->place.is_in_place)
            halay_step_merge(&e->merged);
        e->places = places_of(&e->merged);
        e->state = WAITING;
        e->is_matched = 0;
        e->depth = e->retired;
        r->before[k] = r->order[k] = r->result[k] = 0;
        for (int j = r->ahead < WINDOW ? 0 : r->ahead - WINDOW + 1; j < r->ahead; j++)
            wait_for(r, j, r->ahead);
        r->ahead++;
    }
}

static int has_blocks(const struct halay_step *step)
{
    return step->block != HALAY_STEP_TOKEN && step->blocks;
}

static void enqueue(struct world *w, struct rank *r)
{
    if (r->is_queued)
        return;
    r->is_queued = 1;
    w->queue[(w->at + w->queued++) % w->ranks] = (int)(r - w->rank);
}

/* Of a message, not 0. */
static unsigned key_of(int peer, const struct halay_step *step, int gives)
{
    return ((unsigned)peer * HALAY_STEP_TAGS + step->tag) * 2 + (unsigned)gives + 1;
}

/* The other side of a message, if it is posted: the first of that peer and tag that is not matched; or -1. */
static int other_side(struct world *w, const struct rank *r, const struct halay_step *step)
{
    const struct rank *peer = rank_at(w, step->peer);
    int from = is_symmetric(w) ? (w->size - step->peer) % w->size : r->place.rank;
    unsigned key = key_of(from, step, step->what != HALAY_GIVE);

    for (int j = peer->head; j < peer->ahead; j++)
        if (peer->unmatched[j % WINDOW] == key)
            return j;
    return -1;
}

static void receive(struct world *w, struct rank *r, struct entry *e, struct entry *x)
{
    const struct halay_step *step = &e->step;
    int moved = is_symmetric(w) ? step->peer : 0, is_alltoall = w->algorithm->operation == HALAY_COLL_ALLTOALL;
    struct value v = x->sent;

    x->is_matched = e->is_matched = 1;
    follow(e, x->depth + 1);
    if (x->step.blocks != step->blocks || (x->step.block < 0) != (step->block < 0) ||
        (has_blocks(step) && !is_alltoall && (x->step.block + moved) % w->blocks != step->block)) {
        complain(w, "two sides of a message differ in their span");
        return;
    }
    if (w->algorithm->flags & HALAY_ALGORITHM_WIDE && step->is_raw != (x->step.buffer == HALAY_STEP_IN) &&
        step->buffer >= 0)
        complain(w, "two sides of a message disagree about its type");
    if (!has_blocks(step))
        return;
    v.first = (v.first + moved) % w->size;
    r->received += step->blocks;
    if (x->step.buffer >= 0)
        r->partial += step->blocks;
    if (step->buffer < 0)
        write_out(w, r, step, &v);
    else
        r->buffers[step->buffer].value = v;
}

static void post(struct world *w, struct rank *r, int index)
{
    struct entry *e = &r->entries[index % WINDOW];
    const struct halay_step *step = &e->step;

    e->state = POSTED;
    for (int k = 0; k < WINDOW; k++)
        r->order[k] &= (unsigned short)~(1u << index % WINDOW);
    if (step->what == HALAY_GIVE) {
        if (has_blocks(step))
            e->sent = value_at(w, r, step->buffer, step);
    } else if (step->buffer >= 0 && halay_step_has_message(step, r->place.rank)) {
        r->buffers[step->buffer] = (struct buffer){ .block = step->block, .blocks = step->blocks };
    }
    if (!halay_step_has_message(step, r->place.rank))
        return;
    int other = other_side(w, r, step);
    if (other < 0) {
        r->unmatched[index % WINDOW] = key_of(step->peer, step, step->what == HALAY_GIVE);
        return;
    }
    struct rank *peer = rank_at(w, step->peer);
    struct entry *x = &peer->entries[other % WINDOW];
    peer->unmatched[other % WINDOW] = 0;
    if (step->what == HALAY_GIVE)
        receive(w, peer, x, e);
    else
        receive(w, r, e, x);
    enqueue(w, peer);
}

static void add_step(struct world *w, struct rank *r, const struct halay_step *step)
{
    struct buffer *b = &r->buffers[step->buffer];
    struct value theirs = value_at(w, r, step->buffer, step), mine = value_at(w, r, step->own, step);

    if (b->block != step->block || b->blocks != step->blocks)
        complain(w, "an addition to a part of a buffer");
    r->added += step->blocks;
    b->value = step->what == HALAY_ADD_LEFT ? add(w, theirs, mine) : add(w, mine, theirs);
    if (step->is_last)
        write_out(w, r, step, &b->value);
}

static void finish(struct world *w, struct rank *r, int index)
{
    struct entry *e = &r->entries[index % WINDOW];
    const struct halay_step *step = &e->step;

    e->state = DONE;
    if (step->is_last)
        follow(e, r->token_depth);
    for (int k = 0; k < WINDOW; k++) {
        unsigned bit = 1u << index % WINDOW;
        if ((r->before[k] | r->result[k]) & bit)
            follow(&r->entries[k], e->depth);
        r->before[k] &= (unsigned short)~bit;
        r->result[k] &= (unsigned short)~bit;
    }
    if (step->what == HALAY_GIVE)
        return;
    r->depth = e->depth > r->depth ? e->depth : r->depth;
    if (halay_step_takes_token(step)) {
        r->tokens--;
        r->token_depth = r->depth;
    }
    if (!has_blocks(step))
        return;
    if (halay_step_adds(step)) {
        add_step(w, r, step);
    } else if (!halay_step_has_message(step, r->place.rank)) {
        struct value own = value_at(w, r, HALAY_STEP_IN, step);
        write_out(w, r, step, &own);
    } else if (step->buffer >= 0 && step->is_last) {
        write_out(w, r, step, &r->buffers[step->buffer].value);
    }
}

static int is_ready(const struct rank *r, int index)
{
    const struct entry *e = &r->entries[index % WINDOW];

    if (halay_step_has_message(&e->step, r->place.rank) && e->step.blocks + (e->step.block < 0) && !e->is_matched)
        return 0;
    return e->step.what == HALAY_GIVE || ((!e->step.is_last || !r->tokens) && !r->result[index % WINDOW]);
}

/* Do all that a rank can without another one. */
static void advance(struct world *w, struct rank *r)
{
    int further = 1;

    while (further && !w->wrong) {
        further = 0;
        look_ahead(w, r);
        for (int i = r->head; i < r->ahead && !w->wrong; i++) {
            struct entry *e = &r->entries[i % WINDOW];
            if (e->state == WAITING && !r->before[i % WINDOW] && !r->order[i % WINDOW]) {
                post(w, r, i);
                further = 1;
            }
            if (e->state == POSTED && is_ready(r, i)) {
                finish(w, r, i);
                further = 1;
            }
        }
        for (struct entry *e; r->head < r->ahead && (e = &r->entries[r->head % WINDOW])->state == DONE; r->head++) {
            r->retired = e->depth > r->retired ? e->depth : r->retired;
            e->retired = r->retired;
        }
    }
}

/* ---- symmetry ---- */

static int is_moved(const struct halay_step *a, const struct halay_step *b, int by, int size)
{
    int block = a->block == HALAY_STEP_TOKEN ? a->block : a->block + by, peer = a->peer + by;

    block -= block >= size ? size : 0;
    peer -= peer >= size ? size : 0;
    return a->what == b->what && a->tag == b->tag && a->buffer == b->buffer && a->own == b->own &&
           a->is_raw == b->is_raw && a->is_last == b->is_last && a->blocks == b->blocks && block == b->block &&
           peer == b->peer;
}

static struct halay_place place_of(const struct halay_algorithm *a, int size, int rank, int is_in_place)
{
    return (struct halay_place){ .ranks = size,
                                 .rank = rank,
                                 .root = size / 3,
                                 .operation = a->operation,
                                 .is_in_place = is_in_place,
                                 .is_first = 1,
                                 .bits = a->ops->schedule->bits };
}

/* Returns nonzero if the programs are those of rank 0, moved. The input of an all-to-all has no place on others. */
static int ranks_are_alike(const struct halay_algorithm *a, int size, int is_in_place)
{
    const struct halay_schedule *by = a->ops->schedule;
    struct halay_place first = place_of(a, size, 0, is_in_place);
    int stride = size > PROOF_COMPARED ? size / 64 - 1 : 1;

    if (by->blocks || a->operation == HALAY_COLL_ALLTOALL || a->operation == HALAY_COLL_REDUCE ||
        a->operation == HALAY_COLL_BROADCAST || a->flags & HALAY_ALGORITHM_TREE)
        return 0;
    for (int i = 0, is_there = 1; is_there; i++) {
        struct halay_step step = { .own = HALAY_STEP_IN }, other;
        is_there = by->steps(&first, i, &step);
        for (int rank = 1; rank < size; rank += stride) {
            struct halay_place place = place_of(a, size, rank, is_in_place);
            other = (struct halay_step){ .own = HALAY_STEP_IN };
            if (by->steps(&place, i, &other) != is_there || (is_there && !is_moved(&step, &other, rank, size)))
                return 0;
        }
    }
    return 1;
}

/* ---- worlds ---- */

static void rank_init(struct world *w, int rank, int is_in_place)
{
    enum halay_coll_kind operation = w->algorithm->operation;
    struct rank *r = &w->rank[rank];

    r->place = place_of(w->algorithm, w->size, rank, is_in_place);
    r->tokens = w->by->has_tokens ? 32 - __builtin_clz((unsigned)w->size - 1) : 0;
    r->filled = w->bits + (size_t)rank * (size_t)(w->blocks / 64 + 1);
    if (operation == HALAY_COLL_ALLGATHER || (operation == HALAY_COLL_ALLTOALL && is_in_place))
        fill(r, rank);
    for (int b = 0; operation == HALAY_COLL_BROADCAST && rank == r->place.root && b < w->blocks; b++)
        fill(r, b);
    enqueue(w, r);
}

/* A block of a broadcast comes from the root: `first` is the block's number. */
static int is_due(const struct world *w, const struct rank *r, int block)
{
    enum halay_coll_kind operation = w->algorithm->operation;

    if (operation == HALAY_COLL_BARRIER)
        return 0;
    if (operation == HALAY_COLL_REDUCE)
        return r->place.rank == r->place.root;
    return operation != HALAY_COLL_REDUCE_SCATTER || block == r->place.rank;
}

static void check_rank(struct world *w, const struct rank *r, struct proof *proof)
{
    double blocks = w->blocks;

    if (!r->is_ended || r->head < r->ahead)
        complain(w, "steps that wait for each other in a circle");
    for (int b = 0; b < w->blocks; b++)
        if (is_due(w, r, b) && !is_filled(r, b))
            complain(w, "a block that is due has not come");
    proof->depth = r->depth > proof->depth ? r->depth : proof->depth;
    proof->bytes = fmax(proof->bytes, (double)r->received / blocks);
    proof->wide = fmax(proof->wide, (double)(r->received + r->partial) / blocks);
    proof->added = fmax(proof->added, (double)r->added / blocks);
}

struct proof proof_run(const struct halay_algorithm *algorithm, int ranks, int is_in_place, enum proof_way way)
{
    struct world w = { .algorithm = algorithm, .by = algorithm->ops->schedule, .size = ranks, .ranks = ranks };
    struct proof proof = { .wrong = NULL };

    w.blocks = w.by->blocks ? w.by->blocks(ranks) : ranks;
    w.total = tree(&w, 0, ranks);
    if (way == PROOF_BY_SYMMETRY && ranks_are_alike(algorithm, ranks, is_in_place)) {
        proof.way = way;
        w.ranks = 1;
    }
    w.rank = calloc((size_t)w.ranks, sizeof *w.rank);
    w.bits = calloc((size_t)w.ranks * (size_t)(w.blocks / 64 + 1), sizeof *w.bits);
    w.queue = calloc((size_t)w.ranks, sizeof *w.queue);
    REQUIRE(w.rank && w.bits && w.queue);
    for (int i = 0; i < w.ranks; i++)
        rank_init(&w, i, is_in_place);
    while (w.queued && !w.wrong) {
        struct rank *r = &w.rank[w.queue[w.at]];
        w.at = (w.at + 1) % w.ranks;
        w.queued--;
        r->is_queued = 0;
        advance(&w, r);
    }
    for (int i = 0; i < w.ranks && !w.wrong; i++)
        check_rank(&w, &w.rank[i], &proof);
    free(w.rank);
    free(w.bits);
    free(w.queue);
    proof.wrong = w.wrong;
    return proof;
}
