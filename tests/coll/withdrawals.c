/* SPDX-License-Identifier: Apache-2.0
 *
 * Withdrawals and renewals. In a round every channel has some collectives that all ranks enter, and perhaps one after
 * them that some ranks do not enter. Each rank starts them by number in an order of its own, withdraws what not all
 * have entered at a moment of its own, and completes the rest, before or after. Inputs are unchanged then, and what the
 * owner writes into its buffers afterwards stays. The group is renewed, and every operation runs on every channel.
 *
 * What the ranks agree on goes through a second group.
 */
#include "tests/coll/withdrawals.h"
#include "collectives/api/calls.h"
#include "collectives/choose/algorithms.h"
#include "collectives/group/area.h"
#include "collectives/group/channel.h"
#include "collectives/group/epoch.h"
#include "collectives/group/group_end.h"
#include "halay_tools.h"
#include "tests/test.h"
#include <sched.h>
#include <string.h>

enum {
    RANKS_MAX = 16,
    PART = 20000, /* elements a rank at most: more bytes than any transport sends unasked */
    SMALL_PART = 300,
    LARGE = 4, /* flights of a round with that many, the tested one included; the others are small */
    TURNS = 3,
    PIECES = 5,
    SCRIBBLE = -1,
};

/* A peer that has not withdrawn yet may still read what the owner writes: a race, on purpose. */
#if defined(__SANITIZE_THREAD__)
enum { SCRIBBLES = 0 };
#else
enum { SCRIBBLES = 1 };
#endif

/* Lists are ragged where ranks have blocks: their lengths differ. */
enum form { APART, IN_PLACE, LISTS, LISTS_IN_PLACE, FORMS };

/* One collective of a round, as this rank has it. */
struct flight {
    enum halay_coll_kind operation;
    enum form form;
    int root, seed;
    size_t part;
    unsigned withholds; /* bit r: rank r does not enter it; 0: all ranks do */
    float *in, *out;
    struct halay_piece in_pieces[PIECES], out_pieces[PIECES];
    struct halay_coll *c;
    int is_over; /* ended or withdrawn, or this rank does not enter it */
    int is_withdrawn;
};

struct lane {
    struct flight flight[TURNS];
    int turns, at;
};

struct run {
    struct halay_group *all, *group, *control;
    int rank, size;
    uint64_t common, own; /* states of random numbers: the same on all ranks, and this rank's */
    const struct halay_algorithm *algorithm;
    float *shared, *private; /* room for LARGE pairs of buffers, then for TURNS * HALAY_CHANNELS small ones */
    struct lane lanes[HALAY_CHANNELS];
    int large; /* pairs used so far in this round */
    struct halay_group_epoch epoch;
};

static unsigned draw(uint64_t *state, unsigned below)
{
    *state ^= *state << 13; /* xorshift */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (unsigned)(*state >> 20) % below;
}

/* ---- data ---- */

static int has_lists(enum halay_coll_kind operation)
{
    return operation == HALAY_COLL_ALLREDUCE || operation == HALAY_COLL_ALLREDUCE_ADASUM ||
           operation == HALAY_COLL_BROADCAST;
}

static int has_blocks(enum halay_coll_kind operation)
{
    return operation == HALAY_COLL_REDUCE_SCATTER || operation == HALAY_COLL_ALLTOALL ||
           operation == HALAY_COLL_ALLGATHER;
}

/* Elements that rank `from` has for rank `to`. */
static size_t block(const struct flight *f, int from, int to)
{
    int key = f->operation == HALAY_COLL_ALLGATHER ? from : f->operation == HALAY_COLL_REDUCE_SCATTER ? to : from + to;

    return has_blocks(f->operation) && f->form >= LISTS ? 1 + (f->part - 1) / (size_t)(1 + key % 3) : f->part;
}

/* Elements that this rank has for the first ranks, and that it gets from them. */
static size_t given_to(const struct flight *f, int rank, int first)
{
    size_t count = 0;

    for (int r = 0; r < first; r++)
        count += block(f, rank, r);
    return count;
}

static size_t taken_from(const struct flight *f, int rank, int first)
{
    size_t count = 0;

    for (int r = 0; r < first; r++)
        count += block(f, r, rank);
    return count;
}

/* Integers: sums are exact. All ranks give the same to adasum, whose result is that, too. */
static float given(const struct flight *f, int rank, size_t i)
{
    int r = f->operation == HALAY_COLL_ALLREDUCE_ADASUM ? 0 : rank;

    return (float)((r * 31 + (int)(i % 9973) * 7 + f->seed * 113) % 1021 + 1);
}

static size_t in_count(const struct run *run, const struct flight *f)
{
    if (f->operation == HALAY_COLL_BARRIER)
        return 0;
    if (f->operation == HALAY_COLL_BROADCAST && run->rank != f->root)
        return 0;
    return f->operation == HALAY_COLL_ALLGATHER ? block(f, run->rank, 0) : given_to(f, run->rank, run->size);
}

static size_t out_count(const struct run *run, const struct flight *f)
{
    if (f->operation == HALAY_COLL_BARRIER || (f->operation == HALAY_COLL_REDUCE && run->rank != f->root))
        return 0;
    return f->operation == HALAY_COLL_REDUCE_SCATTER ? block(f, 0, run->rank) : taken_from(f, run->rank, run->size);
}

/* The rank that element i of the result is from; *at: which element of its block. */
static int giver_of(const struct run *run, const struct flight *f, size_t i, size_t *at)
{
    int from = 0;

    for (*at = i; *at >= block(f, from, run->rank); from++)
        *at -= block(f, from, run->rank);
    return from;
}

static float expected(const struct run *run, const struct flight *f, size_t i)
{
    float sum = 0;
    size_t at;
    int from;

    switch (f->operation) {
    case HALAY_COLL_ALLREDUCE_ADASUM:
        return given(f, 0, i);
    case HALAY_COLL_BROADCAST:
        return given(f, f->root, i);
    case HALAY_COLL_ALLGATHER:
        from = giver_of(run, f, i, &at);
        return given(f, from, at);
    case HALAY_COLL_ALLTOALL:
        from = giver_of(run, f, i, &at);
        return given(f, from, given_to(f, from, run->rank) + at);
    default:
        at = f->operation == HALAY_COLL_REDUCE_SCATTER ? given_to(f, run->rank, run->rank) + i : i;
        for (int r = 0; r < run->size; r++)
            sum += given(f, r, at);
        return sum;
    }
}

static const char *name_of(const struct run *run, const struct flight *f)
{
    static _Thread_local char text[128];

    snprintf(text, sizeof text, "rank %d of %d, %s (%s %s), form %d, part %zu", run->rank, run->size,
             halay_coll_kind_name(f->operation), halay_coll_kind_name(run->algorithm->operation), run->algorithm->name,
             f->form, f->part);
    return text;
}

static void check_input(const struct run *run, const struct flight *f)
{
    size_t wrong = 0, at = 0;

    for (size_t i = 0; i < in_count(run, f); i++) {
        if (f->in[i] != given(f, run->rank, i))
            at = wrong++ ? at : i;
    }
    CHECK(!wrong, "%zu elements of the input have changed, from %zu on: %s", wrong, at, name_of(run, f));
}

static void check_output(const struct run *run, const struct flight *f)
{
    size_t wrong = 0, at = 0;

    for (size_t i = 0; i < out_count(run, f); i++) {
        float off = f->out[i] - expected(run, f, i);
        if (f->operation == HALAY_COLL_ALLREDUCE_ADASUM ? off > 0.01F || off < -0.01F : off != 0)
            at = wrong++ ? at : i;
    }
    CHECK(!wrong, "%zu elements are wrong, from %zu on: %s", wrong, at, name_of(run, f));
}

static void scribble(const struct run *run, const struct flight *f)
{
    for (size_t i = 0; i < in_count(run, f); i++)
        f->in[i] = SCRIBBLE;
    for (size_t i = 0; i < out_count(run, f); i++)
        f->out[i] = SCRIBBLE;
}

static void check_scribble(const struct run *run, const struct flight *f)
{
    size_t wrong = 0;

    for (size_t i = 0; i < in_count(run, f); i++)
        wrong += f->in[i] != SCRIBBLE;
    for (size_t i = 0; i < out_count(run, f); i++)
        wrong += f->out[i] != SCRIBBLE;
    CHECK(!wrong, "%zu elements were written after it was withdrawn: %s", wrong, name_of(run, f));
}

/* ---- one collective ---- */

/* Cuts `count` elements into pieces, some of which may be empty. */
static void cut(struct halay_piece *pieces, float *data, size_t count, int way)
{
    static const unsigned char shares[2][PIECES] = { { 10, 0, 45, 5, 40 }, { 33, 33, 1, 0, 33 } };
    size_t at = 0;

    for (int i = 0; i < PIECES; i++) {
        size_t length = i == PIECES - 1 ? count - at : count * shares[way][i] / 100;
        pieces[i] = (struct halay_piece){ .data = data + at, .count = length };
        at += length;
    }
}

/* In place, in is a part of out, or out of in. */
static void place(struct run *run, struct flight *f, float *memory, size_t room)
{
    f->in = memory;
    f->out = memory + room;
    if (f->form == IN_PLACE || f->form == LISTS_IN_PLACE || f->operation == HALAY_COLL_BROADCAST) {
        f->out = f->operation == HALAY_COLL_REDUCE_SCATTER ? f->in + given_to(f, run->rank, run->rank) : f->in;
        f->in = f->operation == HALAY_COLL_ALLGATHER ? f->in + taken_from(f, run->rank, run->rank) : f->in;
    }
    for (size_t i = 0; i < in_count(run, f); i++)
        f->in[i] = given(f, run->rank, i);
}

static enum halay_status start_lists(const struct run *run, struct flight *f)
{
    int is_adasum = f->operation == HALAY_COLL_ALLREDUCE_ADASUM;
    size_t count = f->part * (size_t)run->size;

    if (f->operation == HALAY_COLL_BROADCAST) {
        cut(f->in_pieces, f->in, count, run->rank % 2);
        for (int i = 0; i < PIECES; i++)
            f->in_pieces[i].count *= sizeof(float);
        return halay_group_broadcast_pieces_start(run->group, f->in_pieces, PIECES, f->root, &f->c);
    }
    cut(f->in_pieces, f->in, count, is_adasum ? 0 : run->rank % 2);
    cut(f->out_pieces, f->out, count, is_adasum ? 0 : (run->rank + 1) % 2);
    const struct halay_lists lists = { .in = f->in_pieces,
                                       .out = f->form == LISTS ? f->out_pieces : f->in_pieces,
                                       .in_count = PIECES,
                                       .out_count = PIECES,
                                       .dtype = HALAY_F32 };
    return halay_group_allreduce_lists_start(run->group, &lists, HALAY_F32, is_adasum ? HALAY_ADASUM : HALAY_SUM,
                                             &f->c);
}

static enum halay_status start_array(const struct run *run, struct flight *f)
{
    size_t count = f->part * (size_t)run->size;

    switch (f->operation) {
    case HALAY_COLL_ALLREDUCE:
        return halay_group_allreduce_start(run->group, f->in, f->out, count, HALAY_F32, HALAY_SUM, &f->c);
    case HALAY_COLL_ALLREDUCE_ADASUM:
        return halay_group_allreduce_start(run->group, f->in, f->out, count, HALAY_F32, HALAY_ADASUM, &f->c);
    case HALAY_COLL_BROADCAST:
        return halay_group_broadcast_start(run->group, f->in, count, HALAY_F32, f->root, &f->c);
    case HALAY_COLL_REDUCE:
        return halay_group_reduce_start(run->group, f->in, f->out, count, HALAY_F32, HALAY_SUM, f->root, &f->c);
    case HALAY_COLL_REDUCE_SCATTER:
        return halay_group_reduce_scatter_start(run->group, f->in, f->out, f->part, HALAY_F32, HALAY_SUM, &f->c);
    case HALAY_COLL_ALLTOALL:
        return halay_group_alltoall_start(run->group, f->in, f->out, f->part, HALAY_F32, &f->c);
    case HALAY_COLL_ALLGATHER:
        return halay_group_allgather_start(run->group, f->in, f->out, f->part, HALAY_F32, &f->c);
    default:
        return halay_group_barrier_start(run->group, &f->c);
    }
}

static enum halay_status start_ragged(const struct run *run, struct flight *f)
{
    size_t in_counts[RANKS_MAX], out_counts[RANKS_MAX];

    for (int r = 0; r < run->size; r++) {
        in_counts[r] = block(f, run->rank, r);
        out_counts[r] = block(f, r, run->rank);
    }
    if (f->operation == HALAY_COLL_REDUCE_SCATTER)
        return halay_group_reduce_scatterv_start(run->group, f->in, f->out, in_counts, HALAY_F32, HALAY_SUM, &f->c);
    if (f->operation == HALAY_COLL_ALLTOALL)
        return halay_group_alltoallv_start(run->group, f->in, in_counts, f->out, out_counts, HALAY_F32, &f->c);
    return halay_group_allgatherv_start(run->group, f->in, f->out, out_counts, HALAY_F32, &f->c);
}

static void flight_start(struct run *run, struct flight *f)
{
    int is_other = f->form == LISTS || f->form == LISTS_IN_PLACE;

    enum halay_status status = is_other && has_lists(f->operation)    ? start_lists(run, f)
                               : is_other && has_blocks(f->operation) ? start_ragged(run, f)
                                                                      : start_array(run, f);
    CHECK(status == HALAY_OK, "%s: %s", halay_status_string(status), name_of(run, f));
    f->is_over = !f->c; /* the group has failed */
}

static void flight_end(struct run *run, struct flight *f)
{
    if (f->is_over)
        return;
    CHECK(f->c->status == HALAY_OK, "%s: %s", halay_status_string(f->c->status), name_of(run, f));
    halay_coll_end(f->c);
    check_output(run, f);
    f->is_over = 1;
}

/* A rank may have completed it all the same: a rooted one needs few ranks. */
static void flight_withdraw(struct run *run, struct flight *f)
{
    if (f->is_over)
        return;
    if (f->c->status == HALAY_OK) {
        halay_coll_end(f->c);
        f->is_over = 1;
        return;
    }
    halay_coll_withdraw(f->c);
    check_input(run, f);
    if (SCRIBBLES)
        scribble(run, f);
    f->is_over = f->is_withdrawn = 1;
}

/* ---- a round ---- */

static float *memory_of(struct run *run, int lane, int turn, int is_large)
{
    size_t n = (size_t)run->size;
    float *memory = draw(&run->own, 2) ? run->shared : run->private;

    return is_large ? memory + (size_t)run->large++ * 2 * n * PART
                    : memory + LARGE * 2 * n * PART + (size_t)(lane * TURNS + turn) * 2 * n * SMALL_PART;
}

static void plan_flight(struct run *run, int lane, int turn, int is_tested, enum form form)
{
    struct flight *f = &run->lanes[lane].flight[turn];
    size_t most = (size_t)1 << draw(&run->common, 15);

    memset(f, 0, sizeof *f);
    f->operation = is_tested ? run->algorithm->operation : (enum halay_coll_kind)draw(&run->common, HALAY_COLL_COUNT);
    f->form = is_tested ? form : (enum form)draw(&run->common, FORMS);
    f->root = (int)draw(&run->common, (unsigned)run->size);
    f->seed = (int)draw(&run->common, 1000);
    int is_large = is_tested || (run->large < LARGE - 1 && !draw(&run->common, 8));
    most = is_large ? (most < PART ? most : PART) : SMALL_PART;
    f->part = 1 + draw(&run->common, (unsigned)most);
    place(run, f, memory_of(run, lane, turn, is_large), (size_t)run->size * (is_large ? PART : SMALL_PART));
}

/* The collective that is tested is withheld, on one of the channels. */
static void plan(struct run *run, enum form form)
{
    int tested = (int)draw(&run->common, HALAY_CHANNELS);
    unsigned everyone = (1u << run->size) - 1;

    run->large = 0;
    for (int k = 0; k < HALAY_CHANNELS; k++) {
        struct lane *lane = &run->lanes[k];
        int is_withheld = k == tested || draw(&run->common, 3) == 0;
        lane->at = 0;
        lane->turns = (int)draw(&run->common, TURNS) + is_withheld;
        for (int t = 0; t < lane->turns; t++)
            plan_flight(run, k, t, k == tested && t == lane->turns - 1, form);
        if (is_withheld)
            lane->flight[lane->turns - 1].withholds = 1 + draw(&run->common, everyone - 1);
    }
}

/* A random thing on a random channel: start, look, end, or withdraw. Returns nonzero if all of this rank is over. */
static int act(struct run *run, uint64_t base, int may_withdraw)
{
    int k = (int)draw(&run->own, HALAY_CHANNELS), over = 0;
    struct lane *lane = &run->lanes[k];
    struct flight *f = &lane->flight[lane->at];
    uint64_t number = base + (uint64_t)(lane->at * HALAY_CHANNELS + k);

    if (lane->at == lane->turns) {
        for (int i = 0; i < HALAY_CHANNELS; i++)
            over += run->lanes[i].at == run->lanes[i].turns;
    } else if (f->withholds >> run->rank & 1) {
        f->is_over = may_withdraw;
    } else if (!f->c) {
        CHECK(halay_group_can_start_at(run->group, number), "number %llu", (unsigned long long)number);
        halay_group_start_at(run->group, number);
        flight_start(run, f);
    } else if (f->withholds && may_withdraw && !draw(&run->own, 8)) {
        flight_withdraw(run, f);
    } else if (halay_coll_progress(f->c) != HALAY_IN_PROGRESS && !f->withholds) {
        flight_end(run, f);
    }
    lane->at += lane->at < lane->turns && f->is_over;
    return over == HALAY_CHANNELS;
}

static void agree(struct run *run)
{
    struct halay_group_epoch mine, theirs[RANKS_MAX];

    halay_group_epoch_propose(run->group, &mine);
    CHECK(halay_group_allgather(run->control, &mine, theirs, sizeof mine, HALAY_U8) == HALAY_OK);
    memset(&run->epoch, 0, sizeof run->epoch);
    for (int r = 0; r < run->size; r++)
        for (int i = 0; i < HALAY_EPOCH_VALUES; i++)
            if (theirs[r].value[i] > run->epoch.value[i])
                run->epoch.value[i] = theirs[r].value[i];
}

/* What the next collective may wait for of an earlier one: only one of many chunks does (allreduce_hierarchical.c). */
static void check_published(const struct run *run, int k)
{
    const struct halay_channel *channel = &run->group->channels[k];
    const uint64_t *counts = &run->epoch.value[HALAY_EPOCH_COUNTERS + k * HALAY_EPOCH_COUNTS];

    if (!run->group->memory)
        return;
    struct halay_area *area = channel->areas[run->group->rank];
    CHECK(atomic_load(&area->done) == counts[HALAY_EPOCH_CHUNKS] &&
          atomic_load(&area->taken) == counts[HALAY_EPOCH_CHUNKS] &&
          atomic_load(&area->read) == counts[HALAY_EPOCH_ONESHOTS]);
}

static void renew(struct run *run)
{
    agree(run);
    enum halay_status status = halay_group_renew(run->group, &run->epoch);
    CHECK(status == HALAY_OK, "%s", halay_status_string(status));
    CHECK(halay_group_next(run->group) == run->epoch.value[HALAY_EPOCH_NEXT]);
    for (int k = 0; k < HALAY_CHANNELS; k++) {
        CHECK(halay_group_can_start_at(run->group, halay_group_next(run->group) + (uint64_t)k));
        check_published(run, k);
    }
}

/* Every operation on each channel, all channels at once. */
static void run_all(struct run *run)
{
    for (int o = 0; o < HALAY_COLL_COUNT; o++) {
        for (int k = 0; k < HALAY_CHANNELS; k++) {
            plan_flight(run, k, 0, 0, APART);
            struct flight *f = &run->lanes[k].flight[0];
            f->operation = (enum halay_coll_kind)((o + k) % HALAY_COLL_COUNT);
            f->part = f->part < SMALL_PART ? f->part : SMALL_PART;
            place(run, f, memory_of(run, k, 0, 0), (size_t)run->size * SMALL_PART);
            flight_start(run, f);
        }
        for (int k = 0, first = (int)draw(&run->own, HALAY_CHANNELS); k < HALAY_CHANNELS; k++) {
            struct flight *f = &run->lanes[(first + k) % HALAY_CHANNELS].flight[0];
            if (f->c)
                halay_coll_wait(f->c, -1);
            flight_end(run, f);
        }
    }
}

static void play_round(struct run *run, enum form form)
{
    uint64_t base = halay_group_next(run->group);

    plan(run, form);
    int looks = (int)draw(&run->own, 300), meets = (int)draw(&run->common, 2);
    for (int i = 0; i < looks; i++) {
        act(run, base, 0);
        sched_yield();
    }
    if (meets) /* whatever can arrive has arrived */
        CHECK(halay_group_barrier(run->control) == HALAY_OK);
    while (!act(run, base, 1))
        sched_yield();
    renew(run);
    for (int k = 0; k < HALAY_CHANNELS; k++)
        for (int t = 0; t < run->lanes[k].turns; t++)
            if (SCRIBBLES && run->lanes[k].flight[t].is_withdrawn)
                check_scribble(run, &run->lanes[k].flight[t]);
    run_all(run);
}

/* ---- groups ---- */

static void play_algorithm(struct run *run, const struct halay_algorithm *a, int rounds)
{
    const char *operation = halay_coll_kind_name(a->operation);

    if (halay_group_set_algorithm(run->group, operation, a->name) != HALAY_OK)
        return;
    run->algorithm = a;
    for (int i = 0; i < rounds; i++)
        for (int form = 0; form < (has_lists(a->operation) || has_blocks(a->operation) ? FORMS : LISTS); form++)
            play_round(run, (enum form)form);
    CHECK(halay_group_set_algorithm(run->group, operation, "auto") == HALAY_OK);
}

/* Renewed again and again, with a message or two on its way each time. Nothing grows. */
static void renew_often(struct run *run, int times)
{
    run->algorithm = halay_algorithm_find(HALAY_COLL_BARRIER, "dissemination");
    for (int i = 0; i < times; i++) {
        struct flight *f = &run->lanes[0].flight[0];
        plan_flight(run, 0, 0, 0, APART);
        if (run->rank != i % run->size) {
            flight_start(run, f);
            if (f->c)
                halay_coll_progress(f->c);
            flight_withdraw(run, f);
        }
        renew(run);
    }
    CHECK(run->all->world->data->forgotten.count <= 8, "%zu ranges", run->all->world->data->forgotten.count);
    run_all(run);
}

static struct halay_group *make_group(const struct run *run, int is_reversed)
{
    struct halay_group *group = NULL;
    int ranks[RANKS_MAX];

    for (int r = 0; r < run->size; r++)
        ranks[r] = is_reversed ? run->size - 1 - r : r;
    CHECK(halay_group_subset(run->all, ranks, run->size, &group) == HALAY_OK && group);
    return group;
}

/* The control group must have the same ranks: proposals are merged without regard to them, but barriers wait. */
static void play(struct run *run, struct halay_group *group, int rounds, int renewals)
{
    run->group = group;
    run->rank = halay_group_rank(group);
    run->own = run->common + (uint64_t)run->rank * 7919 + 1;
    for (const struct halay_algorithm *a = halay_algorithms; a < halay_algorithms + halay_algorithm_count; a++)
        play_algorithm(run, a, rounds);
    renew_often(run, renewals);
}

static size_t count_ends(const struct run *run)
{
    size_t count = 0;

    for (const struct halay_group_end *end = run->all->world->ends; end; end = end->next)
        count++;
    return count;
}

/* A group that was renewed ends as any other. */
static void end_groups(struct run *run, struct halay_group *group)
{
    halay_group_close(group);
    halay_group_close(run->control);
    for (int i = 0; i < 2; i++) { /* all have closed them; making another group sweeps */
        CHECK(halay_group_barrier(run->all) == HALAY_OK);
        halay_group_close(make_group(run, 0));
    }
    CHECK(count_ends(run) <= 2, "%zu groups are not over", count_ends(run));
}

int withdrawals_run(struct halay_group *all, int brief)
{
    struct run run = { .all = all, .size = halay_group_size(all), .common = 88172645463325252u };
    size_t bytes = (size_t)run.size * 2 * (LARGE * PART + TURNS * HALAY_CHANNELS * SMALL_PART) * sizeof(float);
    int before = test_failed;
    void *shared;

    if (run.size < 2)
        return 0;
    REQUIRE(run.size <= RANKS_MAX);
    REQUIRE(halay_group_alloc(all, bytes, &shared) == HALAY_OK);
    run.shared = shared;
    REQUIRE((run.private = malloc(bytes)));
    memset(shared, 0, bytes);
    memset(run.private, 0, bytes);
    run.control = make_group(&run, 0);
    struct halay_group *group = make_group(&run, 1);
    if (run.control && group) {
        play(&run, group, brief ? 1 : 3, brief ? 20 : 300);
        play(&run, all, 1, 20); /* whose number is not zero afterwards */
    }
    end_groups(&run, group);
    free(run.private);
    halay_group_free(all, shared);
    return test_failed - before;
}
