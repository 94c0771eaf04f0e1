/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules (schedule/step.h) proved without a transport: all ranks' programs are run together, with values that say
 * which ranks are summed in them and how.
 *
 * - Each rank ends with each element that it is due, to which every rank contributed exactly once; a `tree` algorithm's
 *   along the binary tree over ranks.
 * - A send ends only when its receive is posted, and a rank has a window of steps: the programs come to an end all the
 *   same.
 * - Nothing that depends on fewer than all ranks goes to the output of a reduction, and nothing goes there before its
 *   old contents, the input of an operation in place, are no longer needed.
 * - Steps and bytes of the slowest rank are not more than the formula of algorithms.def says, nor much less.
 *
 * Usage: test_schedules [--all]: every number of ranks up to 1,024; without it a choice. Bytes also for 16,384.
 */
#include "collectives/choose/algorithms.h"
#include "collectives/schedule/step.h"
#include "collectives/schedule/tree.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

/* What one block is: the sum of its ranks' random numbers, how many they are, and how they were added. */
struct value {
    uint64_t sum, shape;
    int ranks;
    int owner; /* of a part that is not reduced; -1: reduced */
};

enum entry_state { WAITING, POSTED, DONE };

struct entry {
    struct halay_step step, merged;
    enum entry_state state;
    int is_matched;     /* a message's other side is posted */
    int depth;          /* messages that followed each other until this one was given, or it as well */
    struct value *sent; /* owned: what is given, blocks of it */
};

struct buffer {
    int block, blocks;
    struct value *values; /* owned */
};

struct rank {
    struct halay_place place;
    int head, ahead, is_ended, tokens;
    int depth;                  /* messages that followed each other until now */
    struct value *in, *out;     /* owned: blocks; in place out is not in, but `merged` knows */
    unsigned char *overwritten; /* owned, by block: the output was written */
    struct buffer buffers[HALAY_STEP_BUFFERS];
    struct entry entries[HALAY_STEP_WINDOW];
};

struct world {
    const struct halay_algorithm *algorithm;
    const struct halay_schedule *by;
    int size, blocks;
    struct rank *ranks; /* owned */
    const char *wrong;
};

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static struct value add(struct value left, struct value right)
{
    return (struct value){ .sum = left.sum + right.sum,
                           .shape = mix(left.shape * 3 + right.shape),
                           .ranks = left.ranks + right.ranks,
                           .owner = -1 };
}

static struct value leaf(int rank)
{
    return (
        struct value){ .sum = mix((uint64_t)rank), .shape = mix((uint64_t)rank + 1000000), .ranks = 1, .owner = -1 };
}

/* The tree over ranks [first, first + count): cut at the largest power of two below. */
static struct value tree(int first, int count)
{
    if (count == 1)
        return leaf(first);
    int left = halay_largest_power(count - 1);

    return add(tree(first, left), tree(first + left, count - left));
}

static int is_reduction(enum halay_coll_kind operation)
{
    return operation == HALAY_COLL_ALLREDUCE || operation == HALAY_COLL_REDUCE ||
           operation == HALAY_COLL_REDUCE_SCATTER;
}

static void complain(struct world *w, const char *what)
{
    if (!w->wrong)
        w->wrong = what;
}

/* ---- programs ---- */

static void look_ahead(struct world *w, struct rank *r)
{
    while (!r->is_ended && r->ahead < r->head + HALAY_STEP_WINDOW) {
        struct entry *e = &r->entries[r->ahead % HALAY_STEP_WINDOW];
        memset(&e->step, 0, sizeof e->step);
        e->step.own = HALAY_STEP_IN;
        r->is_ended = !w->by->steps(&r->place, r->ahead, &e->step);
        if (r->is_ended)
            break;
        e->merged = e->step;
        if (r->place.is_in_place)
            halay_step_merge(&e->merged);
        e->state = WAITING;
        e->is_matched = 0;
        r->ahead++;
    }
}

static int is_held(const struct rank *r, int index, int is_result)
{
    const struct halay_step *step = &r->entries[index % HALAY_STEP_WINDOW].merged;

    for (int j = r->head; j < index; j++) {
        const struct entry *e = &r->entries[j % HALAY_STEP_WINDOW];
        if (e->state != DONE && (is_result ? halay_step_holds_result(&e->merged, step)
                                           : halay_step_holds_post(&e->merged, e->state == POSTED, step)))
            return 1;
    }
    return 0;
}

static struct value *values_at(struct world *w, struct rank *r, int buffer, const struct halay_step *step)
{
    if (buffer == HALAY_STEP_IN) {
        for (int b = step->block; r->place.is_in_place && b < step->block + step->blocks; b++)
            if (r->overwritten[b])
                complain(w, "the input is read after the output was written");
        return r->in + step->block;
    }
    if (buffer == HALAY_STEP_OUT)
        return r->out + step->block;
    struct buffer *b = &r->buffers[buffer];
    if (step->block < b->block || step->block + step->blocks > b->block + b->blocks) {
        complain(w, "a span that its buffer does not hold");
        return r->in;
    }
    return b->values + step->block - b->block;
}

static int elements_of(const struct halay_step *step)
{
    return step->block == HALAY_STEP_TOKEN ? 0 : step->blocks;
}

static void post(struct world *w, struct rank *r, struct entry *e)
{
    const struct halay_step *step = &e->step;
    size_t bytes = (size_t)elements_of(step) * sizeof(struct value);

    e->state = POSTED;
    e->depth = r->depth;
    if (step->tag >= HALAY_STEP_TAGS || step->peer < 0 || step->peer >= w->size)
        complain(w, "a step's peer or tag");
    if (step->block != HALAY_STEP_TOKEN && (step->block < 0 || step->block + step->blocks > w->blocks))
        complain(w, "a step's blocks");
    if (step->what == HALAY_GIVE && bytes) {
        e->sent = malloc(bytes);
        REQUIRE(e->sent);
        memcpy(e->sent, values_at(w, r, step->buffer, step), bytes);
    } else if (step->what != HALAY_GIVE && step->buffer >= 0 && halay_step_has_message(step, r->place.rank)) {
        struct buffer *b = &r->buffers[step->buffer];
        if (step->buffer >= HALAY_STEP_BUFFERS || !w->by->buffer ||
            w->by->buffer(&r->place, step->buffer) < step->blocks)
            complain(w, "a buffer is too small");
        free(b->values);
        b->values = malloc(bytes + 1);
        REQUIRE(b->values);
        b->block = step->block;
        b->blocks = step->blocks;
    }
}

/* The message of a posted receive, if its sender has posted it: the first of that peer and tag that is not matched. */
static struct entry *sender_of(struct world *w, const struct rank *r, const struct entry *e)
{
    struct rank *peer = &w->ranks[e->step.peer];

    for (int j = peer->head; j < peer->ahead; j++) {
        struct entry *x = &peer->entries[j % HALAY_STEP_WINDOW];
        if (x->step.what == HALAY_GIVE && x->step.peer == r->place.rank && x->step.tag == e->step.tag &&
            x->state == POSTED && !x->is_matched)
            return x;
    }
    return NULL;
}

static void receive(struct world *w, struct rank *r, struct entry *e, struct entry *x)
{
    const struct halay_step *step = &e->step;

    x->is_matched = e->is_matched = 1;
    if (x->step.blocks != step->blocks || (x->step.block < 0) != (step->block < 0)) {
        complain(w, "two sides of a message differ in length");
        return;
    }
    if (w->algorithm->flags & HALAY_ALGORITHM_WIDE && step->is_raw != (x->step.buffer == HALAY_STEP_IN) &&
        step->buffer >= 0)
        complain(w, "two sides of a message disagree about its type");
    if (elements_of(step))
        memcpy(step->buffer < 0 ? r->out + step->block : r->buffers[step->buffer].values, x->sent,
               (size_t)step->blocks * sizeof(struct value));
    e->depth = x->depth + 1;
}

static void write_out(struct world *w, struct rank *r, const struct halay_step *step, const struct value *from)
{
    for (int b = 0; b < step->blocks; b++) {
        if (is_reduction(w->algorithm->operation) && from[b].ranks != w->size)
            complain(w, "a partial sum goes to the output");
        r->out[step->block + b] = from[b];
        r->overwritten[step->block + b] = 1;
    }
}

static void finish(struct world *w, struct rank *r, struct entry *e)
{
    const struct halay_step *step = &e->step;

    e->state = DONE;
    if (step->what == HALAY_GIVE) {
        free(e->sent);
        e->sent = NULL;
        return;
    }
    r->depth = e->depth > r->depth ? e->depth : r->depth;
    r->tokens -= halay_step_takes_token(step);
    if (!elements_of(step))
        return;
    if (!halay_step_adds(step)) {
        if (!halay_step_has_message(step, r->place.rank))
            r->out[step->block] = r->in[step->block];
        else if (step->buffer < 0 || step->is_last)
            write_out(w, r, step, step->buffer < 0 ? r->out + step->block : r->buffers[step->buffer].values);
        return;
    }
    struct value *theirs = values_at(w, r, step->buffer, step), *mine = values_at(w, r, step->own, step);
    for (int b = 0; b < step->blocks; b++)
        theirs[b] = step->what == HALAY_ADD_LEFT ? add(theirs[b], mine[b]) : add(mine[b], theirs[b]);
    if (step->is_last)
        write_out(w, r, step, theirs);
}

static int is_ready(const struct rank *r, int index)
{
    const struct entry *e = &r->entries[index % HALAY_STEP_WINDOW];

    if (halay_step_has_message(&e->step, r->place.rank) && e->step.blocks + (e->step.block < 0) && !e->is_matched)
        return 0;
    return e->step.what == HALAY_GIVE || ((!e->step.is_last || !r->tokens) && !is_held(r, index, 1));
}

/* Returns how many steps got further. */
static int advance(struct world *w, struct rank *r)
{
    int further = 0;

    look_ahead(w, r);
    for (int i = r->head; i < r->ahead; i++) {
        struct entry *e = &r->entries[i % HALAY_STEP_WINDOW];
        if (e->state == WAITING && !is_held(r, i, 0)) {
            post(w, r, e);
            further++;
        }
        if (e->state == POSTED && e->step.what != HALAY_GIVE && !e->is_matched) {
            struct entry *x = sender_of(w, r, e);
            if (x)
                receive(w, r, e, x);
        }
        if (e->state == POSTED && is_ready(r, i)) {
            finish(w, r, e);
            further++;
        }
    }
    while (r->head < r->ahead && r->entries[r->head % HALAY_STEP_WINDOW].state == DONE)
        r->head++;
    return further;
}

/* ---- worlds ---- */

/* Of the formulas, for a vector of one byte that costs nothing. */
static struct halay_cost_terms terms_of(int size)
{
    int down = 31 - __builtin_clz((unsigned)size), ones = __builtin_popcount((unsigned)size), up = down + (ones > 1);

    return (struct halay_cost_terms){ .N = size,
                                      .S = 1,
                                      .H = size,
                                      .K = 1,
                                      .P = 1,
                                      .W = 1,
                                      .L = up,
                                      .Q = up,
                                      .T = down + ones - 1,
                                      .D = ones > 1,
                                      .F = halay_grid_rows(size),
                                      .J = (up + 1) / 2 };
}

/* Messages that follow each other are about as many as the formula has steps: a rank's count also grows by what a step
 * does not depend on, in a window that is full. The tokens of an all-to-all are not in the formula. */
static void check_depth(struct world *w)
{
    struct halay_cost_terms terms = terms_of(w->size);
    int most = 0;

    terms.a = 1;
    terms.o = 0.25; /* a window has room for few of a step's messages */
    double said = w->algorithm->seconds(&terms) + (w->by->has_tokens ? terms.L : 0);
    for (int i = 0; i < w->size; i++)
        most = w->ranks[i].depth > most ? w->ranks[i].depth : most;
    CHECK(most <= said * 1.2 + 2 && (w->by->has_tokens || most * 3 >= said),
          "%s %s, %d ranks: %d steps, %g by the formula", halay_coll_kind_name(w->algorithm->operation),
          w->algorithm->name, w->size, most, said);
}

static void rank_init(struct world *w, struct rank *r, int rank, int is_in_place)
{
    enum halay_coll_kind operation = w->algorithm->operation;
    int size = w->size;

    r->place = (struct halay_place){
        .ranks = size, .rank = rank, .root = size / 3, .operation = operation, .is_in_place = is_in_place, .is_first = 1
    };
    r->tokens = w->by->has_tokens ? 32 - __builtin_clz((unsigned)size - 1) : 0;
    r->in = calloc((size_t)w->blocks, sizeof *r->in);
    r->out = calloc((size_t)w->blocks, sizeof *r->out);
    r->overwritten = calloc((size_t)w->blocks, 1);
    REQUIRE(r->in && r->out && r->overwritten);
    for (int b = 0; b < w->blocks; b++) {
        r->in[b] = leaf(rank);
        r->in[b].owner = operation == HALAY_COLL_ALLTOALL ? rank : -1;
        if ((operation == HALAY_COLL_ALLGATHER && b == rank) ||
            (operation == HALAY_COLL_ALLTOALL && is_in_place && b == rank) ||
            (operation == HALAY_COLL_BROADCAST && rank == r->place.root))
            r->out[b] = (struct value){ .ranks = 1, .owner = rank };
    }
}

static void world_free(struct world *w)
{
    for (int i = 0; i < w->size; i++) {
        struct rank *r = &w->ranks[i];
        for (int k = 0; k < HALAY_STEP_BUFFERS; k++)
            free(r->buffers[k].values);
        for (int k = 0; k < HALAY_STEP_WINDOW; k++)
            free(r->entries[k].sent);
        free(r->in);
        free(r->out);
        free(r->overwritten);
    }
    free(w->ranks);
}

static int is_due(const struct world *w, const struct rank *r, int block)
{
    enum halay_coll_kind operation = w->algorithm->operation;

    if (operation == HALAY_COLL_REDUCE)
        return r->place.rank == r->place.root;
    return operation != HALAY_COLL_REDUCE_SCATTER || block == r->place.rank;
}

static void check_result(struct world *w, const struct rank *r, const struct value *all, uint64_t sum)
{
    enum halay_coll_kind operation = w->algorithm->operation;

    for (int b = 0; b < w->blocks; b++) {
        const struct value *v = &r->out[b];
        if (operation == HALAY_COLL_BARRIER || !is_due(w, r, b))
            continue;
        if (is_reduction(operation)) {
            if (v->sum != sum || v->ranks != w->size)
                complain(w, "a result without a rank, or with one twice");
            else if (w->algorithm->flags & HALAY_ALGORITHM_TREE && v->shape != all->shape)
                complain(w, "a result that was not added along the tree");
        } else if (!v->ranks || v->owner != (operation == HALAY_COLL_BROADCAST ? r->place.root : b)) {
            complain(w, "a block of another rank");
        }
    }
}

static void run(const struct halay_algorithm *a, int size, int is_in_place)
{
    struct world w = { .algorithm = a, .by = a->ops->schedule, .size = size };
    struct value all = tree(0, size);
    uint64_t sum = 0;
    int further = 1;

    w.blocks = w.by->blocks ? w.by->blocks(size) : size;
    w.ranks = calloc((size_t)size, sizeof *w.ranks);
    REQUIRE(w.ranks);
    for (int i = 0; i < size; i++) {
        rank_init(&w, &w.ranks[i], i, is_in_place);
        sum += leaf(i).sum;
    }
    while (further && !w.wrong) {
        further = 0;
        for (int i = 0; i < size; i++)
            further += advance(&w, &w.ranks[i]);
    }
    for (int i = 0; i < size && !w.wrong; i++) {
        if (!w.ranks[i].is_ended || w.ranks[i].head < w.ranks[i].ahead)
            complain(&w, "steps that wait for each other in a circle");
        else
            check_result(&w, &w.ranks[i], &all, sum);
    }
    check_depth(&w);
    CHECK(!w.wrong, "%s %s, %d ranks%s: %s", halay_coll_kind_name(a->operation), a->name, size,
          is_in_place ? " in place" : "", w.wrong);
    world_free(&w);
}

/* ---- what it costs ---- */

/* Bytes that a rank receives, of a vector of one byte, and the longest chain of messages are those of the formula. */
static void check_cost(const struct halay_algorithm *a, int size)
{
    const struct halay_schedule *by = a->ops->schedule;
    int blocks = by->blocks ? by->blocks(size) : size;
    int sampled = size > 256 ? size / 64 - 1 : 1;
    double most = 0;

    for (int rank = 0; rank < size; rank += sampled) {
        struct halay_place place = { .ranks = size, .rank = rank, .operation = a->operation, .is_first = 1 };
        double bytes = 0;
        for (int i = 0;; i++) {
            struct halay_step step = { 0 };
            if (!by->steps(&place, i, &step))
                break;
            if (step.what != HALAY_GIVE && halay_step_has_message(&step, rank) && step.block >= 0)
                bytes += (double)step.blocks / blocks;
        }
        most = bytes > most ? bytes : most;
    }
    struct halay_cost_terms terms = terms_of(size);
    terms.b = 1;
    double said = a->seconds(&terms);
    int is_broadcast = a->operation == HALAY_COLL_BROADCAST; /* what its root sends, not what a rank receives */
    CHECK(most <= said * 1.0001 && (is_broadcast || most * 3 >= said),
          "%s %s, %d ranks: %g of the bytes, %g by the formula", halay_coll_kind_name(a->operation), a->name, size,
          most, said);
}

int main(int argc, char **argv)
{
    static const int few[] = { 25, 27, 31, 32, 33, 36, 47, 63, 64, 65, 96, 100, 127, 128, 129, 192, 255, 256, 257 };
    static const int many[] = { 511, 513, 1000, 1023, 1024 };
    int is_all = argc > 1 && !strcmp(argv[1], "--all");

    for (size_t i = 0; i < halay_algorithm_count; i++) {
        const struct halay_algorithm *a = &halay_algorithms[i];
        if (!a->ops->schedule)
            continue;
        for (int in_place = 0; in_place < 2; in_place++) {
            for (int size = 2; size <= (is_all ? 1024 : 24); size++)
                run(a, size, in_place);
            for (size_t k = 0; !is_all && k < sizeof few / sizeof *few; k++)
                run(a, few[k], in_place);
        }
        for (size_t k = 0; k < sizeof many / sizeof *many; k++)
            if (a->ops->schedule->blocks) /* those of a ring have N^2 steps */
                run(a, many[k], 0);
        for (int size = 2; size <= 64; size++)
            check_cost(a, size);
        for (size_t k = 0; k < sizeof many / sizeof *many; k++)
            check_cost(a, many[k]);
        check_cost(a, 16384);
        check_cost(a, 16383);
        CHECK(a->ops->state_bytes(16384) <= 64 << 10);
    }
    CHECK(halay_algorithm_state_max(16384, 0) <= 64 << 10, "%zu bytes", halay_algorithm_state_max(16384, 0));
    return test_end();
}
